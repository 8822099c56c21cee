"""Imputation of missing values in training rows, class by class.

The training mean lies between the classes. Rows filled with it move towards it, widen the pooled covariance, and hide
the relations between features. This module draws missing values given the values that are present. It uses one
Gaussian for each class with a common covariance, estimated with the missing values integrated out (the EM algorithm
of Dempster, Laird and Rubin, 1977).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array
from stream_osr.model.subspace import is_constant

ITERATIONS = 30
SETTLED = 1e-3
"""Change of the completed values, in standard deviations, at which the estimate has converged."""
RIDGE = 1e-3
"""Variance added to each standardised feature. Linearly dependent features then do not make the matrix singular."""
MOST_WORK = 2e10
"""Multiplications in an iteration beyond which each feature is filled by itself, with the means of the classes."""


class _Pattern(NamedTuple):
    """Rows in which the same features are missing."""

    rows: Array
    absent: Array
    there: Array


def fill_groups(X: Array, group: Array, seed: int) -> Array:
    """Impute the missing values of labelled rows.

    Parameters
    ----------
    X
        Rows, NaN = missing, shape (n, p). A feature that does not vary stays as it is. A feature without any value is
        set to 0.
    group
        Class of each, 0 to J - 1, shape (n,).
    seed
        Seed of the draws.

    Returns
    -------
    The rows without missing values, or the same array if there are none.

    Examples
    --------
    Two features agree, and the second is missing in a few rows:

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) + 0.01 * rng.normal(size=(200, 2))
    >>> holes = np.where([False, True] & (np.arange(200) % 5 == 0)[:, None], np.nan, X)
    >>> bool(np.abs(fill_groups(holes, np.arange(200) % 2, seed=1) - X).max() < 0.3)
    True
    """
    missing = np.isnan(X)
    if not missing.any():
        return X
    counts = np.maximum((~missing).sum(axis=0), 1)
    center = np.where(missing, 0.0, X).sum(axis=0) / counts
    deviation = np.sqrt((np.where(missing, 0.0, X - center) ** 2).sum(axis=0) / counts)
    varies = ~is_constant(X)
    unit = np.where(varies, deviation, 0.0)
    z = np.where(missing, 0.0, (X - center) / np.where(varies, deviation, 1.0))
    means = _class_means(z, group, ~missing)
    z = np.where(missing, means[group], z)
    patterns = _patterns(missing)
    if len(patterns) * X.shape[1] ** 3 <= MOST_WORK:
        z = _settle(z, group, patterns, np.random.default_rng([seed, len(X), 7]))
    return np.where(missing, center + unit * z, X)


def _class_means(z: Array, group: Array, there: Array) -> Array:
    """Mean of each class over the values that are present, or 0 (the overall mean) without values, shape (J, p)."""
    out = np.zeros((int(group.max()) + 1, z.shape[1]))
    for j in range(len(out)):
        own = group == j
        out[j] = np.where(there[own], z[own], 0.0).sum(axis=0) / np.maximum(there[own].sum(axis=0), 1)
    return out


def _patterns(missing: Array) -> list[_Pattern]:
    some = np.flatnonzero(missing.any(axis=1))
    kinds, number = np.unique(missing[some], axis=0, return_inverse=True)
    return [
        _Pattern(some[number.ravel() == at], np.flatnonzero(absent), np.flatnonzero(~absent))
        for at, absent in enumerate(kinds)
    ]


def _settle(z: Array, group: Array, patterns: list[_Pattern], rng: np.random.Generator) -> Array:
    """Iterate estimates and conditional means until they converge, then draw."""
    n, p = z.shape
    everything = np.ones(z.shape, bool)
    extra = np.zeros((p, p))
    for _ in range(ITERATIONS):
        means = _class_means(z, group, everything)
        covariance = _covariance(z - means[group], extra, n - len(np.unique(group)))
        before, extra = z.copy(), np.zeros((p, p))
        for rows, absent, there in patterns:
            slope, rest = _conditional(covariance, absent, there)
            own = means[group[rows]]
            z[np.ix_(rows, absent)] = own[:, absent] + (z[np.ix_(rows, there)] - own[:, there]) @ slope
            extra[np.ix_(absent, absent)] += len(rows) * rest
        if np.abs(z - before).max() < SETTLED:
            break
    for rows, absent, there in patterns:
        _, rest = _conditional(covariance, absent, there)
        z[np.ix_(rows, absent)] += rng.standard_normal((len(rows), len(absent))) @ np.linalg.cholesky(rest).T
    return z


def _covariance(residual: Array, extra: Array, freedom: int) -> Array:
    """Pooled covariance, shrunk to its diagonal where degrees of freedom are lacking, as for the coordinates."""
    p = residual.shape[1]
    shrink = max(0.0, 1.0 - freedom / (2.0 * p))
    within = (residual.T @ residual + extra) / max(freedom, 1)
    return np.asarray((1.0 - shrink) * within + np.diag(shrink * np.diag(within) + RIDGE))


def _conditional(covariance: Array, absent: Array, there: Array) -> tuple[Array, Array]:
    """Slopes of absent features on present ones, shape (o, m), and the residual covariance, shape (m, m)."""
    across = covariance[np.ix_(there, absent)]
    slope = np.linalg.solve(covariance[np.ix_(there, there)], across) if len(there) else across
    rest = covariance[np.ix_(absent, absent)] - across.T @ slope
    return slope, 0.5 * (rest + rest.T)
