"""What is counted of committed micro-batches by known class and by type of event, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stream_osr import ClassDrifted, Decision, Event, EventsSummed, OpenSetRecognizer
from stream_osr.config import Label
from stream_osr.discovery.signal_table import EVENT_TABLE, kind_of

from ..class_names import OTHER, class_names
from ..figures import DRIFTED, KNOWN_OF, LOST, OF_TYPE, REASONS, REPEATED, SUMMED, UNKNOWN_OF, Figures
from ..places import Place

SIGNAL_COUNTS = {"rate_jumps": "unknown_rate_jumps", "data_faults": "data_faults"}
"""Counts of signals that are metrics of their own."""

RARE = ("encoder_failures", "unreadable", "timestamps_replaced", "unknown_rate_jumps", "replayed")
"""Other counts of a partition that most never have."""


def begin_counts(figures: Figures, place: Place, model: OpenSetRecognizer) -> None:
    """Begin with nothing counted of a partition, so that the first of each kind is an increase, too."""
    kinds = [f"{OF_TYPE}{kind}" for kind in sorted(EVENT_TABLE)]
    kinds += [f"{of}{reason}" for of in (LOST, REPEATED) for reason in REASONS]
    for name in dict.fromkeys(_names(model).values()):
        kinds += [f"{of}{name}" for of in (KNOWN_OF, UNKNOWN_OF, DRIFTED)]
    for kind in (*RARE, "known", "unknown", *kinds):
        figures.add(kind, place, 0)


def count_decisions(figures: Figures, place: Place, model: OpenSetRecognizer, made: Sequence[Decision]) -> None:
    """Count decisions, known and unknown ones apart: in all, and by the known class that is nearest."""
    unknown = Counter(d.nearest_class for d in made if d.label == next(reversed(d.probabilities)))
    known = Counter(d.nearest_class for d in made)
    known.subtract(unknown)
    names = _names(model)
    for kind, of, counts in (("known", KNOWN_OF, known), ("unknown", UNKNOWN_OF, unknown)):
        figures.add(kind, place, counts.total())
        for label, count in counts.items():
            figures.add(f"{of}{names.get(label, OTHER)}", place, count)


def count_events(figures: Figures, place: Place, model: OpenSetRecognizer, events: Sequence[Event]) -> None:
    """Count events by type; those that are told by a sum apart, and drifts by class, too."""
    for event in events:
        figures.add(f"{OF_TYPE}{type(event).__name__}", place)
        if (signal := kind_of(event).signal) in SIGNAL_COUNTS:
            figures.add(SIGNAL_COUNTS[signal], place)
        if isinstance(event, EventsSummed):
            for kind, count in event.counts.items():
                figures.add(f"{SUMMED}{kind}", place, count)
        if isinstance(event, ClassDrifted):
            figures.add(f"{DRIFTED}{_names(model).get(event.label, OTHER)}", place)


def _names(model: OpenSetRecognizer) -> Mapping[Label, str]:
    return class_names(tuple(model.value.labels))
