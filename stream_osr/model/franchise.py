"""The Chinese restaurant franchise's books: who sits where, which table serves which dish, and the menu.

Dishes are numbered through: first the C *frozen* dishes (the known classes of a stream; none while training),
then the Gaussian ones, so that Gaussian slot k is dish C + k. Seats may weigh less than one: in a stream the
seating counts fade (``docs/inference.md``, "The model must not age").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import borrowing_kernel

ANYONE = -1
"""Owner of a dish that every group may order."""

CLOSED = -1
"""Dish of a table slot that is not in use; table of an instance that is not seated."""


class Franchise(NamedTuple):
    """Tables and menu of G restaurants (groups).

    Attributes
    ----------
    menu
        Tables that serve each dish, m_k, over all restaurants and including trained ones, shape (C + K,).
    held
        1 for dishes that stay on the menu, as if one table served them, when their tables have gone; else 0, shape
        (C + K,).
    owner
        The only group that may order the dish, or ``ANYONE``, shape (C + K,).
    seated
        Seat weight of each group at each dish, n_jk, shape (G, C + K).
    table_dish, table_group
        Dish served (``CLOSED``: slot unused) and restaurant of each table, shape (T,).
    table_live
        Instances at the table that can still be re-seated, shape (T,).
    table_residual
        Faded seat weight of instances that are settled for good, shape (T,).
    table_mass
        Whole seat weight of the table, n_jt, shape (T,).
    table_founder
        What is left of the seat of the guest that opened the table, shape (T,).
    alpha
        Concentration of each restaurant, shape (G,).
    gamma
        Concentration of the menu, shape (1,).
    total
        Number of tables that the menu counts, m.., shape (1,).
    overflow
        First set to 1 when a slot was needed and none was free; second the first dish number that a new subclass
        may have (in a stream beyond all that were there before the batch: a number freed within it would pass for
        its old subclass), shape (2,).
    extent
        One more than the highest number of a dish, and of a table, that is or was in use, shape (2,).
    """

    menu: np.ndarray
    held: np.ndarray
    owner: np.ndarray
    seated: np.ndarray
    table_dish: np.ndarray
    table_group: np.ndarray
    table_live: np.ndarray
    table_residual: np.ndarray
    table_mass: np.ndarray
    table_founder: np.ndarray
    alpha: np.ndarray
    gamma: np.ndarray
    total: np.ndarray
    overflow: np.ndarray
    extent: np.ndarray


class Guests(NamedTuple):
    """Instances that can be re-seated.

    Attributes
    ----------
    rows
        Homogeneous whitened rows, shape (n, d + 1).
    group
        Restaurant of each, shape (n,).
    weight
        Seat weight of each (1 when it has just arrived), shape (n,).
    table
        Table of each, or ``CLOSED``, shape (n,).
    """

    rows: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    table: np.ndarray


def empty_franchise(n_groups: int, n_dishes: int, n_tables: int, alpha: float, gamma: float) -> Franchise:
    """Open restaurants without guests; dishes are numbered 0 to ``n_dishes - 1``."""
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
    """Tables that count for a dish: at least one while it is held, 0 when it is off the menu."""
    return max(franchise.menu[dish], franchise.held[dish])


def menu_weights(franchise: Franchise) -> np.ndarray:
    """Return :func:`menu_weight` of every dish, shape (C + K,)."""
    return np.maximum(franchise.menu, franchise.held)


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
    """Let one guest leave; an empty table is cleared. Returns the dish that was served."""
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
    """Seat a guest at a table, opening it for ``dish`` when it is not in use."""
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
