"""Yeo-Johnson transforms of skewed features before whitening.

Each feature gets its own power, that of Yeo and Johnson ("A new family of power transformations to improve normality
or symmetry", Biometrika 2000), about the middle of the feature and in its own unit. Power 1 leaves the feature
unchanged, 0 takes logarithms above the middle, and 2 takes them below. Further powers are not used. They would bound
the feature, and new values would pile up at the bound.

Powers maximise the likelihood of the training classes as Gaussians, each with its own spreads and all with the same
correlations, including the change of volume. Each feature is conditioned on all others. Redundant features therefore
stay alike, and classes of different width do not cause a transform.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.feature_space.subspace import ROUNDING, alike, in_units
from stream_osr.model.jit import Array, borrowing_kernel
from stream_osr.support import rules

POWERS = np.linspace(0.0, 2.0, 9)
"""Powers to try. The middle one changes nothing."""
AS_IT_IS = len(POWERS) // 2
LEAST_GAIN, SURE_GAIN = 0.1, 3.0
"""Least gain in log likelihood for each instance, and in total in logarithms of the number of instances."""
LEAST_VALUES = 30
"""Least number of distinct values, or half the number of instances. With fewer a feature is a scale of steps."""
RIDGE = 0.1
"""Share of each feature's variance that other features are assumed not to explain."""
BORROWED = 0.3
"""Instances of all classes that enter the spread of a class, in addition to its own."""
ROUNDS = 3
"""Rounds of choosing the powers, each given those of the round before."""
MOST_LOG = 700.0
"""Largest logarithm that is undone, because beyond it the exponential overflows."""
MOST_ROWS, MOST_FEATURES = 2000, 128
"""Most rows for the choice, evenly spaced, and most features of a table with transforms."""


class YeoJohnson(NamedTuple):
    """Features to transform, m in all.

    Attributes
    ----------
    columns
        Their numbers among the raw features, ascending, shape (m,).
    middle, unit
        Centre and unit of the transform, shape (m,).
    power
        The power of each, between 0 and 2, shape (m,).
    """

    columns: Annotated[Array, rules.array("i", "m", low=0), rules.distinct, rules.ascending]
    middle: Annotated[Array, rules.array("f", "m", low=-1e100, high=1e100)]
    unit: Annotated[Array, rules.array("f", "m", low=rules.ABOVE_0, high=1e100)]
    power: Annotated[Array, rules.array("f", "m", low=0.0, high=2.0)]


NO_YEO_JOHNSON = YeoJohnson(np.zeros(0, np.int64), *np.zeros((3, 0)))


