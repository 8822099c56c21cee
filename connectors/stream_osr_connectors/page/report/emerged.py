"""What each emerged subclass is like: from the events that told of it, and from the model that holds it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.events import told_of_value
from stream_osr.discovery.explain import exemplars, explain
from stream_osr.discovery.lifecycle import EMERGES_WITH
from stream_osr.stream import Stream
from stream_osr.trained import TrainedModel
from stream_osr_connectors.page.records import reading, real, whole
from stream_osr_connectors.page.report.happened import DRAWN
from stream_osr_connectors.page.report.told import Decided

_ENDS = frozenset({"SubclassForgotten", "SubclassMerged", "SubclassRefuted", "SubclassSplit"})
"""Events that change what was told of a subclass before."""


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
    values
        What its categories are like, in words, the one that tells most first.
    refuted
        Known class that it describes anew: it is not new after all. Empty: nobody said so.
    named
        Class that a person has said it is. Empty: nobody has.
    muted
        A person has said that it is of no interest.
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
    values: tuple[str, ...] = ()
    refuted: str = ""
    named: str = ""
    muted: bool = False

    @property
    def standing(self) -> str:
        """Why nobody has to look at it, in words; empty: somebody has to."""
        if self.refuted:
            return f"not new: {self.refuted}"
        if self.named:
            return f"named: {self.named}"
        return "muted" if self.muted else "" if self.alive else "gone"


def from_events(events: Iterable[Mapping[str, Any]]) -> dict[int, Emerged]:
    """Read what events (as `stream_osr.Event.as_dict` makes them) told last of each subclass.

    Raises
    ------
    ConnectorError
        If one of them is no event.
    """
    out: dict[int, Emerged] = {}
    for number, event in enumerate(events):
        with reading(event, "event", number):
            kind = event["type"]
            if "explanation" in event and kind in DRAWN - {"SubclassSplit"}:
                out[event["subclass_id"]] = Emerged(
                    id=whole(event["subclass_id"], "subclass_id"),
                    size=whole(event["size"], "size"),
                    first=whole(event["first_seen"]["seq"], "first_seen"),
                    last=whole(event["last_seen"]["seq"], "last_seen"),
                    **_described(event["explanation"], event["exemplars"]),
                    named=str(event["label"]) if kind == "SubclassPromoted" else "",
                    muted=kind == "SubclassMuted",
                )
            elif kind == "NamingUndone":
                for key in event["subclass_ids"]:
                    if key in out:
                        out[key] = out[key]._replace(named="", muted=False)
            elif kind in _ENDS and (before := out.get(key := event["subclass_id"])):
                if kind == "SubclassSplit":
                    told = _described(event["explanation"], event["exemplars"])
                    new, sizes = whole(event["new_id"], "new_id"), [whole(size, "sizes") for size in event["sizes"]]
                    out[key] = before._replace(size=sizes[0])
                    out[new] = before._replace(id=new, size=sizes[1], **told)
                elif kind == "SubclassRefuted":
                    out[key] = before._replace(size=whole(event["size"], "size"), refuted=str(event["label"]))
                else:
                    out[key] = before._replace(alive=False)
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
            with reading(event, "event", number):
                counts.update({str(kind): whole(count, "counts") for kind, count in event["counts"].items()})
                emerged.update(whole(key, "emerged") for key in event["emerged"])
    return counts, emerged


def emerged_slots(stream: Stream) -> dict[int, int]:
    """Return the place in the sampler's tables of each subclass that has been announced, by its id."""
    announced = set(stream.life.ids[stream.life.emerged].tolist())
    return {int(key): slot for slot, key in enumerate(stream.state.ids) if int(key) in announced}


def from_model(trained: TrainedModel, stream: Stream) -> dict[int, Emerged]:
    """Describe the emerged subclasses that a model holds now."""
    chain, dishes = stream.chains[0], stream.state.dishes
    muted = set(stream.life.ids[stream.life.muted].tolist())
    out = {}
    for key, slot in emerged_slots(stream).items():
        life = stream.life.subclasses[key]
        among = chain.known, chain.frozen, trained.space, trained.names, stream.labels, trained.categories
        why = explain(dishes, slot, *among)
        typical = () if life.kept is None else exemplars(dishes, slot, life.kept, chain.known)
        told = _described(why._asdict(), typical)
        quiet = key in muted
        out[key] = Emerged(key, int(dishes.size[slot]), life.first.seq, life.last.seq, muted=quiet, **told)
    return out


def from_decisions(told: Decided) -> dict[int, Emerged]:
    """Name the subclasses that hold as many instances as an announced one, where nothing else is known of them."""
    out = {}
    for key in np.unique(told.subclass[told.unknown & (told.subclass >= 0)]).tolist():
        seq = told.seq[told.unknown & (told.subclass == key)]
        if len(seq) >= EMERGES_WITH:
            out[key] = Emerged(key, len(seq), int(seq.min()), int(seq.max()), "", math.nan, (), ())
    return out


def with_truth(emerged: Mapping[int, Emerged], told: Decided) -> dict[int, Emerged]:
    """Add the true classes of the instances in each subclass."""
    out = {}
    for key, subclass in emerged.items():
        codes = told.truth[told.judged & told.unknown & (told.subclass == key)]
        counts = Counter({told.names[code]: int((codes == code).sum()) for code in np.unique(codes)})
        out[key] = subclass._replace(truth=tuple(counts.most_common()))
    return out


def _described(why: Mapping[str, Any], exemplars: Iterable[Any]) -> dict[str, Any]:
    """Read those attributes of :class:`Emerged` that an explanation and typical keys tell."""
    mean = why["mean"]
    shifts = [Shift(str(name), _number(s, "shift"), _number(mean[name], "mean")) for name, s in why["shift"].items()]
    shifts.sort(key=lambda s: -abs(s.shift) if math.isfinite(s.shift) else 0.0)
    return {
        "nearest": str(why["nearest_class"]),
        "distance": _number(why["distance"], "distance"),
        "shifts": tuple(shifts),
        "exemplars": tuple(str(key) for key in exemplars if key is not None),
        "values": tuple(told_of_value(name, its) for name, its in why.get("values", {}).items()),
    }


def _number(value: Any, name: str) -> float:
    return math.nan if value is None or value != value else real(value, name)
