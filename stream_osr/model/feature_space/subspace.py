"""Choice of the feature directions for the model, from the training instances, whatever the units.

Training handles three kinds of excess features:

* Features that nearly always have the same value. Their variance depends on a few instances, and a Gaussian takes the
  next deviation for something new. They share one coordinate, the sum of an instance's unusual values.
* Copies of other features. They are left out.
* Directions in which instances hardly differ, or too many directions for the number of instances. Training keeps the
  first principal axes, as many as separate known classes from new ones. The known classes provide that measure: each
  is left out in turn, and the others must not accept it (:mod:`stream_osr.model.feature_space.left_out_classes`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model.feature_space.left_out_classes import recall_left_out
from stream_osr.model.jit import Array
from stream_osr.model.prior import NO_COLUMN

USUAL = 0.9
"""Least share of instances with one value for a feature that hardly varies."""
ROUNDING, LEAST_SPREAD = 1e-14, 1e-140
"""Largest standard deviation of a constant feature: as a share of the feature's size, and in any unit."""
COPY = 1e-9
"""Most that a copy's correlation with an earlier feature may fall short of 1."""
GAUSSIAN_KURTOSIS = 3.0
LEAST_POWER = 1e-6
"""Variance below which a direction is rounding, where a feature has variance 1."""
TOLERANCE = 0.005
"""Tolerated loss in separating a class that was left out: more directions are better than fewer."""
AMPLE, SURE = 25.0, 2.33
"""Thresholds for ample data: degrees of freedom for each direction, and standard errors.

With this many within-class degrees of freedom for each direction, no direction costs much to estimate. Training then
drops directions only if no class loses, or if the gain exceeds this many standard errors (noise: once in a hundred
times).
"""
STEP = 1.2
"""Factor between the numbers of directions to try."""
PLENTY, FEW = 5.0, 20
"""Thresholds to keep all directions without a test.

They are the least within-class degrees of freedom for each direction and the largest number of directions.
"""
MOST = 128
"""Most directions."""
TIMED, LEAST_TIMED = 0.99, 16
"""Least rank correlation of a clock with the order of arrival, and least instances of a class for that test."""


class Plan(NamedTuple):
    """Treatment of each feature, and the number of directions kept.

    Attributes
    ----------
    informative
        Features from which the axes are made, shape (q,).
    axes
        Number of principal axes of these features.
    rare
        Features that nearly always have their usual value, shape (m,).
    weight
        Weight of a unit of each rare feature in their sum, shape (m,).
    least
        Least variance of the sum.
    copies, originals
        Features that copy an earlier feature, and that earlier feature, shape (c,).
    rank
        Number of axes kept.
    kept_area, whole_area
        Mean area under the ROC curve for separating a known class that was left out, with these axes and with all
        axes tried. NaN: there was nothing to choose.
    """

    informative: Array
    axes: int
    rare: Array
    weight: Array
    least: float
    copies: Array
    originals: Array
    rank: int
    kept_area: float
    whole_area: float
    clocks: Array = NO_COLUMN
    """Features that rise or fall with the order of arrival in every class, shape (t,). They are left out."""

    @property
    def partial(self) -> bool:
        """Whether axes are left out because of how well classes were separated."""
        return self.rank < self.axes and not math.isnan(self.kept_area)

    @property
    def everything(self) -> bool:
        """Whether each feature is a separate direction and nothing is left out."""
        return self.rank == len(self.informative) and not len(self.rare) + len(self.copies) + len(self.clocks)


class Directions(NamedTuple):
    """Linear map from raw features, less their mean, to d coordinates.

    Attributes
    ----------
    basis
        Coordinates of a row of features, shape (p, d).
    back
        Features of a row of coordinates, shape (d, p), with the left-out part at its mean. ``back @ basis`` is I.
    least
        Least variance of each coordinate, shape (d,).
    """

    basis: Array
    back: Array
    least: Array


