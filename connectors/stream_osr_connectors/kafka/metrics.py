"""Figures of workers as Prometheus metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from .figures import Figures, PartitionFigures

PREFIX = "stream_osr_"

_OF_PARTITION = ["worker", "topic", "partition"]

_PARTITION_COUNTS = {
    "records": "Records of committed micro-batches.",
    "events": "Events published.",
    "dead_letters": "Records that could not be used and were published to the dead-letter topic.",
    "labelled": "Records with a label: learnt, not decided.",
    "skipped": "Records with a missing value that on_missing=skip has left out.",
    "replayed": "Records replayed silently, from a snapshot up to the committed offset.",
    "unreadable": "Times that a partition could not be read on: a damaged batch, or a codec that is not installed.",
}

_WORKER_COUNTS = {
    "failed": ("transactions_failed", "Transactions that failed or took too long."),
    "abandoned": ("transactions_abandoned", "Transactions that never ended and were left behind."),
    "rebalances": ("rebalances", "Times that partitions went to other workers."),
    "consumers": ("consumers", "Consumers made: one at the start, one more after each failure."),
}

_PARTITION_GAUGES: Mapping[str, tuple[str, Callable[[PartitionFigures, float], float | None]]] = {
    "lag_records": ("Records in the input that have not been committed.", lambda of, now: of.lag),
    "committed_offset": ("Offset after the last committed record.", lambda of, now: of.position),
    "replaying": ("1 while the partition is replayed, 0 when it is live.", lambda of, now: of.replaying),
    "snapshot_age_seconds": (
        "Seconds since the latest snapshot.",
        lambda of, now: None if of.snapshot is None else now - of.snapshot,
    ),
    "known_subclasses": (
        "Subclasses of the known classes.",
        lambda of, now: None if of.menu is None else of.menu.known,
    ),
    "emerging_subclasses": ("Emerging subclasses.", lambda of, now: None if of.menu is None else of.menu.emerging),
    "active_subclasses": (
        "Emerging subclasses that were announced and are not dormant.",
        lambda of, now: None if of.menu is None else of.menu.active,
    ),
    "subclasses": ("K: known and emerging subclasses.", lambda of, now: _subclasses(of)),
    "alpha0": ("Concentration of the stream's restaurant.", lambda of, now: of.menu and of.menu.alpha0),
    "gamma": ("Concentration of the menu.", lambda of, now: of.menu and of.menu.gamma),
}

_SUMS = {
    "batch_seconds": ("steps", "Time that a micro-batch took, replayed ones too."),
    "transaction_seconds": ("transactions", "Time from the beginning of a transaction to its commit."),
    "snapshot_seconds": ("snapshots", "Time that writing a snapshot took."),
}


class Health(NamedTuple):
    """Whether all is well, and what to say about it."""

    well: bool
    said: str


class Overview(Collector):
    """All workers of this machine's service.

    Parameters
    ----------
    topic
        The input.
    figures
        Gives the latest figures of each worker, by its name.
    longest
        Seconds that the loop may take for a turn.
    restarts
        Gives how often each worker has been started again.
    """

    def __init__(
        self,
        topic: str,
        figures: Callable[[], Mapping[str, Figures]],
        longest: float,
        restarts: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._topic = topic
        self._figures = figures
        self._longest = longest
        self._restarts = restarts

    def healthy(self) -> Health:
        """Say whether the loop of every worker turns."""
        now = time.monotonic()
        late = [
            f"the loop of {name} has not turned for {now - of.loop:.0f} s"
            for name, of in self._figures().items()
            if now - of.loop > self._longest
        ]
        return Health(not late, "; ".join(late) or "every loop turns")

    def ready(self) -> Health:
        """Say whether every assigned partition is live."""
        late = [name for name, of in self._figures().items() if not of.ready]
        return Health(not late, f"not live yet: {', '.join(late)}" if late else "every assigned partition is live")

    def collect(self) -> Iterator[Metric]:
        """Give the figures as they are now."""
        now = time.monotonic()
        workers = {name: of.copy() for name, of in self._figures().items()}
        for name, text in _PARTITION_COUNTS.items():
            counter = CounterMetricFamily(PREFIX + name, text, labels=_OF_PARTITION)
            for worker, of in workers.items():
                for partition, count in _counts(of, name):
                    counter.add_metric([worker, self._topic, str(partition)], count)
            yield counter
        decisions = CounterMetricFamily(
            PREFIX + "decisions", "Decisions published, by what they say.", labels=[*_OF_PARTITION, "decided"]
        )
        for worker, of in workers.items():
            for decided in ("known", "unknown"):
                for partition, count in _counts(of, decided):
                    decisions.add_metric([worker, self._topic, str(partition), decided], count)
        yield decisions
        for name, (text, value) in _PARTITION_GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=_OF_PARTITION)
            for worker, of in workers.items():
                for partition, its in of.partitions.items():
                    if (found := value(its, now)) is not None:
                        gauge.add_metric([worker, self._topic, str(partition)], float(found))
            yield gauge
        for name, (told, text) in _WORKER_COUNTS.items():
            yield _of_workers(
                CounterMetricFamily(PREFIX + told, text, labels=["worker"]),
                ((worker, of.counts[name, -1]) for worker, of in workers.items()),
            )
        yield _of_workers(
            CounterMetricFamily(PREFIX + "worker_restarts", "Times a worker was started again.", labels=["worker"]),
            ((worker, self._restarts().get(worker, 0)) for worker in workers),
        )
        gauges: dict[str, tuple[str, Callable[[Figures], float]]] = {
            "assigned_partitions": ("Partitions of the worker.", lambda of: len(of.partitions)),
            "ready": ("1 if every assigned partition is live.", lambda of: of.ready),
            "progress_age_seconds": ("Seconds since a commit, or since all was done.", lambda of: now - of.progress),
            "loop_age_seconds": ("Seconds since the loop last came round.", lambda of: now - of.loop),
        }
        for name, (text, of_worker) in gauges.items():
            yield _of_workers(
                GaugeMetricFamily(PREFIX + name, text, labels=["worker"]),
                ((worker, float(of_worker(of))) for worker, of in workers.items()),
            )
        for name, (number, text) in _SUMS.items():
            summary = SummaryMetricFamily(PREFIX + name, text, labels=["worker"])
            for worker, of in workers.items():
                summary.add_metric([worker], of.counts[number, -1], getattr(of, name))
            yield summary


def _counts(figures: Figures, name: str) -> Iterable[tuple[int, int]]:
    return sorted((partition, count) for (its, partition), count in figures.counts.items() if its == name)


def _of_workers(
    family: CounterMetricFamily | GaugeMetricFamily, values: Iterable[tuple[str, float]]
) -> CounterMetricFamily | GaugeMetricFamily:
    for worker, value in values:
        family.add_metric([worker], value)
    return family


def _subclasses(figures: PartitionFigures) -> int | None:
    return None if figures.menu is None else figures.menu.known + figures.menu.emerging
