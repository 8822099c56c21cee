"""What each emerged subclass is like: from the events that told of it, and from the model that holds it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.explain import exemplars, explain
from stream_osr.discovery.lifecycle import EMERGES_WITH
from stream_osr.report.happened import DRAWN
from stream_osr.report.inside import Inside, emerged_slots
from stream_osr.report.records import UNUSABLE, real, unreadable, whole
from stream_osr.report.told import Decided


class Shift(NamedTuple):
    """Shift of one feature, in standard deviations of the nearest known subclass, and its mean in its own units."""

    feature: str
    shift: float
    mean: float


class Emerged(NamedTuple):
    """An emerged subclass.

    Attributes
    ----------
    id
        Its identity.
    size
        Instances in it, when it was last told of.
    first, last
        Positions of its first and of its latest instance.
    nearest, distance
        Label of the nearest known class, and how many of its standard deviations it is away.
    shifts
        Shift of each feature, the largest first.
    exemplars
        Keys of some instances.
    alive
        It is still in the model.
    truth
        True classes of its instances and how many of each, where labels are given; the most frequent first.
    refuted
        Known class that it describes anew: it is not new after all. Empty: nobody said so.
    """

    id: int
    size: int
    first: int
    last: int
    nearest: str
    distance: float
    shifts: tuple[Shift, ...]
    exemplars: tuple[str, ...]
    alive: bool = True
    truth: tuple[tuple[str, int], ...] = ()
    refuted: str = ""


def from_events(events: Iterable[Mapping[str, Any]]) -> dict[int, Emerged]:
    """Read what events (as `stream_osr.Event.as_dict` makes them) told last of each subclass.

    Raises
    ------
    ConnectorError
        If one of them is no event.
    """
    out: dict[int, Emerged] = {}
    for number, event in enumerate(events):
        try:
            if "explanation" in event and event["type"] in DRAWN - {"SubclassSplit"}:
                why = event["explanation"]
                out[event["subclass_id"]] = Emerged(
                    id=whole(event["subclass_id"], "subclass_id"),
                    size=whole(event["size"], "size"),
                    first=whole(event["first_seen"]["seq"], "first_seen"),
                    last=whole(event["last_seen"]["seq"], "last_seen"),
                    nearest=str(why["nearest_class"]),
                    distance=_number(why["distance"], "distance"),
                    shifts=_shifts(why["shift"], why["mean"]),
                    exemplars=tuple(str(key) for key in event["exemplars"] if key is not None),
                )
            elif event["type"] == "SubclassSplit" and event["subclass_id"] in out:
                why, parent = event["explanation"], out[event["subclass_id"]]
                sizes = [whole(size, "sizes") for size in event["sizes"]]
                out[event["subclass_id"]] = parent._replace(size=sizes[0])
                out[event["new_id"]] = parent._replace(
                    id=whole(event["new_id"], "new_id"),
                    size=sizes[1],
                    nearest=str(why["nearest_class"]),
                    distance=_number(why["distance"], "distance"),
                    shifts=_shifts(why["shift"], why["mean"]),
                    exemplars=tuple(str(key) for key in event["exemplars"] if key is not None),
                )
            elif event["type"] in {"SubclassForgotten", "SubclassMerged"} and event["subclass_id"] in out:
                out[event["subclass_id"]] = out[event["subclass_id"]]._replace(alive=False)
            elif event["type"] == "SubclassRefuted" and event["subclass_id"] in out:
                before = out[event["subclass_id"]]
                size, known = whole(event["size"], "size"), str(event["label"])
                out[event["subclass_id"]] = before._replace(size=size, refuted=known)
        except UNUSABLE as error:
            raise unreadable(event, f"event {number + 1}", "event", error) from None
    return out


def told_by_sums(events: Iterable[Mapping[str, Any]]) -> tuple[Counter[str], set[int]]:
    """Count the events that are told by ``EventsSummed`` alone, by type; and which subclasses they announce.

    Raises
    ------
    ConnectorError
        If such an event cannot be read.
    """
    counts: Counter[str] = Counter()
    emerged: set[int] = set()
    for number, event in enumerate(events):
        if event.get("type") == "EventsSummed":
            try:
                counts.update({str(kind): whole(count, "counts") for kind, count in event["counts"].items()})
                emerged.update(whole(key, "emerged") for key in event["emerged"])
            except UNUSABLE as error:
                raise unreadable(event, f"event {number + 1}", "event", error) from None
    return counts, emerged


def from_model(inside: Inside) -> dict[int, Emerged]:
    """Describe the emerged subclasses that a model holds now."""
    trained, stream = inside
    chain = stream.chains[0]
    out = {}
    for key, slot in emerged_slots(stream).items():
        life = stream.life.subclasses[key]
        why = explain(
            stream.state.dishes, slot, chain.known, chain.frozen, trained.space, trained.names, stream.labels
        )
        typical = () if life.kept is None else exemplars(stream.state.dishes, slot, life.kept, chain.known)
        out[key] = Emerged(
            id=key,
            size=int(stream.state.dishes.size[slot]),
            first=life.first.seq,
            last=life.last.seq,
            nearest=str(why.nearest_class),
            distance=why.distance,
            shifts=_shifts(why.shift, why.mean),
            exemplars=tuple(str(name) for name in typical if name is not None),
        )
    return out


def from_decisions(told: Decided) -> dict[int, Emerged]:
    """Name the subclasses that hold as many instances as an announced one, where nothing else is known of them."""
    out = {}
    for key, size in zip(
        *np.unique(told.subclass[told.unknown & (told.subclass >= 0)], return_counts=True), strict=True
    ):
        if size >= EMERGES_WITH:
            seq = told.seq[told.unknown & (told.subclass == key)]
            out[int(key)] = Emerged(int(key), int(size), int(seq.min()), int(seq.max()), "", math.nan, (), ())
    return out


def with_truth(emerged: Mapping[int, Emerged], told: Decided) -> dict[int, Emerged]:
    """Add the true classes of the instances in each subclass."""
    out = {}
    for key, subclass in emerged.items():
        codes = told.truth[told.judged & told.unknown & (told.subclass == key)]
        counts = Counter({told.names[code]: int((codes == code).sum()) for code in np.unique(codes)})
        out[key] = subclass._replace(truth=tuple(counts.most_common()))
    return out


def _shifts(shift: Mapping[Any, Any], mean: Mapping[Any, Any]) -> tuple[Shift, ...]:
    found = [Shift(str(name), _number(value, "shift"), _number(mean[name], "mean")) for name, value in shift.items()]
    return tuple(sorted(found, key=lambda s: -abs(s.shift) if math.isfinite(s.shift) else 0.0))


def _number(value: Any, name: str) -> float:
    return math.nan if value is None or value != value else real(value, name)
