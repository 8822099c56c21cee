"""Seating of a batch in every chain."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model import class_edits, sampler
from stream_osr.model.missing_features import MissingPattern, complete_rows, is_complete
from stream_osr.model.native import Native, native
from stream_osr.model.responsibilities import nearby, query_rows, view
from stream_osr.model.restaurants import StreamState
from stream_osr.parameters import Parameters
from stream_osr.stream.chain import Chains, IdentityChanges, refreshed
from stream_osr.stream.recent_instances import DecidedBatch, RecentInstances, places, relabel, remember
from stream_osr.stream.subclass_identities import ChainResult, count_outliers, keep_identities
from stream_osr.support.parallel import each
from stream_osr.trust.prior_odds import PriorOdds, learn_odds, shift_odds

COMPLETING = 2**31
"""Number of the generator for completing rows with missing values, in addition to those of the chains."""


class _Generators(threading.local):
    """Generator of each thread, which begins again for each batch and chain, and its form in compiled code."""

    pair: tuple[np.random.Generator, Native] | None = None

    def begin(self, seed: Sequence[int]) -> tuple[np.random.Generator, Native]:
        """Return a generator with this seed. It is the one before, which compiled code has converted."""
        if self.pair is None:
            rng = np.random.default_rng(0)
            self.pair = rng, native(rng)
        self.pair[0].bit_generator.state = np.random.PCG64(seed).state
        return self.pair


_GENERATORS = _Generators()


class BatchPosterior(NamedTuple):
    """Posterior of the b instances of a batch over all chains. The leader provides the reasons.

    Attributes
    ----------
    rows
        Whitened rows, shape (b, d).
    raw, probabilities
        Probabilities of each known class and, last, unknown, before and after the shift of the odds, shape
        (b, J + 1).
    nearest, rank
        Number of the nearest known class in the leader, and the density rank there, shape (b,).
    distance
        Mahalanobis distance from its most responsible subclass, shape (b,).
    seated
        Results of the chains.
    """

    rows: np.ndarray
    raw: np.ndarray
    probabilities: np.ndarray
    nearest: np.ndarray
    rank: np.ndarray
    distance: np.ndarray
    seated: Sequence[ChainResult]

    @property
    def leader(self) -> sampler.BatchResult:
        """Result of the leader."""
        return self.seated[0].result

    @property
    def is_unknown(self) -> np.ndarray:
        """Instances for which unknown is the most probable, shape (b,)."""
        return np.asarray(self.probabilities.argmax(axis=1) == self.probabilities.shape[1] - 1)


def complete(
    chains: Chains,
    rows: np.ndarray,
    parameters: Parameters,
    missing: MissingPattern | None,
    *,
    n_references: int = 0,
    only: range | None = None,
) -> np.ndarray:
    """Draw the missing values of whitened rows, shape (b, d), once for all chains, from the leader's present state.

    ``only`` are the known classes of the rows, if known. ``n_references`` is the number of that request.
    """
    leader = chains[0]
    if missing is None or is_complete(missing):
        return rows
    rng = np.random.default_rng([parameters.seed, leader.state.batches, COMPLETING + n_references])
    return complete_rows(view(leader.known, leader.frozen, leader.state), rows, missing, rng, only)


def seat(
    chains: Chains,
    rows: np.ndarray,
    parameters: Parameters,
    missing: MissingPattern | None = None,
    gain: np.ndarray | None = None,
) -> list[ChainResult]:
    """Seat a batch of whitened rows, shape (b, d), in every chain, in threads. Each batch and chain has a seed.

    ``gain`` is the log likelihood gain of the latest instances, with the batch last
    (:func:`~stream_osr.stream.arrival_order.predict`).
    """
    lasting, settles = parameters.window_after(len(rows)), not parameters.decision_delay
    settings = sampler.Settings(parameters.sweeps, lasting, parameters.half_life, settles)
    alone = any(not len(chain.state.window_seq) for chain in chains)
    query = query_rows(rows, chains[0].known.prior) if alone else None

    def step(number: int) -> ChainResult:
        chain = chains[number]
        own = None if gain is None else _of_guests(gain, chain.state, len(rows))
        rng, native_rng = _GENERATORS.begin([parameters.seed, chain.state.batches, number][: 3 if number else 2])
        state, result = sampler.step(
            chain.known,
            chain.frozen,
            chain.state,
            rows,
            rng,
            settings,
            missing,
            own,
            chain.carried,
            query,
            native_rng,
        )
        outliers = 0 if number else count_outliers(chain, state, result)
        return keep_identities(ChainResult(chain, state, result, IdentityChanges(), chain.check, outliers=outliers))

    return each(step, range(len(chains)), parameters.n_jobs)


def _of_guests(gain: np.ndarray, state: StreamState, n: int) -> np.ndarray:
    """Select the gain of the instances of a chain's window and of the batch of n, 0 if it is not remembered."""
    at = np.concatenate([state.window_seq - state.seen, np.arange(n)]) + len(gain) - n
    return np.where(at >= 0, gain[np.maximum(at, 0)], 0.0)


