"""Figures of workers as Prometheus metrics, and what follows from them for health checks.

What is not known has no sample: a rule has to ask for absence then, and nothing looks well by default.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..figures import LOST, REASONS, REPEATED, SUMMED, Figures, PartitionFigures
from .found import OF_PARTITION, found_in

PREFIX = "stream_osr_"

STALE_SECONDS = 60.0
"""A worker whose loop has not turned for so long is not ready, whatever it said last."""

_PARTITION_COUNTS = {
    "records": "Records of committed micro-batches.",
    "events": "Events published.",
    "dead_letters": "Records that could not be used and were published to the dead-letter topic.",
    "labelled": "Records with a label: learnt, not decided.",
    "skipped": "Records with a missing value that on_missing=skip has left out.",
    "replayed": "Records replayed silently, from a snapshot up to the committed offset.",
    "unreadable": "Times that a partition could not be read on: a damaged batch, or a codec that is not installed.",
    "unknown_rate_jumps": "Jumps of the share called unknown (UnknownRateJumped).",
    "data_faults": "Columns that began to fail and rows that began to repeat (ColumnFailed, RowsRepeated).",
    "encoder_failures": "Decisions and events that the encoder of the settings could not encode: dead letters, or "
    "left out. A transaction that is tried again counts again.",
    "commands_left": "Promotions, mutes, late labels and undos that could not be done; the log says why. A label "
    "that cannot be one counts in each partition.",
    "features_missing": "Feature values that instances lacked. Its ratio to stream_osr_features_expected_total is "
    "their share.",
    "features_expected": "Feature values that instances should have had: one for each feature of the model.",
    "timestamps_replaced": "Timestamps that the output topic would refuse or not keep, replaced by the present (the "
    "header stream-osr.timestamp has the original).",
    "unaccounted_records": "Records committed that are neither an acknowledged decision or dead letter, nor a label, "
    "a skipped or a held-back one. Must stay 0.",
}

_JUMPS = {
    "lost_records": (
        "Records that are not decided, by reason: the input deleted them unread (retention), or somebody moved the "
        "committed offsets (offsets).",
        LOST,
    ),
    "repeated_records": (
        "Records that are decided again, by reason, as of stream_osr_lost_records_total.",
        REPEATED,
    ),
}

_WORKER_COUNTS = {
    "transactions_failed": "Transactions that failed or took too long.",
    "transactions_abandoned": "Transactions that never ended and were left behind.",
    "transactions_fenced": "Transactions refused because another producer has taken this one's place.",
    "transactions_retried": "Transactions tried again.",
    "commands_unreadable": "Records of the topic of labels that are no commands, since its beginning.",
    "rebalances": "Times that partitions went to other workers.",
    "consumers": "Consumers made: one at the start, one more after each failure.",
}

_PARTITION_GAUGES: Mapping[str, tuple[str, Callable[[PartitionFigures, float], float | None]]] = {
    "lag_records": (
        "Records in the input that have not been committed, up to its last record.",
        lambda of, now: of.lag,
    ),
    "unstable_records": (
        "Records in the input from the last stable offset on: they wait for the end of a transaction upstream.",
        lambda of, now: of.unstable,
    ),
    "committed_offset": ("Offset after the last committed record.", lambda of, now: of.position),
    "end_offset": ("Last stable offset of the input: what is committed ends there.", lambda of, now: of.end),
    "held_decisions": (
        "Decisions that are held back (decision_delay); their records are committed.",
        lambda of, now: of.menu and of.held,
    ),
    "suspended": (
        "1 while the partition cannot be loaded or continued; it is tried again, and other partitions go on.",
        lambda of, now: of.suspended,
    ),
    "replaying": ("1 while the partition is replayed, 0 when it is live.", lambda of, now: of.replaying),
    "snapshot_age_seconds": (
        "Seconds since the latest snapshot.",
        lambda of, now: None if of.snapshot is None else now - of.snapshot,
    ),
    "known_subclasses": ("Subclasses of the known classes.", lambda of, now: of.menu and of.menu.known),
    "emerging_subclasses": ("Emerging subclasses.", lambda of, now: of.menu and of.menu.emerging),
    "active_subclasses": (
        "Emerging subclasses that were announced and are not dormant.",
        lambda of, now: of.menu and of.menu.active,
    ),
    "subclasses": ("K: known and emerging subclasses.", lambda of, now: of.menu and of.menu.known + of.menu.emerging),
    "alpha0": ("Concentration of the stream's restaurant.", lambda of, now: of.menu and of.menu.alpha0),
    "gamma": ("Concentration of the menu.", lambda of, now: of.menu and of.menu.gamma),
    "references": (
        "Reference instances that guard the known classes; 0: nothing does.",
        lambda of, now: of.menu and of.menu.references,
    ),
    "promised_recall": (
        "Share of the known instances that get their own label, as training promised it.",
        lambda of, now: of.recall.promised,
    ),
    "expected_recall": (
        "The same now, as the references tell without a label.",
        lambda of, now: of.recall.now and of.recall.now.recall,
    ),
    "expected_recall_low": ("Lower end of its interval (95 %).", lambda of, now: of.recall.now and of.recall.now.low),
    "false_unknown": (
        "Share of the known instances that are called unknown now, as the references tell.",
        lambda of, now: of.recall.now and of.recall.now.false_unknown,
    ),
    "recall_dropped": (
        "1 while the expected recall is below the promise (RecallDropped), until it is back.",
        lambda of, now: of.recall.now and of.recall.dropped,
    ),
    "dependent": (
        "1 while instances are treated as dependent on their neighbours (DependenceFound).",
        lambda of, now: of.dependent,
    ),
}

_WORKER_GAUGES: Mapping[str, tuple[str, Callable[[Figures, float], float | None]]] = {
    "assigned_partitions": ("Partitions of the worker.", lambda of, now: len(of.partitions)),
    "ready": ("1 if decisions reach the broker.", lambda of, now: not _obstacles(of, now)),
    "progress_age_seconds": (
        "Seconds since a commit, or since all was done. No sample: nothing was done yet, or nothing is assigned.",
        lambda of, now: None if of.progress is None else now - of.progress,
    ),
    "loop_age_seconds": ("Seconds since the loop last came round.", lambda of, now: now - of.loop),
}

_TIMES = {
    "batch": "Time that a micro-batch took, replayed ones too.",
    "transaction": "Time from the beginning of a transaction to its commit.",
    "snapshot": "Time that writing a snapshot took.",
    "latency": "Time from the timestamp of a record to the commit of its decision. Records without a timestamp, and "
    "those with one later than the commit, are left out.",
}


class Health(NamedTuple):
    """Whether all is well, and what to say about it."""

    well: bool
    said: str


@dataclass(eq=False)
class Overview(Collector):
    """All workers of this machine's service.

    Parameters
    ----------
    figures
        Gives the latest figures of each worker, by its name.
    longest
        Seconds that the loop may take for a turn.
    restarts
        Gives how often each worker has been started again.
    """

    figures: Callable[[], Mapping[str, Figures]]
    longest: float
    restarts: Callable[[], Mapping[str, int]] = dict

    def healthy(self) -> Health:
        """Say whether the loop of every worker turns."""
        now = time.monotonic()
        late = [
            f"the loop of {name} has not turned for {now - of.loop:.0f} s"
            for name, of in self.figures().items()
            if now - of.loop > self.longest
        ]
        return Health(not late, "; ".join(late) or "every loop turns")

    def ready(self) -> Health:
        """Say whether the decisions of every worker reach the broker, and why not; and where recall has dropped."""
        now, workers = time.monotonic(), self.figures()
        if not workers:
            return Health(False, "there is no worker")
        why = {name: _obstacles(of, now) for name, of in workers.items()}
        late = [f"{name}: {', '.join(obstacles)}" for name, obstacles in why.items() if obstacles]
        dropped = [
            f"{place}: {its.recall}"
            for of in workers.values()
            for place, its in sorted(of.copy().partitions.items())
            if its.recall.dropped
        ]
        return Health(not late, "; ".join([*(late or ["every worker is ready"]), *dropped]))

    def collect(self) -> Iterator[Metric]:
        """Give the figures as they are now."""
        now = time.monotonic()
        workers = {name: of.copy() for name, of in self.figures().items()}

        def counter(told: str, text: str, *names: str, by: Sequence[str] = (), begin: str = "") -> Metric:
            """Give the counts of these names; a further label has the names without their beginning."""
            family = CounterMetricFamily(PREFIX + told, text, labels=[*OF_PARTITION, *by])
            for worker, of in workers.items():
                for name in names:
                    own = [name.removeprefix(begin) for _ in by]
                    for place, count in sorted(
                        (at, count) for (its, at), count in of.counts.items() if its == name and at is not None
                    ):
                        family.add_metric([worker, place.topic, str(place.partition), *own], count)
            return family

        for name, text in _PARTITION_COUNTS.items():
            yield counter(name, text, name)
        yield counter("decisions", "Decisions published, by what they say.", "known", "unknown", by=["decided"])
        summed = sorted({name for of in workers.values() for name, _ in of.counts if name.startswith(SUMMED)})
        text = "Events that an EventsSummed told of instead of their own, by type."
        yield counter("events_summed", text, *summed, by=["type"], begin=SUMMED)
        for name, (text, begin) in _JUMPS.items():
            yield counter(name, text, *(f"{begin}{reason}" for reason in REASONS), by=["reason"], begin=begin)
        for name, (text, value) in _PARTITION_GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=OF_PARTITION)
            for worker, of in workers.items():
                for place, its in sorted(of.partitions.items()):
                    if (found := value(its, now)) is not None:
                        gauge.add_metric([worker, place.topic, str(place.partition)], float(found))
            yield gauge
        yield from found_in(workers, PREFIX)
        for name, text in _WORKER_COUNTS.items():
            counts = {worker: of.counts[name, None] for worker, of in workers.items()}
            yield _of_workers(CounterMetricFamily, name, text, counts)
        restarts = {worker: self.restarts().get(worker, 0) for worker in workers}
        yield _of_workers(CounterMetricFamily, "worker_restarts", "Times a worker was started again.", restarts)
        for name, (text, of_worker) in _WORKER_GAUGES.items():
            now_of_each = {worker: of_worker(of, now) for worker, of in workers.items()}
            yield _of_workers(GaugeMetricFamily, name, text, now_of_each)
        info = InfoMetricFamily(PREFIX + "model", "The model that the worker runs.", labels=["worker"])
        for worker, of in workers.items():
            if of.model:
                info.add_metric([worker], {"identity": of.model, "fingerprint": of.fingerprint})
        yield info
        for name, text in _TIMES.items():
            histogram = HistogramMetricFamily(f"{PREFIX}{name}_seconds", text, labels=["worker"])
            for worker, of in workers.items():
                times = of.histogram(name)
                ends = [*map(str, times.bounds), "+Inf"]
                histogram.add_metric([worker], list(zip(ends, times.cumulative(), strict=True)), times.seconds)
            yield histogram


def _of_workers(
    kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, text: str, values: Mapping[str, float | None]
) -> Metric:
    family = kind(PREFIX + name, text, labels=["worker"])
    for worker, value in values.items():
        if value is not None:
            family.add_metric([worker], float(value))
    return family


def _obstacles(figures: Figures, now: float) -> tuple[str, ...]:
    """Why a worker is not ready: what it said, or that it says nothing any more."""
    silent = now - figures.loop
    stuck = (f"its loop has not turned for {silent:.0f} s",) if silent > STALE_SECONDS else ()
    return (*figures.reasons, *stuck)
