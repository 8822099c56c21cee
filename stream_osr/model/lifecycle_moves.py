"""Moves of emerging subclasses between batches: dormant and back, merged, split and gathered.

Dormant subclasses are off the menu, so the sweeps do not visit them. They can return.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model import marginal
from stream_osr.model.dish_statistics import copy_slots, empty_dishes, remove
from stream_osr.model.edit import drop, gather_seats, hold, insert, merge, rename, slot_of, split, tables_of
from stream_osr.model.jit import Array
from stream_osr.model.known import Known
from stream_osr.model.prior import Prior, homogeneous, width_of
from stream_osr.model.restaurants import StreamState
from stream_osr.model.unassigned import Alternatives, UnassignedRows, find_group
from stream_osr.support import rules

LEAST_PART = 4
"""Least number of rows in each part of a split subclass."""


class DormantSubclasses(NamedTuple):
    """K dormant subclasses, which are off the menu and at no cost for the sweeps.

    Attributes
    ----------
    ids
        Identities, shape (K,).
    statistics
        Sufficient statistics of their instances.
    """

    ids: Annotated[Array, rules.array("i", "K", low=0)]
    statistics: Annotated[marginal.Statistics, rules.sizes("K")]


def no_dormant(prior: Prior) -> DormantSubclasses:
    """Make an empty set of dormant subclasses."""
    nobody = np.zeros(0, np.int64)
    return DormantSubclasses(nobody, marginal.statistics_of(empty_dishes(0, prior), nobody))


def make_dormant(
    state: StreamState, dormant: DormantSubclasses, keys: Collection[int]
) -> tuple[StreamState, DormantSubclasses]:
    """Take subclasses without tables off the menu, and keep their statistics."""
    slots = np.array([slot_of(state, key) for key in sorted(keys)], np.int64)
    if not len(slots):
        return state, dormant
    ids = np.concatenate([dormant.ids, state.ids[slots]])
    return drop(state, slots), DormantSubclasses(
        ids, marginal.both(dormant.statistics, marginal.statistics_of(state.dishes, slots))
    )


def only_dormant(dormant: DormantSubclasses, keys: Collection[int]) -> DormantSubclasses:
    """Keep these dormant subclasses and drop the others."""
    kept = np.isin(dormant.ids, list(keys))
    return DormantSubclasses(dormant.ids[kept], marginal.of_slots(dormant.statistics, np.flatnonzero(kept)))


def dormant_statistics(dormant: DormantSubclasses, key: int) -> marginal.Statistics:
    """Return the statistics of one dormant subclass."""
    return marginal.Statistics(*(part[dormant.ids == key] for part in dormant.statistics))


def withdraw_dormant(dormant: DormantSubclasses, key: int, row: Array, prior: Prior) -> DormantSubclasses:
    """Remove one whitened row of shape (d,) from a dormant subclass."""
    dishes = marginal.dishes_of(dormant_statistics(dormant, key), prior)
    remove(dishes, 0, homogeneous(row[None])[0], prior)
    at, statistics = dormant.ids == key, marginal.Statistics(*(v.copy() for v in dormant.statistics))
    for all_of, now in zip(statistics, marginal.statistics_of(dishes, np.zeros(1, np.int64)), strict=True):
        all_of[at] = now
    return dormant._replace(statistics=statistics)


def bring_back(
    state: StreamState, dormant: DormantSubclasses, key: int, into: int | None, prior: Prior
) -> tuple[StreamState, DormantSubclasses]:
    """Return a dormant subclass to the menu under its identity.

    Parameters
    ----------
    key
        Its identity.
    into
        The subclass on the menu that turned out to be the same. The returning subclass receives its instances, tables
        and seats, and its identity ends. ``None``: the subclass returns held and without a table.
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
    """Hold exactly these slots of the menu, shape (K,). Inactive slots without a table become dormant."""
    if active is held and np.array_equal(state.franchise.held[len(state.franchise.held) - len(held) :] > 0.0, held):
        return state, dormant
    off = state.ids[held & ~active & (tables_of(state) == 0)]
    return make_dormant(hold(state, state.ids[held].tolist()), dormant, off.tolist())


def merge_if_same(
    known: Known, state: StreamState, dormant: DormantSubclasses, key: int, may_be: Array
) -> tuple[StreamState, DormantSubclasses, int] | None:
    """Merge a subclass on the menu with the one that it most probably equals, on the menu or dormant, if any.

    The test is the ratio of the marginal likelihoods of both as one and as two. The older identity continues.

    Parameters
    ----------
    known, state, dormant
        Current known classes, state and dormant subclasses. They do not change.
    key
        The subclass.
    may_be
        Candidates. A candidate counts if it has at least as many instances as there are dimensions.

    Returns
    -------
    The state, the dormant subclasses, and the other subclass's identity, or ``None`` if no candidate is the same.
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
    """Split a subclass in two if its rows favour it. Instances that are not given stay with the larger part.

    Parameters
    ----------
    known, state
        Current known classes and state. They do not change.
    key
        The subclass. The smaller part becomes ``state.next_id``.
    rows, seqs
        Its remembered whitened rows, shape (n, d), and their positions in the stream, shape (n,).

    Returns
    -------
    The state, and whether each row is in the smaller part, or ``None`` if the rows stay together.
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
    """State with a gathered subclass: its identity and instances, and the subclasses that ended or lost instances."""

    state: StreamState
    key: int
    core: UnassignedRows
    absorbed: list[int]
    left: list[int]


def gather(
    around: Alternatives, unassigned: UnassignedRows, arrived: Array, announced: Array, independent: float = 1.0
) -> GatheredSubclass | None:
    """Make a subclass of the class hidden among unassigned rows (:func:`find_group`), if there is one.

    Its instances sit in other subclasses or in known classes, or sat in subclasses that have left the model.
    """
    core = find_group(unassigned, arrived, around, announced, independent)
    if core is None:
        return None
    some, state, prior = UnassignedRows(*(part[core] for part in unassigned)), around.state, around.known.prior
    new, parts, gathered = state.next_id, list[int](), GatheredSubclass(state, state.next_id, some, [], [])
    state = state._replace(next_id=new + 1)
    on_menu, known = np.isin(some.seat, state.ids), some.seat < 0
    for key in np.unique(some.seat[on_menu]).tolist():
        own = some.seat == key
        if own.sum() == state.dishes.size[slot_of(state, key)]:
            parts.append(key)
            gathered.absorbed.append(key)
            continue
        parts.append(state.next_id)
        state = split(state, key, some.rows[own], some.seqs[own], prior)
        gathered.left.append(key)
    if known.any():
        own = marginal.dishes_of(marginal.of_rows(homogeneous(some.rows[known]), prior), prior)
        parts.append(state.next_id)
        settled = np.zeros(int(known.sum()))
        state = gather_seats(state, own, some.rows[known], some.seqs[known], some.seat[known], settled, prior)
    gone = ~on_menu & ~known
    if gone.any():
        alone = DormantSubclasses(np.array([new]), marginal.of_rows(homogeneous(some.rows[gone]), prior))
        state, _ = bring_back(state, alone, new, parts[0] if parts else None, prior)
    else:
        state = rename(state, parts[0], new)
    for other in parts[1:]:
        state = merge(state, new, other, prior)
    return gathered._replace(state=state)
