"""Edits of the known classes: promotion of emerging subclasses, late labels, and their undo.

When a person names subclasses, they move from the stream's menu into a known class. An undo moves them back. Their
statistics and identities stay the same. The tables that served a named subclass serve its class from then on, so the
class begins with the odds that its subclasses had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.background_components import BackgroundComponent, log_values, outline
from stream_osr.model.dish_statistics import add, concatenated, copy_slots, remove
from stream_osr.model.edit import classes_of, renumber, rewrite
from stream_osr.model.jit import Array
from stream_osr.model.known import N_RANKS, Densities, Known, densities, log_new, open_class, unseen
from stream_osr.model.prior import Prior, homogeneous, numbers_of
from stream_osr.model.restaurants import StreamState
from stream_osr.model.student_t import Location


def refresh_classes(state: StreamState, frozen: Densities) -> StreamState:
    """Carry the stream over to known classes that have changed. New classes join the menu."""
    count, added = classes_of(state), len(frozen.menu) - classes_of(state)
    number = np.arange(len(state.franchise.menu))
    held = np.insert(state.franchise.held, [count] * added, 1.0)
    number[count:] += added
    return renumber(state, number, held, frozen.menu)._replace(ids=state.ids)  # nobody goes


class Moved(NamedTuple):
    """Known classes, their densities, and the stream's state after subclasses have moved between the two."""

    known: Known
    frozen: Densities
    state: StreamState


def slots_of(ids: Array, keys: Sequence[int]) -> Array:
    """Positions of the given identities, in their order. Absent identities are skipped."""
    at = {int(key): slot for slot, key in enumerate(ids)}
    return np.array([at[key] for key in keys if key in at], dtype=np.int64)


def adopt(known: Known, state: StreamState, keys: Sequence[int], j: int, rows: Array) -> Moved:
    """Move emerging subclasses into known class j. If j equals the number of classes, this opens a class.

    The instances of each subclass sit at one table of the class's restaurant. A named subclass counts whatever its
    share of the class. A class without earlier instances gets a background component like the classes of training.
    Its density does not adapt to new instances, and from eight instances alone it would be very narrow. Many new
    instances together would then form a subclass of their own. Density ranks do not change (:func:`rank_levels`).
    Those of a new class are 0.

    Parameters
    ----------
    known, state
        Current known classes and state. They do not change.
    keys
        Identities of the subclasses.
    j
        Number of the class.
    rows
        Whitened rows of their remembered instances, shape (n, d).
    """
    slots = slots_of(state.ids, keys)
    moved = copy_slots(state.dishes, slots, len(slots))
    after = open_class(known) if j == len(known.size) else known
    if after.background_components and not after.size[j] and len(rows):
        after = after._replace(background_components=_with_term(after.background_components, j, rows, after.prior))
    seated, tables = (np.hstack([v, np.zeros((len(v), len(slots)))]) for v in (after.seated, after.tables))
    size = after.size.copy()
    seated[j, len(after.ids) :] = moved.size
    tables[j, len(after.ids) :] = 1.0
    size[j] += moved.size.sum()
    after = after._replace(
        dishes=concatenated(after.dishes, moved),
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
    known: Known, state: StreamState, keys: Sequence[int], home: Array, member: Array, held: Collection[int]
) -> Moved:
    """Make subclasses of known classes emerging subclasses again.

    Parameters
    ----------
    known, state
        Current known classes and state. They do not change.
    keys
        Identities of the subclasses.
    home
        The subclass among ``keys`` that each table serves from now on, -1 if its dish stays, shape (T,).
    member
        Whether the statistics of such a subclass already include each guest of the window, shape (w,). The other
        guests at its tables are added.
    held
        Subclasses that stay on the menu without a table.
    """
    n_classes, slots, window = len(known.size), slots_of(known.ids, keys), state.window
    everyone = np.append(state.ids, known.ids[slots])
    order = np.argsort(everyone)
    ids, place = everyone[order], n_classes + np.argsort(order)
    dishes = copy_slots(concatenated(state.dishes, copy_slots(known.dishes, slots, len(slots))), order, len(order))
    after = without_subclasses(known, slots)
    frozen = densities(after)
    number = np.append(np.arange(n_classes), place)
    table_dish = np.where(home >= 0, n_classes + np.searchsorted(ids, home), number[state.franchise.table_dish])
    for i in np.flatnonzero((home[window.table] >= 0) & ~member):
        add(dishes, int(table_dish[window.table[i]]) - n_classes, window.rows[i], known.prior)
    on_menu = np.append(state.franchise.held, [float(key in held) for key in known.ids[slots].tolist()])
    on_menu[n_classes:] = on_menu[n_classes:][order]
    tables = state.franchise._replace(held=on_menu, table_dish=table_dish)
    return Moved(after, frozen, rewrite(state, tables, frozen.menu, dishes=dishes, ids=ids))


