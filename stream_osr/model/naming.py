"""Subclasses change sides: from the stream's menu into a known class when a person names them, and back.

Statistics and identities go with them as they are. The tables that served a named subclass serve its class from then
on, so that the class begins with the odds that its subclasses had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.books import refresh_classes, renumber, rewrite
from stream_osr.model.broad import log_values, outline
from stream_osr.model.dishes import Dishes, add, copy_slots, joined, remove
from stream_osr.model.known import N_RANKS, Densities, Known, densities, log_new, open_class, unseen
from stream_osr.model.location import Location
from stream_osr.model.marginal import of_nobody, settle
from stream_osr.model.prior import Prior, homogeneous, same_prior
from stream_osr.model.restaurant import StreamState


class Moved(NamedTuple):
    """Known classes, their densities, and the stream's state, after subclasses have changed sides."""

    known: Known
    frozen: Densities
    state: StreamState


def slots_of(ids: np.ndarray, keys: Sequence[int]) -> np.ndarray:
    """Positions of the given identities, in their order; those that are not there are left out."""
    at = {int(key): slot for slot, key in enumerate(ids)}
    return np.array([at[key] for key in keys if key in at], dtype=np.int64)


def adopt(known: Known, state: StreamState, keys: Sequence[int], j: int, rows: np.ndarray) -> Moved:
    """Make emerging subclasses subclasses of known class j; j equal to the number of classes opens one.

    The instances of each sit at one table of the class's restaurant. A subclass that was named counts whatever its
    share of the class is. A class that had no instance gets a broad term, like those of training: its density does
    not absorb what comes, and from eight instances alone it is so narrow that many new ones together would rather be
    a subclass of their own. Density ranks are not touched (:func:`rank_levels`), those of an opened class are 0.

    Parameters
    ----------
    known, state
        As they are; they stay so.
    keys
        Identities of the subclasses.
    j
        Number of the class.
    rows
        Whitened rows of their instances, those that are remembered, shape (n, d).
    """
    slots = slots_of(state.ids, keys)
    moved = copy_slots(state.dishes, slots, len(slots))
    after = open_class(known) if j == len(known.size) else known
    if after.broad and not after.size[j] and len(rows):
        after = after._replace(broad=_with_term(after.broad, j, rows, after.prior))
    seated, tables = (np.hstack([v, np.zeros((len(v), len(slots)))]) for v in (after.seated, after.tables))
    size = after.size.copy()
    seated[j, len(after.ids) :] = moved.size
    tables[j, len(after.ids) :] = 1.0
    size[j] += moved.size.sum()
    after = after._replace(
        dishes=joined(after.dishes, moved),
        ids=np.append(after.ids, state.ids[slots]),
        seated=seated,
        tables=tables,
        size=size,
        named=(*after.named, *state.ids[slots].tolist()),
    )
    frozen = densities(after)
    state = refresh_classes(state, frozen)
    held, number, dishes = state.franchise.held.copy(), np.arange(len(state.franchise.menu)), len(after.size) + slots
    held[dishes], number[dishes] = 0.0, j
    return Moved(after, frozen, renumber(state, number, held, frozen.menu))


def give_back(
    known: Known, state: StreamState, keys: Sequence[int], home: np.ndarray, member: np.ndarray, held: Collection[int]
) -> Moved:
    """Make subclasses of known classes emerging ones again.

    Parameters
    ----------
    known, state
        As they are; they stay so.
    keys
        Identities of the subclasses.
    home
        The one of them that each table serves from now on, -1: what it has served, shape (T,).
    member
        Whether each guest of the window is in the statistics of such a subclass already; those at its tables who
        are not go into them, shape (w,).
    held
        Which of them stay on the menu without a table.
    """
    n_classes, slots, window = len(known.size), slots_of(known.ids, keys), state.window
    everyone = np.append(state.ids, known.ids[slots])
    order = np.argsort(everyone)
    ids, place = everyone[order], n_classes + np.argsort(order)
    dishes = copy_slots(joined(state.dishes, copy_slots(known.dishes, slots, len(slots))), order, len(order))
    after = without_subclasses(known, slots)
    frozen = densities(after)
    number = np.append(np.arange(n_classes), place)
    table_dish = np.where(home >= 0, n_classes + np.searchsorted(ids, home), number[state.franchise.table_dish])
    for i in np.flatnonzero((home[window.table] >= 0) & ~member):
        add(dishes, int(table_dish[window.table[i]]) - n_classes, window.rows[i], known.prior)
    flags = np.append(state.franchise.held, [float(key in held) for key in known.ids[slots].tolist()])
    flags[n_classes:] = flags[n_classes:][order]
    tables = state.franchise._replace(held=flags, table_dish=table_dish)
    return Moved(after, frozen, rewrite(state, tables, frozen.menu, dishes=dishes, ids=ids))


