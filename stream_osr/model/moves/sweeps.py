"""Sweeps of the sampler over a set of guests: the loops around :mod:`stream_osr.model.moves.seating`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA, STREAM_ALPHA, resample_alpha, resample_gamma
from stream_osr.model.moves.predictive_cache import Likelihood, SamplerState, remember
from stream_osr.model.moves.seating import redish_tables, visit
from stream_osr.model.moves.splitting import make_proposal, split_or_merge


@kernel
def sweep_groups(rng: Generator, state: SamplerState) -> None:
    """Run one sweep over labelled groups: re-seat every guest, re-dish every table, draw alpha0 and gamma.

    All instances of all groups are guests, and no dish is frozen. Guests without a table are seated.
    """
    franchise = state.franchise
    for i in range(state.guests.table.shape[0]):
        visit(rng, i, state)
        if franchise.overflow[0]:
            return
    redish_tables(rng, 0, state)
    resample_alpha(rng, franchise, ALPHA, False)
    resample_gamma(rng, franchise, GAMMA)


@kernel
def sweep_batch(
    rng: Generator,
    first: int,
    sweeps: int,
    proposals: int,
    fading: bool,
    state: SamplerState,
    product: Array | None = None,
) -> tuple[Array, Array]:
    """Seat a micro-batch one by one, then re-seat it and the window before it ``sweeps`` times.

    Parameters
    ----------
    rng
        Source of randomness.
    first
        First guest of the batch. The guests before it are the (seated) window.
    sweeps
        Re-seating sweeps after the first pass. alpha0 is drawn after each. gamma stays as trained.
    proposals
        Splits or merges proposed after the first pass and after each sweep.
    fading
        Whether seats fade from batch to batch.
    state
        The state, changed in place. No subclass belongs to a group.
    product
        Products of the coordinates of the rows, if already computed.

    Returns
    -------
    Conditional probability of each frozen dish, and (last column) of everything else, averaged over the later
    half of the sweeps, shape (n, C + 1). Then the conditional probability of the dish of each guest, at its last
    visit, shape (n,).
    """
    n, frozen = state.log_frozen.shape
    overflow = state.franchise.overflow
    probabilities, certainty = np.zeros((n, frozen + 1)), np.zeros(n)
    likelihood = remember(state, product)
    proposal = make_proposal(state)
    counted_from = (sweeps + 1) // 2
    share = 1.0 / (sweeps - counted_from + 1)
    for s in range(sweeps + 1):
        counted = share if s >= counted_from else 0.0
        _visit_all(rng, 0 if s > 0 else first, counted, state, likelihood, probabilities, certainty)
        if s > 0 and not overflow[0]:
            redish_tables(rng, first, state, likelihood)
        for _ in range(proposals):
            if not overflow[0]:
                split_or_merge(rng, state, proposal, likelihood)
        if overflow[0]:
            return probabilities, certainty
        resample_alpha(rng, state.franchise, STREAM_ALPHA, fading)
    return probabilities, certainty


@borrowing_kernel
def _visit_all(
    rng: Generator,
    first: int,
    share: float,
    state: SamplerState,
    likelihood: Likelihood,
    probabilities: Array,
    certainty: Array,
) -> None:
    """Visit the guests from number ``first`` on, and add ``share`` of their weights to the probabilities."""
    n, frozen = state.log_frozen.shape
    franchise = state.franchise
    for i in range(first, n):
        last = franchise.extent[0]
        total = visit(rng, i, state, likelihood)
        if franchise.overflow[0]:
            return
        dish = franchise.table_dish[state.guests.table[i]]
        certainty[i] = state.weights[dish] / total if dish < last else 0.0
        if share > 0.0:
            known = 0.0
            for c in range(frozen):
                probabilities[i, c] += share / total * state.weights[c]
                known += state.weights[c]
            probabilities[i, frozen] += share / total * max(total - known, 0.0)
