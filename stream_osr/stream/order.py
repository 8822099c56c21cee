"""Dependence in order of arrival as a signal: how strong it is in each class, and when it begins."""

from __future__ import annotations

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery import events as ev
from stream_osr.model.dependence import (
    CORRELATED_STREAM,
    LEAST_STREAM_PAIRS,
    correlation_by_class,
    correlation_of,
)
from stream_osr.stream.announcements import about
from stream_osr.stream.seating import Judged
from stream_osr.stream.state import Stream
from stream_osr.trained import TrainedModel

MOST_LABELS = 5
"""Classes that an event names."""


def dependence(trained: TrainedModel, stream: Stream) -> dict[Label, float]:
    """Mean correlation of neighbours in each trained class: in the stream, or in training as long as pairs are few.

    It is empty where the order carries no information, or was not tested.
    """
    order, arrival = trained.order, stream.arrival
    if order is None or arrival is None:
        return {}
    enough = arrival.pairs.correlation[:, 0] >= LEAST_STREAM_PAIRS
    value = np.where(enough, correlation_by_class(arrival.pairs), correlation_by_class(order.pairs))
    return dict(zip(trained.labels, value.tolist(), strict=True))


def follow_dependence(
    trained: TrainedModel, before: Stream, stream: Stream, judged: Judged
) -> tuple[Stream, list[ev.Event]]:
    """Note since when a stream is treated as dependent, and tell when that begins and training was not dependent.

    Parameters
    ----------
    trained, before, stream
        The model, and the stream before the batch and after it.
    judged
        The batch.
    """
    was, now = before.arrival, stream.arrival
    since = stream.signals.dependent_since
    if was is None or now is None:  # what an earlier model's stream was treated as is over
        return (stream if since is None else _since(stream, None)), []
    depends = now.process is not None
    if not now.counts_typicality:
        since = None
    elif since is None:
        since = now.since if depends else now.departed
    stream = _since(stream, since)
    begins = was.process is None if depends else now.departed >= 0 > was.departed
    if not begins:
        return stream, []
    if depends:
        kind, rank = "neighbours depend", correlation_by_class(now.pairs)
        rank = np.where(rank > CORRELATED_STREAM, rank, 0.0)
    else:
        unknown = judged.probabilities.argmax(axis=1) == judged.probabilities.shape[1] - 1
        kind, rank = "typical instances unknown", np.bincount(judged.nearest[unknown], minlength=len(stream.labels))
    most = [j for j in np.argsort(-rank, kind="stable").tolist() if rank[j] > 0][:MOST_LABELS]
    event = ev.DependenceFound(
        kind=kind,
        labels=tuple(stream.labels[j] for j in most),
        correlation=correlation_of(now.pairs)[0],
        since=now.since if depends else now.departed,
        **about(trained, stream.chains[0].state),
    )
    return stream, [event]


def _since(stream: Stream, since: int | None) -> Stream:
    return stream._replace(signals=stream.signals._replace(dependent_since=since))
