"""One micro-batch from rows to decisions and events. A batch that fails leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.decision import Decision
from stream_osr.discovery import events as ev
from stream_osr.engine.discover import follow_subclasses, tell, without_owned
from stream_osr.engine.evidence import Evidence, learn_evidence
from stream_osr.engine.followed import Followed
from stream_osr.engine.following import class_shifts, follow_classes
from stream_osr.engine.guard import Guarded, follow_balance, rename
from stream_osr.engine.identities import Kept, keep_identities
from stream_osr.engine.naming import let_go
from stream_osr.engine.opened import with_references
from stream_osr.engine.past import Decided, follow_moves, members, read, relabel, remember
from stream_osr.engine.promises import follow_recall, keep_promise
from stream_osr.engine.signals import count_outliers, follow_known, follow_unknown, tally
from stream_osr.engine.state import Arrived, Chain, Stream, references_of
from stream_osr.engine.telling import sum_up, tell_within_budgets
from stream_osr.engine.waiting import most_probable, release_ready, rename_waiting, subclasses_told, wait
from stream_osr.labels import unknown_label
from stream_osr.model import step as sampler
from stream_osr.model.blas import one_thread
from stream_osr.model.dishes import mahalanobis_each
from stream_osr.model.known import density_rank
from stream_osr.model.prior import homogeneous
from stream_osr.model.restaurant import StreamState
from stream_osr.parallel import each
from stream_osr.trained import TrainedModel
from stream_osr.trust.odds import learn_odds, shift_odds


class Batch(NamedTuple):
    """What a closed batch yields.

    Final decisions, events, the keys of late labels that nobody remembers, and how many events wait to be summed up.
    """

    decisions: list[Decision]
    events: list[ev.Event]
    unknown_keys: list[Any]
    summed: int = 0


def close_batch(
    trained: TrainedModel,
    stream: Stream,
    arrived: Sequence[Arrived],
    evidence: Sequence[Evidence],
    parameters: Parameters,
    *,
    release: bool = False,
    limited: bool = True,
) -> tuple[Stream, Batch]:
    """Decide a micro-batch.

    Parameters
    ----------
    trained
        The trained model (shared, never changed).
    stream
        The stream so far (never changed).
    arrived
        The batch, in order of arrival.
    evidence
        Labels that take effect before it.
    parameters
        Sampler settings and seed.
    release
        Hold no decision back, and sum up the events that wait for it.
    limited
        Floods of events are summed up (:mod:`stream_osr.engine.telling`).
    """
    announced = set(stream.life.ids[stream.life.emerged].tolist()) if limited else set()
    with one_thread():
        stream, unknown_keys = learn_evidence(stream, evidence, parameters)
        if evidence:
            stream = with_references(trained, stream)
        events: list[ev.Event] = []
        if arrived:
            stream, events = _seat_batch(trained, stream, arrived, parameters)
    decisions, stream = release_ready(stream, 0 if release else parameters.decision_delay, parameters)
    if not limited:
        return stream, Batch(decisions, events, unknown_keys)
    state = stream.state
    telling, told = tell_within_budgets(stream.telling, events, state.seen, announced)
    telling, summed = sum_up(telling, state.batches - 1, state.seen, trained.fingerprint, end=release)
    batch = Batch(decisions, [*told, *summed], unknown_keys, len(events) - len(told))
    return stream._replace(telling=telling), batch


def _seat_batch(
    trained: TrainedModel, stream: Stream, arrived: Sequence[Arrived], parameters: Parameters
) -> tuple[Stream, list[ev.Event]]:
    """Step every chain, learn the odds, decide for now, follow the emerging subclasses and the known classes."""
    settings = sampler.Settings(parameters.sweeps, parameters.window, parameters.half_life)
    first = stream.state.seen
    rows = np.array([a.row for a in arrived])
    stepped = each(
        lambda number: _step(stream.chains[number], number, rows, parameters, settings),
        range(len(stream.chains)),
        parameters.n_jobs,
    )
    kept = [keep_identities(chain, *step) for chain, step in zip(stream.chains, stepped, strict=True)]
    guarded = _guard(trained, stream, kept, rows, parameters)
    if guarded is not None:
        kept = [one._replace(state=g.state, result=g.result) for one, g in zip(kept, guarded, strict=True)]
    results = [one.result for one in kept]
    if guarded is not None:
        results = keep_promise(references_of(trained, stream), results, parameters.max_false_unknown)
    raw = np.mean([result.probabilities for result in results], axis=0)
    nearest = [result.log_density.argmax(axis=1) for result in results]
    own = [result.log_density[np.arange(len(rows)), near] for result, near in zip(results, nearest, strict=True)]
    ranks = [
        density_rank(chain.known, log_density, near)
        for chain, log_density, near in zip(stream.chains, own, nearest, strict=True)
    ]
    odds = stream.odds
    if parameters.learn_odds:
        odds = learn_odds(odds, raw, np.mean(ranks, axis=0), parameters.half_life)
    probabilities = shift_odds(odds, raw)
    decisions = _decide(stream, arrived, rows, results[0], probabilities, nearest[0], ranks[0], parameters)
    past = stream.past
    for number, one in enumerate(kept):
        past = relabel(past, number, one.joined)
    _, times, keys = zip(*arrived, strict=True)
    seats = np.array([result.subclass for result in results])
    chunk = Decided(rows, keys, times, first, seats, probabilities[:, -1])
    came = members(read((chunk,), len(seats), rows.shape[1]), np.arange(len(rows)))
    seated = [chain._replace(state=one.state) for chain, one in zip(stream.chains, kept, strict=True)]
    if guarded is not None:
        seated = [chain._replace(guard=one.guard) for chain, one in zip(seated, guarded, strict=True)]
    seated = let_go(past, seated, results)
    past = remember(follow_moves(past, results), chunk, parameters.label_horizon)
    rate, jumped = follow_unknown(trained, stream, probabilities)
    share = 0.0 if rate is None else max(rate.rate, float(probabilities[:, -1].mean()))
    chains: list[Chain] = []
    followed: list[Followed] = []
    for number, (chain, one) in enumerate(zip(seated, kept, strict=True)):
        followed.append(
            follow_subclasses(
                chain, number, past, came, one.result, one.joined, parameters, trained.background, share
            )
        )
        past = followed[-1].past
        chains.append(followed[-1].chain)
    if guarded is not None:
        chains = [
            chain._replace(guard=rename(chain.guard, one.joined, {new: old for new, (old, _) in one.parted.items()}))
            for chain, one in zip(chains, followed, strict=True)
        ]
        followed = [without_owned(one._replace(chain=chain)) for one, chain in zip(followed, chains, strict=True)]
        chains = [one.chain for one in followed]
    told = followed[0]
    chains[0], events = tell(trained, stream.labels, told, decisions, stream.state.next_id)
    seat = results[0].subclass
    explained = trained.references is not None
    drift, drifted = follow_known(
        trained, stream, rows, nearest[0], ranks[0], probabilities, seat, parameters, explained=explained
    )
    events += [*drifted, *jumped]
    waiting = rename_waiting(wait(stream.waiting, decisions, results, raw), told.joined, told.parted)
    following = stream._replace(chains=tuple(chains), odds=odds, past=past, waiting=waiting)
    following = following._replace(drift=drift, unknown_rate=rate)
    if guarded is not None:
        following, dropped = follow_recall(trained, following, guarded, parameters)
        events += dropped
    outliers = count_outliers(stream.chains[0], *stepped[0]) - told.regained
    following = following._replace(signals=tally(stream.signals, events, outliers))
    if parameters.follow_drift:
        following = follow_classes(following, rows, results[0].log_density, ranks[0], probabilities)
    return following, events


def _guard(
    trained: TrainedModel, stream: Stream, kept: Sequence[Kept], rows: np.ndarray, parameters: Parameters
) -> list[Guarded] | None:
    """Ask the references in each chain, and balance what the sampler has found; ``None``: there are none."""
    references = references_of(trained, stream)
    if references is None:
        return None
    shifts = class_shifts(stream) if parameters.follow_drift else None
    return each(
        lambda number: follow_balance(
            stream.chains[number],
            kept[number].state,
            references,
            number,
            rows,
            kept[number].result,
            parameters,
            shifts,
        ),
        range(len(kept)),
        parameters.n_jobs,
    )


def _step(
    chain: Chain, number: int, rows: np.ndarray, parameters: Parameters, settings: sampler.Settings
) -> tuple[StreamState, sampler.BatchResult]:
    batch = chain.state.batches
    rng = np.random.default_rng([parameters.seed, batch, number] if number else [parameters.seed, batch])
    return sampler.step(chain.known, chain.frozen, chain.state, rows, rng, settings)


def _decide(
    stream: Stream,
    arrived: Sequence[Arrived],
    rows: np.ndarray,
    result: sampler.BatchResult,
    probabilities: np.ndarray,
    nearest: np.ndarray,
    ranks: np.ndarray,
    parameters: Parameters,
) -> list[Decision]:
    """Decide for now; why, and the subclass, are told from the first chain."""
    known = stream.known
    names = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    responsible = result.responsible[np.arange(len(rows)), nearest]
    distances = mahalanobis_each(known.dishes, responsible, homogeneous(rows), known.prior).tolist()
    label = most_probable(probabilities, parameters.min_probability)
    subclass = subclasses_told(known, label, result.responsible, result.subclass)
    batch, first = stream.state.batches, stream.state.seen
    _, times, keys = zip(*arrived, strict=True)
    told = [names[own] for own in label.tolist()]
    columns = zip(  # in the order of the fields
        keys,
        times,
        told,
        told,
        probabilities[np.arange(len(rows)), label].tolist(),
        probabilities[:, -1].tolist(),
        [dict(zip(names, row, strict=True)) for row in probabilities.tolist()],
        subclass,
        [names[near] for near in nearest.tolist()],
        distances,
        ranks.tolist(),
        repeat(batch, len(rows)),
        range(first, first + len(rows)),
        strict=True,
    )
    return list(map(Decision._make, columns))
