"""Monitoring of the stream: drift, unknown share, recall, dependence, counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.discovery.drift import Drift, UnknownRate, follow, follow_rate, start_rate
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.events import ClassDrifted, DependenceFound, RecallDropped, UnknownRateJumped
from stream_osr.discovery.explain import explain_move
from stream_osr.discovery.histories import places_of
from stream_osr.discovery.lifecycle import arrives_as_usual
from stream_osr.discovery.signal_table import count_signals
from stream_osr.discovery.summaries import Signals
from stream_osr.model import autocorrelation
from stream_osr.model.class_places import TYPICAL
from stream_osr.model.dependence import rank_share
from stream_osr.model.prior import numbers_of
from stream_osr.parameters import Label, Parameters
from stream_osr.stream.announcements import about
from stream_osr.stream.batch_seating import BatchPosterior
from stream_osr.stream.chain import opening_seats
from stream_osr.stream.decisions import most_probable
from stream_osr.stream.reference_check import mean_of_references
from stream_osr.stream.state import Stream
from stream_osr.stream.subclass_identities import ChainResult
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.density_levels import log_odds_of_new
from stream_osr.trust.false_unknown_bound import call_known, plausible
from stream_osr.trust.prior_odds import shift_odds
from stream_osr.trust.recall import ExpectedRecall, call, doubt, expect, has_dropped, no_results, shares_of_labels
from stream_osr.trust.references import References, once

MOST_LABELS = 5
"""Most classes that a DependenceFound event names."""


def references_of(trained: TrainedModel, stream: Stream) -> References | None:
    """Return the reference instances of a stream's known classes, or ``None`` without a reference check."""
    references = trained.references if stream.references is None else stream.references
    return None if references is None or not len(references.group) else references


def follow_known(
    trained: TrainedModel,
    stream: Stream,
    after: Stream,
    posterior: BatchPosterior,
    parameters: Parameters,
    repeats: Sequence[int] = (),
) -> tuple[Drift, list[Event]]:
    """Update the drift detectors of the known classes after a batch, in the leader, and report drift.

    With a reference check, instances in an emerging subclass that arrives at its usual rate are no evidence of drift.

    Parameters
    ----------
    trained, stream, after
        The model, and the stream before and after the batch.
    posterior
        The batch.
    parameters
        Settings.
    repeats
        Positions in the batch of rows that are no evidence.
    """
    if parameters.drift_interval is None or len(repeats) == len(posterior.rows):
        return stream.drift, []
    leader, n_classes, usual = stream.chains[0], len(stream.labels), np.zeros(0, np.int64)
    known, state = leader.known, leader.state
    if trained.references is not None:
        usual = leader.life.ids[arrives_as_usual(leader.life, state.seen)]
    accepted = ~posterior.is_unknown
    given, interval = places_of(usual, posterior.leader.subclass) >= 0, parameters.drift_interval
    nearest, rank, rows = posterior.nearest, posterior.rank, numbers_of(posterior.rows, known.prior)
    if repeats:
        parts = nearest, rank, accepted, rows, given
        nearest, rank, accepted, rows, given = (np.delete(part, repeats, axis=0) for part in parts)
    batch = nearest, rank, accepted, rows
    share = rank_share(trained.order)
    drift, alarms = follow(stream.drift, *batch, state.seen, n_classes, interval, given, share)
    common_fields, events = about(trained, after.state), list[Event]()
    for alarm in alarms:
        summaries = alarm._asdict()
        j, mean = summaries.pop("j"), summaries.pop("mean")
        movement = explain_move(mean, j, known, trained.whitening, trained.names)
        events.append(ClassDrifted(label=stream.labels[j], movement=movement, **summaries, **common_fields))
    return drift, events


