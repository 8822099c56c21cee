"""The metrics of a service (``metrics.toml``), and the health checks.

An unknown value has no sample, so alert rules must check for absence. Gauges and counts of signals are part of the
state and survive a restart. Other counts restart at 0 with each process.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from prometheus_client import core
from prometheus_client.registry import Collector

from stream_osr.discovery.signal_table import COUNTED

from ..stats import DRIFTED, KNOWN_OF, LOST, OF_TYPE, REPEATED, SUMMED, UNKNOWN_OF, PartitionStats, ServiceStats

PREFIX = "stream_osr_"

STALE_SECONDS = 60.0
"""Seconds without progress of the loop after which a worker is not ready."""

Samples: TypeAlias = Iterable[tuple[Sequence[str], Any]]
"""Labels (without ``worker``) and value, ``None`` if it is unknown."""

Value: TypeAlias = Callable[[Any, float], Any]
"""Function that returns a value, given the statistics of a partition, a class or a worker, and the time."""


class MetricRow(NamedTuple):
    """A metric.

    Attributes
    ----------
    kind
        Metric class of the client library.
    name, text
        Name without ``PREFIX``, and the help text.
    labels
        Labels without ``worker``.
    samples
        Function that returns the samples of a worker, given its statistics and the time.
    """

    kind: type[core.Metric]
    name: str
    text: str
    labels: Sequence[str]
    samples: Callable[[ServiceStats, float], Samples]


COUNTS: dict[str, dict[str, list[str]]] = {
    "decisions": {"known": ["known"], "unknown": ["unknown"]},
    "events_summed": {SUMMED: []},
    "lost_records": {LOST: []},
    "repeated_records": {REPEATED: []},
    "class_decisions": {KNOWN_OF: ["known"], UNKNOWN_OF: ["unknown"]},
    "class_drifts": {DRIFTED: []},
    "events_of_type": {OF_TYPE: []},
}
"""Counts of a metric with values of the labels. Other metrics count what their names say.

