"""Subclasses change sides: from the stream's menu into a known class when a person names them, and back.

Statistics and identities go with them as they are. The tables that served a named subclass serve its class from then
on, so that the class begins with the odds that its subclasses had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.broad import add_broad, outline
from stream_osr.model.dishes import Dishes, add, copy_slots, empty_dishes, log_constant, remove
from stream_osr.model.franchise import ANYONE, CLOSED, Franchise, Guests, leave
from stream_osr.model.gaussian import diagonal, full
from stream_osr.model.known import N_RANKS, Densities, Known, broad_shapes, densities, leave_one_out, log_new
from stream_osr.model.location import Location
from stream_osr.model.prior import DIAGONAL, FULL, Prior, homogeneous
from stream_osr.model.restaurant import StreamState, tidy
from stream_osr.model.step import lighten, refresh_classes


class Moved(NamedTuple):
    """Known classes, their densities, and the stream's state, after subclasses have changed sides."""

    known: Known
    frozen: Densities
    state: StreamState


class Seat(NamedTuple):
    """Where one instance of the stream sits.

    Attributes
    ----------
    subclass
        Identity of the emerging subclass that holds it, -1: none.
    j
        Number of the known class at whose table it sits, -1: none, or not known any more.
    weight
        What its seat weighs.
    live
        It can still be re-seated.
    alone
        Nobody else sits at its table.
    """

    subclass: int
    j: int
    weight: float
    live: bool
    alone: bool


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
        after = after._replace(broad=_with_term(after.broad, j, rows))
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
    state = refresh_classes(state, known, after, frozen)
    franchise, dishes = state.franchise, len(after.size) + slots
    held = franchise.held.copy()
    held[dishes] = 0.0
    table_dish = np.where(np.isin(franchise.table_dish, dishes), j, franchise.table_dish)
    state = state._replace(franchise=franchise._replace(held=held, table_dish=table_dish))
    return Moved(after, frozen, count_anew(state, frozen))


