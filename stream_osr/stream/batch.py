"""One micro-batch from rows to decisions and events. A batch that fails leaves no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stream_osr.decision import Decision
from stream_osr.discovery.event_base import Event
from stream_osr.model.missing_features import NOTHING, MissingPattern, filled_in
from stream_osr.model.prior import numbers_of
from stream_osr.parameters import Parameters
from stream_osr.stream import batch_seating
from stream_osr.stream.announcements import about, events_of, sum_up, within_budgets
from stream_osr.stream.arrival_order import Arrival, predict, test
from stream_osr.stream.batch_seating import BatchPosterior
from stream_osr.stream.class_shift import class_shifts, follow_classes
from stream_osr.stream.decisions import decide, release_ready, wait
from stream_osr.stream.faults import BatchFaults, as_first, settle_faults, with_reasons
from stream_osr.stream.frame import at_training, follow_frame, report_frame, start_frame
from stream_osr.stream.late_labels import Evidence, learn_evidence
from stream_osr.stream.monitoring import follow_dependence, follow_known, follow_recall, references_of, tally
from stream_osr.stream.new_class_references import with_references
from stream_osr.stream.recent_instances import DecidedBatch
from stream_osr.stream.reference_check import Dependence, limit_false_unknown, score_references
from stream_osr.stream.state import BufferedInstance, Stream
from stream_osr.stream.subclass_changes import follow
from stream_osr.stream.subclass_identities import ChainResult
from stream_osr.support.parallel import one_thread
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.prior_odds import shift_odds


class BatchOutput(NamedTuple):
    """Final decisions, events, and counts of a closed batch or of a change of seats between batches."""

    decisions: Sequence[Decision] = ()
    events: Sequence[Event] = ()
    counts: Mapping[str, int] = MappingProxyType({})

    def then(self, later: BatchOutput) -> BatchOutput:
        """Append the output of a later seating."""
        counts = Counter(self.counts)
        counts.update(later.counts)
        return BatchOutput([*self.decisions, *later.decisions], [*self.events, *later.events], counts)


class Arrivals(NamedTuple):
    """The instances of a batch, in order of arrival: whitened rows, shape (b, d), times, keys, missing values.

    ``noticed`` has the data faults in their raw rows, or ``None`` if the rows were not checked. ``lacks`` has flags
    of missing features, shape (b, p).
    """

    rows: np.ndarray
    times: Sequence[float | None]
    keys: Sequence[Any]
    missing: MissingPattern | None = None
    noticed: BatchFaults | None = None
    lacks: np.ndarray | None = None


def close_batch(
    trained: TrainedModel,
    stream: Stream,
    arrived: Sequence[BufferedInstance],
    evidence: Sequence[Evidence],
    parameters: Parameters,
    missing: MissingPattern | None = None,
    *,
    release: bool = False,
) -> tuple[Stream, BatchOutput]:
    """Decide a micro-batch of instances, in order of arrival, with missing values (:func:`close_arrivals`)."""
    rows, times, keys = zip(*arrived, strict=True) if arrived else ((), (), ())
    batch = Arrivals(np.array(rows), times, keys, missing)
    return close_arrivals(trained, stream, batch, evidence, parameters, release=release)


def close_arrivals(
    trained: TrainedModel,
    stream: Stream,
    arrived: Arrivals,
    evidence: Sequence[Evidence],
    parameters: Parameters,
    *,
    release: bool = False,
    attempt: bool = False,
) -> tuple[Stream, BatchOutput]:
    """Decide a micro-batch. Floods of events are summarised (:mod:`stream_osr.stream.announcements`).

    Parameters
    ----------
    trained
        The trained model (shared, never changed).
    stream
        The stream so far (never changed).
    arrived
        The batch.
    evidence
        Labels that take effect before the batch.
    parameters
        Sampler settings and seed.
    release
        Whether to release all delayed decisions and to summarise the waiting events.
    attempt
        Whether only an error matters. Then the results are without meaning, and nothing follows the decisions.
    """
    announced = set(stream.life.ids[stream.life.emerged].tolist())
    unknown_keys: list[Any] = []
    events: list[Event] = []
    with one_thread():
        if evidence:
            stream, unknown_keys = learn_evidence(stream, evidence, parameters)
            stream = with_references(trained, stream)
        if attempt and len(arrived.keys):
            _judge(trained, stream, arrived, parameters, attempt=True)
        elif len(arrived.keys):
            stream, events = _go_through(trained, stream, arrived, parameters)
    decisions, stream = release_ready(stream, 0 if release else parameters.decision_delay, parameters)
    state = stream.chains[0].state
    event_budget, reported = within_budgets(stream.event_budget, events, state.seen, announced)
    event_budget, summed = sum_up(event_budget, about(trained, state), end=release)
    counts = {"events_summed": len(events) - len(reported)} if len(events) > len(reported) else {}
    counts["unknown_keys"] = len(unknown_keys)
    return stream._replace(event_budget=event_budget), BatchOutput(decisions, [*reported, *summed], counts)


def _go_through(
    trained: TrainedModel, stream: Stream, arrived: Arrivals, parameters: Parameters
) -> tuple[Stream, list[Event]]:
    """Run a batch through its stages. Its decisions become final on release."""
    if not parameters.follow_drift:  # classes that follow their instances have no common place to leave
        stream = stream._replace(frame=stream.frame or start_frame(trained))
    after, events, posterior = _judge(trained, stream, arrived, parameters)
    if stream.frame is None:
        return after, events
    seen = after.state.seen
    frame, judge_again = follow_frame(trained, stream.frame, posterior, arrived.lacks, seen, after.arrival)
    if judge_again:
        after, events, _ = _judge(trained, stream._replace(frame=frame), arrived, parameters)
    frame, moved = report_frame(trained, frame, seen, about(trained, after.state))
    return after._replace(frame=frame), [*events, *moved]


def _judge(
    trained: TrainedModel, stream: Stream, arrived: Arrivals, parameters: Parameters, *, attempt: bool = False
) -> tuple[Stream, list[Event], BatchPosterior]:
    """Run a batch through its stages in the stream's present frame."""
    noticed, missing = arrived.noticed, arrived.missing
    repeats = [] if noticed is None else [*noticed.repeats]
    odd = [] if noticed is None else np.flatnonzero(noticed.odd.any(axis=1)).tolist()
    rows = at_training(trained, stream.frame, arrived.rows, stream.state.seen)
    rows = batch_seating.complete(stream.chains, rows, parameters, missing)
    if repeats and missing is not None:
        rows, missing = without_repeats(stream, rows, missing, repeats, parameters)
    chain_results, arrival = seat(trained, stream, rows, parameters, missing, repeats)
    dependent = arrival is not None and arrival.counts_typicality
    posterior, odds = batch_seating.average(chain_results, rows, stream.odds, parameters, dependent=dependent)
    shown = posterior
    if noticed is not None and repeats:
        raw = as_first(noticed, posterior.raw)
        shown = posterior._replace(raw=raw, probabilities=shift_odds(odds, raw))
    decisions = decide(stream, arrived.times, arrived.keys, shown, parameters)
    if attempt:
        return stream, [], posterior
    after, batch = settle(stream._replace(odds=odds, arrival=arrival), arrived, posterior, parameters)
    failed = list[Event]()
    if noticed is not None:
        decisions = with_reasons(trained, noticed, decisions)
        after, failed = settle_faults(trained, stream, after, noticed, shown.raw, decisions)
    after, update, jumped = follow(trained, after, posterior, batch, parameters)
    leader, events = events_of(trained, after.labels, update, stream.state.next_id)
    after = after.led_by(leader)
    drift, drifted = follow_known(trained, stream, after, posterior, parameters, sorted({*repeats, *odd}))
    after, dropped = follow_recall(trained, after._replace(drift=drift), posterior, parameters)
    after, found = follow_dependence(trained, stream, after, posterior)
    events = [*failed, *events, *drifted, *jumped, *dropped, *found]
    after = after._replace(
        signals=tally(after.signals, events, posterior.seated[0].outliers - update.regained, len(odd)),
        waiting=wait(after.waiting, decisions, shown, update.identities),
    )
    return (follow_classes(after, posterior) if parameters.follow_drift else after), events, posterior