def owner_of(known: Known, key: int) -> int:
    """Class whose restaurant serves a subclass, even when its last instance has been taken out."""
    return int(np.argmax(known.tables[:, slots_of(known.ids, [key])[0]]))


def take_out(known: Known, key: int, row: np.ndarray, j: int, tables: float = 0.0) -> Known:
    """Take one instance, and ``tables`` tables, out of a subclass of class j; the argument stays as it is."""
    return _shift(known, key, row, j, -1.0, -tables)


def put_in(known: Known, key: int, row: np.ndarray, j: int) -> Known:
    """Put one instance into a subclass of class j; the argument stays as it is."""
    return _shift(known, key, row, j, 1.0, 0.0)


def _shift(known: Known, key: int, row: np.ndarray, j: int, count: float, tables: float) -> Known:
    k = int(slots_of(known.ids, [key])[0])
    dishes = copy_slots(known.dishes, np.arange(len(known.ids)), len(known.ids))
    (add if count > 0 else remove)(dishes, k, homogeneous(row[None])[0], known.prior)
    seated, served, size = (v.copy() for v in (known.seated, known.tables, known.size))
    seated[j, k] += count
    size[j] += count
    served[j, k] += tables
    return known._replace(dishes=dishes, seated=seated, tables=served, size=size)


def drop_class(known: Known, state: StreamState, j: int) -> Moved:
    """Take a class without instances and without tables off the books."""
    known = known._replace(**{name: np.delete(getattr(known, name), j, axis=0) for name in _OF_CLASSES})
    known = known._replace(broad=(*known.broad[:j], *known.broad[j + 1 :]))
    frozen, dishes = densities(known), np.arange(len(state.franchise.menu))
    held = np.delete(state.franchise.held, j)
    return Moved(known, frozen, renumber(state, dishes - (dishes > j), held, frozen.menu))


def _with_term(
    broad: Sequence[Location | None], j: int, rows: np.ndarray, prior: Prior
) -> tuple[Location | None, ...]:
    """Give class j a broad term: its outline, with the degrees of freedom of the others."""
    whole = outline(rows[:, len(prior.first) :])
    freedom = next(shape.freedom for shape in broad if shape is not None)
    shapes = [*broad, *[None] * (j + 1 - len(broad))]
    shapes[j] = Location(freedom, whole.mean, whole.factor, log_values(rows, prior))
    return tuple(shapes)


_OF_CLASSES = ("seated", "tables", "size", "ranks")


def without_subclasses(known: Known, slots: np.ndarray) -> Known:
    """Leave the subclasses in these slots out, with their instances."""
    kept = np.delete(np.arange(len(known.ids)), slots)
    gone = set(known.ids[slots].tolist())
    return known._replace(
        dishes=copy_slots(known.dishes, kept, len(kept)),
        ids=known.ids[kept],
        seated=np.ascontiguousarray(known.seated[:, kept]),
        tables=np.ascontiguousarray(known.tables[:, kept]),
        size=known.size - known.seated[:, slots].sum(axis=1),
        named=tuple(key for key in known.named if key not in gone),
    )


def rank_levels(known: Known, frozen: Densities, j: int, rows: np.ndarray, key: np.ndarray, new: float) -> np.ndarray:
    """Quantiles of the log densities of class j after it has taken in instances, shape (101,).

    Parameters
    ----------
    known, frozen
        The classes, with the instances; ``known.ranks`` holds the quantiles without them.
    j
        Number of the class.
    rows
        Whitened rows of those that are remembered, shape (n, d).
    key
        Subclass of class j that holds each, shape (n,).
    new
        How many the class has taken in.
    """
    before = known.size[j] - new
    if not len(rows):
        if before > 0:
            return np.array(known.ranks[j])
        middle = np.append(known.prior.first.astype(float), np.zeros(known.prior.n_features))
        return np.full(N_RANKS, log_new(known, homogeneous(middle[None]))[0])
    group = np.full(len(rows), j)
    found = unseen(known, frozen, homogeneous(rows), group, slots_of(known.ids, key.tolist()))
    levels = np.linspace(0.0, 1.0, N_RANKS)
    if before <= 0:
        return np.quantile(found, levels)
    weights = np.append(np.full(N_RANKS, before / N_RANKS), np.full(len(found), new / len(found)))
    return np.quantile(np.append(known.ranks[j], found), levels, method="inverted_cdf", weights=weights)


def restated(dishes: Dishes, k: int, prior: Prior, other: Prior) -> Dishes:
    """State subclass k under another base measure of the same covariance model: one slot."""
    out = copy_slots(dishes, np.array([k]), 1)
    if not same_prior(prior, other):
        out.matrix[0] += of_nobody(other) - of_nobody(prior)
        settle(out, 0, int(out.size[0]), other)
    return out
