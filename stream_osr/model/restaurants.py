"""Tables and menu of the restaurants, and the stream's restaurant from batch to batch.

:class:`Franchise` records the seat of each guest, the dish of each table, and the menu.

Dishes are numbered consecutively. The C *frozen* dishes come first: the known classes of a stream, none during
training. The Gaussian dishes follow, so that Gaussian slot k is dish C + k. Seats may weigh less than one because the
seating counts of a stream fade (``docs/inference.md``, section 10).

Between two batches the functions make room for new subclasses, name them, fade the seats, and derive the counts
again.

Everything here is compiled, and a step runs it in one call. Otherwise, in batches of 64, the bookkeeping would take
longer than the sampler.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.dish_statistics import Dishes, copy_slots, keep_slots
from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.support import rules

ANYONE = -1
"""Owner of a dish that every group may order."""

CLOSED = -1
"""Dish of an unused table slot, and table of an instance without a seat."""


class Franchise(NamedTuple):
    """Tables and menu of G restaurants (groups).

    Attributes
    ----------
    menu
        Tables that serve each dish, m_k, over all restaurants and including trained ones, shape (C + K,).
    held
        1 for dishes that stay on the menu, as if one table served them, when their tables have gone. Otherwise 0,
        shape (C + K,).
    owner
        The only group that may order the dish, or ``ANYONE``, shape (C + K,).
    seated
        Seat weight of each group at each dish, n_jk, shape (G, C + K).
    table_dish, table_group
        Dish of each table (``CLOSED`` if the slot is unused) and its restaurant, shape (T,).
    table_live
        Instances at the table that can still be re-seated, shape (T,).
    table_residual
        Faded seat weight of permanently settled instances, shape (T,).
    table_mass
        Whole seat weight of the table, n_jt, shape (T,).
    table_founder
        Remaining seat weight of the guest that opened the table, shape (T,).
    alpha
        Concentration of each restaurant, shape (G,).
    gamma
        Concentration of the menu, shape (1,).
    total
        Number of tables that the menu counts, m.., shape (1,).
    overflow
        Two numbers, shape (2,). The first is set to 1 when a slot is needed and none is free. The second is the first
        dish number that a new subclass may have. In a stream it lies beyond all numbers from before the batch: a
        number freed within the batch would be mistaken for its old subclass.
    extent
        One more than the highest dish number, and the highest table number, ever in use, shape (2,).
    """

    menu: Annotated[Array, rules.array("f", "D", low=0.0, high=1e12)]
    held: Annotated[Array, rules.array("f", "D", low=0.0, high=1.0), rules.counted]
    owner: Annotated[Array, rules.array("i", "D", low=-1, high=-1)]
    seated: Annotated[Array, rules.array("f", "1", "D", low=0.0, high=1e12)]
    table_dish: Annotated[Array, rules.array("i", "T", low=0, below="D")]
    table_group: Annotated[Array, rules.array("i", "T", low=0, high=0)]
    table_live: Annotated[Array, rules.array("i", "T", low=0)]
    table_residual: Annotated[Array, rules.array("f", "T", low=0.0, high=1e12)]
    table_mass: Annotated[Array, rules.array("f", "T", low=rules.ABOVE_0, high=1e12)]
    table_founder: Annotated[Array, rules.array("f", "T", low=0.0, high=1e12)]
    alpha: Annotated[Array, rules.array("f", "1", low=1e-300, high=1e12)]
    gamma: Annotated[Array, rules.array("f", "1", low=1e-300, high=1e12)]
    total: Annotated[Array, rules.array("f", "1", low=0.0, high=1e12)]
    overflow: Annotated[Array, rules.array("i", "2", low=0, high=0)]
    extent: Annotated[Array, rules.array("i", "2", low=0)]


class Guests(NamedTuple):
    """Instances that can be re-seated.

    Attributes
    ----------
    rows
        Homogeneous whitened rows, shape (n, d + 1).
    group
        Restaurant of each, shape (n,).
    weight
        Seat weight of each (1 on arrival), shape (n,).
    table
        Table of each, or ``CLOSED``, shape (n,).
    """

    rows: Annotated[Array, rules.array("f", "n", "w+1", low=-1e12, high=1e12)]
    group: Annotated[Array, rules.array("i", "n", low=0, high=0)]
    weight: Annotated[Array, rules.array("f", "n", low=rules.ABOVE_0, high=1.0)]
    table: Annotated[Array, rules.array("i", "n", low=0)]


def empty_franchise(n_groups: int, n_dishes: int, n_tables: int, alpha: float, gamma: float) -> Franchise:
    """Open restaurants without guests. Dishes are numbered 0 to ``n_dishes - 1``."""
    return Franchise(
        menu=np.zeros(n_dishes),
        held=np.zeros(n_dishes),
        owner=np.full(n_dishes, ANYONE, np.int64),
        seated=np.zeros((n_groups, n_dishes)),
        table_dish=np.full(n_tables, CLOSED, np.int64),
        table_group=np.zeros(n_tables, np.int64),
        table_live=np.zeros(n_tables, np.int64),
        table_residual=np.zeros(n_tables),
        table_mass=np.zeros(n_tables),
        table_founder=np.zeros(n_tables),
        alpha=np.full(n_groups, float(alpha)),
        gamma=np.full(1, float(gamma)),
        total=np.zeros(1),
        overflow=np.zeros(2, np.int64),
        extent=np.array([n_dishes, n_tables]),
    )


@borrowing_kernel
def menu_weight(franchise: Franchise, dish: int) -> float:
    """Tables that count for a dish: at least one while it is held, 0 if it is off the menu."""
    return max(franchise.menu[dish], franchise.held[dish])


@borrowing_kernel
def serve(franchise: Franchise, dish: int, tables: float) -> None:
    """Add ``tables`` (1 or -1) to the menu count of a dish."""
    before = menu_weight(franchise, dish)
    franchise.menu[dish] += tables
    franchise.total[0] += menu_weight(franchise, dish) - before


@borrowing_kernel
def free_table(franchise: Franchise) -> int:
    """Find an unused table slot, or report the overflow."""
    tables, extent = franchise.table_dish, franchise.extent
    for t in range(extent[1]):
        if tables[t] == CLOSED:
            return t
    t = extent[1]
    if t == tables.shape[0]:
        franchise.overflow[0] = 1
        return CLOSED
    extent[1] = t + 1
    return t


@borrowing_kernel
def free_dish(franchise: Franchise, first: int) -> int:
    """Find a dish number, from ``first`` on, that is off the menu, or report the overflow."""
    menu, held, extent = franchise.menu, franchise.held, franchise.extent
    start = max(first, franchise.overflow[1])
    for dish in range(start, extent[0]):
        if max(menu[dish], held[dish]) == 0.0:
            return dish
    dish = max(start, extent[0])
    if dish >= menu.shape[0]:
        franchise.overflow[0] = 1
        return CLOSED
    extent[0] = dish + 1
    return dish


@borrowing_kernel
def leave(franchise: Franchise, table: int, weight: float) -> int:
    """Remove one guest from a table, clear the table if it is empty, and return its dish."""
    menu, seated, tables = franchise.menu, franchise.seated, franchise.table_dish
    live, residual, mass = franchise.table_live, franchise.table_residual, franchise.table_mass
    dish, group = tables[table], franchise.table_group[table]
    live[table] -= 1
    empty = live[table] == 0 and residual[table] == 0.0
    seated[group, dish] -= mass[table] if empty else weight
    mass[table] = 0.0 if empty else mass[table] - weight
    if empty:
        tables[table] = CLOSED
        serve(franchise, dish, -1.0)
    if menu[dish] == 0.0 or seated[group, dish] < 0.0:
        seated[group, dish] = 0.0  # what subtraction of faded weights leaves behind
    return dish


@borrowing_kernel
def join(franchise: Franchise, table: int, group: int, dish: int, weight: float) -> None:
    """Seat a guest at a table. If the table is not in use, open it for ``dish``."""
    live, mass, seated = franchise.table_live, franchise.table_mass, franchise.seated
    if franchise.table_dish[table] == CLOSED:
        franchise.table_dish[table] = dish
        franchise.table_group[table] = group
        franchise.table_residual[table] = 0.0
        live[table], mass[table] = 0, 0.0
        franchise.table_founder[table] = weight
        serve(franchise, dish, 1.0)
    live[table] += 1
    mass[table] += weight
    seated[group, dish] += weight


CLEARED_BELOW = 0.05
"""Seat weight below which a faded table is cleared."""


class StreamState(NamedTuple):
    """The stream's restaurant and its emerging subclasses. Size O(K d^2), however long the stream.

    Attributes
    ----------
    franchise
        Tables and menu. The frozen dishes are the known classes, the Gaussian ones the emerging subclasses.
    dishes
        Statistics of the emerging subclasses. They are exact and never fade.
    ids
        Identity of each emerging subclass, shape (K,).
    window
        The latest instances, which can still be re-seated.
    window_seq
        Their positions in the stream, shape (w,).
    batches, seen
        Batches and instances so far.
    next_id
        The next identity. No identity is used twice.
    """

    franchise: Annotated[Franchise, rules.sizes("D T")]
    dishes: Annotated[Dishes, rules.sizes("K")]
    ids: Annotated[Array, rules.array("i", "K", low=0)]
    window: Annotated[Guests, rules.sizes("n w")]
    window_seq: Annotated[Array, rules.array("i", "n", low=0), rules.distinct, rules.ascending]
    batches: rules.Count
    seen: rules.Count
    next_id: rules.Count


@kernel
def lengthened(values: Array, count: int, fill: float) -> Array:
    """Copy values of shape (n,) into an array of shape (count,) and fill the rest."""
    out = np.empty(count, values.dtype)
    out[: len(values)] = values
    out[len(values) :] = fill
    return out


@kernel
def lay_tables(state: StreamState, rows: Array, arriving: int, spare: int) -> tuple[Guests, Franchise, Dishes]:
    """Copy the state, with room for ``spare`` more subclasses and a table for each guest. The batch is not seated."""
    old, window = state.franchise, state.window
    n_dishes, n_tables = len(old.menu) + spare, len(old.table_dish) + len(rows)
    franchise = Franchise(
        lengthened(old.menu, n_dishes, 0.0),
        lengthened(old.held, n_dishes, 0.0),
        lengthened(old.owner, n_dishes, ANYONE),
        lengthened(old.seated[0], n_dishes, 0.0).reshape((1, n_dishes)),
        lengthened(old.table_dish, n_tables, CLOSED),
        lengthened(old.table_group, n_tables, 0),
        lengthened(old.table_live, n_tables, 0),
        lengthened(old.table_residual, n_tables, 0.0),
        lengthened(old.table_mass, n_tables, 0.0),
        lengthened(old.table_founder, n_tables, 0.0),
        old.alpha.copy(),
        old.gamma.copy(),
        old.total.copy(),
        np.array([0, len(old.menu)]),
        old.extent.copy(),
    )
    n = len(window.weight) + arriving
    guests = Guests(
        rows, np.zeros(n, np.int64), lengthened(window.weight, n, 1.0), lengthened(window.table, n, CLOSED)
    )
    return guests, franchise, copy_slots(state.dishes, np.arange(len(state.ids)), len(state.ids) + spare)


@kernel
def name_subclasses(state: StreamState, guests: Guests, franchise: Franchise, n_classes: int) -> tuple[Array, int]:
    """Name the subclasses: old slots keep their identity, slots opened in this batch get fresh ones.

    A slot that was emptied and opened again inside the batch may be a new subclass. It keeps its identity only if a
    guest sits there who also sat there before the batch.

    Returns
    -------
    Identity of each slot, -1 for a free one, and the next identity.
    """
    old, count = len(state.ids), len(franchise.menu) - n_classes
    before, now, window, table = state.franchise.table_dish, franchise.table_dish, state.window.table, guests.table
    settled, stays = state.dishes.size.copy(), np.zeros(old, np.bool_)
    for i in range(len(window)):
        was = before[window[i]] - n_classes
        if was >= 0:
            settled[was] -= 1
            if now[table[i]] - n_classes == was:
                stays[was] = True
    ids, ids_before = np.full(count, -1), state.ids
    next_id = state.next_id
    for k in range(count):
        if menu_weight(franchise, n_classes + k) > 0.0:
            if k < old and (stays[k] or settled[k] > 0):
                ids[k] = ids_before[k]
            else:
                ids[k] = next_id
                next_id += 1
    return ids, next_id


@kernel
def subclasses_of(guests: Guests, franchise: Franchise, ids: Array, n_classes: int) -> Array:
    """Identity of each guest's emerging subclass, -1 if none."""
    table, table_dish = guests.table, franchise.table_dish
    out = np.full(len(table), -1)
    for i in range(len(out)):
        dish = table_dish[table[i]]
        if dish >= n_classes:
            out[i] = ids[dish - n_classes]
    return out


