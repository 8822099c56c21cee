"""The micro-batch step written plainly: one Cholesky factor a subclass, forward substitution, nothing remembered.

Compiled like the library's, and the yardstick of ``benchmarks.speed``; given the same state and randomness it draws
the same seats (``tests/benchmarks/test_plain.py``).
"""

from __future__ import annotations

import numpy as np

from stream_osr.model.background_components import add_background_component
from stream_osr.model.dish_statistics import Dishes, add, clear, remove
from stream_osr.model.jit import kernel
from stream_osr.model.known import Densities, Known, log_new, mix
from stream_osr.model.missing_features import nothing_missing
from stream_osr.model.moves.hyperparameters import STREAM_ALPHA, resample_alpha
from stream_osr.model.moves.predictive_cache import SamplerState
from stream_osr.model.moves.seating import draw, draw_table, redish_tables, relative, times_seats
from stream_osr.model.moves.splitting import make_proposal, split_or_merge
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.restaurants import (
    ANYONE,
    CLOSED,
    StreamState,
    derive,
    fade,
    free_dish,
    free_table,
    join,
    lay_tables,
    leave,
    menu_weight,
    name_subclasses,
)
from stream_osr.model.sampler import GUESTS_PER_PROPOSAL, Settings

SPARE = 256
"""Free slots for subclasses laid out for a batch; there is no second try."""


@kernel
def factorise(matrix: np.ndarray, lower: np.ndarray) -> float:
    """Write the Cholesky factor; return the log-determinant."""
    size = matrix.shape[0]
    log_det = 0.0
    for a in range(size):
        for b in range(a + 1):
            s = matrix[a, b]
            for c in range(b):
                s -= lower[a, c] * lower[b, c]
            if a == b:
                lower[a, a] = np.sqrt(s)
                log_det += np.log(s)
            else:
                lower[a, b] = s / lower[b, b]
    return log_det


@kernel
def log_t(lower: np.ndarray, log_det: float, constant: float, n: int, x: np.ndarray, prior: Prior) -> float:
    """Log predictive of a homogeneous row by forward substitution."""
    size = x.shape[0]
    z = np.empty(size)
    h = 0.0
    for a in range(size):
        s = x[a]
        for b in range(a):
            s -= lower[a, b] * z[b]
        z[a] = s / lower[a, a]
        h += z[a] * z[a]
    return constant - 0.5 * log_det - 0.5 * (prior.nu + n + 1.0) * np.log1p(h)


@kernel
def known_subclasses(rows: np.ndarray, dishes: Dishes, prior: Prior) -> np.ndarray:
    """Log predictive of each homogeneous row under each known subclass, shape (n, K)."""
    count = dishes.size.shape[0]
    out = np.empty((rows.shape[0], count))
    lower = np.zeros(dishes.matrix.shape[1:])
    for k in range(count):
        log_det = factorise(dishes.matrix[k], lower)
        for i in range(rows.shape[0]):
            out[i, k] = log_t(lower, log_det, dishes.constant[k, 0], dishes.size[k], rows[i], prior)
    return out


@kernel
def sweep_plainly(rng: np.random.Generator, sweeps: int, proposals: int, sitting: SamplerState) -> np.ndarray:
    """Do what :func:`stream_osr.model.moves.sweeps.sweep_batch` does for fading seats and no window."""
    n, frozen = sitting.log_frozen.shape
    guests, dishes, weights = sitting.guests, sitting.dishes, sitting.weights
    probabilities = np.zeros((n, frozen + 1))
    company = make_proposal(sitting)
    counted_from = (sweeps + 1) // 2
    counted = sweeps - counted_from + 1
    count, width = dishes.size.shape[0], guests.rows.shape[1]
    lower, log_det = np.zeros((count, width, width)), np.zeros(count)
    for k in range(count):
        if dishes.size[k] > 0:
            log_det[k] = factorise(dishes.matrix[k], lower[k])
    for s in range(sweeps + 1):
        for i in range(n):
            total = visit_plainly(rng, i, sitting, lower, log_det)
            if s >= counted_from:
                for c in range(frozen):
                    probabilities[i, c] += weights[c] / total / counted
                probabilities[i, frozen] += max(0.0, 1.0 - weights[:frozen].sum() / total) / counted
        if s > 0:
            redish_tables(rng, 0, sitting)
        for _ in range(proposals):
            split_or_merge(rng, sitting, company)
        for k in range(count):
            if dishes.size[k] > 0:
                log_det[k] = factorise(dishes.matrix[k], lower[k])
        resample_alpha(rng, sitting.franchise, STREAM_ALPHA, True)
    return probabilities


