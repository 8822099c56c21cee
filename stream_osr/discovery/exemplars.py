"""Exemplars of a candidate new class: typical ones, doubtful ones, and the nearest known instances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

EACH = 3
"""Number of instances of each kind."""
NARROWEST = 0.01
"""Least spread of a feature, relative to its spread in members and known instances together."""

FARTHEST = 1e100
"""Largest deviation of a feature, in spreads."""


class Exemplars(NamedTuple):
    """Instances to look at, as places in the given arrays.

    Attributes
    ----------
    core
        Most typical members, the most typical first, shape (at most k,).
    boundary
        Members that are least surely new, the least sure first, shape (at most k,). None of them is in ``core``.
    known
        Instances of known classes nearest to the candidate, the nearest first, shape (at most k,).
    """

    core: NDArray[np.int64]
    boundary: NDArray[np.int64]
    known: NDArray[np.int64]


def choose(members: ArrayLike, p_unknown: ArrayLike, known: ArrayLike, k: int = EACH) -> Exemplars:
    """Choose instances that show how a candidate new class differs from known ones.

    The distance is the root mean square of the members' robust deviations from their median. It uses the features
    that both an instance and the candidate have. The units of a feature do not matter, and ties go to the first.

    Parameters
    ----------
    members
        Features of the candidate's instances, shape (n, d). Values that are not finite are missing.
    p_unknown
        Probabilities of being unknown, shape (n,). Values that are not finite count as the median.
    known
        Features of instances of known classes, shape (m, d).
    k
        Largest number of instances of each kind. If there are few members, core and boundary share them.

    Returns
    -------
    Exemplars
        The chosen instances. The core comes from the surer half of the members. Without members, all are empty.

    Examples
    --------
    >>> members = [[5.0, 1.0], [5.1, 1.1], [4.9, 0.9], [5.0, 1.2], [7.0, 3.0]]
    >>> core, boundary, nearest = choose(members, [0.99, 0.98, 0.99, 0.97, 0.6], [[0.0, 0.0], [4.0, 1.0]], k=1)
    >>> core.tolist(), boundary.tolist(), nearest.tolist()
    ([0], [4], [1])
    """
    own, sure = _table(members), np.array(p_unknown, float)
    n = len(own)
    others = _table(known, own.shape[1])
    whole = np.concatenate([own, others])
    _to_one(whole, own, others)
    if not n:
        return Exemplars(*(np.empty(0, np.int64) for _ in range(3)))
    sure[~np.isfinite(sure)] = _median(sure[:, None])[0]
    centre, spread = _median(own), np.maximum(_spread(own), NARROWEST * _spread(whole))
    far = _distance(own, centre, spread)
    core = np.lexsort([far, sure < np.median(sure)])[: min(k, (n + 1) // 2)]
    rest = np.setdiff1d(np.arange(n), core)
    percent = np.round(np.clip(sure[rest], 0.0, 1.0), 2)  # of two that are as good as sure the farther one tells more
    boundary = rest[np.lexsort([-far[rest], percent])][: min(k, n // 2)]
    return Exemplars(core, boundary, np.argsort(_distance(others, centre, spread), kind="stable")[:k])


def _table(rows: ArrayLike, d: int = 0) -> NDArray[np.float64]:
    """Copy rows of shape (n, d). There may be none."""
    table = np.array(rows, float)
    table = table if table.ndim == 2 else table.reshape(len(table), -1) if table.size else np.empty((0, d))
    table[~np.isfinite(table)] = np.nan
    return table


def _to_one(whole: NDArray[np.float64], *tables: NDArray[np.float64]) -> None:
    """Scale each feature to a largest magnitude of 1, to avoid overflow."""
    reach = np.nanmax(np.abs(whole), axis=0, initial=0.0)
    for table in (whole, *tables):
        table /= np.where(reach > 0.0, reach, 1.0)


def _median(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of the finite values of each column, NaN if there is none."""
    return np.array([np.median(there) if len(there := c[np.isfinite(c)]) else np.nan for c in table.T])


def _spread(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median deviation of each column, or the mean deviation if most values are equal."""
    off = np.abs(table - _median(table))
    middle, mean = _median(off), np.nansum(off, axis=0) / np.maximum(np.isfinite(off).sum(axis=0), 1)
    return np.where(middle > 0.0, middle, mean)


def _distance(
    rows: NDArray[np.float64], centre: NDArray[np.float64], spread: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distances of rows. A row without any feature has an infinite distance."""
    used = spread > 0.0  # a feature with one value tells nothing
    with np.errstate(over="ignore"):  # clipped below
        off = ((rows - centre) / np.where(used, spread, 1.0))[:, used]
    there = ~np.isnan(off)
    np.clip(off, -FARTHEST, FARTHEST, out=off)
    square = np.where(there, off, 0.0) ** 2
    return np.where(there.any(axis=1), np.sqrt(square.sum(axis=1) / np.maximum(there.sum(axis=1), 1)), np.inf)