@kernel
def fade(franchise: Franchise, guests: Guests, stays: Array, share: float) -> Guests:
    """Settle guests for good, fade all seats, and close the tables that have faded away.

    Parameters
    ----------
    franchise
        Tables, changed in place. :func:`derive` computes the rest.
    guests
        All guests, seated.
    stays
        Guests that stay in the window, shape (n,). The others settle.
    share
        Share of the weight that a seat keeps.

    Returns
    -------
    The guests of the window.
    """
    weight = guests.weight[stays] * share
    n = len(weight)
    window = Guests(guests.rows[stays], np.zeros(n, np.int64), weight, guests.table[stays])
    _fade_tables(franchise, guests, stays, window, share)
    return window


@borrowing_kernel
def _fade_tables(franchise: Franchise, guests: Guests, stays: Array, window: Guests, share: float) -> None:
    """Settle the guests that do not stay, fade all tables, and close those that have faded away."""
    for leaving in range(len(stays)):
        if not stays[leaving]:
            table = guests.table[leaving]
            franchise.table_residual[table] += guests.weight[leaving]
            franchise.table_live[table] -= 1
    for t in range(len(franchise.table_dish)):
        franchise.table_residual[t] *= share
        franchise.table_founder[t] *= share
        franchise.table_mass[t] = franchise.table_residual[t]
    for i in range(len(window.table)):
        franchise.table_mass[window.table[i]] += window.weight[i]
    for t in range(len(franchise.table_dish)):
        if franchise.table_live[t] == 0 and franchise.table_mass[t] < CLEARED_BELOW:
            franchise.table_dish[t] = CLOSED


