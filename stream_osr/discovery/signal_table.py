"""Table of event kinds: signal, status of the subclass, mark on the timeline, and warning.

The counts of `Signals`, the metrics and the log of a service, the report and the live page use this table. They do
not name any event kind that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from stream_osr.discovery.event_base import Event
from stream_osr.trust.recall import ExpectedRecall

GONE = "gone"
"""Status of a subclass that has ended, or is not new."""


class EventKind(NamedTuple):
    """Kind of event.

    Attributes
    ----------
    name
        Name of the event class.
    signal
        Count of `Signals` that the event increases.
    status
        New status of the subclass. ``None``: it does not change.
    mark
        Label on a timeline.
    drawn
        True if pages show the event at its subclass, or its number among the key figures. Other kinds are listed as
        text.
    settled
        True if a person has decided about the subclass, so that it needs no further attention.
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
    """Describe an event of a subclass. By default, its word is also the status and the mark."""
    own = word.lower()
    return EventKind(f"Subclass{word}", signal, own if status == "" else status, mark or own, True, settled)


def _recall(of: Any) -> str:
    now = ExpectedRecall(of.recall, of.low, of.high, of.false_unknown)
    return f"recall of the known classes {now}, below the {of.promised:.3f} promised. Check data quality and drift"


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
    _subclass("Refuted", GONE)._replace(drawn=False),
    EventKind("NamingUndone"),
    EventKind("ClassDrifted", signal="drift"),
    EventKind("RecallDropped", signal="recall_drops", warning=_recall),
    EventKind("UnknownRateJumped", signal="rate_jumps", warning=_rate),
    EventKind("ColumnFailed", signal="data_faults", warning=str),
    EventKind("RowsRepeated", signal="data_faults", warning=str),
    EventKind("DependenceFound", warning=str),
    EventKind("FrameMoved", warning=str),
    EventKind("NewClassesChanged", drawn=True),
    EventKind("EventsSummed"),
)

EVENT_TABLE = {kind.name: kind for kind in _KINDS}
"""Event kinds by name."""

QUIET = EVENT_TABLE["SubclassMuted"].status or ""
"""Status of a subclass of no interest."""

OTHER_KIND = EventKind("")
"""Kind of an event from a later release."""

COUNTED = ("novelty", "drift", "outliers", "data_quality", "recall_drops", "rate_jumps")
"""Counts of `Signals` that are always printed and exported as metrics. ``data_faults`` is a separate metric."""


def kind_of(event: Event) -> EventKind:
    """Return the kind of an event."""
    return EVENT_TABLE[type(event).__name__]


def count_signals(events: Iterable[Event]) -> Counter[str]:
    """Count events by their signal.

    >>> from stream_osr import DependenceFound
    >>> count_signals([DependenceFound(batch=0, seq=1, model="", kind="", labels=(), correlation=0.5, since=0)])
    Counter()
    """
    return Counter(signal for event in events if (signal := kind_of(event).signal) is not None)