A name that ends with a space is a prefix, and the rest of the count's name is the first label.
"""

SIGNALS = (*COUNTED, "odd_values")

VALUES: dict[str, Value] = {
    "held_decisions": lambda of, now: of.menu and of.paused,
    "snapshot_age_seconds": lambda of, now: _age(of.snapshot, now),
    "subclasses": lambda of, now: of.menu and of.menu.known + of.menu.emerging,
    "recall_dropped": lambda of, now: of.recall.now and of.recall.dropped,
    "frame_moved": lambda of, now: of.menu and bool(of.frame),
    "signals": lambda of, now: of.found and {each: getattr(of.found.signals, each) for each in SIGNALS},
    "subclasses_at": lambda of, now: of.found and of.found.stages._asdict(),
    "assigned_partitions": lambda of, now: len(of.partitions),
    "ready": lambda of, now: not _obstacles(of, now),
    "progress_age_seconds": lambda of, now: _age(of.progress, now),
    "loop_age_seconds": lambda of, now: now - of.loop,
    "model": lambda of, now: {"identity": of.model, "fingerprint": of.fingerprint} if of.model else None,
}
"""Values that are no attributes."""


def _value(name: str, type: str, path: str) -> Value:
    """Return the function of a value."""
    if type == "histogram":
        return partial(_times, name.removesuffix("_seconds"))
    if type == "counter" and name not in VALUES:
        return lambda of, now: of.counts[name, None]
    return VALUES.get(name) or (lambda of, now: _read(of, path))


def _read(of: Any, path: str) -> Any:
    """Read an attribute by its path, or return ``None`` if a part of the path is ``None``."""
    for name in path.split("."):
        of = None if of is None else getattr(of, name)
    return of


def _times(name: str, of: ServiceStats, now: float) -> Any:
    times = of.histogram(name)
    return list(zip([*map(str, times.bounds), "+Inf"], times.cumulative(), strict=True)), times.seconds


def _counts(wanted: Mapping[str, Sequence[str]], of: ServiceStats, now: float) -> Samples:
    for kind, at, n in sorted((kind, at, n) for (kind, at), n in of.counts.items() if at is not None):
        for begin, own in wanted.items():
            if kind == begin or (begin.endswith(" ") and kind.startswith(begin)):
                rest = [kind.removeprefix(begin)] if kind != begin else []
                yield [at.topic, str(at.partition), *rest, *own], n


def _of_partitions(value: Value, several: bool, of: ServiceStats, now: float) -> Samples:
    for at, its in sorted(of.partitions.items()):
        place, found = [at.topic, str(at.partition)], value(its, now)
        yield from (([*place, own], each) for own, each in (found or {}).items()) if several else [(place, found)]


def _by_class(value: Value, of: PartitionStats, now: float) -> Any:
    return of.found and {known: value(own, now) for known, own in of.found.classes.items()}


def _row(name: str, of: str, text: str, value: str = "", by: Sequence[str] = (), type: str = "gauge") -> MetricRow:
    """Return the metric of an entry of ``metrics.toml``."""
    kind, read = getattr(core, f"{type.capitalize()}MetricFamily"), _value(name, type, value)
    if of == "worker":
        return MetricRow(kind, name, text, (), lambda of, now: [((), read(of, now))])
    labels = ["topic", "partition", *by]
    if of == "counts":
        return MetricRow(core.CounterMetricFamily, name, text, labels, partial(_counts, COUNTS.get(name, {name: []})))
    if of == "classes":
        labels, read = [*labels, "class"], partial(_by_class, read)
    return MetricRow(kind, name, text, labels, partial(_of_partitions, read, len(labels) > 2))


_TABLE = tomllib.loads(files("stream_osr_connectors.kafka.ops").joinpath("metrics.toml").read_text(encoding="utf-8"))

METRICS: tuple[MetricRow, ...] = tuple(_row(name, **entry) for name, entry in _TABLE.items())
"""All metrics in the order of output."""


class Health(NamedTuple):
    """Result of a health check, with its text."""

    well: bool
    message: str


@dataclass(eq=False)
class Overview(Collector):
    """Statistics of all workers of the service on this machine.

    Parameters
    ----------
    stats
        Function that returns the latest statistics of each worker, by name.
    longest
        Time limit in seconds for one iteration of the loop.
    restarts
        Function that returns the number of restarts of each worker.
    """

    stats: Callable[[], Mapping[str, ServiceStats]]
    longest: float
    restarts: Callable[[], Mapping[str, int]] = dict

    def healthy(self) -> Health:
        """Return whether the loop of every worker makes progress."""
        now = time.monotonic()
        late = [
            f"the loop of {name} has not turned for {now - of.loop:.0f} s"
            for name, of in self.stats().items()
            if now - of.loop > self.longest
        ]
        return Health(not late, "; ".join(late) or "every loop turns")

    def ready(self) -> Health:
        """Return whether every worker can publish decisions, with the condition of the partitions."""
        now, workers = time.monotonic(), self.stats()
        if not workers:
            return Health(False, "there is no worker")
        why = {name: _obstacles(of, now) for name, of in workers.items()}
        late = [f"{name}: {', '.join(obstacles)}" for name, obstacles in why.items() if obstacles]
        return Health(not late, "; ".join([*(late or ["every worker is ready"]), *_remarks(workers)]))

    def collect(self) -> Iterator[core.Metric]:
        """Yield the current metrics."""
        now = time.monotonic()
        workers = {name: of.copy() for name, of in self.stats().items()}
        restarts = self.restarts()
        for name, of in workers.items():
            of.counts["worker_restarts", None] = restarts.get(name, 0)
        for row in METRICS:
            family: Any = row.kind(PREFIX + row.name, row.text, labels=["worker", *row.labels])  # type: ignore[call-arg]
            for worker, of in workers.items():
                for labels, value in row.samples(of, now):
                    if isinstance(value, tuple):
                        family.add_metric([worker, *labels], *value)
                    elif value is not None:
                        family.add_metric([worker, *labels], value if isinstance(value, dict) else float(value))
            yield family


def _remarks(workers: Mapping[str, ServiceStats]) -> Iterator[str]:
    """Yield what an operator should know of workers that are ready."""
    for of in workers.values():
        for place, its in sorted(of.copy().partitions.items()):
            if its.recall.dropped:
                yield f"{place}: {its.recall}"
            if its.frame:
                yield f"{place}: {its.frame}"
            if n := of.counts["keys_refused", place]:
                yield f"{place}: it has max_keys ({its.most_keys}) keys, and {n} records of further keys were refused"
            if shortage := its.key_shortage:
                yield f"{place}: {shortage}"
    yield from (f"{name}: {trouble}" for name, of in workers.items() if (trouble := of.storage.copy_trouble))


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else now - moment


def _obstacles(stats: ServiceStats, now: float) -> tuple[str, ...]:
    """Return the reasons why a worker is not ready, including a stuck loop."""
    silent = now - stats.loop
    stuck = (f"its loop has not turned for {silent:.0f} s",) if silent > STALE_SECONDS else ()
    return (*stats.reasons, *stuck)
