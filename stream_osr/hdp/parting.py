"""Whether the rows of one subclass are better described as two, and which of them go where."""

from __future__ import annotations

import math

import numpy as np

from stream_osr.hdp.dishes import empty_dishes, log_predictives, refill
from stream_osr.hdp.location import CONJUGATE, Location
from stream_osr.hdp.marginal import Statistics, log_marginals, statistics_of
from stream_osr.hdp.prior import Prior

PASSES = 12
"""Passes of the alternation, at most."""
GAIN = 1.0
"""Log odds that each row must gain, on average, under a conjugate base measure. No class is quite Gaussian, and with
rows enough parts of it win by little; where two classes had been taken for one most rows gain more. Where the
location has a density of its own no gain is asked for: classes are small there (``docs/results/discovery.md``)."""


def part(
    rows: np.ndarray, alpha: float, least: int, prior: Prior, location: Location = CONJUGATE
) -> np.ndarray | None:
    """Find two subclasses in the homogeneous rows of one, if they are far more probable than one.

    The rows are cut across their longest axis, and go then, all together and again and again, to the part that
    predicts them better. The two parts are compared with the one by marginal likelihoods and by what the Chinese
    restaurant thinks of the partition, ``alpha Gamma(a) Gamma(b) / Gamma(a + b)``: without that the best of very many
    partitions would nearly always win.

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
    centred = rows[:, :-1] - rows[:, :-1].mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    side = (centred @ axis > 0).astype(np.int64)
    dishes = empty_dishes(2, prior)
    for _ in range(PASSES):
        refill(dishes, side, rows, prior)
        if dishes.size.min() < least:
            return None
        fit = log_predictives(rows, dishes, prior) + np.log(dishes.size)
        moved = fit.argmax(axis=1)
        if np.array_equal(moved, side):
            break
        side = moved
    else:
        refill(dishes, side, rows, prior)
        if dishes.size.min() < least:
            return None
    together = empty_dishes(1, prior)
    refill(together, np.zeros(n, np.int64), rows, prior)
    a, b = dishes.size.tolist()
    odds = math.log(alpha) + math.lgamma(a) + math.lgamma(b) - math.lgamma(n)
    apart = float(log_marginals(Statistics(dishes.size, dishes.matrix), prior, location).sum())
    whole = float(log_marginals(statistics_of(together, np.zeros(1, np.int64)), prior, location)[0])
    if odds + apart - whole <= (0.0 if location.freedom else GAIN) * n:
        return None
    return np.asarray(side == (1 if b <= a else 0))
