"""The table of event kinds names all kinds and no others."""

from __future__ import annotations

from stream_osr import Signals
from stream_osr.discovery.events import Event, SubclassEvent
from stream_osr.discovery.signal_table import COUNTED, EVENT_TABLE


def test_every_kind_of_event_has_a_row() -> None:
    kinds = {kind.__name__ for kind in (*Event.__subclasses__(), *SubclassEvent.__subclasses__())}
    assert kinds - {"SubclassEvent"} == EVENT_TABLE.keys()


def test_signals_have_the_counts_of_the_table() -> None:
    assert {kind.signal for kind in EVENT_TABLE.values() if kind.signal is not None} | {*COUNTED} <= {
        *Signals._fields
    }
