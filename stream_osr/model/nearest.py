"""What a subclass lies beside: the known subclass nearest to it, and which rows are most typical of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.dishes import Dishes, copy_slots, mahalanobis_each, means_and_scales, typical_rows
from stream_osr.model.known import Densities, Known
from stream_osr.model.prior import homogeneous
from stream_osr.model.space import Space, raw_scale, unwhiten


class Nearest(NamedTuple):
    """The known subclass nearest to an emerging one.

    Attributes
    ----------
    subclass
        Its position in :class:`stream_osr.model.known.Known`.
    owner
        Number of its class.
    distance
        Mahalanobis distance of the mean from it, in standard deviations of its predictive.
    mean
        Posterior mean of the emerging subclass, whitened, without categories, shape (1, d).
    """

    subclass: int
    owner: int
    distance: float
    mean: np.ndarray


def nearest_known(dishes: Dishes, slot: int, known: Known, frozen: Densities) -> Nearest:
    """Find the known subclass nearest to the one in ``slot`` of ``dishes``, among those that count."""
    typical = typical_rows(copy_slots(dishes, np.array([slot]), 1), known.prior)
    row, mean = homogeneous(typical)[0], typical[:, len(known.prior.first) :]
    each = np.arange(len(known.ids))
    distances = mahalanobis_each(known.dishes, each, np.tile(row, (len(each), 1)), known.prior)
    kept = np.isfinite(frozen.log_weight).any(axis=0)
    near = int(np.argmin(np.where(kept, distances, np.inf)))
    return Nearest(near, int(np.argmax(known.seated[:, near])), float(distances[near]), mean)


class Beside(NamedTuple):
    """A subclass beside the nearest known one, in the caller's units.

    Attributes
    ----------
    near
        The nearest known one.
    mean, difference, shift
        Mean of the subclass, how far that is from the other's, and that in its standard deviations, shape (p,).
    """

    near: Nearest
    mean: np.ndarray
    difference: np.ndarray
    shift: np.ndarray


def beside(dishes: Dishes, slot: int, known: Known, frozen: Densities, space: Space) -> Beside:
    """Compare the subclass in ``slot`` of ``dishes`` with the nearest known one."""
    near = nearest_known(dishes, slot, known, frozen)
    at = copy_slots(known.dishes, np.array([near.subclass]), 1)
    near_mean, near_covariance = means_and_scales(at, known.prior)
    difference = ((near.mean - near_mean) @ space.backward)[0]  # of the raw means it would drown in a large centre
    shift = difference / np.maximum(raw_scale(space, near_covariance[0]), 1e-300)
    return Beside(near, unwhiten(space, near.mean)[0], difference, shift)


def by_distance(dishes: Dishes, slot: int, rows: np.ndarray, known: Known) -> np.ndarray:
    """Order whitened rows, shape (n, C + d), by their distance from the subclass in ``slot``, shape (n,)."""
    distances = mahalanobis_each(dishes, np.full(len(rows), slot), homogeneous(rows), known.prior)
    return np.argsort(distances, kind="stable")