def follow_unknown(
    trained: TrainedModel, stream: Stream, posterior: BatchPosterior
) -> tuple[UnknownRate, list[Event]]:
    """Update the unknown share of the stream after a batch, and report a jump.

    Parameters
    ----------
    trained, stream
        The model, and the stream with the chains after the batch.
    posterior
        The batch, as decided.
    """
    n, unknown = len(posterior.rows), int(posterior.is_unknown.sum())
    rate = start_rate(1.0 - trained.report.known_recall) if stream.unknown_rate is None else stream.unknown_rate
    rate, jump = follow_rate(rate, unknown, n, stream.state.seen - n)
    return rate, [] if jump is None else [UnknownRateJumped(**jump._asdict(), **about(trained, stream.state))]


def follow_recall(
    trained: TrainedModel, stream: Stream, posterior: BatchPosterior, parameters: Parameters
) -> tuple[Stream, list[Event]]:
    """Record the labels of the references after a batch, and report a drop below the expected recall.

    Parameters
    ----------
    trained
        Model with the expected recall.
    stream
        The stream after the batch.
    posterior
        The batch, with the results of the reference checks.
    parameters
        Settings by which labels are chosen.
    """
    references = references_of(trained, stream)
    if references is None:
        return stream, []
    at, probabilities, shares = mean_of_references(posterior)
    if parameters.max_false_unknown is not None:
        density = np.mean(references.log_density, axis=0)[at]
        probabilities = call_known(probabilities, plausible(references, density, parameters.max_false_unknown))
    label = most_probable(shift_odds(stream.odds, probabilities), 0.0)
    called = no_results(len(shares)) if stream.called is None else stream.called
    if stream.called is not None and stream.arrival is not None and stream.arrival.counts_typicality:
        shares = shares_of_labels(called.shares, posterior.probabilities[:, :-1])
    called = call(called, label, references.group[at], shares, len(posterior.rows), references.weights[at])
    if stream.arrival is not None and stream.arrival.counts_typicality:
        called = doubt(called, *_doubts(stream, posterior))
    stream = stream._replace(called=called)
    now, promised = expected_recall(trained, stream), trained.report.recall_interval
    if now is None or promised is None:
        return stream, []
    hidden = stream.faults is not None and bool(stream.faults.columns.hidden.any())  # the promise counted on it
    dropped = hidden or has_dropped(called, now, promised, _distinct(references, len(shares)))
    stream = stream._replace(called=called._replace(dropped=dropped))
    if not dropped or called.dropped:
        return stream, []
    common_fields = about(trained, stream.state)
    return stream, [RecallDropped(**now._asdict(), promised=trained.report.known_recall, **common_fields)]


def _doubts(stream: Stream, posterior: BatchPosterior) -> tuple[int, int, int, np.ndarray]:
    """Count the instances of a batch that are surely known, disputed, and unknown without an announced subclass.

    The last result are the numbers of instances since each earlier one whose subclass is announced in this batch.
    """
    unknown = posterior.is_unknown
    disputed = ~unknown & (np.mean([_log_odds_of_new(each) for each in posterior.seated], axis=0) > 0.0)
    life = stream.chains[0].life
    before, subclass, b = posterior.seated[0].before.life, stream.recent.subclass[0], len(unknown)
    own = subclass[-b:] if len(subclass) >= b else posterior.leader.subclass
    unplaced = unknown & ~np.isin(own, life.ids[life.emerged])
    announced = np.setdiff1d(life.ids[life.emerged], before.ids[before.emerged])
    ages = len(subclass) - np.flatnonzero(np.isin(subclass, announced))
    return int((~unknown & ~disputed).sum()), int(disputed.sum()), int(unplaced.sum()), ages[ages > b] - b


def _log_odds_of_new(chain_result: ChainResult) -> np.ndarray:
    """Log odds, by the frozen classes alone, that the instances of a batch are new, shape (b,)."""
    chain, result = chain_result.before, chain_result.result
    log_density = result.log_density
    if result.gain is not None:
        log_density = log_density - result.gain[-len(log_density) :, None]
    seats = opening_seats(chain.known, chain.frozen)
    return log_odds_of_new(log_density, result.log_density_new, seats)


def expected_recall(trained: TrainedModel, stream: Stream) -> ExpectedRecall | None:
    """Estimate the share of known instances that get their own label now, or ``None`` before any reference check."""
    called = stream.called
    return None if called is None else recall_among(trained, stream, range(len(called.shares)))