def average(
    chain_results: Sequence[ChainResult],
    rows: np.ndarray,
    odds: PriorOdds,
    parameters: Parameters,
    *,
    dependent: bool = False,
) -> tuple[BatchPosterior, PriorOdds]:
    """Average the chains' probabilities, update the shift of the odds of unknown, and apply it.

    If neighbours are ``dependent``, the ranks of a stream's instances are not uniform. Then nothing is shifted.
    """
    found = [
        nearby(one.before.known, one.result.log_density, one.result.responsible, rows if not number else rows[:0])
        for number, one in enumerate(chain_results)
    ]
    raw = shares_of([one.result.probabilities for one in chain_results])
    if dependent:
        odds = odds._replace(shift=0.0)
    elif parameters.learn_odds:
        odds = learn_odds(odds, raw, mean_of([one.rank for one in found]), parameters.half_life)
    return BatchPosterior(rows, raw, shift_odds(odds, raw), *found[0], chain_results), odds


def mean_of(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Average the results of several chains, like `np.mean` but without one array of all."""
    if len(arrays) == 1:
        return arrays[0]
    total: np.ndarray = arrays[0] + arrays[1]
    for each_more in arrays[2:]:
        total += each_more
    total /= len(arrays)
    return total


def shares_of(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Average probabilities of several chains. Sums that round to the last bit above 1 become 1.

    >>> shares_of([np.array([1.0 + 2e-16, 0.0]), np.array([1.0 + 2e-16, 0.0])]).tolist()
    [1.0, 0.0]
    """
    shares: np.ndarray = np.minimum(mean_of(arrays), 1.0)
    return shares


def window_together(posterior: BatchPosterior) -> np.ndarray:
    """Average the chains' current probabilities of the window's instances, shape (w, J + 1)."""
    return shares_of([one.result.window_probabilities for one in posterior.seated])


def settle(
    posterior: BatchPosterior, recent: RecentInstances, batch: DecidedBatch, horizon: int
) -> tuple[Chains, RecentInstances]:
    """Record the current seats: merged identities, moved instances, and those of the batch.

    Parameters
    ----------
    posterior
        The batch, and the results of the chains.
    recent
        The remembered instances.
    batch
        The batch, without its seats.
    horizon
        Least number of remembered instances.

    Returns
    -------
    The chains, and the remembered instances.
    """
    results = [one.result for one in posterior.seated]
    for number, one in enumerate(posterior.seated):
        recent = relabel(recent, number, one.identities.merged)
    chains = tuple(
        one.before._replace(state=one.state, check=one.check, carried=one.result.carried) for one in posterior.seated
    )
    if any(chain.known.named for chain in chains):
        chains = _let_go(recent, chains, results)
    batch = batch._replace(subclass=np.array([result.subclass for result in results]))
    return chains, remember(recent, batch, horizon, results)


def _let_go(recent: RecentInstances, chains: Chains, results: Sequence[sampler.BatchResult]) -> Chains:
    """Remove instances from a named subclass that they left for an emerging one, so that each counts once.

    Parameters
    ----------
    recent
        The remembered instances before the batch.
    chains
        The chains after the batch.
    results
        The moves of the batch in each chain.
    """
    out = []
    for number, (chain, result) in enumerate(zip(chains, results, strict=True)):
        known = chain.known
        for at in places(recent, result.moved).tolist() if known.named else ():
            key = int(recent.subclass[number, at]) if at >= 0 else -1
            if key in known.named:
                known = class_edits.take_out(known, key, recent.rows[at], class_edits.owner_of(known, key))
        out.append(chain if known is chain.known else refreshed(chain, known))
    return tuple(out)