@kernel
def derive(state: StreamState, trained: Array) -> StreamState:
    """Derive the counts of a stream between two batches from its primary data: tables and hold marks.

    The function counts menu, seats, total and extent. It drops closed tables, and subclasses without a table that are
    not held. The remaining subclasses are renumbered in their order.

    Parameters
    ----------
    state
        Current state. The number of dishes must equal the length of ``held``.
    trained
        Tables of the known classes that come from training, shape (J,).
    """
    old, window = state.franchise, state.window
    table_dish, table_mass = old.table_dish, old.table_mass
    tables = np.flatnonzero(table_dish != CLOSED)
    menu, seated = lengthened(trained, len(old.held), 0.0), np.zeros(len(old.held))
    for t in tables:
        menu[table_dish[t]] += 1.0
        seated[table_dish[t]] += table_mass[t]
    weight = np.maximum(menu, old.held)
    on_menu = np.flatnonzero(weight > 0.0)
    count = len(on_menu)
    dish_number, table_number = np.full(len(old.held), CLOSED), np.full(len(old.table_dish), CLOSED)
    dish_number[on_menu] = np.arange(count)
    table_number[tables] = np.arange(len(tables))
    franchise = Franchise(
        menu[on_menu],
        old.held[on_menu],
        np.full(count, ANYONE),
        seated[on_menu].reshape((1, count)),
        dish_number[old.table_dish[tables]],
        old.table_group[tables],
        old.table_live[tables],
        old.table_residual[tables],
        old.table_mass[tables],
        old.table_founder[tables],
        old.alpha.copy(),
        old.gamma.copy(),
        np.full(1, weight.sum()),
        np.zeros(2, np.int64),
        np.array([count, len(tables)]),
    )
    kept = on_menu[len(trained) :] - len(trained)
    dishes, ids = keep_slots(state.dishes, kept), state.ids[kept]
    guests = Guests(window.rows, window.group, window.weight, table_number[window.table])
    return StreamState(franchise, dishes, ids, guests, state.window_seq, state.batches, state.seen, state.next_id)