def recall_among(trained: TrainedModel, stream: Stream, classes: Sequence[int]) -> ExpectedRecall | None:
    """Estimate the same for some known classes, given by number, or ``None`` before any check of their references."""
    references, called = references_of(trained, stream), stream.called
    if references is None or called is None:
        return None
    shares = np.zeros_like(called.shares)
    own = [j for j in classes if j < len(shares)]  # those that have been opened since, nobody was asked about
    shares[own] = called.shares[own]
    now = expect(called._replace(shares=shares), _distinct(references, len(shares)), _spread(references))
    if now is None or stream.frame is None or not stream.frame.has_moved:
        return now
    return now._replace(low=now.low * min(1.0, stream.frame.typical / TYPICAL))  # the rest may be known as well


def rank_among(stream: Stream, classes: Sequence[int]) -> float | None:
    """Return the mean density rank of the latest instances of some known classes, or ``None`` without instances.

    It is 1/2 in training. The drift detectors monitor it: it decreases when a class moves or widens.
    """
    lately = stream.drift.lately
    count, total = lately[[j for j in classes if j < len(lately)], :2].sum(axis=0).tolist()
    return total / count if count else None


@once
def _spread(references: References) -> float:
    return references.spread


@once
def _distinct(references: References, n_classes: int) -> np.ndarray:
    return references.distinct(n_classes)


def tally(signals: Signals, events: Sequence[Event], outliers: int, odd: int = 0) -> Signals:
    """Add the counts of a batch."""
    counts = {name: getattr(signals, name) + count for name, count in count_signals(events).items()}
    return signals._replace(outliers=signals.outliers + outliers, odd_values=signals.odd_values + odd, **counts)


def dependence(trained: TrainedModel, stream: Stream) -> dict[Label, float]:
    """Mean correlation of neighbours in each trained class: in the stream, or in training while pairs are few.

    It is empty if the order carries no information or was not tested.
    """
    order, arrival = trained.order, stream.arrival
    if order is None or arrival is None:
        return {}
    enough = arrival.pairs.correlation[:, 0] >= autocorrelation.LEAST_STREAM_PAIRS
    value = np.where(
        enough, autocorrelation.correlation_by_class(arrival.pairs), autocorrelation.correlation_by_class(order.pairs)
    )
    return dict(zip(trained.labels, value.tolist(), strict=True))


def follow_dependence(
    trained: TrainedModel, before: Stream, stream: Stream, posterior: BatchPosterior
) -> tuple[Stream, list[Event]]:
    """Record since when a stream is treated as dependent, and report it unless training was dependent as well.

    Parameters
    ----------
    trained, before, stream
        The model, and the stream before and after the batch.
    posterior
        The batch.
    """
    was, now, since = before.arrival, stream.arrival, stream.signals.dependent_since
    if was is None or now is None or not now.counts_typicality:  # an earlier model's stream may have been
        return stream._replace(signals=stream.signals._replace(dependent_since=None)), []
    depends = now.process is not None
    begun = now.since if depends else now.departed
    stream = stream._replace(signals=stream.signals._replace(dependent_since=begun if since is None else since))
    if not (was.process is None if depends else now.departed >= 0 > was.departed):
        return stream, []
    if depends:
        kind, rank = "neighbours depend", autocorrelation.correlation_by_class(now.pairs)
        rank = np.where(rank > autocorrelation.CORRELATED_STREAM, rank, 0.0)
    else:
        kind = "typical instances unknown"
        rank = np.bincount(posterior.nearest[posterior.is_unknown], minlength=len(stream.labels))
    most = [j for j in np.argsort(-rank, kind="stable").tolist() if rank[j] > 0][:MOST_LABELS]
    event = DependenceFound(
        kind=kind,
        labels=tuple(stream.labels[j] for j in most),
        correlation=autocorrelation.correlation_of(now.pairs)[0],
        since=begun,
        **about(trained, stream.chains[0].state),
    )
    return stream, [event]
