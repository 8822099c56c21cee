"""Whether the rows of one subclass are better described as two, and which of them go where."""

from __future__ import annotations

import math

import numpy as np

from stream_osr.model import categories
from stream_osr.model.categories import spread_out
from stream_osr.model.dishes import Dishes, empty_dishes, log_predictive, sum_up
from stream_osr.model.jit import kernel
from stream_osr.model.location import CONJUGATE, Location
from stream_osr.model.marginal import log_marginal
from stream_osr.model.prior import Prior

PASSES = 12
"""Passes of the alternation, at most."""
AXES = 4
"""Longest axes that the rows are cut across to begin with; the best of the partitions that follow is taken. ..."""
MANY = 128
"""... So many rows are cut across the longest alone: it is seen well enough, and each look costs as many rows."""
GAIN = 1.0
"""Log odds that each row must gain, on average, under a conjugate base measure. No class is quite Gaussian, and with
rows enough parts of it win by little; where two classes had been taken for one most rows gain more. Where the
location has a density of its own no gain is asked for: classes are small there (``docs/results/discovery.md``)."""


def part(
    rows: np.ndarray, alpha: float, least: int, prior: Prior, location: Location = CONJUGATE
) -> np.ndarray | None:
    """Find two subclasses in the homogeneous rows of one, if they are far more probable than one.

    The rows are cut across one of their longest axes, and go then, all together and again and again, to the part that
    predicts them better. The two parts are compared with the one by marginal likelihoods and by what the Chinese
    restaurant thinks of the partition, ``alpha Gamma(a) Gamma(b) / Gamma(a + b)``: without that the best of very many
    partitions would nearly always win. Of the partitions that the axes lead to the most probable is taken.

    Parameters
    ----------
    rows
        Homogeneous whitened rows, shape (n, d + 1).
    alpha
        Concentration.
    least
        Rows that each part must have.
    prior, location
        Base measure, and where it places new subclasses.

    Returns
    -------
    Whether each row belongs to the smaller part, shape (n,), or ``None``: they stay together.
    """
    n = len(rows)
    if n < 2 * least:
        return None
    values = spread_out(rows[:, :-1], len(prior.first)) if len(prior.first) else rows[:, :-1]
    centred = values - values.sum(axis=0) / n
    side, odds = _best_partition(centred, rows, alpha, least, prior, location)
    if odds <= (0.0 if location.freedom else GAIN) * n:
        return None
    return np.asarray(side == (1 if 2 * side.sum() <= n else 0))


@kernel
def _best_partition(
    centred: np.ndarray, rows: np.ndarray, alpha: float, least: int, prior: Prior, location: Location
) -> tuple[np.ndarray, float]:
    """Cut rows across each of their longest axes, and improve that; the best partition, and its log odds.

    ``centred`` are the rows about their mean, shape (n, d).
    """
    axes = np.linalg.svd(centred, False)[2]
    longest = np.ascontiguousarray(axes[: AXES if len(rows) < MANY else 1])
    sides = (longest @ centred.T > 0.0).astype(np.int64)
    odds = _alternate_each(sides, rows, alpha, least, prior, location)
    best = odds.argmax()
    return sides[best], odds[best]


@kernel
def _alternate_each(
    sides: np.ndarray, rows: np.ndarray, alpha: float, least: int, prior: Prior, location: Location
) -> np.ndarray:
    """Improve the partitions of shape (a, n); return the log odds of each against one, of one part too small -inf."""
    n, odds = len(rows), np.full(len(sides), -np.inf)
    dishes, together = empty_dishes(2, prior), empty_dishes(1, prior)
    sum_up(together, np.zeros(n, np.int64), rows, prior)
    fixed = math.log(alpha) - math.lgamma(n) - _log_marginal(together, 0, prior, location)
    for at in range(len(sides)):
        alternate(dishes, sides[at], rows, least, prior)
        if min(dishes.size[0], dishes.size[1]) >= least:
            odds[at] = fixed
            for k in range(2):
                odds[at] += math.lgamma(dishes.size[k]) + _log_marginal(dishes, k, prior, location)
    return odds


@kernel
def _log_marginal(dishes: Dishes, k: int, prior: Prior, location: Location) -> float:
    total = log_marginal(dishes.size[k], dishes.matrix[k], dishes.log_det[k], prior, location)
    return total + categories.log_marginal(dishes.counts[k], prior) if prior.first.shape[0] > 0 else total


@kernel
def alternate(dishes: Dishes, side: np.ndarray, rows: np.ndarray, least: int, prior: Prior) -> None:
    """Send all rows to the part that predicts them better, until none changes or a part has become too small.

    Parameters
    ----------
    dishes
        Two slots, for the parts; as they are in the end, of too small a part its size alone.
    side
        The part of each row, 0 or 1, shape (n,), to begin with and then in the end.
    rows
        Homogeneous rows, shape (n, d + 1).
    least
        Rows that each part must have.
    prior
        Base measure.
    """
    for turn in range(PASSES + 1):
        second = side.sum()
        first = len(side) - second
        if min(first, second) < least:
            dishes.size[0], dishes.size[1] = first, second
            break
        sum_up(dishes, side, rows, prior)
        if turn == PASSES:
            break
        stays = math.log(first) - math.log(second)
        changed = False
        for i in range(len(rows)):
            gain = log_predictive(dishes, 1, rows[i], prior) - log_predictive(dishes, 0, rows[i], prior)
            better = 1 if gain > stays else 0
            changed = changed or better != side[i]
            side[i] = better
        if not changed:
            break