def make_plan(X: Array, group: Array, order: Array | None = None, raw: Array | None = None) -> Plan:
    """Choose the plan from training rows.

    Parameters
    ----------
    X
        Completed rows, shape (n, p). If missing values (NaN) remain, they count as the mean.
    group
        Class of each, 0 to J - 1, shape (n,).
    order
        Position of each row in the order of arrival, shape (n,). ``None``: the order carries no information.
    raw
        The rows before their completion. ``None``: ``X``.

    Examples
    --------
    Six classes, two features that separate them (one of the two twice), and 40 features of noise:

    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(np.arange(6), 10)
    >>> telling = 9.0 * rng.normal(size=(6, 2))[group] + rng.normal(size=(60, 2))
    >>> plan = make_plan(np.hstack([telling, telling[:, :1], rng.normal(size=(60, 40))]), group)
    >>> plan.copies, plan.originals, plan.rank < 40
    (array([2]), array([0]), True)
    """
    rare = hardly_varies(X)
    scaled = in_units(X)
    twins = np.triu(alike(scaled), 1)
    copies = twins.any(axis=0)
    clock = (
        np.zeros(X.shape[1], bool)
        if order is None
        else is_clock(X if raw is None else raw, group, order) & ~rare & ~copies
    )
    if not (~rare & ~copies & ~clock).any():  # nothing else tells anything
        clock[:] = False
    telling = np.flatnonzero(~rare & ~copies & ~clock)
    axes = principal_axes(scaled[:, telling])
    freedom = len(X) - len(np.unique(group))
    ranks = _numbers(min(axes.shape[1], MOST), min(FEW, int(freedom / PLENTY)))
    chosen = (0, math.nan, math.nan)
    if ranks:
        chosen = _choose(ranks, recall_left_out(scaled[:, telling] @ axes[:, : ranks[-1]], group, ranks), freedom)
    rare, at = np.flatnonzero(rare & ~copies), np.flatnonzero(copies)
    unit = units(X)[telling]
    weight, least = _unusual(X[:, rare], float(np.median(unit)) if len(unit) else 1.0)
    return Plan(
        telling, axes.shape[1], rare, weight, least, at, twins[:, at].argmax(axis=0), *chosen, np.flatnonzero(clock)
    )


def is_clock(X: Array, group: Array, order: Array) -> Array:
    """Find the features that rise or fall with the order of arrival, overall and within each class, shape (p,).

    Such a feature (a date, a counter, a row number) encodes the time of arrival. In a stream it lies beyond all
    training values, so it fits no class. The measure is Spearman's rank correlation with the order of arrival.

    Parameters
    ----------
    X
        Training rows, NaN = missing, shape (n, p).
    group
        Class of each, shape (n,).
    order
        Position of each in the order of arrival, shape (n,).

    Examples
    --------
    >>> order = np.arange(40)
    >>> is_clock(np.column_stack([100.0 + order, order % 7]), order % 2, order)
    array([ True, False])
    """
    out = np.full(X.shape[1], len(X) >= LEAST_TIMED)
    values, counts = np.unique(group, return_counts=True)
    parts = [group == j for j in values[counts >= LEAST_TIMED]]
    if not parts or sum(part.sum() for part in parts) < 0.5 * len(X):
        return np.zeros(X.shape[1], bool)
    for at in np.flatnonzero(out):
        signs = set()
        for part in (np.ones(len(X), bool), *parts):
            there = part & ~np.isnan(X[:, at])
            value, when = _ranks(X[there, at]), _ranks(order[there])
            spread = value.std() * when.std() if there.any() else 0.0
            r = float(((value - value.mean()) * (when - when.mean())).mean() / spread) if spread > 0.0 else 0.0
            signs.add(math.copysign(1.0, r))
            out[at] &= abs(r) >= TIMED and len(signs) == 1
            if not out[at]:
                break
    return out


