"""The micro-batch step: seat a batch of the stream given the known classes and what has emerged.

The state is a value. A step takes one and returns the next; whoever keeps the old one can undo.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.hdp.concentration import STREAM_ALPHA_RATE, STREAM_ALPHA_SHAPE
from stream_osr.hdp.dishes import Dishes, empty_dishes, remove, select
from stream_osr.hdp.franchise import CLOSED, Franchise, Guests, empty_franchise, leave, menu_weights
from stream_osr.hdp.known import Densities, Known, log_class_densities, log_new
from stream_osr.hdp.prior import homogeneous
from stream_osr.hdp.seating import weigh_dishes
from stream_osr.hdp.sweeps import sweep_batch

SPARE = 64
GUESTS_PER_PROPOSAL = 16
"""A split or merge is proposed for every so many instances of a batch, after each sweep."""
CLEARED_BELOW = 0.05
"""A table whose seat weight has faded below this is cleared away."""


class Settings(NamedTuple):
    """How the stream is sampled.

    Attributes
    ----------
    sweeps
        Re-seating sweeps after the first pass over a batch.
    window
        Latest instances before the batch that are re-seated with it.
    half_life
        Instances after which a seat weighs half; infinity: seats never fade (and the model ages).
    """

    sweeps: int = 5
    window: int = 256
    half_life: float = 200.0


class StreamState(NamedTuple):
    """The stream's restaurant and the subclasses that emerged in it. Size O(K d^2), however long the stream.

    Attributes
    ----------
    franchise
        Tables and menu; the frozen dishes are the known classes, the Gaussian ones the emerging subclasses.
    dishes
        Statistics of the emerging subclasses: exact, they never fade.
    ids
        Identity of each emerging subclass, shape (K,).
    window
        The latest instances, which can still be re-seated.
    window_seq
        Their positions in the stream, shape (w,).
    batches, seen
        Batches and instances so far.
    next_id
        The next identity; none is ever used twice.
    """

    franchise: Franchise
    dishes: Dishes
    ids: np.ndarray
    window: Guests
    window_seq: np.ndarray
    batches: int
    seen: int
    next_id: int


class BatchResult(NamedTuple):
    """What a step found out about the b instances of its batch.

    Attributes
    ----------
    probabilities
        Averaged conditional probability of each known class and, last, unknown, shape (b, J + 1).
    window_seq, window_probabilities
        Positions in the stream of the window's instances, shape (w,), and their probabilities now, shape
        (w, J + 1); nothing without re-seating sweeps.
    subclass
        Emerging subclass (its id) whose seat each instance took, -1 if it took a known one, shape (b,).
    log_density
        Log density under each known class, shape (b, J).
    responsible
        Most responsible subclass (position in :class:`Known`) of each class, shape (b, J).
    moved
        Positions in the stream of window instances whose emerging subclass changed, shape (m,).
    moved_to
        Their subclass now, -1 for a known one, shape (m,).
    """

    probabilities: np.ndarray
    window_seq: np.ndarray
    window_probabilities: np.ndarray
    subclass: np.ndarray
    log_density: np.ndarray
    responsible: np.ndarray
    moved: np.ndarray
    moved_to: np.ndarray


def open_stream(known: Known, frozen: Densities) -> StreamState:
    """Start the stream's restaurant: nobody seated, the known classes on the menu."""
    width = known.prior.n_features + 1
    n_classes = len(known.size)
    franchise = empty_franchise(1, n_classes, 0, STREAM_ALPHA_SHAPE / STREAM_ALPHA_RATE, known.gamma)
    franchise.held[:] = True
    franchise.menu[:] = frozen.menu
    franchise.total[0] = frozen.menu.sum()
    return StreamState(
        franchise=franchise,
        dishes=empty_dishes(0, known.prior),
        ids=np.zeros(0, np.int64),
        window=Guests(np.zeros((0, width)), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64)),
        window_seq=np.zeros(0, np.int64),
        batches=0,
        seen=0,
        next_id=int(known.ids.max()) + 1,
    )


