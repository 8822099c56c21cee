"""Moves of emerging subclasses between batches: dormant and back, merged, split and gathered. A door for each.

Those that are set aside are off the menu, where they cost the sweeps nothing, and can be brought back.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from stream_osr.model import marginal
from stream_osr.model.dishes import copy_slots, empty_dishes, remove
from stream_osr.model.edit import drop, hold, insert, merge, rename, slot_of, split, tables_of
from stream_osr.model.franchise import StreamState
from stream_osr.model.jit import Array
from stream_osr.model.known import Known
from stream_osr.model.prior import Prior, homogeneous, width_of
from stream_osr.model.unassigned import Alternatives, UnassignedRows, find_group

LEAST_PART = 4
"""Rows that each part of a subclass must have for it to be parted."""


class DormantSubclasses(NamedTuple):
    """Subclasses that are kept off the menu: K of them, at no cost for the sweeps.

    Attributes
    ----------
    ids
        Identities, shape (K,).
    statistics
        What sums up their instances.
    """

    ids: Array
    statistics: marginal.Statistics


def no_dormant(prior: Prior) -> DormantSubclasses:
    """Begin with none."""
    nobody = np.zeros(0, np.int64)
    return DormantSubclasses(nobody, marginal.statistics_of(empty_dishes(0, prior), nobody))


def make_dormant(
    state: StreamState, dormant: DormantSubclasses, keys: Collection[int]
) -> tuple[StreamState, DormantSubclasses]:
    """Take subclasses that no table serves off the menu, and keep their statistics."""
    slots = np.array([slot_of(state, key) for key in sorted(keys)], np.int64)
    if not len(slots):
        return state, dormant
    ids = np.concatenate([dormant.ids, state.ids[slots]])
    return drop(state, slots), DormantSubclasses(
        ids, marginal.both(dormant.statistics, marginal.statistics_of(state.dishes, slots))
    )


def only_dormant(dormant: DormantSubclasses, keys: Collection[int]) -> DormantSubclasses:
    """Keep these of the subclasses set aside, and drop the others."""
    kept = np.isin(dormant.ids, list(keys))
    return DormantSubclasses(dormant.ids[kept], marginal.of_slots(dormant.statistics, np.flatnonzero(kept)))


def dormant_statistics(dormant: DormantSubclasses, key: int) -> marginal.Statistics:
    """Return the statistics of one subclass that was set aside."""
    return marginal.Statistics(*(part[dormant.ids == key] for part in dormant.statistics))


def withdraw_dormant(dormant: DormantSubclasses, key: int, row: Array, prior: Prior) -> DormantSubclasses:
    """Take one whitened row of shape (d,) out of a subclass that was set aside."""
    dishes = marginal.dishes_of(dormant_statistics(dormant, key), prior)
    remove(dishes, 0, homogeneous(row[None])[0], prior)
    at, statistics = dormant.ids == key, marginal.Statistics(*(v.copy() for v in dormant.statistics))
    for all_of, now in zip(statistics, marginal.statistics_of(dishes, np.zeros(1, np.int64)), strict=True):
        all_of[at] = now
    return dormant._replace(statistics=statistics)


def bring_back(
    state: StreamState, dormant: DormantSubclasses, key: int, into: int | None, prior: Prior
) -> tuple[StreamState, DormantSubclasses]:
    """Put a subclass that was set aside on the menu again, under its identity.

    Parameters
    ----------
    key
        Its identity.
    into
        The subclass on the menu that has turned out to be the same: its instances, tables and seats are taken over,
        its identity ends. ``None``: there is none, it comes back with nobody at a table, held.
    """
    left = only_dormant(dormant, set(dormant.ids.tolist()) - {key})
    if into is None:
        return insert(state, key, marginal.dishes_of(dormant_statistics(dormant, key), prior)), left
    dishes = copy_slots(state.dishes, np.arange(len(state.ids)), len(state.ids))
    marginal.add_statistics(dishes, slot_of(state, into), dormant_statistics(dormant, key), prior)
    return rename(state._replace(dishes=dishes), into, key), left


def bound(
    state: StreamState, dormant: DormantSubclasses, held: Array, active: Array
) -> tuple[StreamState, DormantSubclasses]:
    """Hold exactly these slots of the menu, shape (K,); set those aside that are not active and have no table."""
    if active is held and np.array_equal(state.franchise.held[len(state.franchise.held) - len(held) :] > 0.0, held):
        return state, dormant
    off = state.ids[held & ~active & (tables_of(state) == 0)]
    return make_dormant(hold(state, state.ids[held].tolist()), dormant, off.tolist())


def merge_if_same(
    known: Known, state: StreamState, dormant: DormantSubclasses, key: int, may_be: Array
) -> tuple[StreamState, DormantSubclasses, int] | None:
    """Join a subclass on the menu with the one that it is most probably the same as, on the menu or aside, if any.

    The test is the ratio of the marginal likelihoods of both as one and as two. The older identity goes on.

    Parameters
    ----------
    known, state, dormant
        As they are; they stay so.
    key
        The subclass.
    may_be
        Those that it may be the same as, if they have as many instances as there are dimensions.

    Returns
    -------
    The state, those aside, and the other one's identity; ``None``: it is the same as no other.
    """
    prior, own = known.prior, slot_of(state, key)

    def of(ids: Array, size: Array) -> Array:
        return np.flatnonzero((ids != key) & (size >= width_of(prior)) & (ids[:, None] == may_be).any(axis=1))

    others, there = of(state.ids, state.dishes.size), of(dormant.ids, dormant.statistics.size)
    if not len(others) + len(there):
        return None
    compared = marginal.both(
        marginal.statistics_of(state.dishes, others), marginal.of_slots(dormant.statistics, there)
    )
    ratios = marginal.log_ratios_together(
        marginal.statistics_of(state.dishes, np.array([own])), compared, prior, known.location
    )
    best = int(ratios.argmax())
    if ratios[best] <= 0.0:
        return None
    if best < len(others):
        other = int(state.ids[others[best]])
        return merge(state, min(key, other), max(key, other), prior), dormant, other
    other = int(dormant.ids[there[best - len(others)]])
    state, dormant = bring_back(state, dormant, other, key, prior)
    return rename(state, other, min(key, other)), dormant, other


def split_if_two(
    known: Known, state: StreamState, key: int, rows: Array, seqs: Array
) -> tuple[StreamState, Array] | None:
    """Part a subclass in two if its rows say so; those that are not given stay with the larger part.

    Parameters
    ----------
    known, state
        As they are; they stay so.
    key
        The subclass; the smaller part is ``state.next_id``.
    rows, seqs
        Whitened rows that are remembered of it, shape (n, d), and their positions in the stream, shape (n,).

    Returns
    -------
    The state, and whether each row is in the smaller part; ``None``: they stay together.
    """
    smaller = marginal.split_test(
        homogeneous(rows), float(state.franchise.alpha[0]), LEAST_PART, known.prior, known.location
    )
    if smaller is None:
        return None
    held = state.ids[state.franchise.held[-len(state.ids) :] > 0.0].tolist()
    state = hold(state, {*held, key})  # all of its tables may go with the smaller part
    return split(state, key, rows[smaller], seqs[smaller], known.prior), smaller


class GatheredSubclass(NamedTuple):
    """A state with a subclass gathered from others: its identity, its instances, who ended in it, who lost some."""

    state: StreamState
    key: int
    core: UnassignedRows
    absorbed: list[int]
    left: list[int]


def gather(
    around: Alternatives, unassigned: UnassignedRows, arrived: Array, announced: Array
) -> GatheredSubclass | None:
    """Make a subclass of the class that is hidden among strangers (:func:`find_group`), if there is one.

    Its instances sit in other subclasses, or sat in some that have left the model.
    """
    core = find_group(unassigned, arrived, around, announced)
    if core is None:
        return None
    some, state, prior = UnassignedRows(*(part[core] for part in unassigned)), around.state, around.known.prior
    new, parts, gathered = state.next_id, list[int](), GatheredSubclass(state, state.next_id, some, [], [])
    state = state._replace(next_id=new + 1)
    on_menu = np.isin(some.seat, state.ids)
    for key in np.unique(some.seat[on_menu]).tolist():
        own = some.seat == key
        if own.sum() == state.dishes.size[slot_of(state, key)]:
            parts.append(key)
            gathered.absorbed.append(key)
            continue
        parts.append(state.next_id)
        state = split(state, key, some.rows[own], some.seqs[own], prior)
        gathered.left.append(key)
    if (~on_menu).any():
        alone = DormantSubclasses(np.array([new]), marginal.of_rows(homogeneous(some.rows[~on_menu]), prior))
        state, _ = bring_back(state, alone, new, parts[0] if parts else None, prior)
    else:
        state = rename(state, parts[0], new)
    for other in parts[1:]:
        state = merge(state, new, other, prior)
    return gathered._replace(state=state)
