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
def levels_of(
    log_density: np.ndarray,
    count: np.ndarray,
    total: np.ndarray,
    bounds: np.ndarray,
    group: np.ndarray | None = None,
) -> np.ndarray:
    """Level of each instance by its score (:func:`nearest`): so many of the ascending bounds lie below, shape (n,).

    If the nearest class has so few references that fewer than ``LEAST_BELOW`` would lie below a bound, the lowest
    bound takes its place. The references of a class that is left with no other bound are in the highest level: each
    is a large part of what the class is known by, and its own density was made without it.
    """
    near, score = nearest(log_density, count, total, group)
    level = np.zeros(len(score), np.int64)
    for i in range(len(score)):
        if group is not None and LEVELS[-1] * count[group[i]] < LEAST_BELOW:
            level[i] = len(bounds)
            continue
        for at in range(len(bounds)):
            fine = at == 0 or LEVELS[at - 1] * count[near[i]] < LEAST_BELOW
            level[i] += bounds[0 if fine else at] < score[i]
    return level


@kernel
def nearest(
    log_density: np.ndarray, count: np.ndarray, total: np.ndarray, group: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest class of each instance, (n,), and the excess over the mean of its references, (n,).

    That is the class under which the log density exceeds the mean of the class's references most.

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
    near, score = np.zeros(n, np.int64), np.full(n, -np.inf)
    for i in range(n):
        for j in range(n_classes):
            of, whole = count[j], total[j]
            if group is not None and group[i] == j:
                of -= 1.0
                whole -= log_density[i, j]
            excess = log_density[i, j] - whole / of if of > 0.0 else -np.inf
            if excess > score[i]:
                near[i], score[i] = j, excess
    return near, score
