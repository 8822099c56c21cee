"""Arrivals along the stream in bins, with the positions of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.discovery.signal_table import EVENT_TABLE
from stream_osr_connectors.page.formatting import subclass_name
from stream_osr_connectors.page.report.decisions_table import DecisionsTable
from stream_osr_connectors.page.report.events_section import signal_of

BINS = 100
"""Most bins of the stream."""
ROWS = 30
"""Most rows of new subclasses, and of known classes."""


class TimelineRow(NamedTuple):
    """A row of the timeline: its name, whether it is new, and its arrivals in each bin."""

    name: str
    new: bool
    arrivals: NDArray[np.int64]


class TimelineMark(NamedTuple):
    """An event on a row."""

    name: str
    seq: int
    what: str
    size: int | None


class Timeline(NamedTuple):
    """Arrivals and events.

    Attributes
    ----------
    edges
        Borders of the bins, positions in the stream, shape (n_bins + 1,).
    rows
        New subclasses in order of appearance, unknown instances in none of them, known classes.
    left_out
        Numbers of new subclasses and known classes without a row.
    total, unknown
        Number of decisions and of *unknown* decisions in each bin, shape (n_bins,).
    judged, truly_unknown
        Number of decisions with a true label, and of true labels of no known class, shape (n_bins,).
    marks
        Events of the rows.
    estimates
        Changes of the paper's Delta: position and value.
    drops
        Positions of drops below the expected recall.
    """

    edges: NDArray[np.int64]
    rows: tuple[TimelineRow, ...]
    left_out: tuple[int, int]
    total: NDArray[np.int64]
    unknown: NDArray[np.int64]
    judged: NDArray[np.int64]
    truly_unknown: NDArray[np.int64]
    marks: tuple[TimelineMark, ...]
    estimates: tuple[tuple[int, int], ...]
    drops: tuple[int, ...] = ()


def _mark(kind: str) -> str:
    return EVENT_TABLE[kind].mark if kind in EVENT_TABLE else kind.removeprefix("Subclass").lower()


def lay_out(table: DecisionsTable, emerged: Sequence[int], events: Sequence[Mapping[str, Any]]) -> Timeline:
    """Lay decisions and events out along the stream.

    Parameters
    ----------
    table
        At least one decision.
    emerged
        Ids of the emerged subclasses.
    events
        Events, as :func:`.events_section.sort_events` returns them.
    """
    begin, end = int(table.seq.min()), int(table.seq.max()) + 1
    edges = np.unique(np.linspace(begin, end, min(BINS, end - begin) + 1).astype(np.int64))
    bins = np.searchsorted(edges, table.seq, side="right") - 1

    def count(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(bins[chosen], minlength=len(edges) - 1)

    def seated(key: int) -> NDArray[np.bool_]:
        return np.asarray(table.unknown & (table.subclass == key))

    sizes = dict(zip(*np.unique(table.subclass[table.unknown], return_counts=True), strict=True))
    largest = sorted((key for key in emerged if key in sizes), key=lambda key: -int(sizes[key]))
    listed = sorted(largest[:ROWS], key=lambda key: int(table.seq[seated(key)].min()))
    rows = [TimelineRow(subclass_name(key), True, count(seated(key))) for key in listed]
    loose = table.unknown & ~np.isin(table.subclass, list(emerged))
    if loose.any():
        rows.append(TimelineRow("not grouped", True, count(loose)))
    of_class = np.bincount(table.label[~table.unknown], minlength=len(table.names)).tolist()
    common = sorted((code for code, n in enumerate(of_class) if n), key=lambda code: -of_class[code])
    taken, codes = {row.name for row in rows}, {table.names[code]: code for code in common[:ROWS]}
    rows += [
        TimelineRow(
            f"class {name}" if name in taken else name, False, count(~table.unknown & (table.label == codes[name]))
        )
        for name in table.known
        if name in codes
    ]
    return Timeline(
        edges=edges,
        rows=tuple(rows),
        left_out=(len(largest[ROWS:]), len(common[ROWS:])),
        total=count(np.ones(len(bins), dtype=bool)),
        unknown=count(table.unknown),
        judged=count(table.judged),
        truly_unknown=count(table.truly_unknown),
        marks=tuple(
            TimelineMark(subclass_name(event["subclass_id"]), event["seq"], _mark(event["type"]), event.get("size"))
            for event in events
            if event.get("subclass_id") in listed and "seq" in event
        ),
        estimates=tuple(
            (event["seq"], event["delta"]) for event in events if event.get("type") == "NewClassesChanged"
        ),
        drops=tuple(event["seq"] for event in events if signal_of(event) == "recall_drops"),
    )
