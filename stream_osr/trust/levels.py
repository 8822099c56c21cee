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


def references_below(log_density: np.ndarray, group: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Count the references of each class that lie below each of the ``LEVELS`` in it, shape (J, L).

    Parameters
    ----------
    log_density
        Of the references under each known class, shape (R, J).
    group, weight
        Class and weight of each, shape (R,); ``None``: they weigh the same.
    """
    n_classes = log_density.shape[1]
    below = np.outer(np.bincount(group, minlength=n_classes), LEVELS)
    if weight is not None:
        for j in np.unique(group):
            own = group == j
            passed = np.cumsum(weight[own][np.argsort(log_density[own, j], kind="stable")])
            below[j] = np.searchsorted(passed, LEVELS * passed[-1], side="right")
    return below


def level_bounds(
    score: np.ndarray, group: np.ndarray, below: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Bounds of the levels from the scores of the references and their weights, shape (L + 1,), ascending.

    The first is beyond all references; of the others those are left out that too few references lie ``below``
    (:func:`references_below`) in a typical class.
    """
    if weight is None:
        middle, found = np.median(score), np.quantile(score, LEVELS)
    else:
        middle, *found = quantiles(score, np.append(0.5, LEVELS), weight)
    beyond, bounds = middle - BEYOND * (middle - float(score.min())), np.array(found)
    bounds[np.median(below[np.unique(group)], axis=0) < LEAST_BELOW] = beyond
    return np.append(beyond, bounds)


def quantiles(values: np.ndarray, shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Take quantiles of values, shape (n,), each of which counts by its weight; between two values linear."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weight[order]) - 0.5 * weight[order]
    return np.asarray(np.interp(shares, passed / weight.sum(), values[order]))


@kernel
def levels_of(
    log_density: np.ndarray,
    count: np.ndarray,
    total: np.ndarray,
    bounds: np.ndarray,
    below: np.ndarray,
    group: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Level of each instance by its score (:func:`nearest`): so many of the ascending bounds lie below, shape (n,).

    If fewer than ``LEAST_BELOW`` references of the nearest class lie ``below`` a bound, the lowest bound takes its
    place. The references of a class that is left with no other bound are in the highest level: each is a large part
    of what the class is known by, and its own density was made without it.
    """
    near, score = nearest(log_density, count, total, group, weight)
    level = np.zeros(len(score), np.int64)
    for i in range(len(score)):
        if group is not None and below[group[i], -1] < LEAST_BELOW:
            level[i] = len(bounds)
            continue
        for at in range(len(bounds)):
            used = at > 0 and below[near[i], at - 1] >= LEAST_BELOW
            level[i] += bounds[at if used else 0] < score[i]
    return level


@kernel
def nearest(
    log_density: np.ndarray,
    count: np.ndarray,
    total: np.ndarray,
    group: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest class of each instance, (n,), and the excess over the mean of its references, (n,).

    That is the class under which the log density exceeds the mean of the class's references most.

    Parameters
    ----------
    log_density
        Under each known class, shape (n, J).
    count, total
        Number of the references of each class, and the weighted sum of their log densities under it, shape (J,).
    group, weight
        Class and weight of each, when they are references themselves: its own mean is then that of the others.
    """
    n, n_classes = log_density.shape
    near, score = np.zeros(n, np.int64), np.full(n, -np.inf)
    for i in range(n):
        for j in range(n_classes):
            of, whole = count[j], total[j]
            if group is not None and group[i] == j:
                own = 1.0 if weight is None else weight[i]
                of -= own
                whole -= own * log_density[i, j]
            excess = log_density[i, j] - whole / of if of > 0.0 else -np.inf
            if excess > score[i]:
                near[i], score[i] = j, excess
    return near, score
