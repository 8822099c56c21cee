"""The events of a run without repetitions, the recall of known classes, and other events in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from stream_osr.discovery.signal_table import EVENT_TABLE, OTHER_KIND
from stream_osr.discovery.summaries import Signals
from stream_osr.printable_text import brief
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.trust.recall import ExpectedRecall
from stream_osr_connectors.page.input_records import ReadRecord, reading, real, whole

MOST_OTHERS = 50
"""Most rows of other events."""

FACTS = 12
"""Most facts of an event."""

_NUMBERS = ("seq", "subclass_id", "new_id", "size", "delta")
_OF_ALL = frozenset({"type", "batch", "seq", "model"})


def signal_of(event: Mapping[str, Any]) -> str | None:
    """Return the signal that counts an event."""
    return EVENT_TABLE.get(event.get("type", ""), OTHER_KIND).signal


class OtherEvent(NamedTuple):
    """An event that no chart shows: its kind, position (if any) and facts."""

    kind: str
    seq: int | None
    facts: str


class EventsSection(NamedTuple):
    """Events.

    Attributes
    ----------
    events
        Events without repetitions, in reading order. Numbers are ``int``. Invalid numbers of unknown kinds of events
        are removed.
    others
        The first ``MOST_OTHERS`` events that no chart shows.
    more
        Number of further events that no chart shows.
    repeated
        Number of repeated events.
    """

    events: tuple[ReadRecord, ...]
    others: tuple[OtherEvent, ...]
    more: int
    repeated: int


def sort_events(records: Iterable[Mapping[str, Any]]) -> EventsSection:
    """Read events, as `stream_osr.Event.as_dict` of this or a later release returns them.

    Raises
    ------
    ConnectorError
        If an event is invalid.

    Examples
    --------
    >>> jump = {"type": "RateJumped", "batch": 3, "seq": 127, "model": "ab12", "rate": 0.25, "of": ["a"]}
    >>> happened = sort_events([jump, jump])
    >>> happened.others, happened.repeated
    ((OtherEvent(kind='RateJumped', seq=127, facts="rate 0.25, of ['a']"),), 1)
    """
    seen: set[str] = set()
    events: list[ReadRecord] = []
    others: list[OtherEvent] = []
    repeated = 0
    for number, record in enumerate(records):
        with reading(record, "event", number):
            kind = record["type"]
            if not isinstance(kind, str):
                raise TypeError(f"type is {brief(kind)}, not text")
            text = repr(sorted(record.items()))
            numbers = _numbers(record, kind) if kind in EVENT_TABLE else _numbers_that_are_some(record)
        if text in seen:
            repeated += 1
            continue
        seen.add(text)
        rest = {name: value for name, value in record.items() if name not in _NUMBERS}
        events.append(ReadRecord({**rest, **numbers}, getattr(record, "place", f"event {number + 1}")))
        if not EVENT_TABLE.get(kind, OTHER_KIND).drawn:
            others.append(OtherEvent(kind, numbers.get("seq"), _facts(record)))
    return EventsSection(tuple(events), tuple(others[:MOST_OTHERS]), len(others[MOST_OTHERS:]), repeated)


def _numbers(record: Mapping[str, Any], kind: str) -> dict[str, int]:
    must = {"seq", "delta"} if kind == "NewClassesChanged" else {"seq"}
    return {name: whole(record[name], name) for name in _NUMBERS if name in must or record.get(name) is not None}


def _numbers_that_are_some(record: Mapping[str, Any]) -> dict[str, int]:
    out = {}
    for name in _NUMBERS:
        with suppress(ValueError):
            out[name] = whole(record.get(name), name)
    return out


def _facts(record: Mapping[str, Any]) -> str:
    found = [f"{name} {_fact(value)}" for name, value in record.items() if name not in _OF_ALL]
    return ", ".join(found[:FACTS]) + (f" and {len(found) - FACTS} more" if len(found) > FACTS else "")


def _fact(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else brief(value)


MOST_CLASSES = 5
"""Most classes whose dependence is reported."""


class RecallDrop(NamedTuple):
    """A drop below the expected recall: its position, the estimated recall and the expected recall."""

    seq: int
    recall: ExpectedRecall
    promised: float


class RefutedSubclass(NamedTuple):
    """An announced subclass that is not new (``SubclassRefuted``): position, known class and known share."""

    seq: int
    subclass: int
    label: str
    known_share: float
    size: int


class RecallSection(NamedTuple):
    """Recall of known classes: expected recall, estimated recall, and drops.

    Attributes
    ----------
    drops
        Drops below the expected recall.
    refuted
        Announced subclasses that are not new.
    promised
        Expected recall from training, ``None`` without a model.
    expected
        Estimated recall at the end, ``None`` without a model that has reference instances and has seen the stream.
    below
        Whether the estimated recall is below the expected recall.
    guarded
        Whether the model has reference instances. True without a model.
    dependent
        Dependence of neighbouring instances at the end, in words. Empty if instances are independent.
    frame
        Offset of all known classes from their training place at the end, in words. Empty if there is none.
    """

    drops: tuple[RecallDrop, ...]
    refuted: tuple[RefutedSubclass, ...]
    promised: float | None = None
    expected: ExpectedRecall | None = None
    below: bool = False
    guarded: bool = True
    dependent: str = ""
    frame: str = ""


def recall_section(model: OpenSetRecognizer | None, events: Iterable[Mapping[str, Any]]) -> RecallSection:
    """Assemble the recall of known classes from a trained model and events.

    Raises
    ------
    ConnectorError
        If an event is invalid.
    """
    drops, refuted = [], []
    for number, event in enumerate(events):
        with reading(event, "event", number):
            if signal_of(event) == "recall_drops":
                now = ExpectedRecall(*(real(event[name], name) for name in ExpectedRecall._fields))
                drops.append(RecallDrop(whole(event["seq"], "seq"), now, real(event["promised"], "promised")))
            elif event["type"] == "SubclassRefuted":
                seq, key, size = (whole(event[name], name) for name in ("seq", "subclass_id", "size"))
                share = real(event["known_share"], "known_share")
                refuted.append(RefutedSubclass(seq, key, str(event["label"]), share, size))
    found = tuple(drops), tuple(refuted)
    if model is None:
        return RecallSection(*found)
    report, signals = model.trained.report, model.signals
    guarded = not model.trained.unguarded
    words = _dependent(signals), signals.frame and f"{signals.frame[0].upper()}{signals.frame[1:]}."
    return RecallSection(
        *found, report.known_recall, signals.expected_recall, signals.recall_dropped, guarded, *words
    )


def _dependent(signals: Signals) -> str:
    if not signals.dependent:
        return ""
    most = sorted(signals.dependence.items(), key=lambda item: -item[1])[:MOST_CLASSES]
    listed = ", ".join(f"{label} {value:.2f}" for label, value in most)
    return (
        f"Instances are treated as dependent on their neighbours since instance {signals.dependent_since}. Mean "
        f"correlation of neighbours by class: {listed}."
    )