def step(
    known: Known,
    frozen: Densities,
    state: StreamState,
    rows: np.ndarray,
    rng: np.random.Generator,
    settings: Settings,
) -> tuple[StreamState, BatchResult]:
    """Seat one micro-batch.

    Parameters
    ----------
    known, frozen
        The known classes; they do not change.
    state
        The stream so far; it does not change.
    rows
        Whitened rows of the batch, shape (b, d), b >= 1.
    rng
        Source of randomness, derived from the seed and the number of the batch.
    settings
        Sweeps, window, half-life.

    Returns
    -------
    The next state, and what was found out about the batch.
    """
    batch = homogeneous(rows)
    everyone = np.concatenate([state.window.rows, batch])
    log_density, responsible = log_class_densities(known, frozen, everyone)
    log_density_new = log_new(known, everyone)
    first = len(state.window.rows)
    randomness = rng.bit_generator.state
    spare = SPARE
    proposals = -(-len(batch) // GUESTS_PER_PROPOSAL)
    while True:
        guests, franchise, dishes = _lay_tables(state, everyone, len(batch), known, spare)
        probabilities = sweep_batch(
            rng,
            first,
            settings.sweeps,
            proposals,
            np.isfinite(settings.half_life),
            guests,
            log_density,
            log_density_new,
            franchise,
            dishes,
            known.prior,
        )
        if not franchise.overflow[0]:
            break
        rng.bit_generator.state = randomness
        spare *= 2
    n_classes = len(known.size)
    ids, next_id = _identities(state, guests, franchise, n_classes)
    served = franchise.table_dish[guests.table]
    subclass = np.where(served >= n_classes, ids[np.maximum(served - n_classes, 0)], -1)
    before = state.franchise.table_dish[state.window.table]
    was = np.full(first, -1)
    emerging = before >= n_classes
    was[emerging] = state.ids[before[emerging] - n_classes]
    changed = np.flatnonzero(was != subclass[:first])
    seated = StreamState(
        franchise,
        dishes,
        ids,
        guests,
        np.concatenate([state.window_seq, state.seen + np.arange(len(batch))]),
        state.batches + 1,
        state.seen + len(batch),
        next_id,
    )
    result = BatchResult(
        probabilities=probabilities[first:],
        window_seq=state.window_seq[: first if settings.sweeps else 0],
        window_probabilities=probabilities[: first if settings.sweeps else 0],
        subclass=subclass[first:],
        log_density=log_density[first:],
        responsible=responsible[first:],
        moved=state.window_seq[changed],
        moved_to=subclass[changed],
    )
    return _tidy(_fade(seated, len(batch), settings), known), result


def _lay_tables(
    state: StreamState, rows: np.ndarray, arriving: int, known: Known, spare: int
) -> tuple[Guests, Franchise, Dishes]:
    """Copy the state into arrays with room for new subclasses and tables; the batch stands at the door."""
    old = state.franchise
    n_dishes, n_tables = len(old.menu), len(old.table_dish)
    new = empty_franchise(1, n_dishes + spare, n_tables + spare, 1.0, 1.0)
    for name, source, target in zip(old._fields, old, new, strict=True):
        if name == "seated":
            target[:, :n_dishes] = source
        else:
            target[: len(source)] = source
    new.overflow[1] = n_dishes
    window = state.window
    guests = Guests(
        rows,
        np.zeros(len(rows), np.int64),
        np.concatenate([window.weight, np.ones(arriving)]),
        np.concatenate([window.table, np.full(arriving, CLOSED)]),
    )
    dishes = select(state.dishes, np.arange(len(state.ids)), len(state.ids) + spare, known.prior)
    return guests, new, dishes


def _identities(state: StreamState, guests: Guests, franchise: Franchise, n_classes: int) -> tuple[np.ndarray, int]:
    """Name the subclasses: old slots keep their identity, slots opened in this batch get fresh ones.

    A slot that was emptied and opened again inside the batch keeps its number only if somebody who sat there
    before still does; otherwise it is a new subclass.
    """
    count = len(franchise.menu) - n_classes
    ids = np.full(count, -1)
    old = len(state.ids)
    ids[:old] = state.ids
    before = state.franchise.table_dish[state.window.table] - n_classes
    now = franchise.table_dish[guests.table[: len(before)]] - n_classes
    settled = state.dishes.size - np.bincount(before[before >= 0], minlength=old)
    stays = settled > 0
    stays[now[(now == before) & (now >= 0)]] = True
    ids[:old][~stays] = -1  # all who had the number have left it to others
    serving = menu_weights(franchise)[n_classes:] > 0.0
    ids[~serving] = -1
    fresh = np.flatnonzero(serving & (ids == -1))
    ids[fresh] = state.next_id + np.arange(len(fresh))
    return ids, state.next_id + len(fresh)


def _fade(state: StreamState, arrived: int, settings: Settings) -> StreamState:
    """Settle whoever leaves the window, let the seats fade, clear the tables that have faded away."""
    franchise, guests = state.franchise, state.window
    kept = max(len(guests.rows) - settings.window, 0)
    for i in range(kept):
        table = guests.table[i]
        franchise.table_residual[table] += guests.weight[i]
        franchise.table_live[table] -= 1
    fade = 0.5 ** (arrived / settings.half_life)
    window = Guests(
        guests.rows[kept:].copy(),
        guests.group[kept:].copy(),
        guests.weight[kept:] * fade,
        guests.table[kept:].copy(),
    )
    franchise.table_residual[:] *= fade
    franchise.table_founder[:] *= fade
    franchise.table_mass[:] = franchise.table_residual
    np.add.at(franchise.table_mass, window.table, window.weight)
    faded = (franchise.table_dish != CLOSED) & (franchise.table_live == 0) & (franchise.table_mass < CLEARED_BELOW)
    for table in np.flatnonzero(faded):
        franchise.menu[franchise.table_dish[table]] -= 1.0
        franchise.table_dish[table] = CLOSED
        franchise.table_residual[table] = franchise.table_mass[table] = 0.0
    used = franchise.table_dish != CLOSED
    franchise.seated[:] = 0.0
    np.add.at(franchise.seated[0], franchise.table_dish[used], franchise.table_mass[used])
    return state._replace(window=window, window_seq=state.window_seq[kept:])


def _tidy(state: StreamState, known: Known) -> StreamState:
    """Drop subclasses that are off the menu and slots that are not in use."""
    n_classes = len(known.size)
    old = state.franchise
    weight = menu_weights(old)
    kept = np.flatnonzero(weight[n_classes:] > 0.0)
    dish_number = np.full(len(old.menu), CLOSED)
    dish_number[:n_classes] = np.arange(n_classes)
    dish_number[n_classes + kept] = n_classes + np.arange(len(kept))
    tables = np.flatnonzero(old.table_dish != CLOSED)
    table_number = np.full(len(old.table_dish), CLOSED)
    table_number[tables] = np.arange(len(tables))
    numbers = np.concatenate([np.arange(n_classes), n_classes + kept])
    franchise = Franchise(
        menu=old.menu[numbers],
        held=old.held[numbers],
        owner=old.owner[numbers],
        seated=np.ascontiguousarray(old.seated[:, numbers]),
        table_dish=dish_number[old.table_dish[tables]],
        table_group=old.table_group[tables],
        table_live=old.table_live[tables],
        table_residual=old.table_residual[tables],
        table_mass=old.table_mass[tables],
        table_founder=old.table_founder[tables],
        alpha=old.alpha.copy(),
        gamma=old.gamma.copy(),
        total=np.full(1, weight[numbers].sum()),
        overflow=np.zeros(2, np.int64),
    )
    return state._replace(
        franchise=franchise,
        dishes=select(state.dishes, kept, len(kept), known.prior),
        ids=state.ids[kept],
        window=state.window._replace(table=table_number[state.window.table]),
    )


def immediate(known: Known, frozen: Densities, state: StreamState, rows: np.ndarray) -> np.ndarray:
    """Class probabilities from the present state alone: nobody is seated, nothing changes.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).

    Returns
    -------
    Probability of each known class and, last, unknown, shape (n, J + 1).
    """
    instances = homogeneous(rows)
    log_density, _ = log_class_densities(known, frozen, instances)
    log_density_new = log_new(known, instances)
    n_classes = len(known.size)
    weights = np.empty(len(state.franchise.menu) + 1)
    out = np.empty((len(rows), n_classes + 1))
    for i in range(len(rows)):
        total = weigh_dishes(
            instances[i],
            0,
            CLOSED,
            log_density[i],
            log_density_new[i],
            state.franchise,
            state.dishes,
            known.prior,
            weights,
        )
        out[i, :n_classes] = weights[:n_classes] / total
        out[i, n_classes] = weights[n_classes:].sum() / total
    return out


def hold(known: Known, state: StreamState, ids: set[int]) -> StreamState:
    """Keep exactly these emerging subclasses on the menu when their tables fade.

    One that is let go and has no table any more is gone.
    """
    franchise = state.franchise
    n_classes = len(franchise.menu) - len(state.ids)
    held = franchise.held.copy()
    held[n_classes:] = np.isin(state.ids, np.fromiter(ids, np.int64, len(ids)))
    if np.array_equal(held, franchise.held):
        return state
    return _tidy(state._replace(franchise=franchise._replace(held=held)), known)


def refresh_classes(state: StreamState, before: Known, known: Known, frozen: Densities) -> StreamState:
    """Carry the stream over to known classes that labels have changed; new classes join the menu."""
    old_count, count = len(before.size), len(known.size)
    old = state.franchise
    live = np.zeros(count)
    in_use = old.table_dish[(old.table_dish != CLOSED) & (old.table_dish < old_count)]
    np.add.at(live, in_use, 1.0)
    added = count - old_count

    def widen(values: np.ndarray, fill: float) -> np.ndarray:
        return np.insert(values, [old_count] * added, fill, axis=-1)

    menu = widen(old.menu, 0.0)
    menu[:count] = frozen.menu + live
    franchise = old._replace(
        menu=menu,
        held=widen(old.held, True),
        owner=widen(old.owner, -1),
        seated=np.ascontiguousarray(widen(old.seated, 0.0)),
        table_dish=np.where(old.table_dish >= old_count, old.table_dish + added, old.table_dish),
    )
    weight = menu_weights(franchise)
    return state._replace(franchise=franchise._replace(total=np.full(1, weight.sum())))


def withdraw(
    known: Known, state: StreamState, row: np.ndarray, seq: int, subclass: int, weight: float
) -> StreamState:
    """Take one past instance out of the stream: its seat, and its part in the emerging subclass it sat in.

    Parameters
    ----------
    row
        Whitened row, shape (d,).
    seq
        Its position in the stream.
    subclass
        Identity of the emerging subclass that holds it, or -1.
    weight
        What its seat weighs now.
    """
    n_classes = len(known.size)
    franchise = Franchise(*(v.copy() for v in state.franchise))
    dishes = Dishes(*(v.copy() for v in state.dishes))
    window, window_seq = state.window, state.window_seq
    here = np.flatnonzero(window_seq == seq)
    slot = np.flatnonzero(state.ids == subclass)
    if len(here):
        leave(franchise, int(window.table[here[0]]), float(window.weight[here[0]]))
        window = Guests(*(np.delete(v, here[0], axis=0) for v in window))
        window_seq = np.delete(window_seq, here[0])
    elif len(slot):
        _lighten(franchise, n_classes + int(slot[0]), weight)
    if len(slot):
        remove(dishes, int(slot[0]), homogeneous(row[None])[0], known.prior)
        if dishes.size[slot[0]] == 0:
            franchise.held[n_classes + slot[0]] = False
            for table in np.flatnonzero(franchise.table_dish == n_classes + slot[0]):
                franchise.table_dish[table] = CLOSED
            franchise.menu[n_classes + slot[0]] = 0.0
            franchise.seated[:, n_classes + slot[0]] = 0.0
    return _tidy(state._replace(franchise=franchise, dishes=dishes, window=window, window_seq=window_seq), known)


def _lighten(franchise: Franchise, dish: int, weight: float) -> None:
    """Take a settled seat's weight from the table of the dish that has most of it."""
    tables = np.flatnonzero(franchise.table_dish == dish)
    if len(tables):
        table = tables[np.argmax(franchise.table_residual[tables])]
        taken = min(weight, float(franchise.table_residual[table]))
        franchise.table_residual[table] -= taken
        franchise.table_mass[table] -= taken
        franchise.seated[0, dish] -= taken
