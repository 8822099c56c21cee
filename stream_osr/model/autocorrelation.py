"""Autocorrelation of the residuals of known classes, in order of arrival, and its test.

An instance of class j has the whitened residual ``z = W_j (x - mu_j)``, with the mean and covariance of the class in
training. If instances are independent, residuals of neighbours are uncorrelated. They are correlated if a class lasts
for a while, a device has an offset, or a process drifts.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel
from stream_osr.support import rules

RIDGE = 1e-6


LAGS = np.array([1, 2, 4, 8, 16, 32, 64])
"""Lags in instances at which the autocovariance is estimated."""
FARTHEST_NEIGHBOUR = int(LAGS[-1])
CLIP = 2.0
"""Bound on the squared length of residuals in the test, per dimension. Longer ones are shortened."""
CORRELATED, CORRELATED_STREAM, STILL_CORRELATED = 0.05, 0.03, 0.015
"""Mean correlation from which neighbours are dependent, in training and in the stream, and its lower end."""
LEAST_EARLIER = 8.0
"""Least weight of earlier instances that locate a class before a neighbour is compared with that location."""
SIGNIFICANT = 4.0
"""Least mean correlation, in standard errors above zero."""
LEAST_PAIRS, LEAST_STREAM_PAIRS = 256, 64
"""Least number of pairs of neighbours for the test, in training and in the stream."""


class Residuals(NamedTuple):
    """Whitening of the residuals of the J classes, in d numeric dimensions.

    Attributes
    ----------
    mean
        Training mean of each class, shape (J, d).
    whitener
        Symmetric inverse square root of each class's covariance, shrunk to the pooled one by ``d / (n + d)``, shape
        (J, d, d).
    log_volume
        Log determinant of ``whitener``, shape (J,).
    """

    mean: Annotated[Array, rules.array("f", "J", "d", low=-1e12, high=1e12)]
    whitener: Annotated[Array, rules.array("f", "J", "d", "d")]
    log_volume: Annotated[Array, rules.array("f", "J")]


class Pairs(NamedTuple):
    """Sums over pairs of neighbours in the same class.

    Attributes
    ----------
    products
        Symmetrised products of residuals, at lag 0 and at each of :data:`LAGS`, shape (8, d, d).
    number
        Number of pairs at each of these lags, shape (8,).
    correlation
        Three sums for each class over the pairs of an instance and the one before it in the class. They are the
        number of pairs, their correlations, and the squares of these, shape (J, 3).
    """

    products: Annotated[Array, rules.array("f", "8", "d", "d")]
    number: Annotated[Array, rules.array("f", "8", low=0.0, high=1e15)]
    correlation: Annotated[Array, rules.array("f", "J", "3")]


def whitened(residuals: Residuals, rows: Array, group: Array) -> Array:
    """Whitened residuals of rows, shape (n, d), from their classes, shape (n,)."""
    return _whitened(np.ascontiguousarray(rows), group, residuals.mean, residuals.whitener)


@kernel
def _whitened(rows: Array, group: Array, mean: Array, whitener: Array) -> Array:
    n, d = rows.shape
    out = np.zeros((n, d))
    for i in range(n):
        j = group[i]
        for a in range(d):
            off = rows[i, a] - mean[j, a]
            for b in range(d):
                out[i, b] += off * whitener[j, a, b]
    return out


def residuals_of(rows: Array, group: Array) -> Residuals:
    """Estimate the mean and covariance of each class from whitened rows, shape (n, d), with classes of shape (n,)."""
    n_classes, d = int(group.max()) + 1, rows.shape[1]
    mean = np.stack([rows[group == j].mean(axis=0) if (group == j).any() else np.zeros(d) for j in range(n_classes)])
    off = rows - mean[group]
    pooled = off.T @ off / max(len(rows) - n_classes, 1) + RIDGE * np.eye(d)
    whitener, volume = np.empty((n_classes, d, d)), np.empty(n_classes)
    for j in range(n_classes):
        own = off[group == j]
        power, axes = np.linalg.eigh((own.T @ own + d * pooled) / (len(own) + d))
        power = np.maximum(power, RIDGE)
        whitener[j] = axes / np.sqrt(power) @ axes.T
        volume[j] = -0.5 * np.log(power).sum()
    return Residuals(mean, whitener, volume)


def no_pairs(n_classes: int, d: int) -> Pairs:
    """Make empty sums."""
    return Pairs(np.zeros((len(LAGS) + 1, d, d)), np.zeros(len(LAGS) + 1), np.zeros((n_classes, 3)))


def shortened(z: Array) -> Array:
    """Shorten residuals, shape (n, d), longer than the root of ``CLIP * d``: heavy tails are no evidence."""
    length = np.sqrt((z**2).sum(axis=1))
    return np.asarray(z * np.minimum(1.0, np.sqrt(CLIP * z.shape[1]) / np.maximum(length, 1e-9))[:, None])


def count_pairs(
    before: Pairs,
    z: Array,
    group: Array,
    at: Array,
    first: int = 0,
    *,
    middle: Array | None = None,
    products: bool = True,
) -> Pairs:
    """Add the pairs whose later instance is at position ``first`` or after.

    Parameters
    ----------
    before
        The sums so far. They do not change.
    z, group, at
        Residuals, shape (n, d), class of each (-1 if none), and position in the order of arrival, both of shape (n,).
        Positions ascend.
    first
        Instances before this position were counted earlier. They serve only as partners.
    middle
        Mean residual of each class in the stream so far, NaN if not known yet, shape (J, d). The correlation of an
        instance with its neighbour is counted beyond its correlation with this mean. For exchangeable instances that
        is zero, wherever they lie. ``None``: zeros, the training mean.
    products
        Also add products of residuals. They cost more, and only a fit needs them.
    """
    summed, count, correlation, d = before.products, before.number, before.correlation.copy(), z.shape[1]
    if products:
        new = np.flatnonzero((group >= 0) & (np.arange(len(z)) >= first))
        summed, count = summed.copy(), count.copy()
        summed[0] += z[new].T @ z[new]
        count[0] += len(new)
        for number, lag in enumerate(LAGS, start=1):
            earlier = np.searchsorted(at, at[new] - lag)
            match = (at[earlier] == at[new] - lag) & (group[earlier] == group[new])
            a, b = earlier[match], new[match]
            product = z[a].T @ z[b]
            summed[number] += 0.5 * (product + product.T)
            count[number] += len(b)
    _correlate(z, group, at, first, np.zeros((len(correlation), d)) if middle is None else middle, correlation)
    return Pairs(summed, count, correlation)


@kernel
def _correlate(z: Array, group: Array, at: Array, first: int, middle: Array, correlation: Array) -> None:
    """Add to ``correlation`` the pairs of an instance and the one before it in its class."""
    (n, d), latest = z.shape, np.full(len(correlation), -1)
    for i in range(n):
        j = group[i]
        if j < 0:
            continue
        before = latest[j]
        latest[j] = i
        if i < first or before < 0 or at[i] - at[before] > FARTHEST_NEIGHBOUR:
            continue
        value = 0.0
        for a in range(d):
            value += (z[before, a] - middle[j, a]) * z[i, a]
        value /= d
        if not np.isnan(value):
            correlation[j, 0] += 1.0
            correlation[j, 1] += value
            correlation[j, 2] += value * value


def faded_pairs(pairs: Pairs, factor: float) -> Pairs:
    """Multiply the weight of all counted pairs by ``factor``."""
    return Pairs(*(each * factor for each in pairs))


def correlation_of(pairs: Pairs) -> tuple[float, float, float]:
    """Mean correlation of neighbours over all classes, in standard errors (self-normalised), and number of pairs."""
    n, total, square = pairs.correlation.sum(axis=0).tolist()
    return (total / n, total / max(square, 1e-300) ** 0.5, n) if n > 0.0 else (0.0, 0.0, 0.0)


def correlation_by_class(pairs: Pairs) -> Array:
    """Mean correlation of neighbours in each class, 0 without pairs, shape (J,)."""
    n, total, _ = pairs.correlation.T
    return np.asarray(total / np.maximum(n, 1.0))


def without_strongest(pairs: Pairs) -> Pairs:
    """Drop the class whose neighbours add most to the correlation.

    A new class that begins in the middle of a stream, near one known class, correlates the neighbours of that class.
    The class's mean in the stream so far is not the mean of the mixture. Real dependence also shows in the other
    classes.
    """
    correlation = pairs.correlation.copy()
    correlation[correlation[:, 1].argmax()] = 0.0
    return pairs._replace(correlation=correlation)


def is_dependent(pairs: Pairs, least: int, least_correlation: float, *, was: bool = False) -> bool:
    """Return whether neighbours are significantly and noticeably correlated.

    The test needs ``least`` pairs. If neighbours were dependent before (``was``), they count as dependent down to a
    lower correlation.
    """
    mean, errors, n = correlation_of(pairs)
    if was:
        return mean > STILL_CORRELATED
    return mean > least_correlation and errors > SIGNIFICANT and n >= least
