"""Emerging subclasses joined, parted, set aside and brought back, between batches: the stream's books rewritten.

Each function takes a state and returns the next one; statistics are moved, never estimated.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from stream_osr.model.dishes import Dishes, add, copy_slots, empty_dishes, remove
from stream_osr.model.franchise import CLOSED, Franchise, menu_weights
from stream_osr.model.marginal import Statistics, both, pour, statistics_of
from stream_osr.model.prior import Prior, homogeneous, statistics_shape
from stream_osr.model.restaurant import StreamState, tidy


class Aside(NamedTuple):
    """Subclasses that are kept off the menu: K of them, at no cost for the sweeps.

    Attributes
    ----------
    ids
        Identities, shape (K,).
    statistics
        What sums up their instances.
    """

    ids: np.ndarray
    statistics: Statistics


def nobody_aside(prior: Prior) -> Aside:
    """Begin with none."""
    return Aside(np.zeros(0, np.int64), Statistics(np.zeros(0, np.int64), np.zeros((0, *statistics_shape(prior)))))


def slot_of(state: StreamState, key: int) -> int:
    """Find the slot of a subclass that is on the menu."""
    return int(np.flatnonzero(state.ids == key)[0])


def tables_of(state: StreamState) -> np.ndarray:
    """Count the tables that serve each emerging subclass, shape (K,)."""
    return np.asarray(state.franchise.menu[len(state.franchise.menu) - len(state.ids) :])


def join(state: StreamState, older: int, younger: int, prior: Prior) -> StreamState:
    """Make two subclasses on the menu one, under the older identity: statistics, tables and seats."""
    classes = _classes(state)
    to, at = slot_of(state, older), slot_of(state, younger)
    franchise, dishes = _copy(state)
    pour(dishes, to, statistics_of(dishes, np.array([at])), prior)
    franchise.table_dish[franchise.table_dish == classes + at] = classes + to
    franchise.menu[classes + to] += franchise.menu[classes + at]
    franchise.seated[0, classes + to] += franchise.seated[0, classes + at]
    franchise.held[classes + to] = max(franchise.held[classes + to], franchise.held[classes + at])
    _take_off(franchise, classes + at)
    return tidy(state._replace(franchise=franchise, dishes=dishes), classes)


def separate(state: StreamState, key: int, rows: np.ndarray, seqs: np.ndarray, prior: Prior) -> StreamState:
    """Give some of a subclass's instances a subclass of their own, ``state.next_id``, which is held on the menu.

    Their share of the settled seats goes with them; those in the window take a table of their own.

    Parameters
    ----------
    key
        The subclass that has them now.
    rows
        Their whitened rows, shape (n, d); some instances of the subclass must be left.
    seqs
        Their positions in the stream, shape (n,).
    """
    classes, at = _classes(state), slot_of(state, key)
    share = len(rows) / float(state.dishes.size[at])
    count = len(state.ids)
    old = state.franchise
    dishes = copy_slots(state.dishes, np.arange(count), count + 1)
    for row in homogeneous(rows):
        add(dishes, count, row, prior)
    pour(dishes, at, statistics_of(dishes, np.array([count])), prior, sign=-1)
    serving = old.table_dish == classes + at
    residual = old.table_residual * serving * share
    going = np.isin(state.window_seq, seqs)
    table = state.window.table.copy()
    table[going] = len(old.table_dish)
    weight = np.bincount(table, state.window.weight, minlength=len(old.table_dish) + 1)
    live = np.bincount(table, minlength=len(old.table_dish) + 1)
    left = old.table_residual - residual
    cleared = serving & (live[:-1] == 0) & (left <= 0.0)
    table_dish = np.append(np.where(cleared, CLOSED, old.table_dish), classes + count)
    table_residual = np.append(np.where(cleared, 0.0, left), residual.sum())
    mass = table_residual + weight
    if live[-1] == 0 and table_residual[-1] == 0.0:
        table_dish[-1] = CLOSED  # nobody sits there: it is held without a table, like any that has faded
    used = table_dish != CLOSED
    seated = np.bincount(table_dish[used], mass[used], minlength=classes + count + 1)[None]
    menu = np.append(old.menu, float(used[-1]))
    menu[classes + at] -= float(cleared.sum())
    franchise = Franchise(
        menu,
        np.append(old.held, 1.0),
        np.append(old.owner, -1),
        np.ascontiguousarray(seated),
        table_dish,
        np.append(old.table_group, 0),
        live,
        table_residual,
        np.where(used, mass, 0.0),
        np.append(old.table_founder, 0.0),
        old.alpha.copy(),
        old.gamma.copy(),
        old.total.copy(),
        old.overflow.copy(),
        np.array([classes + count + 1, len(table_dish)]),
    )
    parted = state._replace(
        franchise=franchise,
        dishes=dishes,
        ids=np.append(state.ids, state.next_id),
        window=state.window._replace(table=table),
        next_id=state.next_id + 1,
    )
    return tidy(parted, classes)


def rename(state: StreamState, was: int, now: int) -> StreamState:
    """Give a subclass another identity, one that nobody on the menu has."""
    return state._replace(ids=np.where(state.ids == was, now, state.ids))


def set_aside(state: StreamState, aside: Aside, keys: Collection[int]) -> tuple[StreamState, Aside]:
    """Take subclasses that no table serves off the menu, and keep their statistics."""
    slots = np.array([slot_of(state, key) for key in sorted(keys)], np.int64)
    if not len(slots):
        return state, aside
    classes = _classes(state)
    franchise, dishes = _copy(state)
    for slot in slots:
        _take_off(franchise, classes + int(slot))
    kept = Aside(
        np.concatenate([aside.ids, state.ids[slots]]),
        both(aside.statistics, statistics_of(dishes, slots)),
    )
    return tidy(state._replace(franchise=franchise, dishes=dishes), classes), kept


def only_aside(aside: Aside, keys: Collection[int]) -> Aside:
    """Keep these of the subclasses set aside, and drop the others."""
    kept = np.isin(aside.ids, list(keys))
    return Aside(aside.ids[kept], Statistics(aside.statistics.size[kept], aside.statistics.matrix[kept]))


def statistics_aside(aside: Aside, key: int) -> Statistics:
    """Return the statistics of one subclass that was set aside."""
    return Statistics(*(part[aside.ids == key] for part in aside.statistics))


def withdraw_aside(aside: Aside, key: int, row: np.ndarray, prior: Prior) -> Aside:
    """Take one whitened row of shape (d,) out of a subclass that was set aside."""
    at = aside.ids == key
    dishes = empty_dishes(1, prior)
    pour(dishes, 0, statistics_aside(aside, key), prior)
    remove(dishes, 0, homogeneous(row[None])[0], prior)
    size, matrix = (part.copy() for part in aside.statistics)
    size[at], matrix[at] = dishes.size, dishes.matrix
    return aside._replace(statistics=Statistics(size, matrix))


def bring_back(
    state: StreamState, aside: Aside, key: int, into: int | None, prior: Prior
) -> tuple[StreamState, Aside]:
    """Put a subclass that was set aside on the menu again, under its identity.

    Parameters
    ----------
    key
        Its identity.
    into
        The subclass on the menu that has turned out to be the same: its instances, tables and seats are taken over,
        its identity ends. ``None``: there is none, it comes back with nobody at a table, held.
    """
    statistics = statistics_aside(aside, key)
    left = only_aside(aside, set(aside.ids.tolist()) - {key})
    if into is not None:
        dishes = copy_slots(state.dishes, np.arange(len(state.ids)), len(state.ids))
        pour(dishes, slot_of(state, into), statistics, prior)
        return rename(state._replace(dishes=dishes), into, key), left
    count, old = len(state.ids), state.franchise
    dishes = copy_slots(state.dishes, np.arange(count), count + 1)
    pour(dishes, count, statistics, prior)
    franchise = old._replace(
        menu=np.append(old.menu, 0.0),
        held=np.append(old.held, 1.0),
        owner=np.append(old.owner, -1),
        seated=np.ascontiguousarray(np.hstack([old.seated, np.zeros((1, 1))])),
        extent=old.extent + np.array([1, 0]),
    )
    total = np.full(1, menu_weights(franchise).sum())
    back = state._replace(franchise=franchise._replace(total=total), dishes=dishes, ids=np.append(state.ids, key))
    return back, left


def _classes(state: StreamState) -> int:
    return len(state.franchise.menu) - len(state.ids)


def _copy(state: StreamState) -> tuple[Franchise, Dishes]:
    return Franchise(*(v.copy() for v in state.franchise)), Dishes(*(v.copy() for v in state.dishes))


def _take_off(franchise: Franchise, dish: int) -> None:
    franchise.menu[dish] = franchise.held[dish] = 0.0
    franchise.seated[:, dish] = 0.0
