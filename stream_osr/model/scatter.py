"""Scatter that single far instances do not rule: Huber's weights.

One instance of 3000 standard deviations in a class of 5000 makes its class sixty times wider than it is: the pooled
covariance measures the accident, and everything new lies within it. An instance further than :data:`REACH` times
what is usual counts as if it stood there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

REACH = 4.0
"""Mahalanobis distance from its class's mean, over ``sqrt(d)``, beyond which an instance loses weight."""

ROUNDS = 100
TOLERANCE = 1e-4


def bounded_scatter(
    rows: np.ndarray, group: np.ndarray, covariance: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the groups and their summed scatter, far instances bounded (Huber 1964; Maronna 1976).

    A fixed point of ``w_i = min(1, REACH^2 d / D_i^2)`` with ``D_i`` the Mahalanobis distance of instance i from the
    weighted mean of its group under the covariance of the weighted scatter. Where no instance is that far, these are
    the plain mean and scatter, bit for bit.

    Parameters
    ----------
    rows
        Instances, shape (n, d).
    group
        Group of each, 0 to J - 1, shape (n,).
    covariance
        Makes a positive definite covariance, shape (d, d), of the summed scatter.

    Returns
    -------
    Means, shape (J, d), zero for an empty group, the scatter, shape (d, d), and the weights, shape (n,).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.normal(size=(999, 1)), [[3000.0]]])
    >>> plain = rows.var()
    >>> _, scatter, _ = bounded_scatter(rows, np.zeros(1000, int), lambda s: s / 999)
    >>> round(float(plain)), round(float(scatter[0, 0] / 999), 1)
    (8992, 1.0)
    """
    n, d = rows.shape
    members = [np.flatnonzero(group == j) for j in range(int(group.max()) + 1)]
    weight = np.ones(n)
    if not d:  # nothing is far
        return _weighted(rows, members, weight)[0], np.zeros((0, 0)), weight
    for _ in range(ROUNDS):
        means, scatter, centred = _weighted(rows, members, weight)
        before = weight
        weight = np.minimum(1.0, REACH**2 * d / np.maximum(_distances(centred, covariance(scatter)), 1e-300))
        if (np.abs(weight - before) <= TOLERANCE * before).all():
            break
    return means, scatter, before


def _weighted(
    rows: np.ndarray, members: list[np.ndarray], weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted means of the groups, their summed weighted scatter, and the rows less their group's mean."""
    d = rows.shape[1]
    means, scatter, centred = np.zeros((len(members), d)), np.zeros((d, d)), np.empty_like(rows)
    for j, own in enumerate(members):
        if not len(own):
            continue
        w = weight[own, None]
        means[j] = (w * rows[own]).sum(axis=0) / w.sum()
        centred[own] = rows[own] - means[j]
        scaled = np.sqrt(w) * centred[own]
        scatter += scaled.T @ scaled
    return means, scatter, centred


def _distances(centred: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Squared Mahalanobis lengths of centred rows, shape (n,); features may differ by orders of magnitude."""
    scale = np.sqrt(np.diag(covariance))
    lower = np.linalg.cholesky(covariance / np.outer(scale, scale))
    return np.asarray((solve_triangular(lower, (centred / scale).T, lower=True) ** 2).sum(axis=0))
