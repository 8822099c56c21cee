"""The discovery table of the paper: summed up, or every subclass on a line of its own."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery.new_classes import NewClasses
from stream_osr.discovery.summaries import ALL_MET, DiscoveryRow, Summary
from stream_osr.model.marginal import dishes_of
from stream_osr.model.nearest import nearest_known
from stream_osr.stream.chain import sizes_of
from stream_osr.stream.recognizer_state import RecognizerState
from stream_osr.stream.state import Stream
from stream_osr.trust.recall import ExpectedRecall


class SubclassRow(NamedTuple):
    """A subclass.

    Attributes
    ----------
    subclass_id
        Its identity.
    kind
        ``"known"``: it is one of a known class. ``"new"``: it is an emerging one.
    label
        Label of its known class; ``None`` if it is new.
    size
        Instances in it.
    share
        Their share of the class, or of the stream so far.
    stage
        Of a new one: its stage, a field of :class:`stream_osr.stream.StageCounts`.
    first_seen, last_seen
        Of a new one: positions in the stream of its first and of its latest instance.
    nearest_class, distance
        Of a new one: the known class nearest to it, and how many standard deviations it is away.
    new_class
        Place, from 0, of the candidate new class that it belongs to among those of
        :meth:`stream_osr.OpenSetRecognizer.new_classes`.
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
    """Sum up the known classes and what the stream is made of."""
    stream = state.stream
    assert stream is not None
    trained = state.trained if state.training is None else None
    total = sum(stream.decided)
    unknown = stream.decided[-1] / total if total else 0.0
    return Summary(
        known=tuple(_groups(stream)),
        stream_size=total,
        known_share=1.0 - unknown if total else 0.0,
        unknown_share=unknown,
        emerging=tuple(sorted(_sizes(stream), key=lambda item: (-item[1], item[0]))),
        delta=found.delta,
        new_classes=found.estimate,
        promised_recall=None if trained is None else trained.report.known_recall,
        expected_recall=expected,
        guarded=trained is None or not trained.unguarded,
        unmet=state.unmet or ALL_MET,
    )


def _groups(stream: Stream) -> list[DiscoveryRow]:
    """Sum up the known classes: of each, the shares of its subclasses."""
    known, out = stream.known, []
    for label, seated, size in zip(stream.labels, known.seated, known.size.tolist(), strict=True):
        shares = [(int(known.ids[k]), float(seated[k] / size)) for k in np.flatnonzero(seated > 0)]
        out.append(DiscoveryRow(label, int(size), tuple(sorted(shares, key=lambda item: -item[1]))))
    return out


def _sizes(stream: Stream) -> list[tuple[int, int, bool]]:
    """List the emerging subclasses that are not known classes anew: id, size, and whether it was announced."""
    life, dormant = stream.life, stream.chains[0].dormant
    emerged, owned = (set(life.ids[flag].tolist()) for flag in (life.emerged, life.owned))
    there = [(key, size, key in emerged) for key, size in sizes_of(stream.state).items() if key not in owned]
    return there + [
        (int(key), int(size), True) for key, size in zip(dormant.ids, dormant.statistics.size, strict=True)
    ]


def lines(stream: Stream, found: NewClasses) -> list[SubclassRow]:
    """List the subclasses: those of the known classes, class by class, then the emerging ones, the largest first."""
    known, out = stream.known, list[SubclassRow]()
    for label, seated, size in zip(stream.labels, known.seated, known.size.tolist(), strict=True):
        for k in sorted(np.flatnonzero(seated > 0), key=lambda k: -seated[k]):
            out.append(SubclassRow(int(known.ids[k]), "known", label, int(seated[k]), float(seated[k] / size)))
    return out + sorted(_emerging(stream, found), key=lambda line: (-line.size, line.subclass_id))


def _emerging(stream: Stream, found: NewClasses) -> list[SubclassRow]:
    chain, seen = stream.chains[0], max(stream.state.seen, 1)
    stage = dict(zip(chain.life.ids.tolist(), stream.stage.tolist(), strict=True))
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