def find_yeo_johnson(X: Array, group: Array, numeric: Array) -> YeoJohnson:
    """Choose the powers of training rows, NaN = missing.

    Parameters
    ----------
    X
        Training rows, shape (n, p).
    group
        Class of each, shape (n,).
    numeric
        Which features are numbers, shape (p,).

    Examples
    --------
    A feature that is Gaussian, and one with a Gaussian logarithm:

    >>> rng = np.random.default_rng(0)
    >>> group = np.arange(400) % 2
    >>> X = 3.0 * group[:, None] + rng.normal(size=(400, 2))
    >>> X[:, 1] = np.exp(0.7 * X[:, 1])
    >>> powers = find_yeo_johnson(X, group, np.ones(2, bool))
    >>> powers.columns, bool(powers.power[0] < 0.5)
    (array([1]), True)
    """
    step = -(-len(X) // MOST_ROWS) if len(X) else 1
    rows, classes = X[::step], group[::step]
    tried = np.flatnonzero(numeric & (_count_values(rows) >= min(LEAST_VALUES, len(rows) / 2)))
    if not len(tried) or len(tried) > MOST_FEATURES:
        return NO_YEO_JOHNSON
    there = ~np.isnan(rows[:, tried])
    middle = np.nanmedian(rows[:, tried], axis=0)
    scaled = np.where(there, rows[:, tried] - middle, 0.0)
    unit = np.sqrt((_within(scaled, classes, there) ** 2).sum(axis=0) / there.sum(axis=0))
    varies = unit > ROUNDING * np.abs(middle)
    tried, middle, unit, scaled, there = (of[..., varies] for of in (tried, middle, unit, scaled, there))
    twin = np.triu(alike(in_units(rows[:, tried])), 1)
    copy = twin.any(axis=0)
    power = np.ones(len(tried))
    power[~copy] = POWERS[_choose(scaled[:, ~copy] / unit[~copy], classes, there[:, ~copy])]
    for at in np.flatnonzero(copy).tolist():
        other = int(twin[:, at].argmax())
        turned = float(scaled[:, at] @ scaled[:, other]) < 0.0
        power[at] = 2.0 - power[other] if turned else power[other]
    own = power != 1.0
    return YeoJohnson(tried[own], middle[own], unit[own], power[own])


def _count_values(rows: Array) -> Array:
    """Count the distinct values of each feature, shape (p,)."""
    return np.array([len(np.unique(column[~np.isnan(column)])) for column in rows.T], np.int64)


def _within(values: Array, group: Array, there: Array) -> Array:
    """Deviations of features from the means of the classes, 0 for a missing value, with last axes (n, m)."""
    out = np.where(there, values, 0.0)
    for j in np.unique(group):
        own = group == j
        out[..., own, :] -= out[..., own, :].sum(axis=-2, keepdims=True) / np.maximum(there[own].sum(axis=0), 1)
    return np.where(there, out, 0.0)


def _in_units_of_classes(curves: Array, group: Array) -> tuple[Array, Array]:
    """Divide deviations, shape (P, n, m), by those of their class, with ``BORROWED`` instances of all classes added.

    Returns
    -------
    The deviations, and the sum of the logarithms of the divisors, shape (P, m).
    """
    out, log_spread = np.empty_like(curves), np.zeros((curves.shape[0], curves.shape[2]))
    everyone = (curves**2).mean(axis=1)
    for j in np.unique(group):
        own = group == j
        spread = np.sqrt(((curves[:, own] ** 2).sum(axis=1) + BORROWED * everyone) / (own.sum() + BORROWED))
        out[:, own] = curves[:, own] / spread[:, None]
        log_spread += own.sum() * np.log(spread)
    return out, log_spread


def _choose(scaled: Array, group: Array, there: Array) -> Array:
    """Choose among the ``POWERS`` for centred features in their units, shape (n, m)."""
    (n, m), each = scaled.shape, np.arange(scaled.shape[1])
    curves, log_spread = _in_units_of_classes(_within(bent(scaled, POWERS[:, None, None]), group, there), group)
    volume = (POWERS[:, None] - 1.0) * (np.sign(scaled) * np.log1p(np.abs(scaled))).sum(axis=0)
    apart = volume - log_spread

    def together(chosen: Array) -> float:
        now = curves[chosen, :, each].T
        return float(apart[chosen, each].sum() - 0.5 * n * np.linalg.slogdet(_correlation(now))[1])

    chosen = np.full(m, AS_IT_IS)
    for _ in range(ROUNDS):
        now = curves[chosen, :, each].T
        gain = apart + np.array([_given_others(now, at, curves[:, :, at]) for at in each.tolist()]).T
        best = gain.argmax(axis=0)
        enough = gain[best, each] - gain[AS_IT_IS] > max(LEAST_GAIN * n, SURE_GAIN * np.log(n))
        chosen, before = np.where(enough, best, AS_IT_IS), chosen
        if np.array_equal(chosen, before):
            break
    plain = np.full(m, AS_IT_IS)
    return chosen if together(chosen) > together(plain) else plain


def _correlation(now: Array) -> Array:
    return np.asarray(now.T @ now / len(now) + RIDGE * np.eye(now.shape[1]))


def _given_others(now: Array, at: int, curves: Array) -> Array:
    """Log likelihood of the curves of a feature, shape (P, n), given the other features."""
    others = np.delete(now, at, axis=1)
    shared = others.T @ curves.T / len(now)
    left = 1.0 + RIDGE - (shared * np.linalg.solve(_correlation(others), shared)).sum(axis=0)
    return np.asarray(-0.5 * len(now) * np.log(left))


def bent(scaled: Array, power: Array) -> Array:
    """Transform values in their units by a power: 1 changes nothing, 0 is a logarithm above 0, 2 one below."""
    size = np.abs(scaled)
    exponent = np.where(scaled >= 0.0, power, 2.0 - power)
    safe = np.where(exponent > 0.0, exponent, 1.0)
    grown = np.where(exponent > 0.0, np.expm1(safe * np.log1p(size)) / safe, np.log1p(size))
    return np.asarray(np.where(exponent == 1.0, scaled, np.copysign(grown, scaled)))


def bend(yeo_johnson: YeoJohnson, X: Array) -> Array:
    """Transform raw rows, NaN = missing, shape (n, p). About its middle a feature keeps its unit.

    Examples
    --------
    >>> powers = YeoJohnson(np.array([1]), np.array([10.0]), np.array([2.0]), np.array([0.0]))
    >>> X = np.array([[5.0, 10.0], [5.0, 10.2], [5.0, 210.0], [5.0, np.nan]])
    >>> bend(powers, X).round(2)
    array([[ 5.  , 10.  ],
           [ 5.  , 10.19],
           [ 5.  , 19.23],
           [ 5.  ,   nan]])
    >>> bool(np.allclose(unbend(powers, bend(powers, X)), X, equal_nan=True))
    True
    """
    return _changed(X, *yeo_johnson, False)


def unbend(yeo_johnson: YeoJohnson, X: Array) -> Array:
    """Undo :func:`bend`."""
    return _changed(X, *yeo_johnson, True)


def slopes(yeo_johnson: YeoJohnson, X: Array) -> Array:
    """Return the slope of each transformed feature with respect to the raw one, at raw rows, shape (n, p)."""
    columns, middle, unit, power = yeo_johnson
    out = np.ones(X.shape)
    scaled = (X[:, columns] - middle) / unit
    out[:, columns] = (1.0 + np.abs(scaled)) ** np.where(scaled >= 0.0, power - 1.0, 1.0 - power)
    return out


def _changed(X: Array, columns: Array, middle: Array, unit: Array, power: Array, back: bool) -> Array:
    out = np.array(X, dtype=float, order="C")
    _change(out, columns, middle, unit, power, back)
    return out


@borrowing_kernel
def _change(X: Array, columns: Array, middle: Array, unit: Array, power: Array, back: bool) -> None:
    """Apply :func:`bent`, or its inverse, to features of rows, shape (n, p), in place.

    It treats one value at a time, so its bits depend neither on the number of values nor on the memory layout.
    """
    for i in range(X.shape[0]):
        for m in range(len(columns)):
            z = (X[i, columns[m]] - middle[m]) / unit[m]
            size, exponent = abs(z), power[m] if z >= 0.0 else 2.0 - power[m]
            if back:
                log = math.log1p(exponent * size) / exponent if exponent > 0.0 else size
                grown = math.expm1(min(log, MOST_LOG))
            else:
                log = math.log1p(size)
                grown = math.expm1(exponent * log) / exponent if exponent > 0.0 else log
            if exponent != 1.0 and not np.isnan(z):
                X[i, columns[m]] = middle[m] + unit[m] * math.copysign(grown, z)
