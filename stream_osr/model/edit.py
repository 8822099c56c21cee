"""Edits of the stream's state between two batches.

They merge, split, hold and drop subclasses, and they add and remove seats. Tables and the hold marks are the primary
data. Each function updates these, and :func:`derive` computes the rest. Functions take a state and return the next
one. They move statistics and never estimate them.

When a person names subclasses, they move from the stream's menu into a known class. An undo moves them back. Their
statistics and identities stay the same. The tables that served a named subclass serve its class from then on, so the
class begins with the odds that its subclasses had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stream_osr.model import known as classes
from stream_osr.model.background_components import BackgroundComponent, log_values, outline
from stream_osr.model.dishes import Dishes, add, concatenated, copy_slots, empty_dishes, remove, settle
from stream_osr.model.franchise import CLOSED, Franchise, Guests, StreamState, derive, leave
from stream_osr.model.jit import Array
from stream_osr.model.marginal import add_statistics, of_nobody, statistics_of
from stream_osr.model.prior import Prior, homogeneous, numbers_of, same_prior
from stream_osr.model.student_t import Location

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

    subclass: int
    j: int
    weight: float
    live: bool
    alone: bool


# What is read in the books


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


# How they are written


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
    if np.array_equal(np.maximum(old.menu, held), np.maximum(old.menu, old.held)):  # the books say the same
        return state._replace(franchise=tables, ids=state.ids.copy())  # a copy, as when they are derived anew
    return rewrite(state, tables)


def gather(
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


def refresh_classes(state: StreamState, frozen: classes.Densities) -> StreamState:
    """Carry the stream over to known classes that have changed. New classes join the menu."""
    count, added = classes_of(state), len(frozen.menu) - classes_of(state)
    number = np.arange(len(state.franchise.menu))
    held = np.insert(state.franchise.held, [count] * added, 1.0)
    number[count:] += added
    return renumber(state, number, held, frozen.menu)._replace(ids=state.ids)  # nobody goes


class Moved(NamedTuple):
    """Known classes, their densities, and the stream's state after subclasses have moved between the two."""

    known: classes.Known
    frozen: classes.Densities
    state: StreamState


def slots_of(ids: Array, keys: Sequence[int]) -> Array:
    """Positions of the given identities, in their order. Absent identities are skipped."""
    at = {int(key): slot for slot, key in enumerate(ids)}
    return np.array([at[key] for key in keys if key in at], dtype=np.int64)


def adopt(known: classes.Known, state: StreamState, keys: Sequence[int], j: int, rows: Array) -> Moved:
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
    after = classes.open_class(known) if j == len(known.size) else known
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
    frozen = classes.densities(after)
    state = refresh_classes(state, frozen)
    held, number, dishes = state.franchise.held.copy(), np.arange(len(state.franchise.menu)), len(after.size) + slots
    held[dishes], number[dishes] = 0.0, j
    return Moved(after, frozen, renumber(state, number, held, frozen.menu))


def give_back(
    known: classes.Known, state: StreamState, keys: Sequence[int], home: Array, member: Array, held: Collection[int]
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
    frozen = classes.densities(after)
    number = np.append(np.arange(n_classes), place)
    table_dish = np.where(home >= 0, n_classes + np.searchsorted(ids, home), number[state.franchise.table_dish])
    for i in np.flatnonzero((home[window.table] >= 0) & ~member):
        add(dishes, int(table_dish[window.table[i]]) - n_classes, window.rows[i], known.prior)
    on_menu = np.append(state.franchise.held, [float(key in held) for key in known.ids[slots].tolist()])
    on_menu[n_classes:] = on_menu[n_classes:][order]
    tables = state.franchise._replace(held=on_menu, table_dish=table_dish)
    return Moved(after, frozen, rewrite(state, tables, frozen.menu, dishes=dishes, ids=ids))


def owner_of(known: classes.Known, key: int) -> int:
    """Class whose restaurant serves a subclass, even after its last instance has been removed."""
    return int(np.argmax(known.tables[:, slots_of(known.ids, [key])[0]]))


def take_out(known: classes.Known, key: int, row: Array, j: int, tables: float = 0.0) -> classes.Known:
    """Remove one instance, and ``tables`` tables, from a subclass of class j. The argument does not change."""
    return _shift(known, key, row, j, -1.0, -tables)


def put_in(known: classes.Known, key: int, row: Array, j: int) -> classes.Known:
    """Add one instance to a subclass of class j. The argument does not change."""
    return _shift(known, key, row, j, 1.0, 0.0)


def _shift(known: classes.Known, key: int, row: Array, j: int, count: float, tables: float) -> classes.Known:
    k = int(slots_of(known.ids, [key])[0])
    dishes = copy_slots(known.dishes, np.arange(len(known.ids)), len(known.ids))
    (add if count > 0 else remove)(dishes, k, homogeneous(row[None])[0], known.prior)
    seated, served, size = (v.copy() for v in (known.seated, known.tables, known.size))
    seated[j, k] += count
    size[j] += count
    served[j, k] += tables
    return known._replace(dishes=dishes, seated=seated, tables=served, size=size)


def drop_class(known: classes.Known, state: StreamState, j: int) -> Moved:
    """Delete a class without instances and tables."""
    known = known._replace(**{name: np.delete(getattr(known, name), j, axis=0) for name in _OF_CLASSES})
    known = known._replace(
        background_components=(*known.background_components[:j], *known.background_components[j + 1 :])
    )
    frozen, dishes = classes.densities(known), np.arange(len(state.franchise.menu))
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


def without_subclasses(known: classes.Known, slots: Array) -> classes.Known:
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


def rank_levels(
    known: classes.Known, frozen: classes.Densities, j: int, rows: Array, key: Array, new: float
) -> Array:
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
        return np.full(classes.N_RANKS, classes.log_new(known, homogeneous(middle[None]))[0])
    group = np.full(len(rows), j)
    found = classes.unseen(known, frozen, homogeneous(rows), group, slots_of(known.ids, key.tolist()))
    levels = np.linspace(0.0, 1.0, classes.N_RANKS)
    if before <= 0:
        return np.quantile(found, levels)
    weights = np.append(np.full(classes.N_RANKS, before / classes.N_RANKS), np.full(len(found), new / len(found)))
    return np.quantile(np.append(known.ranks[j], found), levels, method="inverted_cdf", weights=weights)


def restated(dishes: Dishes, k: int, prior: Prior, other: Prior) -> Dishes:
    """Express subclass k under another base measure, as one slot."""
    out = copy_slots(dishes, np.array([k]), 1)
    if not same_prior(prior, other):
        out.matrix[0] += of_nobody(other) - of_nobody(prior)
        settle(out, 0, int(out.size[0]), other)
    return out
