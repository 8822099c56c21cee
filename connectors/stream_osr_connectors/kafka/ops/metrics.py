"""The metrics of a service as one table, and the health checks.

An unknown value has no sample, so alert rules must check for absence. Gauges and counts of signals are part of the
state and survive a restart. Other counts restart at 0 with each process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from stream_osr.discovery.signal_table import COUNTED

from ...commands.command import NAMED_ACTIONS
from ..stats import DRIFTED, KNOWN_OF, LOST, OF_TYPE, REPEATED, SUMMED, UNKNOWN_OF, PartitionStats, ServiceStats

PREFIX = "stream_osr_"

STALE_SECONDS = 60.0
"""Seconds without progress of the loop after which a worker is not ready."""

Samples: TypeAlias = Iterable[tuple[Sequence[str], Any]]
"""Labels (without ``worker``) and value, ``None`` if it is unknown."""

OF_PARTITION = ("topic", "partition")


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

    kind: type[Metric]
    name: str
    text: str
    labels: Sequence[str]
    samples: Callable[[ServiceStats, float], Samples]


def _read(of: Any, path: str) -> Any:
    """Read an attribute by its path, or return ``None`` if a part of the path is ``None``."""
    for name in path.split("."):
        of = None if of is None else getattr(of, name)
    return of


def _count(
    name: str, text: str, by: Sequence[str] = (), kinds: Mapping[str, Sequence[str]] | None = None
) -> MetricRow:
    """Define a counter of a partition.

    Parameters
    ----------
    name, text, by
        Name, help text and additional labels of the metric.
    kinds
        Names of the counts with values of the labels. A name that ends with a space is a prefix, and the rest of the
        count's name is the first label. With ``None`` the count has the name of the metric.
    """
    wanted = {name: ()} if kinds is None else kinds

    def samples(of: ServiceStats, now: float) -> Samples:
        for kind, at, n in sorted((kind, at, n) for (kind, at), n in of.counts.items() if at is not None):
            for begin, own in wanted.items():
                if kind == begin or (begin.endswith(" ") and kind.startswith(begin)):
                    rest = [kind.removeprefix(begin)] if kind != begin else []
                    yield [at.topic, str(at.partition), *rest, *own], n

    return MetricRow(CounterMetricFamily, name, text, [*OF_PARTITION, *by], samples)


def _gauge(
    name: str,
    text: str,
    value: str | Callable[[PartitionStats, float], Any],
    by: Sequence[str] = (),
    kind: type[Metric] = GaugeMetricFamily,
) -> MetricRow:
    """Define a gauge of a partition from an attribute or a function. With ``by`` it has an additional label."""

    def samples(of: ServiceStats, now: float) -> Samples:
        for at, its in sorted(of.partitions.items()):
            place = [at.topic, str(at.partition)]
            found = _read(its, value) if isinstance(value, str) else value(its, now)
            yield from (([*place, own], each) for own, each in (found or {}).items()) if by else [(place, found)]

    return MetricRow(kind, name, text, [*OF_PARTITION, *by], samples)


def _class(name: str, text: str, path: str) -> MetricRow:
    """Define a gauge of each known class of a partition."""

    def values(of: PartitionStats, now: float) -> Any:
        return of.found and {known: _read(own, path) for known, own in of.found.classes.items()}

    return _gauge(name, text, values, ["class"])


def _worker(
    name: str, text: str, value: Callable[[ServiceStats, float], Any], kind: type[Metric] = GaugeMetricFamily
) -> MetricRow:
    """Define a gauge of a worker."""
    return MetricRow(kind, name, text, (), lambda of, now: [((), value(of, now))])


def _worker_count(name: str, text: str) -> MetricRow:
    return _worker(name, text, lambda of, now: of.counts[name, None], CounterMetricFamily)


def _times(name: str, text: str) -> MetricRow:
    def value(of: ServiceStats, now: float) -> Any:
        times = of.histogram(name)
        return list(zip([*map(str, times.bounds), "+Inf"], times.cumulative(), strict=True)), times.seconds

    return _worker(f"{name}_seconds", text, value, HistogramMetricFamily)


COUNTS = {
    "records": "Records of committed micro-batches.",
    "events": "Events published.",
    "dead_letters": "Dead letters published.",
    "labelled": "Records with a label, used for learning.",
    "skipped": "Records skipped by on_missing=skip.",
    "replayed": "Records replayed without output.",
    "unreadable": "Failed reads: a damaged batch, or a missing codec.",
    "unknown_rate_jumps": "Jumps of the unknown rate (UnknownRateJumped).",
    "data_faults": "Failed columns and repeated rows (ColumnFailed, RowsRepeated).",
    "encoder_failures": "Decisions and events that the encoder could not encode, by attempt.",
    "commands_left": f"{NAMED_ACTIONS} that failed. An invalid label counts in each partition.",
    "keys_refused": "Records of new keys beyond max_keys, which are dead letters.",
    "features_missing": "Missing feature values.",
    "features_expected": "Expected feature values.",
    "timestamps_replaced": "Timestamps outside the limits of the output topic, replaced by the current time.",
    "unaccounted_records": "Committed records without a decision or dead letter. Must stay 0.",
}
"""Help texts of the counters of a partition, by name."""

CLASS_RECALL = "Estimated recall of a class, with its 95 % interval."
RECALL = "Estimated recall of known classes, with its 95 % interval."
NEW_CLASSES = "Estimated number of new classes, with its interval."

OF_CLASS = {
    "expected_recall": ("recall.recall", CLASS_RECALL),
    "expected_recall_low": ("recall.low", CLASS_RECALL),
    "expected_recall_high": ("recall.high", CLASS_RECALL),
    "false_unknown": ("recall.false_unknown", "Estimated share of a class called unknown."),
    "density_rank": ("rank", "Mean density rank: 0.5 in training, less if the class moved or widened."),
}
"""Gauges of a known class: attribute and help text."""

METRICS: tuple[MetricRow, ...] = (
    *(_count(name, text) for name, text in COUNTS.items()),
    _count("decisions", "Decisions published.", ["decided"], {"known": ["known"], "unknown": ["unknown"]}),
    _count("events_summed", "Events that EventsSummed replaced.", ["type"], {SUMMED: []}),
    _count(
        "lost_records",
        "Records without a decision, by reason: retention (deleted from the input) or offsets (moved).",
        ["reason"],
        {LOST: []},
    ),
    _count("repeated_records", "Records decided again, by the same reasons.", ["reason"], {REPEATED: []}),
    _gauge("lag_records", "Uncommitted records, up to the end of the input.", "lag"),
    _gauge("unstable_records", "Records that wait for the end of a transaction upstream.", "unstable"),
    _gauge("committed_offset", "Offset after the last committed record.", "position"),
    _gauge("end_offset", "Last stable offset of the input.", "end"),
    _gauge("held_decisions", "Records without a final decision.", lambda of, now: of.menu and of.paused),
    _gauge("suspended", "1 while the partition is suspended.", "suspended"),
    _gauge("replaying", "1 while the partition is replayed.", "replaying"),
    _gauge("snapshot_age_seconds", "Seconds since the latest snapshot.", lambda of, now: _age(of.snapshot, now)),
    _gauge("keys", "Keys with a recognizer (setting by).", "keys"),
    _gauge("keys_awake", "Keys with a recognizer in memory (setting by).", "keys_awake"),
    _gauge("key_memory_needed", "Bytes of the recognizers in use if key_memory is too small.", "key_memory_needed"),
    _gauge("known_subclasses", "Subclasses of the known classes.", "menu.known"),
    _gauge("emerging_subclasses", "Emerging subclasses.", "menu.emerging"),
    _gauge("active_subclasses", "Announced emerging subclasses, neither dormant nor muted.", "menu.active"),
    _gauge(
        "subclasses",
        "K: known and emerging subclasses.",
        lambda of, now: of.menu and of.menu.known + of.menu.emerging,
    ),
    _gauge("alpha0", "Concentration of the stream's restaurant.", "menu.alpha0"),
    _gauge("gamma", "Concentration of the menu.", "menu.gamma"),
    _gauge("references", "Reference instances that monitor the known classes.", "menu.references"),
    _gauge("promised_recall", "Expected recall from training.", "recall.promised"),
    _gauge("expected_recall", RECALL, "recall.now.recall"),
    _gauge("expected_recall_low", RECALL, "recall.now.low"),
    _gauge("expected_recall_high", RECALL, "recall.now.high"),
    _gauge("false_unknown", "Estimated share of known instances called unknown.", "recall.now.false_unknown"),
    _gauge(
        "recall_dropped",
        "1 while the recall is below the one from training (RecallDropped).",
        lambda of, now: of.recall.now and of.recall.dropped,
    ),
    _gauge("dependent", "1 while neighbours are treated as dependent (DependenceFound).", "dependent"),
    _gauge(
        "frame_moved",
        "1 while all known classes have moved (FrameMoved).",
        lambda of, now: of.menu and bool(of.frame),
    ),
    _gauge(
        "signals",
        "Signals since the start of the stream, across restarts.",
        lambda of, now: (
            of.found and {signal: getattr(of.found.signals, signal) for signal in (*COUNTED, "odd_values")}
        ),
        ["signal"],
        CounterMetricFamily,
    ),
    _gauge(
        "subclasses_at",
        "Emerging subclasses by stage.",
        lambda of, now: of.found and of.found.stages._asdict(),
        ["stage"],
    ),
    _gauge("new_classes", NEW_CLASSES, "found.new.number"),
    _gauge("new_classes_low", NEW_CLASSES, "found.new.low"),
    _gauge("new_classes_high", NEW_CLASSES, "found.new.high"),
    _gauge("known_classes", "Known classes, including promoted ones.", "found.known_classes"),
    _gauge("unknown_usual", "Usual unknown rate, the reference for jumps.", "found.usual"),
    *(_class(f"class_{name}", text, path) for name, (path, text) in OF_CLASS.items()),
    _count(
        "class_decisions",
        "Decisions published, by nearest known class and result.",
        ["class", "decided"],
        {KNOWN_OF: ["known"], UNKNOWN_OF: ["unknown"]},
    ),
    _count("class_drifts", "Drifts of a known class (ClassDrifted).", ["class"], {DRIFTED: []}),
    _count("events_of_type", "Events published, by type.", ["type"], {OF_TYPE: []}),
    _worker_count("transactions_failed", "Transactions that failed or took too long."),
    _worker_count("transactions_abandoned", "Abandoned transactions."),
    _worker_count("transactions_fenced", "Transactions that another producer fenced."),
    _worker_count("transactions_retried", "Retried transactions."),
    _worker_count("commands_unreadable", "Invalid records in the topic of labels."),
    _worker_count("rebalances", "Rebalances that moved partitions to other workers."),
    _worker_count("consumers", "Consumers created: one at the start and after each failure."),
    _worker_count("worker_restarts", "Restarts of the worker."),
    _worker("assigned_partitions", "Assigned partitions.", lambda of, now: len(of.partitions)),
    _worker("ready", "1 if decisions reach the broker.", lambda of, now: not _obstacles(of, now)),
    _worker(
        "progress_age_seconds",
        "Seconds since a commit, or since there was nothing to do.",
        lambda of, now: _age(of.progress, now),
    ),
    _worker(
        "state_wait_seconds", "Seconds that the loop waits for a state.", lambda of, now: of.storage.loop.seconds
    ),
    _worker("state_copy_behind", "Files that the copy of the states lacks.", lambda of, now: of.storage.behind),
    _worker("loop_age_seconds", "Seconds since the last iteration of the main loop.", lambda of, now: now - of.loop),
    _worker(
        "model",
        "Model of the worker.",
        lambda of, now: {"identity": of.model, "fingerprint": of.fingerprint} if of.model else None,
        InfoMetricFamily,
    ),
    _times("batch", "Duration of a micro-batch, including replayed ones."),
    _times("transaction", "Duration of a transaction until the commit."),
    _times("snapshot", "Duration of writing a snapshot."),
    _times("latency", "Time from the timestamp of a record to the commit of the decision."),
)
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

    def collect(self) -> Iterator[Metric]:
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
