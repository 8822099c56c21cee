"""Recall of each known class when it is left out of training: the measure of a choice of coordinates.

Each class is left out in turn, and the others must not accept it. This test is the only measure of a choice for
instances of new classes that training instances allow. Its model is the simplest possible, Gaussian classes with one
covariance, so that hundreds of choices cost less than training.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from stream_osr.model.jit import Array

FOLDS = 3
"""Folds of the known instances: one is the query, the others define the classes."""
MOST_CLASSES = 20
MOST_QUERIES = 500
"""Most classes that are left out, and most query instances."""
RIDGE = 1e-6
"""Share of the total variances that is added to the covariance."""
LEAST_VARIANCE = 1e-200
"""Least variance, added as well. If all rows are equal, squared distances stay finite."""


def recall_left_out(rows: Array, group: Array, ranks: Sequence[int]) -> Array:
    """Leave each class out and separate it from the others, using the first coordinates alone.

    The novelty of an instance is its distance from the nearest class.

    Parameters
    ----------
    rows
        Coordinates, shape (n, d).
    group
        Class of each, 0 to J - 1, shape (n,).
    ranks
        Numbers of coordinates to try, R in all.

    Returns
    -------
    Area under the ROC curve, mean over the folds, for each number of coordinates and each class that can be left out,
    shape (R, C).

    Examples
    --------
    Four classes in two dimensions. Two of the classes have the same position in the first dimension.

    >>> group = np.repeat(np.arange(4), 50)
    >>> centres = np.array([[0, 0], [0, 9], [9, 0], [18, 0]])
    >>> rows = centres[group] + np.random.default_rng(0).normal(size=(200, 2))
    >>> recall_left_out(rows, group, [1, 2]).round(1)
    array([[0.5, 0.5, 1. , 1. ],
           [1. , 1. , 1. , 1. ]])
    """
    rng = np.random.default_rng(0)
    count = int(group.max()) + 1
    part = np.empty(len(group), np.int64)
    for j in range(count):
        own = np.flatnonzero(group == j)
        part[rng.permutation(own)] = (np.arange(len(own)) + rng.integers(FOLDS)) % FOLDS
    left_out = np.sort(rng.permutation(count)[:MOST_CLASSES])
    areas = np.full((len(ranks), len(left_out), FOLDS), np.nan)
    for fold in range(FOLDS):
        for at, j in enumerate(left_out.tolist()):
            asked = rng.permutation(np.flatnonzero((group == j) | (part == fold)))[:MOST_QUERIES]
            new, rest = group[asked] == j, (group != j) & (part != fold)
            if new.all() or not new.any() or rest.sum() <= len(np.unique(group[rest])):
                continue
            novelty = _novelty(rows[rest], group[rest], rows[asked], ranks)
            areas[:, at, fold] = [_area(each, new) for each in novelty]
    there = ~np.isnan(areas).any(axis=(0, 2))
    return np.asarray(areas[:, there].mean(axis=2))


def _novelty(rows: Array, group: Array, asked: Array, ranks: Sequence[int]) -> list[Array]:
    """Squared distance of the query rows, shape (a, d), from the nearest class, shape (a,), for each rank."""
    number = np.unique(group, return_inverse=True)[1]
    mean = np.array([rows[number == k].mean(axis=0) for k in range(int(number.max()) + 1)])
    centred = rows - mean[number]
    freedom = len(rows) - len(mean)
    within, spread = centred.T @ centred / freedom, rows.var(axis=0)
    out = []
    for rank in ranks:
        shrink = max(0.0, 1.0 - freedom / (2.0 * rank))
        own = (shrink + RIDGE) * np.maximum(spread[:rank], RIDGE * spread.mean()) + LEAST_VARIANCE
        lower = np.linalg.cholesky((1.0 - shrink) * within[:rank, :rank] + np.diag(own))
        z = solve_triangular(lower, asked[:, :rank].T, lower=True)
        means = solve_triangular(lower, mean[:, :rank].T, lower=True)
        square = (z**2).sum(axis=0)[:, None] - 2.0 * z.T @ means + (means**2).sum(axis=0)
        out.append(np.asarray(square.min(axis=1)))
    return out


def _area(novelty: Array, new: Array) -> float:
    """Area under the ROC curve: how often a new instance has the larger value, without ties."""
    rank = np.empty(len(new))
    rank[np.argsort(novelty, kind="stable")] = np.arange(len(new))
    count = int(new.sum())
    return float((rank[new].sum() - count * (count - 1) / 2) / (count * (len(new) - count)))
