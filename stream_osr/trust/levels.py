"""Levels of density: how far an instance lies in the known classes, in steps that hold shares of the references."""

from __future__ import annotations

import numpy as np

from stream_osr.model.jit import kernel

LEVELS = np.array([0.01, 0.05, 0.2, 0.5])
"""Shares of the references that lie below the bounds of the levels."""
BEYOND = 2.0
"""The lowest level of all lies beyond the references: further below their median than this many times the lowest."""
N_LEVELS = len(LEVELS) + 2
LEAST_BELOW = 4.0
"""A bound that fewer references of a typical class lie below is not used."""


def level_bounds(score: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Bounds of the levels from the scores of the references, shape (L - 1,), ascending.

    The first is beyond all references; of the others those are left out that too few references lie below.
    """
    middle = float(np.median(score))
    beyond = middle - BEYOND * (middle - float(score.min()))
    bounds = np.quantile(score, LEVELS)
    typical = np.median(np.bincount(group)[np.unique(group)])
    bounds[LEVELS * typical < LEAST_BELOW] = beyond
    return np.append(beyond, bounds)


@kernel
def levels_of(log_density: np.ndarray, count: np.ndarray, total: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Level of each instance by its score (:func:`scores`): so many of the ascending bounds lie below, shape (n,)."""
    score = scores(log_density, count, total)
    level = np.zeros(len(score), np.int64)
    for i in range(len(score)):
        for bound in bounds:
            level[i] += bound < score[i]
    return level


@kernel
def scores(
    log_density: np.ndarray, count: np.ndarray, total: np.ndarray, group: np.ndarray | None = None
) -> np.ndarray:
    """How dense instances are in the known classes: the largest excess over the mean of a class's references, (n,).

    Parameters
    ----------
    log_density
        Under each known class, shape (n, J).
    count, total
        Number of the references of each class, and the sum of their log densities under it, shape (J,).
    group
        Class of each, when they are references themselves: its own mean is then that of the others.
    """
    n, n_classes = log_density.shape
    out = np.full(n, -np.inf)
    for i in range(n):
        for j in range(n_classes):
            of, whole = count[j], total[j]
            if group is not None and group[i] == j:
                of -= 1.0
                whole -= log_density[i, j]
            excess = log_density[i, j] - whole / of if of > 0.0 else -np.inf
            if excess > out[i]:
                out[i] = excess
    return out
