"""The micro-batch step: seat a batch of the stream given the known classes and what has emerged.

The state is a value. A step takes one and returns the next; whoever keeps the old one can undo.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.dishes import Dishes, empty_dishes, remove
from stream_osr.model.franchise import CLOSED, Franchise, Guests, empty_franchise, leave, menu_weights
from stream_osr.model.jit import kernel
from stream_osr.model.known import Densities, Known, log_densities
from stream_osr.model.moves.concentration import STREAM_ALPHA_RATE, STREAM_ALPHA_SHAPE
from stream_osr.model.moves.seating import weigh_dishes
from stream_osr.model.moves.sweeps import sweep_batch
from stream_osr.model.prior import FULL, Prior, homogeneous
from stream_osr.model.restaurant import StreamState, fade, lay_tables, name_subclasses, tidy
from stream_osr.model.terms import products

SPARE = 16
"""Free slots for subclasses that a batch starts with, beside one for every so many of its instances (below)."""
INSTANCES_PER_SLOT = 8
GUESTS_PER_PROPOSAL = 16
"""A split or merge is proposed for every so many instances of a batch, after each sweep."""


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
    log_density, log_density_new
        Log density under each known class, shape (b, J), and as the first of a new subclass, shape (b,).
    responsible
        Most responsible subclass (position in :class:`Known`) of each class, shape (b, J).
    moved
        Positions in the stream of window instances whose emerging subclass changed, shape (m,).
    moved_from, moved_to
        Their subclass before and now, -1 for a known one, shape (m,).
    window_subclass, window_log_density
        Emerging subclass that each instance of the window (as it was before the batch) sits in now, -1: none, shape
        (w,), and its log density under each known class, shape (w, J).
    """

    probabilities: np.ndarray
    window_seq: np.ndarray
    window_probabilities: np.ndarray
    subclass: np.ndarray
    log_density: np.ndarray
    log_density_new: np.ndarray
    responsible: np.ndarray
    moved: np.ndarray
    moved_from: np.ndarray
    moved_to: np.ndarray
    window_subclass: np.ndarray
    window_log_density: np.ndarray


def open_stream(known: Known, frozen: Densities) -> StreamState:
    """Start the stream's restaurant: nobody seated, the known classes on the menu."""
    width = known.prior.n_features + 1
    n_classes = len(known.size)
    franchise = empty_franchise(1, n_classes, 0, STREAM_ALPHA_SHAPE / STREAM_ALPHA_RATE, known.gamma)
    franchise.held[:] = 1.0
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
    first = len(state.window.rows)
    everyone = np.concatenate([state.window.rows, batch]) if first else batch
    columns = np.ascontiguousarray(everyone.T)
    product = products(columns) if known.prior.covariance == FULL else np.empty((0, 0))
    log_density, responsible, log_density_new = log_densities(known, frozen, everyone, product)
    randomness = rng.bit_generator.state
    spare = SPARE + len(rows) // INSTANCES_PER_SLOT
    while True:
        seated, probabilities, subclass, was = seat_batch(
            rng, state, everyone, columns, product, log_density, log_density_new, known.prior, settings, spare
        )
        if len(subclass):
            break
        rng.bit_generator.state = randomness
        spare *= 2
    changed = np.flatnonzero(was != subclass[:first])
    again = first if settings.sweeps else 0
    result = BatchResult(
        probabilities=probabilities[first:],
        window_seq=state.window_seq[:again],
        window_probabilities=probabilities[:again],
        subclass=subclass[first:],
        log_density=log_density[first:],
        log_density_new=log_density_new[first:],
        responsible=responsible[first:],
        moved=state.window_seq[changed],
        moved_from=was[changed],
        moved_to=subclass[changed],
        window_subclass=subclass[:first],
        window_log_density=log_density[:first],
    )
    return seated, result


