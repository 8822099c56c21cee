"""Every subclass on a line of its own: the discovery table in full."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery.new_classes import NewClasses
from stream_osr.engine.state import Stream
from stream_osr.ensemble.chain import sizes_of
from stream_osr.model.dishes import empty_dishes
from stream_osr.model.marginal import of_slots, pour
from stream_osr.model.nearest import Nearest, nearest_known


class Line(NamedTuple):
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
        Of a new one: ``"candidate"``, ``"active"``, ``"dormant"``, ``"muted"`` or ``"refuted"``
        (:class:`stream_osr.engine.Stages` says what they mean).
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


def lines(stream: Stream, found: NewClasses) -> list[Line]:
    """List the subclasses: those of the known classes, class by class, then the emerging ones, the largest first."""
    known, out = stream.known, list[Line]()
    for label, seated, size in zip(stream.labels, known.seated, known.size.tolist(), strict=True):
        own = sorted(np.flatnonzero(seated > 0), key=lambda k: -seated[k])
        out += [Line(int(known.ids[k]), "known", label, int(seated[k]), float(seated[k] / size)) for k in own]
    return out + sorted(_emerging(stream, found), key=lambda line: (-line.size, line.subclass_id))


def _emerging(stream: Stream, found: NewClasses) -> list[Line]:
    chain, seen = stream.chains[0], max(stream.state.seen, 1)
    stage = dict(zip(chain.life.ids.tolist(), stream.stage.tolist(), strict=True))
    new_class = {key: number for number, each in enumerate(found.candidates) for key in each.subclasses}
    out, lives = [], chain.life.subclasses
    there = [(key, size, _nearest(stream, key)) for key, size in sizes_of(stream.state).items()]
    aside = zip(chain.aside.ids.tolist(), chain.aside.statistics.size.tolist(), strict=True)
    there += [(key, size, _nearest_of_aside(stream, at)) for at, (key, size) in enumerate(aside)]
    for key, size, near in there:
        first, last = (lives[key].first.seq, lives[key].last.seq) if key in stage else (None, None)
        beside = stream.labels[near.owner], near.distance
        at = stage.get(key, "candidate")
        out.append(Line(key, "new", None, size, size / seen, at, first, last, *beside, new_class.get(key)))
    return out


def _nearest(stream: Stream, key: int) -> Nearest:
    chain = stream.chains[0]
    return nearest_known(chain.state.dishes, chain.state.ids.tolist().index(key), chain.known, chain.frozen)


def _nearest_of_aside(stream: Stream, at: int) -> Nearest:
    chain = stream.chains[0]
    dishes = empty_dishes(1, chain.known.prior)
    pour(dishes, 0, of_slots(chain.aside.statistics, [at]), chain.known.prior)
    return nearest_known(dishes, 0, chain.known, chain.frozen)
