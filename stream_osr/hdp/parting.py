"""Whether the rows of one subclass are better described as two, and which of them go where."""

from __future__ import annotations

import math

import numpy as np

from stream_osr.hdp.dishes import empty_dishes, log_predictives
from stream_osr.hdp.location import CONJUGATE, Location
from stream_osr.hdp.marginal import Statistics, both, log_marginals, of_rows, of_slots, pour
from stream_osr.hdp.prior import Prior

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
    whole = float(log_marginals(of_rows(rows, prior), prior, location)[0])
    centred = rows[:, :-1] - rows[:, :-1].mean(axis=0)
    best, gain = None, (0.0 if location.freedom else GAIN) * n
    for axis in np.linalg.svd(centred, full_matrices=False)[2][: AXES if n < MANY else 1]:
        side, parts = _alternate(rows, (centred @ axis > 0).astype(np.int64), least, prior)
        a, b = parts.size.tolist()
        if min(a, b) < least:
            continue
        odds = math.log(alpha) + math.lgamma(a) + math.lgamma(b) - math.lgamma(n)
        odds += float(log_marginals(parts, prior, location).sum()) - whole
        if odds > gain:
            best, gain = side == (1 if b <= a else 0), odds
    return best


def _alternate(rows: np.ndarray, side: np.ndarray, least: int, prior: Prior) -> tuple[np.ndarray, Statistics]:
    """Send all rows to the part that predicts them better, until none changes or a part has become too small.

    Returns
    -------
    The part of each row, shape (n,), and the sums of both.
    """
    parts = _of_sides(rows, side, prior)
    for _ in range(PASSES):
        if parts.size.min() < least:
            break
        dishes = empty_dishes(2, prior)
        for k in range(2):
            pour(dishes, k, of_slots(parts, [k]), prior)
        moved = (log_predictives(rows, dishes, prior) + np.log(dishes.size)).argmax(axis=1)
        if np.array_equal(moved, side):
            break
        side, parts = moved, _of_sides(rows, moved, prior)
    return side, parts


def _of_sides(rows: np.ndarray, side: np.ndarray, prior: Prior) -> Statistics:
    return both(of_rows(rows[side == 0], prior), of_rows(rows[side == 1], prior))
