"""Long runs of the library's sampler, compiled, with a record of every state: for the statistical tests.

A state is recorded as one integer, table and dish of each guest in four bits each, and translated into the
oracles' :class:`~tests.oracles.crf.Seating` afterwards, once for each state that occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model import known
from stream_osr.model.dish_statistics import Dishes, add, log_predictives, log_prior_predictives, refill
from stream_osr.model.jit import kernel
from stream_osr.model.missing_features import nothing_missing
from stream_osr.model.moves.predictive_cache import SamplerState
from stream_osr.model.moves.seating import redish_tables, visit
from stream_osr.model.moves.sweeps import sweep_batch, sweep_groups
from stream_osr.model.prior import Prior
from stream_osr.model.restaurants import Franchise, Guests
from tests.oracles import crf

ROOM = 16
"""Tables, and dishes, that a recorded state may number."""


@kernel
def encode(guests: Guests, franchise: Franchise) -> int:
    code = 0
    for i in range(guests.table.shape[0]):
        code = code * 256 + guests.table[i] * 16 + franchise.table_dish[guests.table[i]]
    return code


def decode(code: int, groups: Sequence[int], n_tables: int = 0, n_dishes: int = 0) -> crf.Seating:
    pairs = [divmod(code >> 8 * i & 255, 16) for i in reversed(range(len(groups)))]
    return crf.canonical(groups, [t for t, _ in pairs], dict(pairs), n_tables, n_dishes)


class Record(NamedTuple):
    """What a chain went through, one entry a sweep."""

    codes: np.ndarray
    alpha: np.ndarray
    gamma: np.ndarray
    rows: np.ndarray
    """Rows that the sweep was given, shape (sweeps, n, d); empty when they stayed the same."""
    probabilities: np.ndarray
    """Conditional probabilities of frozen dishes and of the rest, shape (sweeps, n, C + 1); stream only."""


@kernel
def sampler_state(
    guests: Guests, franchise: Franchise, dishes: Dishes, prior: Prior, log_frozen: np.ndarray, exclusive: bool
) -> SamplerState:
    """What the library's moves work on, the same arrays; ``log_frozen`` has shape (n, C)."""
    log_new, weights = log_prior_predictives(guests.rows, prior), np.empty(franchise.menu.shape[0] + 1)
    return SamplerState(
        guests, franchise, dishes, prior, log_frozen, log_new, exclusive, weights, nothing_missing(0, 0)
    )


# Draws of parameters and rows, written from the definitions


@kernel
def draw_factor(rng: np.random.Generator, nu: float, factor: np.ndarray) -> None:
    """Bartlett's lower triangle A: ``A A'`` is Wishart with nu degrees of freedom and unit scale."""
    d = factor.shape[0]
    factor[:, :] = 0.0
    for a in range(d):
        for b in range(a):
            factor[a, b] = rng.standard_normal()
        factor[a, a] = np.sqrt(rng.chisquare(nu - a))


@kernel
def draw_normal(
    rng: np.random.Generator, factor: np.ndarray, lower: np.ndarray, shrink: float, out: np.ndarray
) -> None:
    """Add to ``out`` a deviate with covariance ``L A'^-1 A^-1 L' / shrink``, L being ``lower``."""
    d = out.shape[0]
    y = np.empty(d)
    for a in range(d - 1, -1, -1):
        s = rng.standard_normal()
        for b in range(a + 1, d):
            s -= factor[b, a] * y[b]
        y[a] = s / factor[a, a]
    for a in range(d):
        for b in range(a + 1):
            out[a] += lower[a, b] * y[b] / np.sqrt(shrink)


class Sources(NamedTuple):
    """Normal-inverse-Wishart distributions of rows: ``Sigma ~ IW(L L', nu)``, ``mean ~ N(m, Sigma / r)``."""

    mean: np.ndarray
    lower: np.ndarray
    nu: np.ndarray
    r: np.ndarray


