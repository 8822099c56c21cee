"""What an emerging subclass is like, in the caller's units and beside the nearest known subclass."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.events import Explanation, Movement
from stream_osr.discovery.lifecycle import EXEMPLARS
from stream_osr.discovery.reservoir import Reservoir
from stream_osr.model.dishes import Dishes, copy_slots, mahalanobis_each, means_and_scales
from stream_osr.model.known import Densities, Known
from stream_osr.model.prior import homogeneous
from stream_osr.model.space import Space, raw_scale, unwhiten

MOST_MOVED = 5
"""Features that are named as the ones that moved most."""


def explain(
    dishes: Dishes,
    slot: int,
    known: Known,
    frozen: Densities,
    space: Space,
    names: Sequence[Hashable],
    labels: Sequence[Any],
) -> Explanation:
    """Describe the subclass in ``slot`` of ``dishes`` (see :class:`Explanation`)."""
    near, owner, distance, mean = nearest_known(dishes, slot, known, frozen)
    near_mean, near_covariance = means_and_scales(copy_slots(known.dishes, np.array([near]), 1), known.prior)
    raw = unwhiten(space, mean)[0]
    difference = ((mean - near_mean) @ space.backward)[0]  # of the raw means it would drown in a large centre
    shift = difference / np.maximum(raw_scale(space, near_covariance[0]), 1e-300)
    return Explanation(
        mean=dict(zip(names, raw.tolist(), strict=True)),
        difference=dict(zip(names, difference.tolist(), strict=True)),
        shift=dict(zip(names, shift.tolist(), strict=True)),
        most_moved=tuple(names[at] for at in np.argsort(-np.abs(shift), kind="stable")[:MOST_MOVED]),
        nearest_class=labels[owner],
        nearest_subclass=int(known.ids[near]),
        distance=distance,
    )


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
        Posterior mean of the emerging subclass, whitened, shape (1, d).
    """

    subclass: int
    owner: int
    distance: float
    mean: np.ndarray


def nearest_known(dishes: Dishes, slot: int, known: Known, frozen: Densities) -> Nearest:
    """Find the known subclass nearest to the one in ``slot`` of ``dishes``, among those that count."""
    mean, _ = means_and_scales(copy_slots(dishes, np.array([slot]), 1), known.prior)
    row = homogeneous(mean)[0]
    each = np.arange(len(known.ids))
    distances = mahalanobis_each(known.dishes, each, np.tile(row, (len(each), 1)), known.prior)
    kept = np.isfinite(frozen.log_weight).any(axis=0)
    near = int(np.argmin(np.where(kept, distances, np.inf)))
    return Nearest(near, int(np.argmax(known.seated[:, near])), float(distances[near]), mean)


def exemplars(dishes: Dishes, slot: int, kept: Reservoir, known: Known) -> tuple[Any, ...]:
    """Name the most typical of the rows that are kept of the subclass in ``slot``: those nearest to its mean."""
    count = len(kept.seq)
    if not count:
        return ()
    distances = mahalanobis_each(dishes, np.full(count, slot), homogeneous(kept.rows), known.prior)
    return tuple(kept.keys[at] for at in np.argsort(distances, kind="stable")[:EXEMPLARS])


def explain_move(mean: np.ndarray, j: int, known: Known, space: Space, names: Sequence[Hashable]) -> Movement:
    """Describe how known class ``j`` has moved to a mean of whitened rows of shape (d,) (see :class:`Movement`)."""
    members = np.flatnonzero(known.seated[j] > 0)
    share = known.seated[j, members] / known.seated[j, members].sum()
    means, covariances = means_and_scales(copy_slots(known.dishes, members, len(members)), known.prior)
    centre = share @ means
    covariance = np.tensordot(share, covariances, axes=1) + (share * (means - centre).T) @ (means - centre)
    difference = (mean - centre) @ space.backward
    shift = difference / np.maximum(raw_scale(space, covariance), 1e-300)
    raw, trained = unwhiten(space, np.array([mean, centre]))
    return Movement(*(dict(zip(names, values.tolist(), strict=True)) for values in (raw, trained, shift)))
