"""The micro-batch step: seat a batch of the stream given the known classes and the emerging subclasses.

The state is a value. A step takes one state and returns the next, so a caller that keeps the old one can undo the
step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from stream_osr.model import restaurants
from stream_osr.model.dish_statistics import empty_dishes
from stream_osr.model.jit import Array, kernel
from stream_osr.model.known import Densities, Known, log_densities
from stream_osr.model.missing_features import MissingPattern, after, open_densities
from stream_osr.model.moves.hyperparameters import STREAM_ALPHA
from stream_osr.model.moves.predictive_cache import SamplerState
from stream_osr.model.moves.sweeps import sweep_batch
from stream_osr.model.native import Native, native
from stream_osr.model.prior import Prior, width_of
from stream_osr.model.responsibilities import QueryRows, query_rows, view

SPARE = 16
"""Free slots for subclasses at the start of a batch, in addition to those in proportion to its instances (below)."""
INSTANCES_PER_SLOT = 8
CERTAIN = 0.99
"""Conditional probability of a seat from which on an instance may settle at once (:class:`Settings`)."""
ESTABLISHED = 32
"""Least number of instances before the batch of an emerging subclass whose members may settle at once."""
GUESTS_PER_PROPOSAL = 16
"""Instances of a batch for each proposed split or merge, after each sweep."""

_NOWHERE, _NOBODY = np.zeros((0, 1)), np.zeros(0, np.int64)
COMPLETE = MissingPattern(_NOBODY, np.zeros((0, 0, 0)), _NOBODY, np.zeros(0), _NOWHERE, _NOWHERE)
"""Pattern for kernels if no row has a missing value."""


class Settings(NamedTuple):
    """Sampling settings of the stream.

    Attributes
    ----------
    sweeps
        Re-seating sweeps after the first pass over a batch.
    window
        Latest instances before the batch that are re-seated with it.
    half_life
        Instances after which a seat weighs half. Infinity: seats never fade (and the model ages).
    settles
        Whether instances with a certain seat at an emerging subclass settle at once: they leave the window. The
        subclass must have had ``ESTABLISHED`` instances before the batch, and more than there are dimensions. Until
        then its shape is mostly that of the prior, and it may be a few outliers that a new class leaves again.
    """

    sweeps: int = 5
    window: int = 256
    half_life: float = 200.0
    settles: bool = False


class WindowDensities(NamedTuple):
    """Log densities of w instances under the known classes, carried over to the next batch for its window.

    Attributes
    ----------
    frozen
        The known classes. Under others, the values are invalid.
    seq
        Positions of the instances in the stream, ascending, shape (w,).
    log_density, log_density_new
        Their log densities under each known class, shape (w, J), and under a new subclass, shape (w,), without the
        gain of their neighbours.
    """

    frozen: Densities
    seq: Array
    log_density: Array
    log_density_new: Array

    def of(self, frozen: Densities, seq: Array) -> WindowDensities | None:
        """Select instances, or return ``None`` if the values are not valid for them."""
        at = np.searchsorted(self.seq, seq)
        if self.frozen is not frozen or not np.array_equal(self.seq[np.minimum(at, len(self.seq) - 1)], seq):
            return None
        return WindowDensities(frozen, seq, self.log_density[at], self.log_density_new[at])


class BatchResult(NamedTuple):
    """Result of a step for the b instances of the batch.

    Attributes
    ----------
    probabilities
        Averaged conditional probability of each known class and, last, unknown, shape (b, J + 1).
    window_seq, window_probabilities
        Positions in the stream of the window's instances, shape (w,), and their updated probabilities, shape
        (w, J + 1). Empty without re-seating sweeps.
    subclass
        Emerging subclass (its id) of each instance's seat, -1 for a known class, shape (b,).
    log_density, log_density_new
        Log density under each known class, shape (b, J), and as the first instance of a new subclass, shape (b,).
    responsible
        Most responsible subclass (position in :class:`Known`) of each class, shape (b, J).
    moved
        Positions in the stream of window instances whose emerging subclass changed, shape (m,).
    moved_from, moved_to
        Their subclass before and now, -1 for a known class, shape (m,).
    window_subclass, window_log_density
        Current emerging subclass of each instance of the window (as it was before the batch), -1 if none, shape (w,),
        and its log density under each known class, shape (w, J).
    gain
        Log likelihood gain of the instances of the window and of the batch given the instances before them, shape
        (w + b,). Their log densities include it. ``None`` if neighbours are independent.
    """

    probabilities: Array
    window_seq: Array
    window_probabilities: Array
    subclass: Array
    log_density: Array
    log_density_new: Array
    responsible: Array
    moved: Array
    moved_from: Array
    moved_to: Array
    window_subclass: Array
    window_log_density: Array
    gain: Array | None
    carried: WindowDensities


def open_stream(known: Known, frozen: Densities) -> restaurants.StreamState:
    """Open the stream's restaurant without guests, with the known classes on the menu."""
    alpha = STREAM_ALPHA.shape / STREAM_ALPHA.rate
    franchise = restaurants.empty_franchise(1, len(known.size), 0, alpha, known.gamma)
    franchise.held[:] = 1.0
    nobody, next_id = np.zeros(0, np.int64), int(known.ids.max()) + 1
    window = restaurants.Guests(np.zeros((0, width_of(known.prior) + 1)), nobody, np.zeros(0), nobody)
    begun = restaurants.StreamState(franchise, empty_dishes(0, known.prior), nobody, window, nobody, 0, 0, next_id)
    return restaurants.derive(begun, frozen.menu)


