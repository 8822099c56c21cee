"""Edits of the stream's state between two batches.

They merge, split, hold and drop subclasses, and they add and remove seats. Tables and the hold marks are the primary
data. Each function updates these, and :func:`derive` computes the rest. Functions take a state and return the next
one. They move statistics and never estimate them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stream_osr.model.dish_statistics import Dishes, add, concatenated, copy_slots, empty_dishes, remove, settle
from stream_osr.model.jit import Array
from stream_osr.model.marginal import add_statistics, of_nobody, statistics_of
from stream_osr.model.prior import Prior, homogeneous, same_prior
from stream_osr.model.restaurants import CLOSED, Franchise, Guests, StreamState, derive, leave
from stream_osr.support import rules

Arrays = TypeVar("Arrays", Franchise, Dishes)


class Seat(NamedTuple):
    """Seat of one instance of the stream.

    Attributes
    ----------
    subclass
        Identity of the emerging subclass of the instance, -1 if none.
    j
        Number of the known class at whose table the instance sits, -1 if none or if the class is no longer known.
    weight
        Weight of the seat.
    live
        Whether the instance can still be re-seated.
    alone
        Whether the instance is the only one at its table.
    """

    subclass: rules.Position
    j: rules.Position
    weight: rules.Share
    live: bool
    alone: bool


# Queries


def classes_of(state: StreamState) -> int:
    """Count the known classes: their dishes are the first ones."""
    return len(state.franchise.menu) - len(state.ids)


def slot_of(state: StreamState, key: int) -> int:
    """Find the slot of a subclass that is on the menu."""
    return int(np.flatnonzero(state.ids == key)[0])


def tables_of(state: StreamState) -> Array:
    """Count the tables that serve each emerging subclass, shape (K,)."""
    return np.asarray(state.franchise.menu[classes_of(state) :])


def seat_of(state: StreamState, seq: int, subclass: int, weight: float) -> Seat:
    """Find the seat of the instance at position ``seq``.

    Parameters
    ----------
    state
        Current state.
    seq
        Position in the stream.
    subclass
        Identity of the emerging subclass that holds it, or -1.
    weight
        Weight of the seat if it has left the window.
    """
    tables, n_classes = state.franchise, classes_of(state)
    here, slot = np.flatnonzero(state.window_seq == seq), np.flatnonzero(state.ids == subclass)
    emerging = subclass if len(slot) else -1
    if len(here):
        table = int(state.window.table[here[0]])
        dish = int(tables.table_dish[table])
        alone = bool(tables.table_live[table] == 1 and tables.table_residual[table] == 0.0)
        own = float(tables.table_mass[table] if alone else state.window.weight[here[0]])
        return Seat(emerging, dish if dish < n_classes else -1, own, live=True, alone=alone)
    residual = tables.table_residual[np.isin(tables.table_dish, n_classes + slot)]
    return Seat(emerging, -1, float(min(weight, residual.max(initial=0.0))), live=False, alone=False)


# Tables and hold marks


def rewrite(state: StreamState, tables: Franchise, trained: Array | None = None, **parts: Any) -> StreamState:
    """Replace the tables and the hold marks, and derive the other counts again.

    Parameters
    ----------
    state
        Current state. It does not change.
    tables
        New tables and hold marks. Its other fields are ignored.
    trained
        Tables of the known classes that come from training. ``None``: unchanged.
    parts
        Other fields of the state to replace.
    """
    if trained is None:
        old, n_classes = state.franchise, classes_of(state)
        trained = old.menu[:n_classes] - np.bincount(old.table_dish, minlength=n_classes)[:n_classes]
    return derive(state._replace(franchise=tables, **parts), trained)


def renumber(state: StreamState, number: Array, held: Array, trained: Array, **parts: Any) -> StreamState:
    """Renumber all dishes, together with their tables. Several dishes may get the same number.

    Parameters
    ----------
    state
        Current state. It does not change.
    number
        New number of each dish, or ``CLOSED`` to drop its tables, shape (J + K,).
    held
        Hold marks of the new dishes.
    trained, parts
        As for :func:`rewrite`.
    """
    tables = state.franchise._replace(held=held, table_dish=number[state.franchise.table_dish])
    return rewrite(state, tables, trained, **parts)


def with_tables(old: Franchise, dish: Array, mass: Array, founder: Array) -> Franchise:
    """Add tables with the given dishes, settled seats and founders' remaining seats, each of shape (t,)."""
    none = np.zeros(len(dish), np.int64)
    return old._replace(
        table_dish=np.append(old.table_dish, dish),
        table_group=np.append(old.table_group, none),
        table_live=np.append(old.table_live, none),
        table_residual=np.append(old.table_residual, mass),
        table_mass=np.append(old.table_mass, mass),
        table_founder=np.append(old.table_founder, founder),
    )


def _copied(arrays: Arrays) -> Arrays:
    return type(arrays)(*(v.copy() for v in arrays))


