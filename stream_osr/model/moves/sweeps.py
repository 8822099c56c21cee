"""Sweeps of the sampler over a set of guests: the loops around :mod:`stream_osr.model.moves.seating`."""

from __future__ import annotations

import numpy as np

from stream_osr.model.dishes import Dishes
from stream_osr.model.franchise import Franchise, Guests
from stream_osr.model.jit import borrowing_kernel, kernel
from stream_osr.model.moves.company import make_company
from stream_osr.model.moves.concentration import (
    ALPHA_RATE,
    ALPHA_SHAPE,
    GAMMA_RATE,
    GAMMA_SHAPE,
    STREAM_ALPHA_RATE,
    STREAM_ALPHA_SHAPE,
    resample_alpha,
    resample_gamma,
)
from stream_osr.model.moves.likelihood import Likelihood, remember
from stream_osr.model.moves.redishing import redish_tables
from stream_osr.model.moves.seating import visit
from stream_osr.model.moves.splitting import split_or_merge
from stream_osr.model.prior import Prior


@kernel
def sweep_groups(
    rng: np.random.Generator,
    guests: Guests,
    log_new: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    exclusive: bool,
) -> None:
    """One sweep over labelled groups: re-seat every guest, re-dish every table, draw alpha0 and gamma.

    Parameters
    ----------
    rng
        Source of randomness.
    guests
        All instances of all groups; those without a table are seated.
    log_new
        Log density of each under a new subclass, shape (n,).
    franchise, dishes
        The state, changed in place. When ``franchise.overflow`` is set the state is void.
    prior
        Base measure.
    exclusive
        A subclass belongs to the group that opened it.
    """
    n = guests.table.shape[0]
    log_frozen = np.empty((n, 0))
    weights = np.empty(franchise.menu.shape[0] + 1)
    for i in range(n):
        visit(rng, i, guests, log_frozen, log_new, franchise, dishes, prior, exclusive, weights)
        if franchise.overflow[0]:
            return
    redish_tables(rng, 0, guests, log_frozen, franchise, dishes, prior, exclusive, weights)
    resample_alpha(rng, franchise, ALPHA_SHAPE, ALPHA_RATE, False)
    resample_gamma(rng, franchise, GAMMA_SHAPE, GAMMA_RATE)


@kernel
def sweep_batch(
    rng: np.random.Generator,
    first: int,
    sweeps: int,
    proposals: int,
    fading: bool,
    guests: Guests,
    log_frozen: np.ndarray,
    log_new: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    columns: np.ndarray | None = None,
    product: np.ndarray | None = None,
) -> np.ndarray:
    """Seat a micro-batch one by one, then re-seat it and the window before it ``sweeps`` times.

    Parameters
    ----------
    rng
        Source of randomness.
    first
        Guests before this number are the window (seated); from it on, the batch.
    sweeps
        Re-seating sweeps after the first pass. alpha0 is drawn after each; gamma stays as trained.
    proposals
        Splits or merges proposed after the first pass and after each sweep.
    fading
        Seats fade from batch to batch.
    guests, franchise, dishes
        The state, changed in place. When ``franchise.overflow`` is set it is void.
    log_frozen
        Log density of each guest under each frozen dish, shape (n, C).
    log_new
        Log density of each guest under a new subclass, shape (n,).
    prior
        Base measure.
    columns, product
        The rows transposed and the products of their coordinates, if they are at hand.

    Returns
    -------
    Conditional probability of each frozen dish, and (last column) of everything else, averaged over the later
    half of the sweeps, shape (n, C + 1).
    """
    n, frozen = log_frozen.shape
    weights = np.empty(franchise.menu.shape[0] + 1)
    probabilities = np.zeros((n, frozen + 1))
    likelihood = remember(guests.rows, log_frozen, log_new, dishes, prior, columns, product)
    company = make_company(guests, prior)
    counted_from = (sweeps + 1) // 2
    share = 1.0 / (sweeps - counted_from + 1)
    for s in range(sweeps + 1):
        _visit_all(
            rng,
            0 if s > 0 else first,
            share if s >= counted_from else 0.0,
            guests,
            log_frozen,
            log_new,
            franchise,
            dishes,
            prior,
            weights,
            likelihood,
            probabilities,
        )
        if s > 0 and not franchise.overflow[0]:
            redish_tables(rng, first, guests, log_frozen, franchise, dishes, prior, False, weights, likelihood)
        for _ in range(proposals):
            if not franchise.overflow[0]:
                split_or_merge(rng, guests, log_frozen, log_new, franchise, dishes, prior, company, likelihood)
        if franchise.overflow[0]:
            return probabilities
        resample_alpha(rng, franchise, STREAM_ALPHA_SHAPE, STREAM_ALPHA_RATE, fading)
    return probabilities


@borrowing_kernel
def _visit_all(
    rng: np.random.Generator,
    first: int,
    share: float,
    guests: Guests,
    log_frozen: np.ndarray,
    log_new: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    weights: np.ndarray,
    likelihood: Likelihood,
    probabilities: np.ndarray,
) -> None:
    """Visit the guests from number ``first`` on; ``share`` of what each weighs is added to its probabilities."""
    n, frozen = log_frozen.shape
    for i in range(first, n):
        total = visit(rng, i, guests, log_frozen, log_new, franchise, dishes, prior, False, weights, likelihood)
        if franchise.overflow[0]:
            return
        if share > 0.0:
            known = 0.0
            for c in range(frozen):
                probabilities[i, c] += share / total * weights[c]
                known += weights[c]
            probabilities[i, frozen] += share / total * max(total - known, 0.0)
