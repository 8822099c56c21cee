"""What has been found in the streams, as Prometheus metrics: novelty, drift, recall, by class where it can be told.

Gauges follow from the state, and the counts of signals, too: they are what they were when a worker comes back. Counts
by class and by type begin anew with each process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..figures import DRIFTED, KNOWN_OF, OF_TYPE, UNKNOWN_OF, Figures
from ..findings import Findings, OfClass

OF_PARTITION = ["worker", "topic", "partition"]

SIGNALS = ("novelty", "drift", "outliers", "data_quality", "recall_drops", "rate_jumps")
"""Counts of a :class:`stream_osr.Signals`."""

_PLAIN: Mapping[str, tuple[str, Callable[[Findings], float | None]]] = {
    "new_classes": ("Estimated number of new classes in what has emerged.", lambda of: of.new.number),
    "new_classes_low": ("The least that it may be.", lambda of: of.new.low),
    "new_classes_high": ("The most that it may be.", lambda of: of.new.high),
    "known_classes": (
        "Known classes; the first 50 have series of their own, the others are class=other.",
        lambda of: of.known_classes,
    ),
    "unknown_usual": (
        "Share of the stream that is usually called unknown, against which a jump is told.",
        lambda of: of.usual,
    ),
}

_OF_CLASS: Mapping[str, tuple[str, Callable[[OfClass], float | None]]] = {
    "class_expected_recall": (
        "Share of the known instances of a class that get their own label now, as the references tell.",
        lambda of: of.recall and of.recall.recall,
    ),
    "class_expected_recall_low": ("Lower end of its interval (95 %).", lambda of: of.recall and of.recall.low),
    "class_expected_recall_high": ("Upper end of its interval (95 %).", lambda of: of.recall and of.recall.high),
    "class_false_unknown": (
        "Share of the known instances of a class that are called unknown now, as the references tell.",
        lambda of: of.recall and of.recall.false_unknown,
    ),
    "class_density_rank": (
        "Mean density rank of the latest instances of a class: 0.5 in training, less when it has moved or widened.",
        lambda of: of.rank,
    ),
}

_COUNTED: Mapping[str, tuple[str, list[str], Mapping[str, list[str]]]] = {
    "class_decisions": (
        "Decisions published, by the known class that is nearest and by what they say.",
        ["class", "decided"],
        {KNOWN_OF: ["known"], UNKNOWN_OF: ["unknown"]},
    ),
    "class_drifts": ("Times that a known class has changed (ClassDrifted), by class.", ["class"], {DRIFTED: []}),
    "events_of_type": ("Events published, by type.", ["type"], {OF_TYPE: []}),
}
"""Text, labels, and how the names of the counts begin: what follows is the first label, the others stand here."""


def found_in(workers: Mapping[str, Figures], prefix: str) -> Iterator[Metric]:
    """Give what has been found.

    Parameters
    ----------
    workers
        Figures of each worker, by its name; they do not change meanwhile.
    prefix
        How the names of all metrics begin.
    """
    found = [
        ([worker, place.topic, str(place.partition)], its.found)
        for worker, of in workers.items()
        for place, its in sorted(of.partitions.items())
        if its.found is not None
    ]
    signals = CounterMetricFamily(
        f"{prefix}signals",
        "What went on beside the known since the stream began, by signal: part of the state, it outlives a process.",
        labels=[*OF_PARTITION, "signal"],
    )
    stages = GaugeMetricFamily(
        f"{prefix}subclasses_at", "Emerging subclasses, by the stage of their lives.", labels=[*OF_PARTITION, "stage"]
    )
    for place, its in found:
        for signal in SIGNALS:
            signals.add_metric([*place, signal], float(getattr(its.signals, signal)))
        for stage, count in its.stages._asdict().items():
            stages.add_metric([*place, stage], float(count))
    yield from (signals, stages)
    for name, (text, value) in _PLAIN.items():
        yield _gauge(prefix + name, text, OF_PARTITION, ((place, value(its)) for place, its in found))
    for name, (text, of_class) in _OF_CLASS.items():
        values = (([*place, known], of_class(own)) for place, its in found for known, own in its.classes.items())
        yield _gauge(prefix + name, text, [*OF_PARTITION, "class"], values)
    for name, (text, labels, beginnings) in _COUNTED.items():
        family = CounterMetricFamily(prefix + name, text, labels=[*OF_PARTITION, *labels])
        for worker, of in workers.items():
            counts = [(kind, at, count) for (kind, at), count in of.counts.items() if at is not None]
            for kind, at, count in sorted(counts):
                for begin, further in beginnings.items():
                    if kind.startswith(begin):
                        own = [kind.removeprefix(begin), *further]
                        family.add_metric([worker, at.topic, str(at.partition), *own], count)
        yield family


def _gauge(
    name: str, text: str, labels: list[str], values: Iterator[tuple[list[str], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for own, value in values:
        if value is not None:
            family.add_metric(own, float(value))
    return family