@kernel
def seat_batch(
    rng: np.random.Generator,
    state: StreamState,
    rows: np.ndarray,
    columns: np.ndarray,
    product: np.ndarray,
    log_density: np.ndarray,
    log_density_new: np.ndarray,
    prior: Prior,
    settings: Settings,
    spare: int,
) -> tuple[StreamState, np.ndarray, np.ndarray, np.ndarray]:
    """Seat the guests who stand at the door and tidy up: a step but for the densities of the known classes.

    Parameters
    ----------
    rng, state, prior, settings
        As for :func:`step`.
    rows, columns, product
        Homogeneous rows of the window and the batch, shape (n, d + 1), their transpose and their products.
    log_density, log_density_new
        Their log densities under the known classes, shape (n, J), and a new subclass, shape (n,).
    spare
        Free slots for subclasses.

    Returns
    -------
    The next state, probabilities of shape (n, J + 1), the emerging subclass of each guest now, shape (n,), and of
    each guest of the window before, shape (w,). If the slots ran out everything but the state is empty, which is
    the one before.
    """
    n, n_classes = log_density.shape
    first = len(state.window.weight)
    guests, franchise, dishes = lay_tables(state, rows, n - first, prior, spare)
    probabilities = sweep_batch(
        rng,
        first,
        settings.sweeps,
        -(-(n - first) // GUESTS_PER_PROPOSAL),
        np.isfinite(settings.half_life),
        guests,
        log_density,
        log_density_new,
        franchise,
        dishes,
        prior,
        columns,
        product,
    )
    if franchise.overflow[0]:
        nobody = np.zeros(0, np.int64)
        return state, np.zeros((0, 0)), nobody, nobody
    ids, next_id = name_subclasses(state, guests, franchise, n_classes)
    subclass, was = np.full(n, -1), np.full(first, -1)
    for i in range(n):
        dish = franchise.table_dish[guests.table[i]]
        if dish >= n_classes:
            subclass[i] = ids[dish - n_classes]
    for i in range(first):
        dish = state.franchise.table_dish[state.window.table[i]]
        if dish >= n_classes:
            was[i] = state.ids[dish - n_classes]
    kept = max(n - settings.window, 0)
    seq = np.empty(n, np.int64)
    seq[:first] = state.window_seq
    seq[first:] = state.seen + np.arange(n - first)
    window = fade(franchise, guests, kept, 0.5 ** ((n - first) / settings.half_life))
    seated = StreamState(
        franchise, dishes, ids, window, seq[kept:].copy(), state.batches + 1, state.seen + n - first, next_id
    )
    return tidy(seated, n_classes), probabilities, subclass, was


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
    log_density, _, log_density_new = log_densities(known, frozen, instances)
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
    held[n_classes:] = [key in ids for key in state.ids.tolist()]
    if np.array_equal(held, franchise.held):
        return state
    return tidy(state._replace(franchise=franchise._replace(held=held)), n_classes)


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
        held=widen(old.held, 1.0),
        owner=widen(old.owner, -1),
        seated=np.ascontiguousarray(widen(old.seated, 0.0)),
        extent=old.extent + np.array([added, 0]),
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
        lighten(franchise, n_classes + int(slot[0]), weight)
    if len(slot):
        remove(dishes, int(slot[0]), homogeneous(row[None])[0], known.prior)
        if dishes.size[slot[0]] == 0:
            franchise.held[n_classes + slot[0]] = 0.0
            for table in np.flatnonzero(franchise.table_dish == n_classes + slot[0]):
                franchise.table_dish[table] = CLOSED
            franchise.menu[n_classes + slot[0]] = 0.0
            franchise.seated[:, n_classes + slot[0]] = 0.0
    return tidy(state._replace(franchise=franchise, dishes=dishes, window=window, window_seq=window_seq), n_classes)


def lighten(franchise: Franchise, dish: int, weight: float) -> float:
    """Take a settled seat's weight from the table of the dish that has most of it; returns what was there."""
    tables = np.flatnonzero(franchise.table_dish == dish)
    if not len(tables):
        return 0.0
    table = tables[np.argmax(franchise.table_residual[tables])]
    taken = min(weight, float(franchise.table_residual[table]))
    franchise.table_residual[table] -= taken
    franchise.table_mass[table] -= taken
    franchise.seated[0, dish] -= taken
    return taken