@kernel
def visit_plainly(
    rng: np.random.Generator, i: int, sitting: SamplerState, lower: np.ndarray, log_det: np.ndarray
) -> float:
    """Take a guest out of its subclass, weigh every dish, seat it again; factors are made anew on every change."""
    guests, franchise, dishes, prior, log_frozen, log_new, _, weights, _ = sitting
    frozen = log_frozen.shape[1]
    x = guests.rows[i]
    own, alone = CLOSED, False
    if guests.table[i] != CLOSED:
        old = leave(franchise, guests.table[i], guests.weight[i])
        if old >= frozen:
            own, alone = old, dishes.size[old - frozen] == 1
            take_out(x, own - frozen, dishes, prior, lower, log_det)
    last = franchise.extent[0]
    for k in range(last):
        if franchise.menu[k] == 0.0 and not franchise.held[k]:
            weights[k] = -np.inf
        elif k < frozen:
            weights[k] = log_frozen[i, k]
        else:
            slot = k - frozen
            weights[k] = log_t(lower[slot], log_det[slot], dishes.constant[slot, 0], dishes.size[slot], x, prior)
    relative(log_new[i], franchise, weights)
    for k in range(last + 1):
        weights[k] = np.exp(weights[k])
    total = times_seats(0, franchise, weights)
    dish = draw(rng, weights[: last + 1], total)
    new = dish == last
    if new and alone:
        dish = own
    else:
        if own != CLOSED and dish != own and menu_weight(franchise, own) == 0.0:
            clear(dishes, own - frozen, prior)
        if new:
            dish = free_dish(franchise, frozen)
            franchise.owner[dish] = ANYONE
    if dish >= frozen:
        add(dishes, dish - frozen, x, prior)
        log_det[dish - frozen] = factorise(dishes.matrix[dish - frozen], lower[dish - frozen])
    table = CLOSED if new else draw_table(rng, franchise, 0, dish)
    if table == CLOSED:
        table = free_table(franchise)
    guests.table[i] = table
    join(franchise, table, 0, dish, guests.weight[i])
    return total


@kernel
def take_out(x: np.ndarray, k: int, dishes: Dishes, prior: Prior, lower: np.ndarray, log_det: np.ndarray) -> None:
    """Take a row out of a subclass and factorise what is left; the prior, when nothing is."""
    remove(dishes, k, x, prior)
    log_det[k] = factorise(dishes.matrix[k], lower[k])


def plain_step(
    known: Known,
    frozen: Densities,
    state: StreamState,
    rows: np.ndarray,
    rng: np.random.Generator,
    settings: Settings,
) -> tuple[StreamState, np.ndarray]:
    """Seat one micro-batch, window 0: the next state, and probabilities of shape (b, J + 1)."""
    batch = homogeneous(rows)
    log_density, _ = mix(known_subclasses(batch, known.dishes, known.prior), frozen.log_weight)
    log_density = add_background_component(log_density, known.background_components, frozen.log_weight, batch)
    guests, franchise, dishes = lay_tables(state, batch, len(batch), SPARE)
    new, weights = log_new(known, batch), np.empty(len(franchise.menu) + 1)
    sitting = SamplerState(
        guests, franchise, dishes, known.prior, log_density, new, False, weights, nothing_missing(0, 0)
    )
    probabilities = sweep_plainly(rng, settings.sweeps, -(-len(batch) // GUESTS_PER_PROPOSAL), sitting)
    n_classes = log_density.shape[1]
    ids, next_id = name_subclasses(state, guests, franchise, n_classes)
    window = fade(franchise, guests, np.zeros(len(batch), bool), 0.5 ** (len(batch) / settings.half_life))
    nobody = np.zeros(0, np.int64)
    seen = state.seen + len(batch)
    seated = StreamState(franchise, dishes, ids, window, nobody, state.batches + 1, seen, next_id)
    return derive(seated, frozen.menu), probabilities