def _take_off(tables: Franchise, dishes: Array) -> None:
    tables.held[dishes] = 0.0
    tables.table_dish[np.isin(tables.table_dish, dishes)] = CLOSED


# Subclasses


def merge(state: StreamState, older: int, younger: int, prior: Prior) -> StreamState:
    """Merge two subclasses on the menu under the older identity: statistics, tables and seats."""
    slots = np.array([slot_of(state, older), slot_of(state, younger)])
    tables, dishes = _copied(state.franchise), _copied(state.dishes)
    add_statistics(dishes, int(slots[0]), statistics_of(dishes, slots[1:]), prior)
    to, at = classes_of(state) + slots
    tables.table_dish[tables.table_dish == at] = to
    tables.held[to], tables.held[at] = max(tables.held[to], tables.held[at]), 0.0
    return rewrite(state, tables, dishes=dishes)


def split(state: StreamState, key: int, rows: Array, seqs: Array, prior: Prior) -> StreamState:
    """Move some of a subclass's instances to a new subclass, ``state.next_id``, which is held on the menu.

    Their share of the settled seats moves with them. Those in the window get a table of their own.

    Parameters
    ----------
    key
        Their current subclass.
    rows
        Their whitened rows, shape (n, d). At least one instance of the subclass must remain.
    seqs
        Their positions in the stream, shape (n,).
    """
    at, old, window = slot_of(state, key), state.franchise, state.window
    share = len(rows) / float(state.dishes.size[at])
    own = empty_dishes(1, prior)
    for row in homogeneous(rows):
        add(own, 0, row, prior)
    dishes = concatenated(state.dishes, own)
    add_statistics(dishes, at, statistics_of(own, np.array([0])), prior, sign=-1)
    serving, table = old.table_dish == classes_of(state) + at, len(old.table_dish)
    going = old.table_residual * serving * share
    residual = np.append(old.table_residual - going, going.sum())
    seats = np.where(np.isin(state.window_seq, seqs), table, window.table)
    live = np.bincount(seats, minlength=table + 1)
    serves = np.append(old.table_dish, len(old.menu))
    serves[np.append(serving, True) & (live == 0) & (residual <= 0.0)] = CLOSED  # held, like any that has faded
    tables = with_tables(old, serves[table:], np.zeros(1), np.zeros(1))._replace(
        held=np.append(old.held, 1.0),
        table_dish=serves,
        table_live=live,
        table_residual=residual,
        table_mass=residual + np.bincount(seats, window.weight, minlength=table + 1),
    )
    window, ids = window._replace(table=seats), np.append(state.ids, state.next_id)
    return rewrite(state, tables, dishes=dishes, ids=ids, window=window, next_id=state.next_id + 1)


def insert(state: StreamState, key: int, dishes: Dishes) -> StreamState:
    """Put a subclass, a single slot, on the menu. It is held and has no table."""
    tables = state.franchise._replace(held=np.append(state.franchise.held, 1.0))
    return rewrite(state, tables, dishes=concatenated(state.dishes, dishes), ids=np.append(state.ids, key))


def drop(state: StreamState, slots: Array) -> StreamState:
    """Take subclasses off the menu, together with their remaining tables."""
    tables = _copied(state.franchise)
    _take_off(tables, classes_of(state) + slots)
    return rewrite(state, tables)


def rename(state: StreamState, was: int, now: int) -> StreamState:
    """Give a subclass another identity, which no subclass on the menu has."""
    return state._replace(ids=np.where(state.ids == was, now, state.ids))


def hold(state: StreamState, ids: Collection[int]) -> StreamState:
    """Hold exactly these emerging subclasses on the menu when their tables fade.

    A subclass that is no longer held and has no table is dropped.
    """
    old, wanted = state.franchise, set(ids)
    held = old.held.copy()
    held[classes_of(state) :] = [key in wanted for key in state.ids.tolist()]
    if np.array_equal(held, old.held):
        return state
    tables = old._replace(held=held)
    if np.array_equal(np.maximum(old.menu, held), np.maximum(old.menu, old.held)):  # the counts stay the same
        return state._replace(franchise=tables, ids=state.ids.copy())  # a copy, as from `derive`
    return rewrite(state, tables)


def gather_seats(
    state: StreamState, dishes: Dishes, rows: Array, seq: Array, subclass: Array, weight: Array, prior: Prior
) -> StreamState:
    """Move instances of other subclasses to a new emerging subclass with the next identity.

    Parameters
    ----------
    state
        Current state. It does not change.
    dishes
        Statistics of the new subclass, one slot.
    rows
        Whitened rows of the remembered instances, shape (n, d).
    seq, subclass, weight
        Position in the stream, emerging subclass (-1 if none) and current seat weight of each, shape (n,).
    """
    table, dish = len(state.franchise.table_dish), len(state.franchise.menu)
    tables = with_tables(_copied(state.franchise), np.array([dish]), np.zeros(1), np.zeros(1))
    own, seats = concatenated(state.dishes, dishes), state.window.table.copy()
    for row, s, key, settled in zip(homogeneous(rows), seq.tolist(), subclass.tolist(), weight.tolist(), strict=True):
        here, slot, taken = _stand_up(state, tables, s, key, settled)
        seats[here] = table
        tables.table_live[table] += len(here)
        tables.table_residual[table] += 0.0 if len(here) else taken
        tables.table_mass[table] += taken
        for k in slot:
            remove(own, int(k), row, prior)
    tables.table_founder[table] = tables.table_mass[table]
    if not tables.table_mass[table]:
        tables.table_dish[table] = CLOSED
    tables = tables._replace(held=np.append(tables.held, 1.0))
    window, ids = state.window._replace(table=seats), np.append(state.ids, state.next_id)
    return rewrite(state, tables, dishes=own, ids=ids, window=window, next_id=state.next_id + 1)


