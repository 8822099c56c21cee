"""What an emerging subclass is like, in the caller's units and beside the nearest known subclass."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from stream_osr.discovery.events import Explanation, Movement
from stream_osr.discovery.lifecycle import EXEMPLARS
from stream_osr.discovery.reservoir import Reservoir
from stream_osr.model.dishes import Dishes, copy_slots, means_and_scales
from stream_osr.model.known import Densities, Known
from stream_osr.model.nearest import beside, by_distance
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
    (near, owner, distance, _), *told = beside(dishes, slot, known, frozen, space)
    mean, difference, shift = _by_name(names, *told)
    moved = tuple(names[at] for at in np.argsort(-np.abs(told[-1]), kind="stable")[:MOST_MOVED])
    return Explanation(mean, difference, shift, moved, labels[owner], int(known.ids[near]), distance)


def exemplars(dishes: Dishes, slot: int, kept: Reservoir, known: Known) -> tuple[Any, ...]:
    """Name the most typical of the rows that are kept of the subclass in ``slot``: those nearest to its mean."""
    if not len(kept.seq):
        return ()
    return tuple(kept.keys[at] for at in by_distance(dishes, slot, kept.rows, known)[:EXEMPLARS])


def explain_move(mean: np.ndarray, j: int, known: Known, space: Space, names: Sequence[Hashable]) -> Movement:
    """Describe how known class ``j`` has moved to a mean of whitened rows of shape (d,) (see :class:`Movement`)."""
    members = np.flatnonzero(known.seated[j] > 0)
    share = known.seated[j, members] / known.seated[j, members].sum()
    means, covariances = means_and_scales(copy_slots(known.dishes, members, len(members)), known.prior)
    centre = share @ means
    covariance = np.tensordot(share, covariances, axes=1) + (share * (means - centre).T) @ (means - centre)
    difference = (mean - centre) @ space.backward
    shift = difference / np.maximum(raw_scale(space, covariance), 1e-300)
    return Movement(*_by_name(names, *unwhiten(space, np.array([mean, centre])), shift))


def _by_name(names: Sequence[Hashable], *told: np.ndarray) -> list[dict[Hashable, float]]:
    return [dict(zip(names, values.tolist(), strict=True)) for values in told]
