"""The discovery table of the paper (a summary, or a row for each subclass), and the signals of a stream."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from stream_osr.discovery.new_classes import NewClasses
from stream_osr.discovery.summaries import ALL_MET, DiscoveryRow, Signals, Summary
from stream_osr.model.marginal import dishes_of
from stream_osr.model.nearest import nearest_known
from stream_osr.parameters import Label
from stream_osr.stream.chain import sizes_of
from stream_osr.stream.faults import changed_columns, error_codes, faulty_columns
from stream_osr.stream.frame import frame_text
from stream_osr.stream.monitoring import dependence, expected_recall
from stream_osr.stream.recognizer_state import RecognizerState
from stream_osr.stream.state import Stream
from stream_osr.trust.recall import ExpectedRecall


class SubclassRow(NamedTuple):
    """A subclass in the discovery table.

    Attributes
    ----------
    subclass_id
        Its identity.
    kind
        ``"known"`` for a subclass of a known class, ``"new"`` for an emerging one.
    label
        Label of the known class, ``None`` if it is new.
    size
        Number of instances.
    share
        Their share of the class, or of the stream so far.
    stage
        Stage of a new subclass, a field of :class:`stream_osr.stream.StageCounts`.
    first_seen, last_seen
        Positions in the stream of a new subclass's first and latest instance.
    nearest_class, distance
        Known class nearest to a new subclass, and the distance in standard deviations.
    new_class
        Position, from 0, of the candidate new class in :meth:`stream_osr.OpenSetRecognizer.new_classes`.
    """

    subclass_id: int
    kind: Literal["known", "new"]
    label: Label | None
    size: int
    share: float
    stage: str | None = None
    first_seen: int | None = None
    last_seen: int | None = None
    nearest_class: Label | None = None
    distance: float | None = None
    new_class: int | None = None


def summarize(state: RecognizerState, found: NewClasses, expected: ExpectedRecall | None) -> Summary:
    """Summarise the known classes and the subclasses of the stream."""
    stream = state.stream
    assert stream is not None
    trained = state.trained if state.training is None else None
    counts = stream.counts
    return Summary(
        known=tuple(_groups(stream)),
        stream_size=counts.decided,
        known_share=1.0 - counts.unknown_share if counts.decided else 0.0,
        unknown_share=counts.unknown_share,
        emerging=tuple(sorted(_sizes(stream), key=lambda item: (-item[1], item[0]))),
        delta=found.delta,
        new_classes=found.estimate,
        promised_recall=None if trained is None else trained.report.known_recall,
        expected_recall=expected,
        guarded=trained is None or not trained.unguarded,
        unmet=state.unmet or ALL_MET,
        by_group=None if trained is None else trained.report.by_group,
    )


def signals_of(state: RecognizerState) -> Signals:
    """Return the signals of a stream. During training they only count bad rows."""
    trained, stream, bad = state.trained, state.stream, state.counters["bad_rows"]
    if trained is None or stream is None:
        return Signals(data_quality=bad)
    return stream.signals._replace(
        data_quality=bad,
        expected_recall=expected_recall(trained, stream),
        recall_dropped=stream.called is not None and stream.called.dropped,
        faulty_columns=faulty_columns(trained, stream),
        changed_columns=changed_columns(trained, stream),
        error_codes=error_codes(trained, stream),
        frame=frame_text(trained, stream.frame),
        dependence=dependence(trained, stream),
    )


def _groups(stream: Stream) -> list[DiscoveryRow]:
    """Summarise the known classes by the shares of their subclasses."""
    known, out = stream.known, []
    for label, seated, size in zip(stream.labels, known.seated, known.size.tolist(), strict=True):
        shares = [(int(known.ids[k]), float(seated[k] / size)) for k in np.flatnonzero(seated > 0)]
        out.append(DiscoveryRow(label, int(size), tuple(sorted(shares, key=lambda item: -item[1]))))
    return out


def _sizes(stream: Stream) -> list[tuple[int, int, bool]]:
    """List the emerging subclasses that are not refuted: id, size, and whether each was announced or muted."""
    stage, dormant = stream.stage, stream.chains[0].dormant
    sizes = sizes_of(stream.state) | dict(zip(dormant.ids.tolist(), map(int, dormant.statistics.size), strict=True))
    return [
        (key, n, at != "candidate") for key, n in sizes.items() if (at := stage.get(key, "candidate")) != "refuted"
    ]


def lines(stream: Stream, found: NewClasses) -> list[SubclassRow]:
    """List the subclasses: those of the known classes, class by class, then the emerging ones, largest first."""
    known, out = stream.known, list[SubclassRow]()
    for label, seated, size in zip(stream.labels, known.seated, known.size.tolist(), strict=True):
        for k in sorted(np.flatnonzero(seated > 0), key=lambda k: -seated[k]):
            out.append(SubclassRow(int(known.ids[k]), "known", label, int(seated[k]), float(seated[k] / size)))
    return out + sorted(_emerging(stream, found), key=lambda line: (-line.size, line.subclass_id))


def _emerging(stream: Stream, found: NewClasses) -> list[SubclassRow]:
    chain, seen, stage = stream.chains[0], max(stream.state.seen, 1), stream.stage
    new_class = {key: number for number, each in enumerate(found.candidates) for key in each.subclasses}
    out, lives = [], chain.life.subclasses
    dormant = dishes_of(chain.dormant.statistics, chain.known.prior)
    for ids, dishes in ((chain.state.ids, chain.state.dishes), (chain.dormant.ids, dormant)):
        for slot, (key, size) in enumerate(zip(ids.tolist(), dishes.size.tolist(), strict=True)):
            near = nearest_known(dishes, slot, chain.known, chain.frozen)
            first, last = (lives[key].first.seq, lives[key].last.seq) if key in stage else (None, None)
            place = stage.get(key, "candidate"), first, last, stream.labels[near.owner], near.distance
            out.append(SubclassRow(key, "new", None, size, size / seen, *place, new_class.get(key)))
    return out
