"""Table of event kinds: the signal that counts each, the status that it gives a subclass, its mark, its warning.

The counts of `Signals`, the metrics and the log of a service, the report and the live page read this table, and name
no kind of event that it describes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from stream_osr.discovery.events import Event
from stream_osr.trust.recall import ExpectedRecall

GONE = "gone"
"""Status of a subclass that has ended, or is not new."""


class EventKind(NamedTuple):
    """A kind of event.

    Attributes
    ----------
    name
        Name of its class.
    signal
        Count of `Signals` that it adds to.
    status
        Status of its subclass afterwards; ``None``: it changes none.
    mark
        Word for it on a time line.
    drawn
        The report has a place for it; other kinds are listed in their own words.
    settled
        A person has decided about the subclass: nobody has to look at it any more.
    warning
        Text that a service logs.
    """

    name: str
    signal: str | None = None
    status: str | None = None
    mark: str = ""
    drawn: bool = False
    settled: bool = False
    warning: Callable[[Any], str] | None = None


def _subclass(
    word: str, status: str | None = "", mark: str = "", signal: str | None = None, settled: bool = False
) -> EventKind:
    """Describe an event of a subclass; its word serves as status and mark unless others are given."""
    own = word.lower()
    return EventKind(f"Subclass{word}", signal, own if status == "" else status, mark or own, True, settled)


def _recall(of: Any) -> str:
    now = ExpectedRecall(of.recall, of.low, of.high, of.false_unknown)
    return f"recall of the known classes {now}, below the {of.promised:.3f} promised; look at data quality and drift"


def _rate(of: Any) -> str:
    return f"{of.rate:.3f} of the last {of.size} called unknown, usually {of.before:.3f}"


_KINDS = (
    _subclass("Emerged", "emerging", "announced", signal="novelty"),
    _subclass("Grew", "emerging", "doubled"),
    _subclass("Dormant"),
    _subclass("Recurred"),
    _subclass("Promoted", "named", settled=True),
    _subclass("Muted", settled=True),
    _subclass("Split", None),
    _subclass("Forgotten", GONE),
    _subclass("Merged", GONE),
    _subclass("Refuted", GONE),
    EventKind("NamingUndone"),
    EventKind("ClassDrifted", signal="drift"),
    EventKind("RecallDropped", signal="recall_drops", drawn=True, warning=_recall),
    EventKind("UnknownRateJumped", signal="rate_jumps", warning=_rate),
    EventKind("ColumnFailed", signal="data_faults", warning=str),
    EventKind("RowsRepeated", signal="data_faults", warning=str),
    EventKind("DependenceFound", warning=str),
    EventKind("NewClassesChanged", drawn=True),
    EventKind("EventsSummed", drawn=True),
)

EVENT_TABLE = {kind.name: kind for kind in _KINDS}
"""Kinds of events by name."""

QUIET = EVENT_TABLE["SubclassMuted"].status or ""
"""Status of a subclass of which no more is told."""

OTHER_KIND = EventKind("")
"""Kind of an event of a later release."""

COUNTED = ("novelty", "drift", "outliers", "data_quality", "recall_drops", "rate_jumps")
"""Counts of `Signals` that are always printed and are metrics; ``data_faults`` is a metric of its own."""


def kind_of(event: Event) -> EventKind:
    """Find the kind of an event."""
    return EVENT_TABLE[type(event).__name__]


def count_signals(events: Iterable[Event]) -> Counter[str]:
    """Count events by the signal that they add to.

    >>> from stream_osr import DependenceFound
    >>> count_signals([DependenceFound(batch=0, seq=1, model="", kind="", labels=(), correlation=0.5, since=0)])
    Counter()
    """
    return Counter(signal for event in events if (signal := kind_of(event).signal) is not None)
