"""Places of the known classes in a stream: where training had them, or an offset and a gain of each feature away.

A place is an array of shape (2, p): the offset of each raw feature at its training mean, in its own unit, and its
gain less 1. The training place is zero. A move undoes the power transformation of a feature and applies it again, so
that an offset is the same for all values of a skewed feature. Categories do not move. They tell the classes apart.
Missing values are at the mean of the nearest class, wherever the classes are thought to be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stream_osr.model.categories import log_table
from stream_osr.model.feature_space.whitening import Whitening
from stream_osr.model.feature_space.yeo_johnson import YeoJohnson, bend, slopes, unbend
from stream_osr.model.jit import Array
from stream_osr.model.known import Known
from stream_osr.model.missing_features import NOTHING, missing_of
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import numbers_of

NO_CLASS = 0.1
"""Prior weight of the broad Gaussian for instances of no known class."""
OUTLIER_SPREAD = 4.0
"""Variance of the broad Gaussian, in variances of the training instances."""
LEAST_FACTOR = 0.1
"""Least gain. At zero all instances would have one value."""
FARTHEST = 1e6
"""Largest offset, in standard deviations of a raw feature, and largest factor. They keep all numbers finite."""
CORRECTIONS, EXACT = 20, 1e-9
"""Most rounds of correction of rows that are moved back, and the change, in whitened units, that ends them."""
NEGLIGIBLE = 1e-9
"""Responsibility below which an instance does not count for a class, and the least divisor."""
TYPICAL = 0.98
"""Share of the reference instances that are typical of a known class."""


class Places(NamedTuple):
    """Known classes as K Gaussians in d whitened numeric dimensions, for p features.

    Attributes
    ----------
    whitened
        Mean of each Gaussian in its own whitened coordinates, shape (K, d).
    factor
        Factor L of each precision ``L L'``, shape (K, d, d).
    log_share, log_weight
        Log weight, without and with half the log determinant of the precision, shape (K,).
    group
        Class of each Gaussian, shape (K,).
    largest, share_of_largest
        The class with the most training instances, and its share of them.
    outlier, log_outlier
        Factor of the precision of the broad Gaussian, shape (d, d), and half its log determinant.
    forward, backward
        Whitened coordinates of a unit of each feature, shape (p, d), and the map back, shape (d, p).
    deviation
        Standard deviation of each transformed feature in training, shape (p,).
    mean
        Mean of each Gaussian, shape (K, d).
    apart
        The same as features, in deviations from the training mean, shape (K, p).
    yeo_johnson, center
        Transformation of the raw features, and their means after it, shape (p,).
    ends, raw_ends
        Features half a deviation below and above the means, transformed and raw, shape (2, p).
    log_values, columns
        Log probability of each value of the categories in each Gaussian, shape (K, V), and the number of categories.
    cut, middle
        Squared distance to the nearest Gaussian within which an instance is typical, and the median of the
        references.
    """

    whitened: Array
    factor: Array
    log_share: Array
    log_weight: Array
    group: Array
    largest: int
    share_of_largest: float
    outlier: Array
    log_outlier: float
    forward: Array
    backward: Array
    deviation: Array
    mean: Array
    apart: Array
    yeo_johnson: YeoJohnson
    center: Array
    ends: Array
    raw_ends: Array
    log_values: Array
    columns: int
    cut: float
    middle: float


class WindowRows(NamedTuple):
    """Numbers of n rows of a stream.

    Attributes
    ----------
    numbers
        Numeric whitened rows, shape (n, d). Missing values have any number.
    missing
        Whether each feature is missing, shape (n, p).
    lack
        Rows with missing values, shape (m,).
    open
        Projection of each of these on the directions in which missing features move it, shape (m, d, d).
    """

    numbers: Array
    missing: Array
    lack: Array
    open: Array

    def only(self, at: Array) -> WindowRows:
        """Take some rows, by their numbers in ascending order."""
        chosen = np.isin(self.lack, at)
        lack = np.searchsorted(at, self.lack[chosen])
        return WindowRows(self.numbers[at], self.missing[at], lack, self.open[chosen])


def places_of_classes(known: Known, whitening: Whitening, references: Array) -> Places:
    """Describe the known classes as Gaussians.

    Parameters
    ----------
    known
        Known classes.
    whitening
        Map of raw features to whitened rows.
    references
        Whitened rows of known instances, shape (R, C + d). They determine which instances are typical.
    """
    mean, covariance = means_and_scales(known.dishes, known.prior)
    group, share = known.seated.argmax(axis=0), known.seated.sum(axis=0)
    kept = share > 0
    mean, covariance, group, share = mean[kept], covariance[kept], group[kept], share[kept] / share.sum()
    of_class = np.bincount(group, share)
    factor = np.linalg.cholesky(np.linalg.inv(covariance))
    centre = share @ mean
    total = np.tensordot(share, covariance, axes=1) + (share * (mean - centre).T) @ (mean - centre)
    outlier = np.linalg.cholesky(np.linalg.inv(OUTLIER_SPREAD * total))
    deviation = np.sqrt((whitening.backward * (total @ whitening.backward)).sum(axis=0))
    log_det = np.log(np.einsum("kaa->ka", factor)).sum(axis=1)
    is_number = whitening.forward.any(axis=1)
    ends = whitening.center + np.array([[-0.5], [0.5]]) * np.where(is_number, deviation, 0.0)
    places = Places(
        np.einsum("ka,kab->kb", mean, factor),
        factor,
        np.log(share),
        np.log(share) + log_det,
        group,
        int(of_class.argmax()),
        float(of_class.max()),
        outlier,
        float(np.log(np.diag(outlier)).sum()),
        whitening.forward,
        whitening.backward,
        np.where(is_number, deviation, np.inf),
        mean,
        mean @ whitening.backward / np.where(is_number, deviation, np.inf),
        whitening.yeo_johnson,
        whitening.center,
        ends,
        unbend(whitening.yeo_johnson, ends),
        log_table(known.dishes.counts[kept], known.prior),
        len(known.prior.first),
        np.inf,
        np.inf,
    )
    arrays: dict[str, Any] = {
        name: np.array(own, order="C") for name, own in places._asdict().items() if isinstance(own, np.ndarray)
    }
    places = places._replace(**arrays, yeo_johnson=YeoJohnson(*map(np.array, whitening.yeo_johnson)))
    degrees = np.maximum(known.prior.nu + known.dishes.size - known.prior.n_features - 1.0, 1.0)[kept]
    weight = known.dishes.size.sum() / known.seated.sum()
    distance = left_out(
        places, numbers_of(references, known.prior), degrees, known.prior.beta + known.dishes.size[kept], weight
    )
    return places._replace(cut=float(np.quantile(distance, TYPICAL)), middle=float(np.median(distance)))


def left_out(places: Places, rows: Array, degrees: Array, count: Array, weight: float) -> Array:
    """Squared distances of training rows, shape (n, d), to the nearest Gaussian without the row itself, shape (n,).

    The own Gaussian is the nearest one. A row with the weight w is taken from its posterior mean covariance, that of
    ``degrees`` degrees of freedom, and from its mean, that of ``count`` instances (Sherman and Morrison 1950).
    """
    distance = distances(places, in_each(places, rows), np.zeros(rows.shape[1]))
    own, at = distance.argmin(axis=1), np.arange(len(rows))
    moved_away = count[own] / np.maximum(count[own] - weight, NEGLIGIBLE)
    share = distance[at, own] / degrees[own]
    left = np.maximum(1.0 - weight * moved_away * share, NEGLIGIBLE)
    distance[at, own] = np.maximum(degrees[own] - weight, NEGLIGIBLE) * moved_away**2 * share / left
    return np.asarray(distance.min(axis=1))


def features_moved(maps: Whitening | Places, bent: Array, place: Array) -> Array:
    """Move transformed features, NaN = missing, shape (n, p), from the training place to another one."""
    centre = unbend(maps.yeo_johnson, maps.center[None])
    raw = centre + (unbend(maps.yeo_johnson, bent) - centre) * (1.0 + place[1]) + place[0]
    return np.where(place.any(axis=0), bend(maps.yeo_johnson, raw), bent)


def features_unmoved(maps: Whitening | Places, bent: Array, place: Array) -> Array:
    """Move transformed features, NaN = missing, shape (n, p), from a place back to the training place."""
    centre = unbend(maps.yeo_johnson, maps.center[None])
    raw = centre + (unbend(maps.yeo_johnson, bent) - centre - place[0]) / (1.0 + place[1])
    return np.where(place.any(axis=0), bend(maps.yeo_johnson, raw), bent)


def is_shift(maps: Whitening | Places, place: Array) -> bool:
    """Whether a place is the same offset of all whitened rows: no gain, and no feature with a transformation."""
    return not (place[1].any() or place[0, maps.yeo_johnson.columns].any())


def moved(maps: Whitening | Places, rows: Array, place: Array) -> Array:
    """Move numeric whitened rows, shape (n, d), from the training place to another one."""
    if is_shift(maps, place):
        return np.asarray(rows + place[0] @ maps.forward)
    bent = maps.center + rows @ maps.backward
    return np.asarray(rows + (features_moved(maps, bent, place) - bent) @ maps.forward)


def unmoved(maps: Whitening | Places, rows: Array, place: Array) -> Array:
    """Move numeric whitened rows, shape (n, d), from a place back to the training place.

    Features that depend on each other follow from the coordinates of a row before a move, and not after it. So rounds
    of correction find the rows that :func:`moved` takes to the given ones.
    """
    if is_shift(maps, place):
        return np.asarray(rows - place[0] @ maps.forward)

    def by_feature(rows: Array) -> Array:
        bent = maps.center + rows @ maps.backward
        return np.asarray(rows + (features_unmoved(maps, bent, place) - bent) @ maps.forward)

    out = first = by_feature(rows)
    for _ in range(CORRECTIONS if maps.forward.any(axis=1).sum() > rows.shape[1] else 0):
        missed = first - by_feature(moved(maps, out, place))
        out = out + missed
        if np.abs(missed).max(initial=0.0) < EXACT:
            break
    return out


def log_volume(places: Places, rows: WindowRows, place: Array) -> Array:
    """Log of the volume at a place, for a unit of volume at the training place, at each row, shape (n,).

    Features that are functions of each other share their volume. Missing features have none.
    """
    if is_shift(places, place):
        return np.zeros(len(rows.numbers))
    bent = places.center + rows.numbers @ places.backward
    raw, back = (
        slopes(places.yeo_johnson, unbend(places.yeo_johnson, each))
        for each in (bent, features_unmoved(places, bent, place))
    )
    own = (places.forward * places.backward.T).sum(axis=1) * place.any(axis=0)
    return np.asarray(((np.log(raw / back) + np.log1p(place[1])) * own * ~rows.missing).sum(axis=1))


def shift_of(places: Places, place: Array) -> Array:
    """Offset of each transformed feature at the training mean, in standard deviations, shape (p,)."""
    raw = unbend(places.yeo_johnson, places.center[None]) + place[0]
    bent = bend(places.yeo_johnson, raw)[0] - places.center
    return np.asarray(np.where(place[0] != 0.0, bent, 0.0) / places.deviation)


def place_in_deviations(places: Places, place: Array) -> Array:
    """Offset of each feature in standard deviations, and its gain less 1, shape (2, p)."""
    return np.stack([shift_of(places, place), place[1]])


def further(places: Places, place: Array, offset: Array, gain: Array) -> Array:
    """Add an offset and a gain of transformed features, shape (p,), to a place, shape (2, p).

    It is exact at the training mean, and with a gain half a deviation to either side.
    """
    factor, out = 1.0 + place[1], place.copy()
    out[0] += _from_mean(places, places.center + offset) * factor
    at = np.flatnonzero(gain)
    if len(at):
        ends = places.ends + offset + (places.ends - places.center) * gain
        there, before = (_from_mean(places, each)[:, at] for each in (ends, places.ends))
        there = there * factor[at] + place[0, at]
        out[1, at] = np.clip(np.ptp(there, axis=0) / np.ptp(before, axis=0), LEAST_FACTOR, FARTHEST) - 1.0
        out[0, at] = there.mean(axis=0) - (1.0 + out[1, at]) * before.mean(axis=0)
    return bounded(places, out)


def _from_mean(places: Places, bent: Array) -> Array:
    """Difference of transformed features, shape (..., p), from the training mean as raw features."""
    raw = unbend(places.yeo_johnson, np.vstack([places.center, bent]))
    most = FARTHEST * np.ptp(places.raw_ends, axis=0)
    return np.clip(raw[1:] - raw[0], -most, most).reshape(bent.shape)


def bounded(places: Places, place: Array) -> Array:
    """Bound the offsets of a place, shape (2, p)."""
    most = FARTHEST * np.ptp(places.raw_ends, axis=0)
    return np.stack([np.clip(place[0], -most, most), place[1]])


def in_each(places: Places, rows: Array) -> Array:
    """Residuals of numeric rows from each Gaussian, in its whitened coordinates, shape (K, n, d)."""
    return np.asarray(rows @ places.factor - places.whitened[:, None])


def distances(places: Places, residual: Array, move: Array) -> Array:
    """Squared distances to each Gaussian after a move of shape (d,), shape (n, K)."""
    return np.asarray(((residual - (move @ places.factor)[:, None]) ** 2).sum(axis=2).T)


def nearest(places: Places, rows: Array) -> Array:
    """Squared distances of numeric rows, shape (n, d), to the nearest Gaussian at the training place, shape (n,)."""
    return np.asarray(distances(places, in_each(places, rows), np.zeros(rows.shape[1])).min(axis=1))


def is_typical(places: Places, rows: Array) -> Array:
    """Whether numeric rows, shape (n, d), are typical of a known class, shape (n,)."""
    return nearest(places, rows) < places.cut


def split(places: Places, rows: Array) -> tuple[Array, WindowRows]:
    """Split whitened rows into log probabilities of their categories and their numbers.

    Parameters
    ----------
    places
        Known classes.
    rows
        Places of the categories, numbers, and flags of missing features, shape (n, C + d + p). Without flags, shape
        (n, C + d), no value is missing.

    Returns
    -------
    The log probabilities in each Gaussian, less that in all of them together, shape (n, K), and the numbers.
    """
    d = len(places.outlier)
    numbers = np.ascontiguousarray(rows[:, places.columns : places.columns + d])
    category = np.zeros((len(rows), len(places.group)))
    if places.columns:
        log_joint = places.log_values[:, rows[:, : places.columns].astype(np.int64)].sum(axis=2).T
        category = np.ascontiguousarray(log_joint - log_sum(log_joint + places.log_share)[:, None])
    flags = np.zeros((len(rows), len(places.deviation)), bool)
    if rows.shape[1] > places.columns + d:
        flags = rows[:, places.columns + d :] > 0.0
    if not flags.any():
        return category, WindowRows(numbers, flags, np.zeros(0, np.int64), np.zeros((0, d, d)))
    missing = missing_of(places, np.where(flags, np.nan, 0.0))
    lack = np.flatnonzero(missing.pattern != NOTHING)
    basis = missing.basis[missing.pattern[lack]]
    return category, WindowRows(numbers, flags, lack, basis.transpose(0, 2, 1) @ basis)


def returned(places: Places, rows: WindowRows, place: Array) -> Array:
    """Move rows from a place back to the training place, shape (n, d)."""
    numbers = unmoved(places, rows.numbers, place)
    if not len(rows.lack):
        return numbers
    apart = numbers[rows.lack] - places.mean[:, None]
    given = apart - np.einsum("mab,kmb->kma", rows.open, apart)
    own = (given**2).sum(axis=2).argmin(axis=0)
    numbers = numbers.copy()
    numbers[rows.lack] = places.mean[own] + given[own, np.arange(len(own))]
    return numbers


def at_place(
    places: Places, rows: WindowRows, place: Array, category: Array | float = 0.0, residual: Array | None = None
) -> tuple[Array, Array]:
    """Squared distances and log joint densities of rows at a place, both of shape (n, K).

    ``category`` are the log probabilities of the categories (:func:`split`).
    """
    if residual is None or len(rows.lack) or not is_shift(places, place):
        residual, move = in_each(places, returned(places, rows, place)), np.zeros(rows.numbers.shape[1])
    else:
        move = place[0] @ places.forward
    distance = distances(places, residual, move)
    log_joint = places.log_weight + category - 0.5 * distance - log_volume(places, rows, place)[:, None]
    return distance, np.asarray(log_joint)


def log_sum(log_joint: Array) -> Array:
    """Log of the sum over the Gaussians, shape (n,), from log densities of shape (n, K)."""
    peak = log_joint.max(axis=1)
    return np.asarray(peak + np.log(np.exp(log_joint - peak[:, None]).sum(axis=1)))


def outlier_density(places: Places, rows: WindowRows, now: Array) -> Array:
    """Log density of rows under the broad Gaussian at a place, with its weight, shape (n,)."""
    squares = ((returned(places, rows, now) @ places.outlier) ** 2).sum(axis=1)
    log_density = np.log(NO_CLASS) + places.log_outlier - 0.5 * squares - log_volume(places, rows, now)
    return np.asarray(log_density)


def log_likelihood(log_joint: Array, log_outlier: Array) -> Array:
    """Log likelihood of instances by the classes at a place, shape (..., K), or the broad Gaussian, shape (...)."""
    peak = np.maximum(log_joint.max(axis=-1), log_outlier)
    return np.asarray(peak + np.log(np.exp(log_joint - peak[..., None]).sum(axis=-1) + np.exp(log_outlier - peak)))


def log_ratio(places: Places, rows: Array, now: Array, before: Array) -> Array:
    """Log likelihood of each row (:func:`split`) at the place ``now``, less that at ``before``, shape (n,)."""
    category, own = split(places, rows)
    log_outlier, residual = outlier_density(places, own, before), in_each(places, own.numbers)
    there, stay = (at_place(places, own, place, category, residual)[1] for place in (now, before))
    return log_likelihood(there, log_outlier) - log_likelihood(stay, log_outlier)
