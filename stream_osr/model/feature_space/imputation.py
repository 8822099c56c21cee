"""Imputation of missing values in training rows, class by class.

The training mean lies between the classes. Rows filled with it move towards it, widen the pooled covariance, and hide
the relations between features. This module draws missing values given the values that are present. Each class is one
Gaussian, estimated with the missing values integrated out (the EM algorithm of Dempster, Laird and Rubin, 1977).

The covariance is that of the class. Draws from a covariance pooled over the classes would not obey a relation that
holds in a single class, and a new class that breaks the relation would then look known. Only a class with few
instances for its features shares the pooled covariance, in proportion to the shortfall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.feature_space.subspace import hardly_varies, is_constant, usual_values
from stream_osr.model.jit import Array

ITERATIONS = 30
SETTLED = 1e-3
"""Change of the completed values, in standard deviations, at which the estimate has converged."""
RIDGE = 1e-9
"""Least variance in any direction of the standardised features. Linearly dependent features then do not make the
matrix singular, and their relations hold in the completed rows."""
MOST_WORK = 2e10
"""Multiplications in an iteration beyond which each feature is filled by itself, with the means of the classes."""


class _Pattern(NamedTuple):
    """Rows of class j in which the same features are missing."""

    rows: Array
    j: int
    absent: Array
    there: Array


def fill_groups(X: Array, group: Array, seed: int) -> Array:
    """Impute the missing values of labelled rows.

    Parameters
    ----------
    X
        Rows, NaN = missing, shape (n, p). A feature that nearly always has one value gets this value. A feature
        without any value is set to 0.
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
    X = np.where(missing & hardly_varies(X), usual_values(X), X)
    missing = np.isnan(X)
    counts = np.maximum((~missing).sum(axis=0), 1)
    center = np.where(missing, 0.0, X).sum(axis=0) / counts
    deviation = np.sqrt((np.where(missing, 0.0, X - center) ** 2).sum(axis=0) / counts)
    varies = ~is_constant(X)
    unit = np.where(varies, deviation, 0.0)
    z = np.where(missing, 0.0, (X - center) / np.where(varies, deviation, 1.0))
    means = _class_means(z, group, ~missing)
    z = np.where(missing, means[group], z)
    patterns = _patterns(missing, group)
    p = X.shape[1]
    if (int(group.max()) + 1) * p**3 + sum(
        len(each.absent) ** 3 + len(each.absent) * p for each in patterns
    ) <= MOST_WORK:
        z = _settle(z, group, patterns, np.random.default_rng([seed, len(X), 7]))
    return np.where(missing, center + unit * z, X)


def _class_means(z: Array, group: Array, there: Array) -> Array:
    """Mean of each class over the values that are present, or 0 (the overall mean) without values, shape (J, p)."""
    out = np.zeros((int(group.max()) + 1, z.shape[1]))
    for j in range(len(out)):
        own = group == j
        out[j] = np.where(there[own], z[own], 0.0).sum(axis=0) / np.maximum(there[own].sum(axis=0), 1)
    return out


def _patterns(missing: Array, group: Array) -> list[_Pattern]:
    some = np.flatnonzero(missing.any(axis=1))
    kinds, number = np.unique(np.column_stack([group[some], missing[some]]), axis=0, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(number.ravel(), minlength=len(kinds)))
    return [
        _Pattern(
            some[order[end - count : end]], int(kind[0]), np.flatnonzero(kind[1:]), np.flatnonzero(kind[1:] == 0)
        )
        for kind, end, count in zip(kinds, ends, np.diff(ends, prepend=0), strict=True)
    ]


def _settle(z: Array, group: Array, patterns: list[_Pattern], rng: np.random.Generator) -> Array:
    """Iterate estimates and conditional means until they converge, then draw."""
    p = z.shape[1]
    everything, classes = np.ones(z.shape, bool), int(group.max()) + 1
    extra = np.zeros((classes, p, p))
    for _ in range(ITERATIONS):
        means = _class_means(z, group, everything)
        precision = _inverses(_covariances(z - means[group], group, extra))
        before, extra = z.copy(), np.zeros((classes, p, p))
        for rows, j, absent, there in patterns:
            rest = np.linalg.inv(precision[j][np.ix_(absent, absent)])
            slope = -precision[j][np.ix_(there, absent)] @ rest
            z[np.ix_(rows, absent)] = means[j, absent] + (z[np.ix_(rows, there)] - means[j, there]) @ slope
            extra[j][np.ix_(absent, absent)] += len(rows) * rest
        if np.abs(z - before).max() < SETTLED:
            break
    for rows, j, absent, _ in patterns:
        lower = np.linalg.cholesky(precision[j][np.ix_(absent, absent)])  # of the inverse of the covariance left
        z[np.ix_(rows, absent)] += np.linalg.solve(lower.T, rng.standard_normal((len(absent), len(rows)))).T
    return z


def _inverses(covariances: Array) -> Array:
    """Invert covariances, shape (J, p, p), which may be singular but for rounding: no variance is below the ridge."""
    values, axes = np.linalg.eigh(covariances)
    return np.asarray((axes / np.maximum(values, RIDGE)[:, None, :]) @ axes.transpose(0, 2, 1))


def _covariances(residual: Array, group: Array, extra: Array) -> Array:
    """Covariance of each class, shape (J, p, p).

    Where degrees of freedom are lacking, that of a class is shrunk to the pooled one, and the pooled one to its
    diagonal.
    """
    p, size = residual.shape[1], np.bincount(group, minlength=len(extra))
    scatter = extra.copy()
    for j in range(len(extra)):
        own = residual[group == j]
        scatter[j] += own.T @ own
    freedom = np.maximum(size - 1, 0)
    pooled = scatter.sum(axis=0) / max(int(freedom.sum()), 1)
    lacking = max(0.0, 1.0 - float(freedom.sum()) / (2.0 * p))
    pooled = (1.0 - lacking) * pooled + lacking * np.diag(np.diag(pooled))
    shrink = np.maximum(0.0, 1.0 - freedom / (2.0 * p))[:, None, None]
    each = (1.0 - shrink) * scatter / np.maximum(freedom, 1)[:, None, None] + shrink * pooled
    return np.asarray(0.5 * (each + each.transpose(0, 2, 1)))