class BatchInput(NamedTuple):
    """The n guests of the window and the batch, with the batch last.

    Attributes
    ----------
    rows, product
        Their homogeneous rows, shape (n, d + 1), and the products of the coordinates.
    log_density, log_density_new
        Their log densities under the known classes, shape (n, J), and a new subclass, shape (n,).
    missing
        Their missing values.
    """

    rows: Array
    product: Array
    log_density: Array
    log_density_new: Array
    missing: MissingPattern


def step(
    known: Known,
    frozen: Densities,
    state: restaurants.StreamState,
    rows: Array,
    rng: Generator,
    settings: Settings,
    missing: MissingPattern | None = None,
    gain: Array | None = None,
    carried: WindowDensities | None = None,
    query: QueryRows | None = None,
    native_rng: Native | None = None,
) -> tuple[restaurants.StreamState, BatchResult]:
    """Seat one micro-batch.

    Parameters
    ----------
    known, frozen
        The known classes. They do not change.
    state
        The stream so far. It does not change.
    rows
        Whitened rows of the batch, shape (b, d), b >= 1.
    rng
        Source of randomness, derived from the seed and the number of the batch.
    settings
        Sweeps, window, half-life.
    missing
        Missing values of the rows. Seating integrates them out, with full covariances. Statistics use the values in
        ``rows``.
    gain
        Log likelihood gain of the guests under the known classes given the instances before them, shape (w + b,).
        ``None`` if neighbours are independent.
    carried
        Log densities from the batch before. They are computed again only if they are invalid.
    query
        The prepared rows of the batch, which serve chains without a window. They are prepared here if not given.
    native_rng
        ``rng`` in the form of compiled code. It is converted here if not given.

    Returns
    -------
    The next state, and the result for the batch.
    """
    first = len(state.window.rows)
    if first or query is None:
        query = query_rows(np.concatenate([state.window.rows[:, :-1], rows]) if first else rows, known.prior)
    everyone, product = query
    carried = carried and carried.of(frozen, state.window_seq)
    log_density, responsible, log_density_new = log_densities(known, frozen, everyone[first if carried else 0 :])
    if carried is not None:
        log_density = np.concatenate([carried.log_density, log_density])
        log_density_new = np.concatenate([carried.log_density_new, log_density_new])
    seq = np.concatenate([state.window_seq, np.arange(state.seen, state.seen + len(rows))])
    carried = WindowDensities(frozen, seq, log_density, log_density_new)
    if gain is not None:
        log_density = log_density + gain[:, None]
    arrived = BatchInput(everyone, product, log_density, log_density_new, COMPLETE)
    if missing is not None and len(missing.rank):
        weighed = view(known, frozen, state)
        new_tables = open_densities(frozen, weighed, after(first, missing), everyone, log_density, log_density_new)
        arrived = BatchInput(everyone, product, *new_tables)
        log_density, log_density_new = new_tables[:2]
    randomness, native_rng = rng.bit_generator.state, native_rng or native(rng)
    spare = SPARE + len(rows) // INSTANCES_PER_SLOT
    while True:
        seated, probabilities, subclass, was = seat_batch(
            native_rng, state, frozen.menu, arrived, known.prior, settings, spare
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
        responsible=responsible[-len(rows) :],
        moved=state.window_seq[changed],
        moved_from=was[changed],
        moved_to=subclass[changed],
        window_subclass=subclass[:first],
        window_log_density=log_density[:first],
        gain=gain,
        carried=carried,
    )
    return seated, result