def _ranks(values: Array) -> Array:
    """Rank values from 1. Equal values have the mean of their ranks. An import of scipy.stats takes long."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(count) - 0.5 * (count - 1))[place]
    return ranks


def follow(plan: Plan, X: Array) -> Directions:
    """Make the directions of a plan from training rows of shape (n, p).

    There may be fewer axes if the plan was made from other rows.
    """
    p = X.shape[1]
    if plan.everything:
        return Directions(np.eye(p), np.eye(p), np.zeros(p))
    scaled, unit = in_units(X)[:, plan.informative], units(X)[plan.informative]
    axes = principal_axes(scaled)[:, : plan.rank]
    count = axes.shape[1]
    wide = count + (len(plan.rare) > 0)
    basis, back, least = np.zeros((p, wide)), np.zeros((wide, p)), np.zeros(wide)
    basis[plan.informative, :count] = axes / unit[:, None]
    back[:count, plan.informative] = axes.T * unit
    if len(plan.rare):
        basis[plan.rare, -1], least[-1] = plan.weight, plan.least
        back[-1, plan.rare] = _features_of(X[:, plan.rare], plan.weight)
    filled = _filled(X)
    centred = filled - filled.mean(axis=0)
    for copy, original in zip(plan.copies, plan.originals, strict=True):
        power = centred[:, original] @ centred[:, original]
        if power > 0.0:
            back[:, copy] = (centred[:, copy] @ centred[:, original] / power) * back[:, original]
    return Directions(basis, back, least)


def _unusual(X: Array, typical: float) -> tuple[Array, float]:
    """Sum the unusual values of features that nearly always have their usual value, rows of shape (n, m).

    The weight of a feature is the log odds of the usual value. Its deviation is a share of the deviations in
    training. If other rows have none, the unit is the feature's size, or for a zero the ``typical`` size of other
    features.

    Returns
    -------
    Weights of the features, shape (m,), and the variance of the sum with half an unusual instance added to each
    feature.
    """
    n, usual = len(X), usual_values(X)
    away = np.nan_to_num(X - usual)
    away = np.where(is_constant(X), 0.0, away)
    off = (away != 0.0).sum(axis=0)
    size = np.where(np.abs(usual) <= LEAST_SPREAD, typical, np.abs(usual))
    size = np.where(off > 0, np.abs(away).sum(axis=0) / np.maximum(off, 1), size)
    size = np.where(away.sum(axis=0) < 0.0, -size, size)
    share = (off + 0.5) / (n + 1.0)
    odds = np.log((1.0 - share) / share)
    return odds / size, float((odds**2 * share * (1.0 - share)).sum())


def _features_of(X: Array, weight: Array) -> Array:
    """Regress the features on their weighted sum: their values at one unit of the sum, shape (m,)."""
    away = np.where(is_constant(X), 0.0, _filled(X) - _filled(X).mean(axis=0))
    total = away @ weight
    power = total @ total
    return np.asarray(away.T @ total / power if power > 0.0 else 1.0 / (len(weight) * weight))


def usual_values(X: Array) -> Array:
    """Take the median of each feature among its own values, shape (p,). A majority value is that median."""
    there = np.maximum((~np.isnan(X)).sum(axis=0), 1)
    return np.nan_to_num(np.sort(X, axis=0)[(there - 1) // 2, np.arange(X.shape[1])])


def hardly_varies(X: Array) -> Array:
    """Find the features that nearly always have their usual value, NaN = missing, shape (p,)."""
    return np.asarray(is_constant(X) | (((usual_values(X) == X) | np.isnan(X)).mean(axis=0) >= USUAL))


def is_constant(X: Array) -> Array:
    """Find the features that vary by no more than rounding, shape (p,).

    Examples
    --------
    Times one second apart, in milliseconds since 1970, differ. A thousand equal numbers do not:

    >>> X = np.column_stack([1.7e12 + np.arange(1000), np.full(1000, 0.1)])
    >>> is_constant(X)
    array([False,  True])
    """
    first = np.nan_to_num(np.fmin.reduce(X, axis=0, initial=np.inf), posinf=0.0)
    away = _filled(X - first)  # the mean of many equal numbers is not quite that number
    size = np.abs(first + away.mean(axis=0))
    return np.asarray(away.std(axis=0) <= np.maximum(ROUNDING * size, LEAST_SPREAD))


def units(X: Array) -> Array:
    """Find the unit of each feature: its standard deviation, or more if few far values dominate, shape (p,).

    The unit is the root of ``E x^4 / (3 E x^2)``, which for a Gaussian is the standard deviation. If few instances
    make up the variance, it is larger. It is 1 for a constant feature.
    """
    filled = _filled(X)
    centred = np.where(is_constant(X), 0.0, filled - filled.mean(axis=0))
    deviation = centred.std(axis=0)
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    kurtosis = ((centred / deviation) ** 4).mean(axis=0)
    return np.asarray(deviation * np.sqrt(np.maximum(kurtosis / GAUSSIAN_KURTOSIS, 1.0)))


def in_units(X: Array) -> Array:
    """Return rows less their mean in the units of the features, 0 for constant features and missing values."""
    filled = _filled(X)
    return np.asarray(np.where(is_constant(X), 0.0, filled - filled.mean(axis=0)) / units(X))


def _filled(X: Array) -> Array:
    """Fill missing values of a feature with its mean, or with 0 if all its values are missing."""
    known = ~np.isnan(X)
    return np.where(known, X, np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def alike(scaled: Array) -> Array:
    """Find the pairs of features that are equal except for unit and origin, shape (p, p)."""
    length = np.sqrt((scaled**2).sum(axis=0))
    return np.abs(scaled.T @ scaled) > (1.0 - COPY) * np.maximum(np.outer(length, length), np.finfo(float).tiny)


def principal_axes(scaled: Array) -> Array:
    """Find the directions in which scaled rows, shape (n, q), differ, by decreasing variance.

    Returns
    -------
    Orthonormal columns, shape (q, r), r at most q and n - 1.
    """
    n, q = scaled.shape
    if q <= n:
        power, axes = np.linalg.eigh(scaled.T @ scaled / n)
        return np.asarray(axes[:, ::-1][:, power[::-1] > LEAST_POWER])
    power, rows = np.linalg.eigh(scaled @ scaled.T / n)
    there = power > LEAST_POWER
    return np.asarray((scaled.T @ rows[:, there] / np.sqrt(n * power[there]))[:, ::-1])


def _numbers(most: int, least: int) -> list[int]:
    """Numbers of directions to try, in increasing order.

    Examples
    --------
    >>> _numbers(20, 4), _numbers(3, 4)
    ([4, 5, 6, 8, 10, 13, 16, 20], [3])
    """
    out = [most] if most else []
    while out and out[-1] > max(least, 1):
        out.append(max(least, 1, min(out[-1] - 1, int(out[-1] / STEP))))
    return out[::-1]


def _choose(ranks: list[int], areas: Array, freedom: int) -> tuple[int, float, float]:
    """Choose as many directions as possible that are no worse than the best number, within the tolerance.

    With ample instances, all are kept if the gain of the best number is within the noise of leaving classes out. That
    is the case if the mean gain is small relative to its standard error over the classes and some class loses.

    Parameters
    ----------
    ranks
        Numbers of directions, R in all. The last is the number of all directions.
    areas
        Area under the ROC curve for separating each class that was left out, shape (R, C).
    freedom
        Within-class degrees of freedom.

    Returns
    -------
    The number, and the mean areas for it and for all.

    Examples
    --------
    >>> _choose([2, 4, 8], np.array([[0.7, 0.7], [0.8, 0.9], [0.795, 0.9]]), 100)[0]
    8

    Half of the directions are better for each class, or for one class and worse for another:

    >>> each, one = np.array([[0.97, 0.9, 0.9], [0.9, 0.9, 0.9]]), np.array([[0.97, 0.89, 0.9], [0.9, 0.9, 0.9]])
    >>> _choose([4, 8], each, 1000)[0], _choose([4, 8], one, 1000)[0], _choose([4, 8], one, 100)[0]
    (4, 8, 4)
    """
    classes = areas.shape[1]
    if not classes:
        return ranks[-1], math.nan, math.nan
    mean = areas.mean(axis=1)
    gain = areas[mean.argmax()] - areas[-1]
    error = gain.std(ddof=1) / math.sqrt(classes) if classes > 1 else math.inf
    unsure = gain.mean() <= SURE * error and gain.min() < -TOLERANCE
    if unsure and freedom >= AMPLE * ranks[-1]:
        at = len(ranks) - 1
    else:
        at = int(np.flatnonzero(mean >= mean.max() - TOLERANCE)[-1])
    return ranks[at], float(mean[at]), float(mean[-1])
