"""The table of event kinds names all kinds and no others."""

from __future__ import annotations

from stream_osr import Event, Signals
from stream_osr.discovery import events
from stream_osr.discovery.signal_table import COUNTED, EVENT_TABLE


def test_every_kind_of_event_has_a_row() -> None:
    kinds = {kind.__name__ for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)}
    assert kinds - {"Event", "SubclassEvent"} == EVENT_TABLE.keys()


def test_signals_have_the_counts_of_the_table() -> None:
    assert {kind.signal for kind in EVENT_TABLE.values() if kind.signal is not None} | {*COUNTED} <= {
        *Signals._fields
    }
