"""Positions of subclasses: means, covariances, the nearest known subclass, typical rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.dish_statistics import Dishes, copy_slots, mahalanobis, mahalanobis_each
from stream_osr.model.feature_space.whitening import Whitening, in_deviations, raw_difference, unwhiten
from stream_osr.model.jit import Array, kernel
from stream_osr.model.known import Densities, Known
from stream_osr.model.prior import Prior, homogeneous


def typical_rows(dishes: Dishes, prior: Prior) -> Array:
    """Posterior mean of each subclass, preceded by the commonest value of each category, shape (K, C + d)."""
    means = means_and_scales(dishes, prior)[0]
    if not len(prior.first):
        return means
    shares = np.split(dishes.counts + prior.pseudo, prior.first[1:], axis=1)
    values = [1 + first + own[:, 1:].argmax(axis=1) for first, own in zip(prior.first, shares, strict=True)]
    return np.column_stack([*values, means])


@kernel
def means_and_scales(dishes: Dishes, prior: Prior) -> tuple[Array, Array]:
    """Posterior mean and posterior mean covariance of each subclass, shapes (K, d) and (K, d, d)."""
    count, d = dishes.size.shape[0], prior.n_features
    means = np.zeros((count, d))
    covariances = np.zeros((count, d, d))
    for k in range(count):
        r, df = prior.beta + dishes.size[k], max(prior.nu + dishes.size[k] - d - 1.0, 1.0)
        for a in range(d):
            means[k, a] = dishes.matrix[k, d, a] / r
        for a in range(d):
            for b in range(d):
                covariances[k, a, b] = (dishes.matrix[k, a, b] - r * means[k, a] * means[k, b]) / df
    return means, covariances


class Nearest(NamedTuple):
    """The known subclass nearest to an emerging one.

    Attributes
    ----------
    subclass
        Its position in :class:`stream_osr.model.known.Known`.
    owner
        Number of the class it belongs to.
    distance
        Mahalanobis distance of the emerging subclass's mean from it, in standard deviations of the predictive.
    mean
        Posterior mean of the emerging subclass, whitened, without categories, shape (1, d).
    """

    subclass: int
    owner: int
    distance: float
    mean: Array


def nearest_known(dishes: Dishes, slot: int, known: Known, frozen: Densities) -> Nearest:
    """Find the known subclass nearest to the one in ``slot`` of ``dishes``. Dropped subclasses do not count."""
    return _compare(dishes, slot, known, frozen)[0]


def _compare(dishes: Dishes, slot: int, known: Known, frozen: Densities) -> tuple[Nearest, Array, Array]:
    """Find the known subclass nearest to one, with its mean, shape (d,), and mean covariance, shape (d, d)."""
    prior = known.prior
    typical = typical_rows(copy_slots(dishes, np.array([slot]), 1), prior)
    at, distance, mean, covariance = _find(homogeneous(typical)[0], known.dishes, frozen.log_weight, prior)
    owner = int(np.argmax(known.seated[:, at]))
    return Nearest(at, owner, distance, typical[:, len(prior.first) :]), mean, covariance


@kernel
def _find(row: Array, known: Dishes, log_weight: Array, prior: Prior) -> tuple[int, float, Array, Array]:
    """Find the known subclass nearest to a homogeneous row, among those with a weight in some class.

    Returns
    -------
    Its slot, the distance, its mean, shape (d,), and mean covariance, shape (d, d).
    """
    near, least = 0, np.inf
    for k in range(log_weight.shape[1]):
        if log_weight[:, k].max() == -np.inf:
            continue
        distance = mahalanobis(known, k, row, prior)
        if distance < least:
            near, least = k, distance
    means, covariances = means_and_scales(copy_slots(known, np.array([near]), 1), prior)
    return near, least, means[0], covariances[0]


class Beside(NamedTuple):
    """A subclass compared with the nearest known one, in the caller's units.

    Attributes
    ----------
    near
        The nearest known subclass.
    mean, difference, shift
        Mean of the subclass, its difference from the other's, and that difference in the other's standard deviations,
        shape (p,).
    """

    near: Nearest
    mean: Array
    difference: Array
    shift: Array


def beside(dishes: Dishes, slot: int, known: Known, frozen: Densities, whitening: Whitening) -> Beside:
    """Compare the subclass in ``slot`` of ``dishes`` with the nearest known one."""
    near, theirs, covariance = _compare(dishes, slot, known, frozen)
    mean = near.mean[0]
    shift = in_deviations(whitening, mean, theirs, covariance)
    return Beside(near, unwhiten(whitening, near.mean)[0], raw_difference(whitening, mean, theirs), shift)


def by_distance(dishes: Dishes, slot: int, rows: Array, known: Known) -> Array:
    """Order whitened rows, shape (n, C + d), by their distance from the subclass in ``slot``, shape (n,)."""
    distances = mahalanobis_each(dishes, np.full(len(rows), slot), homogeneous(rows), known.prior)
    return np.argsort(distances, kind="stable")