def without_repeats(
    stream: Stream, rows: np.ndarray, missing: MissingPattern, repeats: Sequence[int], parameters: Parameters
) -> tuple[np.ndarray, MissingPattern]:
    """Replace repeated rows by draws from the known classes, so that they are no evidence of a new class."""
    rows, known, theirs = rows.copy(), range(len(stream.labels)), missing._replace(pattern=missing.pattern[repeats])
    rows[repeats] = batch_seating.complete(
        stream.chains, rows[repeats], parameters, theirs, n_references=-1, only=known
    )
    return rows, filled_in(missing, repeats)


def seat(
    trained: TrainedModel,
    stream: Stream,
    rows: np.ndarray,
    parameters: Parameters,
    missing: MissingPattern | None = None,
    repeats: Sequence[int] = (),
) -> tuple[list[ChainResult], Arrival | None]:
    """Seat the batch in every chain, run the reference check, and apply the bound on false unknowns.

    ``repeats`` are rows that were drawn in place of repeated ones. They have no neighbours.

    Returns
    -------
    Results of the chains, and the locations of the known classes in order of arrival after the batch.
    """
    references, arrival, order, gain = references_of(trained, stream), stream.arrival, trained.order, None
    shifts = class_shifts(stream) if parameters.follow_drift else None
    incomplete = np.zeros(len(rows), bool) if missing is None else missing.pattern != NOTHING
    incomplete[list(repeats)] = True
    if arrival is not None and order is not None and references is not None:
        if shifts is not None:
            moved = shifts[: len(order.residuals.mean), len(stream.known.prior.first) :]
            order = order._replace(residuals=order.residuals._replace(mean=order.residuals.mean + moved))
        kept = parameters.window_after(len(rows))
        arrival, gain = predict(arrival, order.residuals, stream.chains, references, rows, incomplete, kept)
    chain_results = batch_seating.seat(stream.chains, rows, parameters, missing, gain)
    if references is None:
        return chain_results, arrival
    dependent = _dependence(arrival, trained, repeats)
    scored, runs = score_references(chain_results, references, rows, parameters, shifts, dependent=dependent)
    if arrival is not None and order is not None:
        frozen = np.mean([one.result.log_density for one in scored], axis=0)[:, : len(order.residuals.mean)]
        if gain is not None:
            frozen = frozen - gain[-len(rows) :, None]
        numeric = numbers_of(rows, stream.known.prior)
        unknown = np.mean([one.result.probabilities[:, -1] for one in scored], axis=0) > 0.5
        arrival = test(arrival, order, references, numeric, frozen, incomplete, unknown, stream.state.seen)
        if dependent is None and arrival.counts_typicality:  # the batch that shows it is judged by it
            dependent = _dependence(arrival, trained, repeats)
            scored, runs = score_references(chain_results, references, rows, parameters, shifts, dependent=dependent)
        arrival = arrival._replace(runs=runs)
    return limit_false_unknown(scored, references, parameters.max_false_unknown), arrival


def _dependence(arrival: Arrival | None, trained: TrainedModel, repeats: Sequence[int]) -> Dependence | None:
    if arrival is None or trained.order is None or not arrival.counts_typicality:
        return None
    return Dependence(arrival.independent, trained.order.persistence, arrival.runs, repeats)


def settle(
    stream: Stream, arrived: Arrivals, posterior: BatchPosterior, parameters: Parameters
) -> tuple[Stream, DecidedBatch]:
    """Continue with the chains after the batch, and update the remembered instances with merges and moves."""
    seen, nowhere = stream.state.seen, np.zeros((0, len(arrived.keys)), np.int64)
    batch = DecidedBatch(posterior.rows, arrived.keys, arrived.times, seen, nowhere, posterior.probabilities[:, -1])
    chains, recent = batch_seating.settle(posterior, stream.recent, batch, parameters.label_horizon)
    return stream._replace(chains=chains, recent=recent), batch
