"""Subclasses that are set aside, and brought back: off the menu they cost the sweeps nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from stream_osr.model.books import drop, insert, rename, slot_of
from stream_osr.model.dishes import Dishes, copy_slots, empty_dishes, remove
from stream_osr.model.marginal import Statistics, both, pour, statistics_of
from stream_osr.model.prior import Prior, homogeneous, statistics_shape
from stream_osr.model.restaurant import StreamState


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


def set_aside(state: StreamState, aside: Aside, keys: Collection[int]) -> tuple[StreamState, Aside]:
    """Take subclasses that no table serves off the menu, and keep their statistics."""
    slots = np.array([slot_of(state, key) for key in sorted(keys)], np.int64)
    if not len(slots):
        return state, aside
    ids = np.concatenate([aside.ids, state.ids[slots]])
    return drop(state, slots), Aside(ids, both(aside.statistics, statistics_of(state.dishes, slots)))


def only_aside(aside: Aside, keys: Collection[int]) -> Aside:
    """Keep these of the subclasses set aside, and drop the others."""
    kept = np.isin(aside.ids, list(keys))
    return Aside(aside.ids[kept], Statistics(aside.statistics.size[kept], aside.statistics.matrix[kept]))


def statistics_aside(aside: Aside, key: int) -> Statistics:
    """Return the statistics of one subclass that was set aside."""
    return Statistics(*(part[aside.ids == key] for part in aside.statistics))


def withdraw_aside(aside: Aside, key: int, row: np.ndarray, prior: Prior) -> Aside:
    """Take one whitened row of shape (d,) out of a subclass that was set aside."""
    dishes = _dish_of(aside, key, prior)
    remove(dishes, 0, homogeneous(row[None])[0], prior)
    at, (size, matrix) = aside.ids == key, (part.copy() for part in aside.statistics)
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
    left = only_aside(aside, set(aside.ids.tolist()) - {key})
    if into is None:
        return insert(state, key, _dish_of(aside, key, prior)), left
    dishes = copy_slots(state.dishes, np.arange(len(state.ids)), len(state.ids))
    pour(dishes, slot_of(state, into), statistics_aside(aside, key), prior)
    return rename(state._replace(dishes=dishes), into, key), left


def _dish_of(aside: Aside, key: int, prior: Prior) -> Dishes:
    dishes = empty_dishes(1, prior)
    pour(dishes, 0, statistics_aside(aside, key), prior)
    return dishes