def owner_of(known: Known, key: int) -> int:
    """Class whose restaurant serves a subclass, even after its last instance has been removed."""
    return int(np.argmax(known.tables[:, slots_of(known.ids, [key])[0]]))


def take_out(known: Known, key: int, row: Array, j: int, tables: float = 0.0) -> Known:
    """Remove one instance, and ``tables`` tables, from a subclass of class j. The argument does not change."""
    return _shift(known, key, row, j, -1.0, -tables)


def put_in(known: Known, key: int, row: Array, j: int) -> Known:
    """Add one instance to a subclass of class j. The argument does not change."""
    return _shift(known, key, row, j, 1.0, 0.0)


def _shift(known: Known, key: int, row: Array, j: int, count: float, tables: float) -> Known:
    k = int(slots_of(known.ids, [key])[0])
    dishes = copy_slots(known.dishes, np.arange(len(known.ids)), len(known.ids))
    (add if count > 0 else remove)(dishes, k, homogeneous(row[None])[0], known.prior)
    seated, served, size = (v.copy() for v in (known.seated, known.tables, known.size))
    seated[j, k] += count
    size[j] += count
    served[j, k] += tables
    return known._replace(dishes=dishes, seated=seated, tables=served, size=size)


def drop_class(known: Known, state: StreamState, j: int) -> Moved:
    """Delete a class without instances and tables."""
    known = known._replace(**{name: np.delete(getattr(known, name), j, axis=0) for name in _OF_CLASSES})
    known = known._replace(
        background_components=(*known.background_components[:j], *known.background_components[j + 1 :])
    )
    frozen, dishes = densities(known), np.arange(len(state.franchise.menu))
    held = np.delete(state.franchise.held, j)
    return Moved(known, frozen, renumber(state, dishes - (dishes > j), held, frozen.menu))


def _with_term(
    background_components: Sequence[tuple[BackgroundComponent, ...]], j: int, rows: Array, prior: Prior
) -> tuple[tuple[BackgroundComponent, ...], ...]:
    """Give class j a background component: its outline, with the degrees of freedom of the other classes."""
    whole = outline(numbers_of(rows, prior))
    freedom = next(component.shape.freedom for each in background_components for component in each)
    shape = Location(freedom, whole.mean, whole.factor, log_values(rows, prior))
    out = [*background_components, *[()] * (j + 1 - len(background_components))]
    out[j] = (BackgroundComponent(shape, 1.0),)
    return tuple(out)


_OF_CLASSES = ("seated", "tables", "size", "ranks")


def without_subclasses(known: Known, slots: Array) -> Known:
    """Drop the subclasses in these slots, with their instances."""
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


def rank_levels(known: Known, frozen: Densities, j: int, rows: Array, key: Array, new: float) -> Array:
    """Quantiles of the log densities of class j after it has received instances, shape (101,).

    Parameters
    ----------
    known, frozen
        The classes, with the instances. ``known.ranks`` holds the quantiles without them.
    j
        Number of the class.
    rows
        Whitened rows of the remembered instances, shape (n, d).
    key
        Subclass of class j of each instance, shape (n,).
    new
        Number of instances that the class has received.
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
