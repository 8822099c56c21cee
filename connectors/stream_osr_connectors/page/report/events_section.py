"""The events of a run: each once, the recall of the known classes, and events without a drawing in words."""

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
"""Rows of the others."""

FACTS = 12
"""Facts told of each."""

_NUMBERS = ("seq", "subclass_id", "new_id", "size", "delta")
_OF_ALL = frozenset({"type", "batch", "seq", "model"})


def signal_of(event: Mapping[str, Any]) -> str | None:
    """Find the signal that an event adds to."""
    return EVENT_TABLE.get(event.get("type", ""), OTHER_KIND).signal


class OtherEvent(NamedTuple):
    """An event of a kind that has no place of its own: its kind, where it was told if it says so, and its facts."""

    kind: str
    seq: int | None
    facts: str


class EventsSection(NamedTuple):
    """Events.

    Attributes
    ----------
    events
        Each once, in the order of reading; what are numbers is ``int``, and of a kind that this release does not
        know a number that is none is left out.
    others
        Those that have no place of their own on the page, the first ``MOST``.
    more
        How many more of them there are.
    repeated
        How many were told more than once.
    """

    events: tuple[ReadRecord, ...]
    others: tuple[OtherEvent, ...]
    more: int
    repeated: int


def sort_events(records: Iterable[Mapping[str, Any]]) -> EventsSection:
    """Read events (as `stream_osr.Event.as_dict` makes them, or a later release does).

    Raises
    ------
    ConnectorError
        If one of them is no event.

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
"""Classes of which the dependence is told."""


class RecallDrop(NamedTuple):
    """A drop of the recall below the promise: where this was told, what it was, what was promised."""

    seq: int
    recall: ExpectedRecall
    promised: float


class RefutedSubclass(NamedTuple):
    """An announced subclass is not new (``SubclassRefuted``): where this was told, its class, its known share."""

    seq: int
    subclass: int
    label: str
    known_share: float
    size: int


class RecallSection(NamedTuple):
    """Recall of the known classes: promised, expected, and where it dropped.

    Attributes
    ----------
    drops
        Times that the recall fell below the promise.
    refuted
        Subclasses that were announced and are not new.
    promised
        Recall that training promised, ``None`` without a model.
    expected
        Recall to be expected at the end, ``None`` without a model that has references and has seen the stream.
    below
        It is below the promise.
    guarded
        The model has references, or there is none to look at.
    dependent
        Whether instances depend on their neighbours at the end, and how much, in words; empty: they do not.
    """

    drops: tuple[RecallDrop, ...]
    refuted: tuple[RefutedSubclass, ...]
    promised: float | None = None
    expected: ExpectedRecall | None = None
    below: bool = False
    guarded: bool = True
    dependent: str = ""


def recall_section(model: OpenSetRecognizer | None, events: Iterable[Mapping[str, Any]]) -> RecallSection:
    """Put together what a trained model and events (as `stream_osr.Event.as_dict` makes them) say of it.

    Raises
    ------
    ConnectorError
        If an event is none.
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
    dependent = _dependent(signals)
    return RecallSection(
        *found, report.known_recall, signals.expected_recall, signals.recall_dropped, guarded, dependent
    )


def _dependent(signals: Signals) -> str:
    if not signals.dependent:
        return ""
    most = sorted(signals.dependence.items(), key=lambda item: -item[1])[:MOST_CLASSES]
    listed = ", ".join(f"{label} {value:.2f}" for label, value in most)
    return (
        f"Instances are treated as dependent on their neighbours since instance {signals.dependent_since}; mean "
        f"correlation of neighbours by class: {listed}."
    )
