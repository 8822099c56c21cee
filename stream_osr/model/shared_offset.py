"""One offset that all known classes share: an instrument that was moved, another season, another device.

A new class comes beside the known classes, which stay typical at their place. If a shared cause moves the features of
all instances, the known classes leave their place together and are found again at one offset from it. EM fits the
offset to a window of the stream. The known classes compete at their place, at the offset, and with one broad Gaussian
for instances of no known class.

The offset is a vector of transformed features (:mod:`stream_osr.model.whitening`). Features that moved little are set
to zero, and the others are fitted again, so that the offset names the features that moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array
from stream_osr.model.known import Known
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import numbers_of
from stream_osr.model.whitening import Whitening

NO_CLASS = 0.1
"""Prior weight of the broad Gaussian for instances of no known class."""
OUTLIER_SPREAD = 4.0
"""Variance of the broad Gaussian, in variances of the training instances."""
SMALL = 0.25
"""Offset below which a feature counts as not moved, in standard deviations of the feature in training.

It holds for ``WINDOW`` instances, and grows with the standard error of a mean for fewer.
"""
WINDOW = 256
"""Most instances of a window."""
TYPICAL = 0.98
"""Share of the reference instances that are typical of a known class."""
LEAST_THERE, LEAST_GAIN = 0.5, 1.0
"""Least typical share at the offset, and the least gain in log likelihood there, for each instance."""
STAYED = 0.03
"""Largest share of the instances at the place before, among those of a known class at either place."""
CERTAIN, LEAST_CLASS = 0.9, 0.1
"""Responsibility at the offset above which an instance surely belongs to a class, and the least share of such
instances for a class to count. They must be one independent instance or more. At least two classes must be there,
because a single one may be a new class."""
ROUNDS, CONVERGED = 20, 3e-3
"""Most rounds of EM, and the largest change of the last round, in standard deviations of a feature."""
HEATS = (100.0, 10.0, 1.0)
"""Factors of the variances of the classes, one after the other."""


class Places(NamedTuple):
    """Known classes as K Gaussians in d whitened numeric dimensions, for p features.

    Attributes
    ----------
    whitened
        Mean of each Gaussian in its own whitened coordinates, shape (K, d).
    factor
        Factor L of each precision ``L L'``, shape (K, d, d).
    log_weight
        Log weight and half the log determinant of the precision, shape (K,).
    group
        Class of each Gaussian, shape (K,).
    outlier, log_outlier
        Factor of the precision of the broad Gaussian, shape (d, d), and half its log determinant.
    forward
        Whitened coordinates of a unit of each feature, shape (p, d).
    deviation
        Standard deviation of each transformed feature in training, shape (p,).
    cut
        Squared distance to the nearest Gaussian within which an instance is typical.
    """

    whitened: Array
    factor: Array
    log_weight: Array
    group: Array
    outlier: Array
    log_outlier: float
    forward: Array
    deviation: Array
    cut: float


class SharedOffset(NamedTuple):
    """One offset of all known classes, fitted to a window.

    Attributes
    ----------
    offset, now
        Offset of each transformed feature, and the present one, shape (p,).
    before, after
        Share of the instances that are typical of a known class at the place before, and at the offset.
    gain
        Mean log likelihood of an instance at the offset, less that at the place before.
    stayed
        Share of the instances at the place before, among those of a known class at either place.
    classes
        Number of classes at the offset.
    """

    offset: Array
    now: Array
    before: float
    after: float
    gain: float
    stayed: float
    classes: int

    @property
    def has_moved(self) -> bool:
        """Whether the known classes have moved together by the offset."""
        return bool(
            (self.offset != self.now).any()
            and self.after >= LEAST_THERE
            and self.gain >= LEAST_GAIN
            and self.stayed < STAYED
            and self.classes >= 2
        )


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
    factor = np.linalg.cholesky(np.linalg.inv(covariance))
    centre = share @ mean
    total = np.tensordot(share, covariance, axes=1) + (share * (mean - centre).T) @ (mean - centre)
    outlier = np.linalg.cholesky(np.linalg.inv(OUTLIER_SPREAD * total))
    deviation = np.sqrt((whitening.backward * (total @ whitening.backward)).sum(axis=0))
    log_det = np.log(np.einsum("kaa->ka", factor)).sum(axis=1)
    places = Places(
        np.einsum("ka,kab->kb", mean, factor),
        factor,
        np.log(share) + log_det,
        group,
        outlier,
        float(np.log(np.diag(outlier)).sum()),
        whitening.forward,
        np.where(whitening.forward.any(axis=1), deviation, np.inf),
        np.inf,
    )
    nearest = _distances(places, _in_each(places, numbers_of(references, known.prior)), centre * 0.0).min(axis=1)
    return places._replace(cut=float(np.quantile(nearest, TYPICAL)))


def _in_each(places: Places, rows: Array) -> Array:
    """Residuals of numeric rows from each Gaussian, in its whitened coordinates, shape (K, n, d)."""
    return np.asarray(rows @ places.factor - places.whitened[:, None])


def _distances(places: Places, residual: Array, move: Array) -> Array:
    """Squared distances to each Gaussian after a move of shape (d,), shape (n, K)."""
    return np.asarray(((residual - (move @ places.factor)[:, None]) ** 2).sum(axis=2).T)


def _fit(
    places: Places,
    residual: Array,
    stay: Array,
    log_outlier: Array,
    offset: Array,
    free: Array,
    heats: Sequence[float],
) -> Array:
    """Fit the offset of the free features by EM, shape (p,).

    The variances of the classes are multiplied by each of ``heats`` in turn, so that the classes find instances that
    are far from the first offset. In the last round, instances that are not typical at the offset do not count.
    """
    unit = places.forward[free] * places.deviation[free, None]  # one standard deviation of each free feature
    offset, d = offset.copy(), residual.shape[2]
    precision = places.factor @ places.factor.transpose(0, 2, 1)
    for heat in heats:
        volume = 0.5 * d * np.log(heat)
        for _ in range(ROUNDS):
            distance = _distances(places, residual, offset @ places.forward)
            share = _responsibilities(places.log_weight - volume - 0.5 * distance / heat, stay, log_outlier)
            if heat == 1.0:
                share *= (distance.min(axis=1) < places.cut)[:, None]
            weight = np.tensordot(share.sum(axis=0), precision, axes=1)
            target = np.einsum("kb,kab->a", np.einsum("nk,knb->kb", share, residual), places.factor)
            normal = unit @ weight @ unit.T
            step = np.linalg.solve(normal + np.eye(len(normal)), unit @ target)
            change = np.abs(step - (offset / places.deviation)[free]).max(initial=0.0)
            offset = np.zeros_like(offset)
            offset[free] = step * places.deviation[free]
            if change < CONVERGED:
                break
    return offset


def _responsibilities(there: Array, stay: Array, log_outlier: Array) -> Array:
    """Responsibilities of the classes at the offset, beside those at the place before, shape (n, K)."""
    peak = np.maximum(np.maximum(there.max(axis=1), stay.max(axis=1)), log_outlier)[:, None]
    at_offset, at_place = np.exp(there - peak), np.exp(stay - peak).sum(axis=1)
    total = at_offset.sum(axis=1) + at_place + np.exp(log_outlier - peak[:, 0])
    return np.asarray(at_offset / total[:, None])


def _log_sum(log_joint: Array) -> Array:
    return np.asarray(np.logaddexp.reduce(log_joint, axis=1))


def _stayed(there: Array, stay: Array, log_outlier: Array) -> float:
    """Estimate the share at the place before, among instances of a known class, by EM for both shares."""
    log_joint, log_share = np.stack([there, stay, log_outlier]), np.zeros((3, 1))
    for _ in range(ROUNDS):
        whole = log_joint + log_share
        responsible = np.exp(whole - np.logaddexp.reduce(whole, axis=0)).mean(axis=1)
        log_share = np.log(np.maximum(responsible, 1e-12))[:, None]
        log_share[2] -= np.log(NO_CLASS)  # which the density has already
    return float(responsible[1] / max(responsible[0] + responsible[1], 1e-300))


def _log_outlier(places: Places, rows: Array) -> Array:
    """Log density of numeric rows under the broad Gaussian, with its weight, shape (n,)."""
    return np.asarray(np.log(NO_CLASS) + places.log_outlier - 0.5 * ((rows @ places.outlier) ** 2).sum(axis=1))


def _log_likelihood(log_joint: Array, log_outlier: Array) -> Array:
    """Log likelihood of each instance, by the classes at one place or by the broad Gaussian, shape (n,)."""
    peak = np.maximum(log_joint.max(axis=1), log_outlier)
    return np.asarray(peak + np.log(np.exp(log_joint - peak[:, None]).sum(axis=1) + np.exp(log_outlier - peak)))


def find_shared_offset(
    places: Places, rows: Array, now: Array, independent: float = 1.0, *, track: bool = False
) -> SharedOffset:
    """Fit one offset of all known classes to a window of the stream.

    Parameters
    ----------
    places
        Known classes.
    rows
        Numeric whitened rows, shape (n, d).
    now
        Present offset of the transformed features, shape (p,): zero at the training place.
    independent
        Number of independent instances with the information of one row.
    track
        Whether to begin at the present offset alone.

    Returns
    -------
    The offset from the training place. "Before" refers to the present offset.
    """
    here = now @ places.forward
    residual, log_outlier = _in_each(places, rows), _log_outlier(places, rows - here)
    free, none = np.isfinite(places.deviation), np.zeros(rows.shape[1])
    unit = np.where(free, places.deviation, 0.0)[:, None] * places.forward
    place = residual - (here @ places.factor)[:, None]
    stay = places.log_weight - 0.5 * _distances(places, place, none)
    before = _distances(places, place, none).min(axis=1) < places.cut
    least = SMALL * np.sqrt(max(1.0, WINDOW / len(rows)))
    starts = [here] if track else [rows.mean(axis=0), np.median(rows, axis=0), none]
    others = np.full_like(stay, -np.inf) if track else stay  # an offset that is followed does not compete with itself
    found = list[SharedOffset]()
    for start in starts:
        begin = unit[:, 0] * 0.0
        begin[free] = places.deviation[free] * (np.linalg.lstsq(unit.T, start, rcond=None)[0])[free]
        offset = _fit(places, residual, others, log_outlier, begin, free, HEATS[-1:] if track else HEATS)
        moved = free & (np.abs(offset) > least * places.deviation)
        offset = _fit(places, residual, others, log_outlier, np.where(moved, offset, 0.0), moved, HEATS[-1:])
        distance = _distances(places, residual, offset @ places.forward)
        there = places.log_weight - 0.5 * distance
        share = _responsibilities(there, stay, log_outlier)
        of_class = np.stack([share[:, places.group == j].sum(axis=1) for j in np.unique(places.group)], axis=1)
        surely = np.where(of_class > CERTAIN, 1.0, 0.0).sum(axis=0)
        found.append(
            SharedOffset(
                offset,
                now,
                float(before.mean()),
                float((distance.min(axis=1) < places.cut).mean()),
                float((_log_likelihood(there, log_outlier) - _log_likelihood(stay, log_outlier)).mean()),
                _stayed(_log_sum(there), _log_sum(stay), log_outlier),
                int((surely > max(LEAST_CLASS * len(rows), 1.0 / independent)).sum()),
            )
        )
    return max(found, key=lambda each: each.after)


def is_typical(places: Places, rows: Array) -> Array:
    """Whether numeric rows, shape (n, d), are typical of a known class, shape (n,)."""
    nothing = np.zeros(rows.shape[1])
    return np.asarray(_distances(places, _in_each(places, rows), nothing).min(axis=1) < places.cut)


def log_ratio(places: Places, rows: Array, now: Array, before: Array) -> Array:
    """Return the log likelihood of each numeric row at the offset ``now``, less that at ``before``, shape (n,)."""
    log_outlier, residual = _log_outlier(places, rows - before @ places.forward), _in_each(places, rows)
    gain = np.zeros(len(rows))
    for sign, offset in ((1.0, now), (-1.0, before)):
        there = places.log_weight - 0.5 * _distances(places, residual, offset @ places.forward)
        gain += sign * _log_likelihood(there, log_outlier)
    return gain