def give_back(
    known: Known,
    state: StreamState,
    keys: Sequence[int],
    home: np.ndarray,
    member: np.ndarray,
    held: Collection[int],
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
    n_classes = len(known.size)
    slots = slots_of(known.ids, keys)
    everyone = np.append(state.ids, known.ids[slots])
    order = np.argsort(everyone)
    ids = everyone[order]
    dishes = joined(state.dishes, copy_slots(known.dishes, slots, len(slots)))
    dishes = copy_slots(dishes, order, len(order))
    after = without_subclasses(known, slots)
    frozen = densities(after)
    franchise, window = state.franchise, state.window
    table_dish = franchise.table_dish.copy()
    emerging = np.flatnonzero(table_dish >= n_classes)
    table_dish[emerging] = n_classes + np.argsort(order)[table_dish[emerging] - n_classes]
    moving = np.flatnonzero(home >= 0)
    table_dish[moving] = n_classes + np.searchsorted(ids, home[moving])
    for i in np.flatnonzero((home[window.table] >= 0) & ~member):
        add(dishes, int(table_dish[window.table[i]]) - n_classes, window.rows[i], known.prior)
    flags = np.append(franchise.held[n_classes:], [float(key in held) for key in known.ids[slots].tolist()])
    count = n_classes + len(ids)
    franchise = franchise._replace(
        menu=np.zeros(count),
        held=np.append(franchise.held[:n_classes], flags[order]),
        owner=np.full(count, ANYONE),
        seated=np.zeros((1, count)),
        table_dish=table_dish,
        extent=np.array([count, len(table_dish)]),
    )
    state = state._replace(franchise=franchise, dishes=dishes, ids=ids)
    return Moved(after, frozen, count_anew(state, frozen))


def split_off(
    known: Known,
    state: StreamState,
    dishes: Dishes,
    rows: np.ndarray,
    seq: np.ndarray,
    subclass: np.ndarray,
    weight: np.ndarray,
) -> StreamState:
    """Give instances that other subclasses hold an emerging subclass of their own, with the next identity.

    Parameters
    ----------
    known, state
        As they are; they stay so.
    dishes
        Statistics of the new subclass, one slot.
    rows
        Whitened rows of the instances that are remembered, shape (n, d).
    seq, subclass, weight
        Position in the stream, emerging subclass (-1: none) and what a seat weighs now, of each, shape (n,).
    """
    n_classes, count = len(known.size), len(state.franchise.menu)
    table = len(state.franchise.table_dish)
    franchise = _with_table(_with_dish(state.franchise), count)
    window = state.window._replace(table=state.window.table.copy())
    place = {int(s): i for i, s in enumerate(state.window_seq)}
    own = joined(state.dishes, dishes)
    for row, s, old, settled in zip(homogeneous(rows), seq.tolist(), subclass.tolist(), weight.tolist(), strict=True):
        slot = slots_of(state.ids, [old])
        if s in place:
            i = place[s]
            leave(franchise, int(window.table[i]), float(window.weight[i]))
            window.table[i] = table
            franchise.table_live[table] += 1
            franchise.table_mass[table] += window.weight[i]
        elif len(slot):
            taken = lighten(franchise, n_classes + int(slot[0]), settled)
            franchise.table_residual[table] += taken
            franchise.table_mass[table] += taken
        if len(slot):
            remove(own, int(slot[0]), row, known.prior)
    if not franchise.table_mass[table]:
        franchise.table_dish[table] = CLOSED
    franchise.table_founder[table] = franchise.table_mass[table]
    franchise.held[count] = 1.0
    state = state._replace(
        franchise=franchise,
        dishes=own,
        ids=np.append(state.ids, state.next_id),
        window=window,
        next_id=state.next_id + 1,
    )
    return count_anew(state, densities(known))


def put_back(
    known: Known, state: StreamState, row: np.ndarray, seq: int, seat: Seat, weight: float, live: bool
) -> StreamState:
    """Seat an instance again that :func:`stream_osr.model.step.withdraw` has taken out.

    Parameters
    ----------
    known, state
        As they are; they stay so.
    row
        Whitened row, shape (d,).
    seq
        Its position in the stream.
    seat
        Where it sat; the dish is there.
    weight
        What the seat weighs now.
    live
        It can be re-seated again, as one of the window.
    """
    n_classes = len(known.size)
    franchise = Franchise(*(v.copy() for v in state.franchise))
    dishes = Dishes(*(v.copy() for v in state.dishes))
    window, window_seq, instance = state.window, state.window_seq, homogeneous(row[None])
    dish = seat.j
    if seat.subclass >= 0:
        slot = int(slots_of(state.ids, [seat.subclass])[0])
        add(dishes, slot, instance[0], known.prior)
        dish = n_classes + slot
    tables = np.flatnonzero(franchise.table_dish == dish)
    if (live or weight > 0.0) and (seat.alone or not len(tables)):
        tables = np.array([len(franchise.table_dish)])
        franchise = _with_table(franchise, dish)
        franchise.table_founder[-1] = weight
    if live or weight > 0.0:
        table = int(tables[np.argmax(franchise.table_mass[tables])])
        franchise.table_mass[table] += weight
        if live:
            at = int(np.searchsorted(window_seq, seq))
            franchise.table_live[table] += 1
            window_seq = np.insert(window_seq, at, seq)
            window = Guests(
                np.insert(window.rows, at, instance, axis=0),
                np.insert(window.group, at, 0),
                np.insert(window.weight, at, weight),
                np.insert(window.table, at, table),
            )
        else:
            franchise.table_residual[table] += weight
    state = state._replace(franchise=franchise, dishes=dishes, window=window, window_seq=window_seq)
    return count_anew(state, densities(known))


def seat_of(known: Known, state: StreamState, seq: int, subclass: int, weight: float) -> Seat:
    """Say where an instance sits that came at position ``seq``.

    Parameters
    ----------
    known, state
        Known classes and state.
    seq
        Position in the stream.
    subclass
        Identity of the emerging subclass that holds it, or -1.
    weight
        What its seat weighs if it has left the window.
    """
    franchise, n_classes = state.franchise, len(known.size)
    here = np.flatnonzero(state.window_seq == seq)
    slot = slots_of(state.ids, [subclass])
    emerging = subclass if len(slot) else -1
    if len(here):
        table = int(state.window.table[here[0]])
        dish = int(franchise.table_dish[table])
        alone = bool(franchise.table_live[table] == 1 and franchise.table_residual[table] == 0.0)
        own = float(franchise.table_mass[table] if alone else state.window.weight[here[0]])
        return Seat(emerging, dish if dish < n_classes else -1, own, live=True, alone=alone)
    if len(slot):
        residual = franchise.table_residual[franchise.table_dish == n_classes + slot[0]]
        return Seat(emerging, -1, float(min(weight, residual.max(initial=0.0))), live=False, alone=False)
    return Seat(-1, -1, 0.0, live=False, alone=False)


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
    known = known._replace(broad=_without_term(known.broad, j))
    frozen = densities(known)
    franchise = state.franchise
    franchise = franchise._replace(
        menu=np.delete(franchise.menu, j),
        held=np.delete(franchise.held, j),
        owner=np.delete(franchise.owner, j),
        seated=np.delete(franchise.seated, j, axis=1),
        table_dish=franchise.table_dish - (franchise.table_dish > j),
        extent=franchise.extent - np.array([1, 0]),
    )
    return Moved(known, frozen, count_anew(state._replace(franchise=franchise), frozen))


def _with_term(broad: Sequence[Location | None], j: int, rows: np.ndarray) -> tuple[Location | None, ...]:
    """Give class j a broad term: its outline, with the degrees of freedom of the others."""
    whole = outline(rows)
    freedom = next(shape.freedom for shape in broad if shape is not None)
    shapes = [*broad, *[None] * (j + 1 - len(broad))]
    shapes[j] = Location(freedom, whole.mean, whole.factor)
    return tuple(shapes)


def _without_term(broad: Sequence[Location | None], j: int) -> tuple[Location | None, ...]:
    """Drop the broad term of class j."""
    return (*broad[:j], *broad[j + 1 :])


_OF_CLASSES = ("seated", "tables", "size", "ranks")


def open_class(known: Known) -> Known:
    """Add a class without instances."""
    seated, tables = (np.vstack([v, np.zeros(v.shape[1])]) for v in (known.seated, known.tables))
    ranks = np.vstack([known.ranks, np.zeros(N_RANKS)])
    return known._replace(seated=seated, tables=tables, size=np.append(known.size, 0.0), ranks=ranks)


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
    own = np.flatnonzero(known.seated[j] > 0)
    before = known.size[j] - new
    if not len(rows):
        if before > 0:
            return np.array(known.ranks[j])
        return np.full(N_RANKS, log_new(known, homogeneous(np.zeros((1, known.prior.n_features))))[0])
    found = leave_one_out(
        homogeneous(rows),
        np.zeros(len(rows), np.int64),
        np.searchsorted(own, slots_of(known.ids, key.tolist())),
        copy_slots(known.dishes, own, len(own)),
        np.ascontiguousarray(frozen.log_weight[[j]][:, own]),
        np.ascontiguousarray(known.seated[[j]][:, own]),
        known.size[[j]],
        known.alpha,
        known.prior,
    )
    found = add_broad(found, broad_shapes(known)[j : j + 1], frozen.log_weight[[j]], homogeneous(rows))
    found = found[:, 0]
    found = np.where(np.isfinite(found), found, log_new(known, homogeneous(rows)))
    levels = np.linspace(0.0, 1.0, N_RANKS)
    if before <= 0:
        return np.quantile(found, levels)
    weights = np.append(np.full(N_RANKS, before / N_RANKS), np.full(len(found), new / len(found)))
    return np.quantile(np.append(known.ranks[j], found), levels, method="inverted_cdf", weights=weights)


def restated(dishes: Dishes, k: int, prior: Prior, other: Prior) -> Dishes:
    """State subclass k under another base measure of the same covariance model: one slot."""
    out = copy_slots(dishes, np.array([k]), 1)
    if prior == other:
        return out
    n = int(out.size[0])
    out.matrix[0] += empty_dishes(1, other).matrix[0] - empty_dishes(1, prior).matrix[0]
    if other.covariance == FULL:
        out.log_det[0] = full.invert(out.matrix[0], out.inverse[0])
    elif other.covariance == DIAGONAL:
        out.log_det[0] = diagonal.refresh(out.matrix[0], out.inverse[0], n, other)
    out.constant[0] = log_constant(n, other), log_constant(n - 1, other)
    out.updates[0] = 0
    return out


def joined(first: Dishes, second: Dishes) -> Dishes:
    """Lay the slots of two tables side by side."""
    return Dishes(*(np.concatenate([a, b]) for a, b in zip(first, second, strict=True)))


def count_anew(state: StreamState, frozen: Densities) -> StreamState:
    """Count tables and seats of every dish from the tables themselves, and tidy up."""
    franchise, n_classes = state.franchise, len(frozen.menu)
    used = franchise.table_dish != CLOSED
    dish, count = franchise.table_dish[used], len(franchise.menu)
    menu = np.bincount(dish, minlength=count).astype(float)
    menu[:n_classes] += frozen.menu
    seated = np.bincount(dish, franchise.table_mass[used], minlength=count).reshape(1, count)
    return tidy(state._replace(franchise=franchise._replace(menu=menu, seated=seated)), n_classes)


def _with_dish(franchise: Franchise) -> Franchise:
    """Copy the books, with one more dish that nobody has ordered."""
    return Franchise(*(v.copy() for v in franchise))._replace(
        menu=np.append(franchise.menu, 0.0),
        held=np.append(franchise.held, 0.0),
        owner=np.append(franchise.owner, ANYONE),
        seated=np.hstack([franchise.seated, np.zeros((1, 1))]),
        extent=franchise.extent + np.array([1, 0]),
    )


def _with_table(franchise: Franchise, dish: int) -> Franchise:
    """Open one more table for the dish, with nobody at it."""
    return franchise._replace(
        table_dish=np.append(franchise.table_dish, dish),
        table_group=np.append(franchise.table_group, 0),
        table_live=np.append(franchise.table_live, 0),
        table_residual=np.append(franchise.table_residual, 0.0),
        table_mass=np.append(franchise.table_mass, 0.0),
        table_founder=np.append(franchise.table_founder, 0.0),
        extent=franchise.extent + np.array([0, 1]),
    )