@kernel
def draw_blocks(rng: np.random.Generator, rows: np.ndarray, slot: np.ndarray, sources: Sources) -> None:
    """Draw rows given the Gaussian slot of each (negative: let be): parameters for each slot, then its rows.

    The source of slot k is number k; slots beyond have the last one.
    """
    d = sources.mean.shape[1]
    factor = np.empty((d, d))
    mean = np.empty(d)
    last = sources.mean.shape[0] - 1
    for k in range(slot.max() + 1):
        source = min(k, last)
        fresh = True
        for i in range(slot.shape[0]):
            if slot[i] == k:
                if fresh:
                    fresh = False
                    draw_factor(rng, sources.nu[source], factor)
                    mean[:] = sources.mean[source]
                    draw_normal(rng, factor, sources.lower[source], sources.r[source], mean)
                rows[i, :d] = mean
                draw_normal(rng, factor, sources.lower[source], 1.0, rows[i, :d])


# Training


@kernel
def training_loop(
    rng: np.random.Generator, sweeps: int, state: SamplerState, fixed: bool, redishing: bool, redraw: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    guests, franchise, prior = state.guests, state.franchise, state.prior
    n, d = guests.rows.shape[0], prior.n_features
    codes, alpha, gamma = np.empty(sweeps, np.int64), np.empty(sweeps), np.empty(sweeps)
    rows = np.empty((sweeps if redraw else 0, n, d))
    lower = np.eye(d).reshape(1, d, d) * np.sqrt(prior.psi)
    base = Sources(np.zeros((1, d)), lower, np.full(1, prior.nu), np.full(1, prior.beta))
    for s in range(sweeps):
        if redraw:
            dish = franchise.table_dish[guests.table]
            draw_blocks(rng, guests.rows, dish, base)
            rows[s] = guests.rows[:, :d]
            state.log_new[:] = log_prior_predictives(guests.rows, prior)
            refill(state.dishes, dish, guests.rows, prior)
        if fixed:
            for i in range(n):
                visit(rng, i, state)
            if redishing:
                redish_tables(rng, 0, state)
        else:
            sweep_groups(rng, state)
        codes[s] = encode(guests, franchise)
        alpha[s] = franchise.alpha[0]
        gamma[s] = franchise.gamma[0]
    return codes, alpha, gamma, rows


def training_chain(
    rng: np.random.Generator,
    sweeps: int,
    state: SamplerState,
    *,
    fixed: bool = False,
    redishing: bool = True,
    redraw: bool = False,
) -> Record:
    """Run `sweep_groups` again and again, in place.

    With ``fixed`` only the seats change: alpha0 and gamma stay, and there is re-dishing only with ``redishing``.
    With ``redraw`` the rows are drawn afresh given the seats before each sweep (Geweke 2004).
    """
    record = training_loop(rng, sweeps, state, fixed, redishing, redraw)
    assert not state.franchise.overflow[0]
    return Record(*record, np.empty((0, 0, 0)))


# The stream


class Frozen(NamedTuple):
    """Known classes as mixtures of their subclasses' predictives, weights of each class adding up to 1.

    Attributes
    ----------
    dishes
        Statistics of the K subclasses.
    sources
        The distributions behind their predictives.
    log_weight
        Shape (C, K).
    """

    dishes: Dishes
    sources: Sources
    log_weight: np.ndarray


class Settled(NamedTuple):
    """Rows of the emerging subclasses that were there before, homogeneous, and the slot of each."""

    rows: np.ndarray
    slot: np.ndarray


@kernel
def draw_known(rng: np.random.Generator, guests: Guests, franchise: Franchise, frozen: Frozen) -> None:
    """Draw the rows of the guests of frozen dishes: a subclass, parameters and a row for each."""
    d = frozen.sources.mean.shape[1]
    factor = np.empty((d, d))
    for i in range(guests.table.shape[0]):
        dish = franchise.table_dish[guests.table[i]]
        if dish < frozen.log_weight.shape[0]:
            u = rng.random()
            k = 0
            while k < frozen.log_weight.shape[1] - 1:
                u -= np.exp(frozen.log_weight[dish, k])
                if u < 0.0:
                    break
                k += 1
            draw_factor(rng, frozen.sources.nu[k], factor)
            guests.rows[i, :d] = frozen.sources.mean[k]
            draw_normal(rng, factor, frozen.sources.lower[k], frozen.sources.r[k], guests.rows[i, :d])
            draw_normal(rng, factor, frozen.sources.lower[k], 1.0, guests.rows[i, :d])


@kernel
def stream_loop(
    rng: np.random.Generator,
    steps: int,
    first: int,
    proposals: int,
    state: SamplerState,
    frozen: Frozen,
    settled: Settled,
    emerging: Sources,
    redraw: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    guests, franchise, dishes, prior = state.guests, state.franchise, state.dishes, state.prior
    (n, n_frozen), d = state.log_frozen.shape, prior.n_features
    codes, alpha, gamma = np.empty(steps, np.int64), np.empty(steps), np.empty(steps)
    rows = np.empty((steps if redraw else 0, n, d))
    probabilities = np.empty((steps, n, n_frozen + 1))
    for s in range(steps):
        if redraw:
            draw_known(rng, guests, franchise, frozen)
            slot = franchise.table_dish[guests.table] - n_frozen
            draw_blocks(rng, guests.rows, slot, emerging)
            rows[s] = guests.rows[:, :d]
            state.log_new[:] = log_prior_predictives(guests.rows, prior)
            log_frozen, _ = known.mix(log_predictives(guests.rows, frozen.dishes, prior), frozen.log_weight)
            state.log_frozen[:] = log_frozen
            refill(dishes, settled.slot, settled.rows, prior)
            for i in range(n):
                if slot[i] >= 0:
                    add(dishes, slot[i], guests.rows[i], prior)
        probabilities[s], _ = sweep_batch(rng, first, 1, proposals, False, state)
        codes[s] = encode(guests, franchise)
        alpha[s] = franchise.alpha[0]
        gamma[s] = franchise.gamma[0]
    return codes, alpha, gamma, rows, probabilities


def stream_chain(
    rng: np.random.Generator,
    steps: int,
    first: int,
    proposals: int,
    state: SamplerState,
    frozen: Frozen,
    settled: Settled,
    emerging: Sources,
    *,
    redraw: bool = False,
) -> Record:
    """Run `sweep_batch` with one re-seating sweep again and again, in place, on guests who are all seated.

    Guests before number ``first`` are the window; ``proposals`` splits or merges are proposed after each pass.
    ``emerging`` are the distributions of the emerging subclasses given their settled rows, and, last, H.
    With ``redraw`` the rows are drawn afresh before each step.
    """
    record = stream_loop(rng, steps, first, proposals, state, frozen, settled, emerging, redraw)
    assert not state.franchise.overflow[0]
    return Record(*record)


# Judging a record


def batch_means(series: np.ndarray, batches: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Mean of a series along its first axis, and its standard error from the means of consecutive batches."""
    size = len(series) // batches
    means = series[: size * batches].reshape(batches, size, *series.shape[1:]).mean(axis=1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(batches)


def z_score(series: np.ndarray, exact: float | np.ndarray) -> np.ndarray:
    """Standardised difference between the mean of a correlated series and its exact value."""
    mean, error = batch_means(series)
    return np.asarray((mean - exact) / error)


def indicator_scores(
    numbers: np.ndarray, probabilities: Sequence[float], rare: int = 500
) -> tuple[np.ndarray, float]:
    """Standardised differences of the frequencies, and the total variation distance.

    States expected fewer than ``rare`` times are taken together: few visits are not normally distributed.
    """
    exact = np.asarray(probabilities)
    common = exact * len(numbers) >= rare
    seen = np.bincount(numbers, minlength=len(exact)) / len(numbers)
    scores = [z_score(numbers == k, exact[k]) for k in np.flatnonzero(common)]
    if exact[~common].sum() * len(numbers) >= rare:
        scores.append(z_score(~common[numbers], exact[~common].sum()))
    return np.array(scores), float(0.5 * np.abs(seen - exact).sum())


def numbered(
    record: Record, exact: Sequence[crf.Seating], groups: Sequence[int], n_tables: int = 0, n_dishes: int = 0
) -> np.ndarray:
    """Number of the exact seating after each sweep; a seating that is not among the exact ones is an error."""
    position = {seating: k for k, seating in enumerate(exact)}
    codes, inverse = np.unique(record.codes, return_inverse=True)
    return np.array([position[decode(code, groups, n_tables, n_dishes)] for code in codes.tolist()])[inverse]


def of_seatings(exact: Sequence[crf.Seating], value: Callable[[crf.Seating], float]) -> np.ndarray:
    """Values of a function of the seating for each exact seating."""
    return np.array([value(seating) for seating in exact], dtype=np.float64)
