"""Scatter within classes in which far instances do not dominate, thanks to Huber's weights.

One instance of 3000 standard deviations in a class of 5000 would make its class sixty times wider. The pooled
covariance would measure that accident, and everything new would lie within it. An instance further than :data:`REACH`
times the usual distance counts as if it were at that distance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from stream_osr.model.jit import Array

REACH = 4.0
"""Mahalanobis distance from the class's mean, over ``sqrt(d)``, beyond which an instance loses weight."""
ROUNDS = 100
TOLERANCE = 1e-4


def bounded_scatter(rows: Array, group: Array, covariance: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """Means of the groups and their summed scatter, with bounded weights of far instances (Huber 1964, Maronna 1976).

    The result is a fixed point of ``w_i = min(1, REACH^2 d / D_i^2)``. ``D_i`` is the Mahalanobis distance of
    instance i from the weighted mean of the group, under the covariance of the weighted scatter. If no instance is
    that far, the result is the plain mean and scatter, bit for bit.

    Parameters
    ----------
    rows
        Instances, shape (n, d).
    group
        Group of each, 0 to J - 1, shape (n,).
    covariance
        Function that makes a positive definite covariance, shape (d, d), from the summed scatter.

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


def _weighted(rows: Array, members: list[Array], weight: Array) -> tuple[Array, Array, Array]:
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


def _distances(centred: Array, covariance: Array) -> Array:
    """Squared Mahalanobis lengths of centred rows, shape (n,). Features may differ by orders of magnitude."""
    scale = np.sqrt(np.diag(covariance))
    lower = np.linalg.cholesky(covariance / np.outer(scale, scale))
    return np.asarray((solve_triangular(lower, (centred / scale).T, lower=True) ** 2).sum(axis=0))