@kernel
def seat_batch(
    rng: Native,
    state: restaurants.StreamState,
    trained: Array,
    arrived: BatchInput,
    prior: Prior,
    settings: Settings,
    spare: int,
) -> tuple[restaurants.StreamState, Array, Array, Array]:
    """Seat the arrived guests: a step without the densities of the known classes.

    Parameters
    ----------
    rng, state, prior, settings
        As for :func:`step`.
    trained
        Tables of the known classes that come from training, shape (J,).
    arrived
        The guests of the window and the batch.
    spare
        Free slots for subclasses.

    Returns
    -------
    The next state, probabilities of shape (n, J + 1), the current emerging subclass of each guest, shape (n,), and
    that of each guest of the window before, shape (w,). If the slots run out, the state is the one before and all
    else is empty.
    """
    rows, product, log_density, log_density_new, missing = arrived
    n, n_classes = log_density.shape
    first = len(state.window.weight)
    guests, franchise, dishes = restaurants.lay_tables(state, rows, n - first, spare)
    weights = np.empty(len(franchise.menu) + 1)
    sampler_state = SamplerState(
        guests, franchise, dishes, prior, log_density, log_density_new, False, weights, missing
    )
    proposals, fading = -(-(n - first) // GUESTS_PER_PROPOSAL), np.isfinite(settings.half_life)
    probabilities, certainty = sweep_batch(
        rng.value, first, settings.sweeps, proposals, fading, sampler_state, product
    )
    if franchise.overflow[0]:
        nobody = np.zeros(0, np.int64)
        return state, np.zeros((0, 0)), nobody, nobody
    ids, next_id = restaurants.name_subclasses(state, guests, franchise, n_classes)
    subclass = restaurants.subclasses_of(guests, franchise, ids, n_classes)
    was = restaurants.subclasses_of(state.window, state.franchise, state.ids, n_classes)
    seq = np.empty(n, np.int64)
    seq[:first] = state.window_seq
    seq[first:] = state.seen + np.arange(n - first)
    stays = seq >= state.seen + n - first - settings.window
    if settings.settles:
        least, before = max(rows.shape[1], ESTABLISHED), state.dishes.size
        table, table_dish = guests.table, franchise.table_dish
        for i in range(n):
            k = table_dish[table[i]] - n_classes
            stays[i] &= k < 0 or k >= len(before) or before[k] < least or certainty[i] < CERTAIN
    window = restaurants.fade(franchise, guests, stays, 0.5 ** ((n - first) / settings.half_life))
    seated = restaurants.StreamState(
        franchise, dishes, ids, window, seq[stays], state.batches + 1, state.seen + n - first, next_id
    )
    return restaurants.derive(seated, trained), probabilities, subclass, was