# Single instances


def withdraw(state: StreamState, row: Array, seq: int, key: int, weight: float, prior: Prior) -> StreamState:
    """Remove one past instance from the stream: its seat, and its part in the emerging subclass.

    Parameters
    ----------
    row
        Whitened row, shape (d,).
    seq
        Its position in the stream.
    key
        Identity of the emerging subclass that holds it, or -1.
    weight
        Current seat weight.
    """
    tables, dishes = _copied(state.franchise), _copied(state.dishes)
    here, slot, _ = _stand_up(state, tables, seq, key, weight)
    for k in slot:
        remove(dishes, int(k), homogeneous(row[None])[0], prior)
    _take_off(tables, classes_of(state) + slot[dishes.size[slot] == 0])
    window = Guests(*(np.delete(v, here, axis=0) for v in state.window))
    return rewrite(state, tables, dishes=dishes, window=window, window_seq=np.delete(state.window_seq, here))


def put_back(
    state: StreamState, row: Array, seq: int, seat: Seat, weight: float, live: bool, prior: Prior
) -> StreamState:
    """Seat an instance again that :func:`withdraw` has removed.

    Parameters
    ----------
    state
        Current state. It does not change.
    row
        Whitened row, shape (d,).
    seq
        Its position in the stream.
    seat
        Its former seat. The dish must exist.
    weight
        Current weight of the seat.
    live
        Whether the instance returns to the window, where it can be re-seated.
    """
    tables, dishes, dish = _copied(state.franchise), _copied(state.dishes), seat.j
    window, window_seq, instance = state.window, state.window_seq, homogeneous(row[None])
    if seat.subclass >= 0:
        slot = slot_of(state, seat.subclass)
        add(dishes, slot, instance[0], prior)
        dish = classes_of(state) + slot
    if live or weight > 0.0:
        at = np.flatnonzero(tables.table_dish == dish)
        if seat.alone or not len(at):
            at = np.array([len(tables.table_dish)])
            tables = with_tables(tables, np.array([dish]), np.zeros(1), np.array([weight]))
        table = int(at[np.argmax(tables.table_mass[at])])
        tables.table_mass[table] += weight
        tables.table_residual[table] += 0.0 if live else weight
        if live:
            tables.table_live[table] += 1
            place = int(np.searchsorted(window_seq, seq))
            guest: tuple[Any, ...] = (instance, 0, weight, table)
            window = Guests(*(np.insert(v, place, new, axis=0) for v, new in zip(window, guest, strict=True)))
            window_seq = np.insert(window_seq, place, seq)
    return rewrite(state, tables, dishes=dishes, window=window, window_seq=window_seq)


def _stand_up(state: StreamState, tables: Franchise, seq: int, key: int, weight: float) -> tuple[Array, Array, float]:
    """Free an instance's seat: its place in the window and its slot, if any, each in a list, and the freed weight.

    The weight of a settled seat comes from the subclass's table with the most settled weight, up to what that table
    has.
    """
    here, slot = np.flatnonzero(state.window_seq == seq), np.flatnonzero(state.ids == key)
    if len(here):
        weight = float(state.window.weight[here[0]])
        leave(tables, int(state.window.table[here[0]]), weight)
        return here, slot, weight
    at = np.flatnonzero(np.isin(tables.table_dish, classes_of(state) + slot))
    if not len(at):
        return here, slot, 0.0
    table = at[np.argmax(tables.table_residual[at])]
    weight = min(weight, float(tables.table_residual[table]))
    tables.table_residual[table] -= weight
    tables.table_mass[table] -= weight
    return here, slot, weight


# Known classes


def seat_classes(state: StreamState, seats: Array) -> StreamState:
    """Add a table with the given settled seats for each known class, shape (J,)."""
    return rewrite(state, with_tables(state.franchise, np.arange(len(seats)), seats, np.zeros(len(seats))))


def restated(dishes: Dishes, k: int, prior: Prior, other: Prior) -> Dishes:
    """Express subclass k under another base measure, as one slot."""
    out = copy_slots(dishes, np.array([k]), 1)
    if not same_prior(prior, other):
        out.matrix[0] += of_nobody(other) - of_nobody(prior)
        settle(out, 0, int(out.size[0]), other)
    return out
