"""One micro-batch from rows to decisions and events. A batch that fails leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.decision import Decision
from stream_osr.discovery import events as ev
from stream_osr.engine.announce import about, sum_up, tell, tell_within_budgets
from stream_osr.engine.decisions import decide, release_ready, wait
from stream_osr.engine.evidence import Evidence, learn_evidence
from stream_osr.engine.faults import Noticed, as_first, decided_as_first, settle_faults
from stream_osr.engine.following import class_shifts, follow_classes
from stream_osr.engine.opened import with_references
from stream_osr.engine.order import follow_dependence
from stream_osr.engine.state import Arrived, Stream
from stream_osr.engine.watch import follow_known, follow_recall, follow_unknown, references_of, tally
from stream_osr.ensemble import guard, lives, step
from stream_osr.ensemble.arrival import Arrival, predict, test
from stream_osr.ensemble.chain import Followed, led_by
from stream_osr.ensemble.past import Decided
from stream_osr.ensemble.step import Judged, Seated
from stream_osr.model.missing import NOTHING, Gaps, filled_in
from stream_osr.parallel import one_thread
from stream_osr.trained import TrainedModel
from stream_osr.trust.odds import Odds, learn_odds, shift_odds


class Batch(NamedTuple):
    """What a closed batch yields.

    Final decisions, events, the keys of late labels that nobody remembers, and how many events wait to be summed up.
    """

    decisions: list[Decision]
    events: list[ev.Event]
    unknown_keys: list[Any]
    summed: int = 0


class Arrivals(NamedTuple):
    """The instances of a batch, in order of arrival: whitened rows, shape (b, d), times, keys, what is missing.

    ``noticed`` is what their raw rows show; ``None``: nobody looked.
    """

    rows: np.ndarray
    times: Sequence[float | None]
    keys: Sequence[Any]
    gaps: Gaps | None = None
    noticed: Noticed | None = None


def close_batch(
    trained: TrainedModel,
    stream: Stream,
    arrived: Sequence[Arrived],
    evidence: Sequence[Evidence],
    parameters: Parameters,
    gaps: Gaps | None = None,
    *,
    release: bool = False,
) -> tuple[Stream, Batch]:
    """Decide a micro-batch of instances, in order of arrival, with ``gaps`` in them (:func:`close_arrivals`)."""
    rows, times, keys = zip(*arrived, strict=True) if arrived else ((), (), ())
    batch = Arrivals(np.array(rows), times, keys, gaps)
    return close_arrivals(trained, stream, batch, evidence, parameters, release=release)


def close_arrivals(
    trained: TrainedModel,
    stream: Stream,
    arrived: Arrivals,
    evidence: Sequence[Evidence],
    parameters: Parameters,
    *,
    release: bool = False,
) -> tuple[Stream, Batch]:
    """Decide a micro-batch; floods of events are summed up (:mod:`stream_osr.engine.announce`).

    Parameters
    ----------
    trained
        The trained model (shared, never changed).
    stream
        The stream so far (never changed).
    arrived
        The batch.
    evidence
        Labels that take effect before it.
    parameters
        Sampler settings and seed.
    release
        Hold no decision back, and sum up the events that wait for it.
    """
    announced = set(stream.life.ids[stream.life.emerged].tolist())
    unknown_keys: list[Any] = []
    events: list[ev.Event] = []
    with one_thread():
        if evidence:
            stream, unknown_keys = learn_evidence(stream, evidence, parameters)
            stream = with_references(trained, stream)
        if len(arrived.keys):
            stream, events = _go_through(trained, stream, arrived, parameters)
    decisions, stream = release_ready(stream, 0 if release else parameters.decision_delay, parameters)
    state = stream.chains[0].state
    telling, told = tell_within_budgets(stream.telling, events, state.seen, announced)
    telling, summed = sum_up(telling, about(trained, state), end=release)
    batch = Batch(decisions, [*told, *summed], unknown_keys, len(events) - len(told))
    return stream._replace(telling=telling), batch


def _go_through(
    trained: TrainedModel, stream: Stream, arrived: Arrivals, parameters: Parameters
) -> tuple[Stream, list[ev.Event]]:
    """Take a batch through its stages; its decisions are final when they are released."""
    noticed, gaps = arrived.noticed, arrived.gaps
    repeats = [] if noticed is None else list(noticed.repeats)
    rows = step.complete(stream.chains, arrived.rows, parameters, gaps)
    if repeats and gaps is not None:
        rows, gaps = without_repeats(stream, rows, gaps, repeats, parameters)
    seated, arrival = seat(trained, stream, rows, parameters, gaps, repeats)
    judged, odds = average(stream.odds, seated, rows, parameters)
    shown = judged
    if noticed is not None and repeats:
        raw = as_first(noticed, judged.raw)
        shown = judged._replace(raw=raw, probabilities=shift_odds(odds, raw))
    decisions = decide(stream, arrived.times, arrived.keys, shown, parameters)
    after, batch = settle_identities(stream._replace(odds=odds, arrival=arrival), arrived, judged, parameters)
    failed = list[ev.Event]()
    if noticed is not None:
        decisions = decided_as_first(noticed, decisions)
        after, failed = settle_faults(trained, stream, after, noticed, shown.raw, decisions)
    after, told, jumped = follow(trained, after, judged, batch, parameters)
    after, events = announce(trained, stream, after, told)
    said = [*failed, *events], jumped, told.regained
    after, events = watch(trained, stream, after, judged, said, parameters, repeats)
    return hold(after, decisions, shown, told), events


def without_repeats(
    stream: Stream, rows: np.ndarray, gaps: Gaps, repeats: Sequence[int], parameters: Parameters
) -> tuple[np.ndarray, Gaps]:
    """Put rows that the known classes draw in the place of those that repeat: no evidence of anything new."""
    rows, known, theirs = rows.copy(), range(len(stream.labels)), gaps._replace(pattern=gaps.pattern[repeats])
    rows[repeats] = step.complete(stream.chains, rows[repeats], parameters, theirs, asked=-1, only=known)
    return rows, filled_in(gaps, repeats)


def _typical(arrival: Arrival | None) -> bool:
    return arrival is not None and arrival.counts_typicality


def seat(
    trained: TrainedModel,
    stream: Stream,
    rows: np.ndarray,
    parameters: Parameters,
    gaps: Gaps | None = None,
    repeats: Sequence[int] = (),
) -> tuple[list[Seated], Arrival | None]:
    """Let every chain seat the batch; references are asked beside it, and what is promised is kept.

    ``repeats`` are rows that were drawn in the place of others: neighbours of nobody.

    Returns
    -------
    What became of the chains, and where the known classes are in order of arrival after the batch.
    """
    references, arrival, order, gain = references_of(trained, stream), stream.arrival, trained.order, None
    shifts = class_shifts(stream) if parameters.follow_drift else None
    incomplete = np.zeros(len(rows), bool) if gaps is None else gaps.pattern != NOTHING
    incomplete[list(repeats)] = True
    if arrival is not None and order is not None and references is not None:
        if shifts is not None:
            moved = shifts[: len(order.residuals.mean), len(stream.known.prior.first) :]
            order = order._replace(residuals=order.residuals._replace(mean=order.residuals.mean + moved))
        kept = parameters.window_after(len(rows))
        arrival, gain = predict(arrival, order.residuals, stream.chains, references, rows, incomplete, kept)
    seated = step.seat(stream.chains, rows, parameters, gaps, gain)
    if references is None:
        return seated, arrival
    independent = arrival.independent if arrival is not None and _typical(arrival) else None
    balanced = guard.ask_references(seated, references, rows, parameters, shifts, independent=independent)
    if arrival is not None and order is not None:
        frozen = np.mean([one.result.log_density for one in balanced], axis=0)[:, : len(order.residuals.mean)]
        if gain is not None:
            frozen = frozen - gain[-len(rows) :, None]
        numeric = rows[:, len(stream.known.prior.first) :]
        unknown = np.mean([one.result.probabilities[:, -1] for one in balanced], axis=0) > 0.5
        arrival = test(arrival, order, references, numeric, frozen, incomplete, unknown, stream.state.seen)
        if independent is None and _typical(arrival):  # the batch that shows it is judged by it
            chains = guard.recounted(stream.chains, stream.past, references)
            again = [one._replace(before=chain) for one, chain in zip(seated, chains, strict=True)]
            independent = arrival.independent
            balanced = guard.ask_references(again, references, rows, parameters, shifts, independent=independent)
    return guard.keep_promise(balanced, references, parameters.max_false_unknown), arrival


def average(odds: Odds, seated: Sequence[Seated], rows: np.ndarray, parameters: Parameters) -> tuple[Judged, Odds]:
    """Average what the chains say, learn the shift of the odds of unknown, and apply it."""
    judged = step.average(seated, rows)
    if parameters.learn_odds:
        odds = learn_odds(odds, judged.raw, judged.mean_rank, parameters.half_life)
    return judged._replace(probabilities=shift_odds(odds, judged.raw)), odds


def settle_identities(
    stream: Stream, arrived: Arrivals, judged: Judged, parameters: Parameters
) -> tuple[Stream, Decided]:
    """Go on with the chains after the batch; what is remembered follows what they joined and moved."""
    seen, nowhere = stream.chains[0].state.seen, np.zeros((0, len(arrived.keys)), np.int64)
    batch = Decided(judged.rows, arrived.keys, arrived.times, seen, nowhere, judged.probabilities[:, -1])
    chains, past = step.settle(judged, stream.past, batch, parameters.label_horizon)
    return stream._replace(chains=chains, past=past), batch


def follow(
    trained: TrainedModel, stream: Stream, judged: Judged, batch: Decided, parameters: Parameters
) -> tuple[Stream, Followed, list[ev.Event]]:
    """Follow the emerging subclasses, and the share of the stream that is unknown."""
    rate, jumped = follow_unknown(trained, stream, judged.probabilities)
    share = max(rate.rate, float(batch.p_unknown.mean()))
    arrival = stream.arrival
    announces = arrival is None or not (arrival.counts_typicality and arrival.has_left)
    terms = lives.Terms(parameters.max_subclasses, parameters.max_dormant, trained.noise, share, announces)
    chains, past, told = lives.follow(stream.chains, judged, stream.past, batch, terms)
    return stream._replace(chains=chains, past=past, unknown_rate=rate), told, jumped


def announce(trained: TrainedModel, before: Stream, stream: Stream, told: Followed) -> tuple[Stream, list[ev.Event]]:
    """Tell what happened to the leader's subclasses."""
    leader, events = tell(trained, stream.labels, told, before.chains[0].state.next_id)
    return stream._replace(chains=led_by(leader, stream.chains)), events


def watch(
    trained: TrainedModel,
    before: Stream,
    stream: Stream,
    judged: Judged,
    told: tuple[list[ev.Event], list[ev.Event], int],
    parameters: Parameters,
    repeats: Sequence[int] = (),
) -> tuple[Stream, list[ev.Event]]:
    """Watch the known classes: which drift, whether the promise holds; count, and let them follow if asked."""
    events, jumped, regained = told
    drift, drifted = follow_known(trained, before, stream, judged, parameters, repeats)
    stream, dropped = follow_recall(trained, stream._replace(drift=drift), judged, parameters)
    stream, found = follow_dependence(trained, before, stream, judged)
    events = [*events, *drifted, *jumped, *dropped, *found]
    stream = stream._replace(signals=tally(stream.signals, events, judged.seated[0].outliers - regained))
    return (follow_classes(stream, judged) if parameters.follow_drift else stream), events


def hold(stream: Stream, decisions: Sequence[Decision], judged: Judged, told: Followed) -> Stream:
    """Hold decisions back, those of batches before as they look now."""
    return stream._replace(waiting=wait(stream.waiting, decisions, judged, told.identities))
