"""The metrics of a service as one table, and what follows from the figures of workers for health checks.

What is not known has no sample: a rule has to ask for absence then, and nothing looks well by default. Gauges and
the counts of signals follow from the state: they are what they were when a worker comes back. Other counts begin anew
with each process.
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
from ..stats import (
    DRIFTED,
    KNOWN_OF,
    LOST,
    OF_TYPE,
    REPEATED,
    SUMMED,
    UNKNOWN_OF,
    PartitionStats,
    ServiceStats,
)

PREFIX = "stream_osr_"

STALE_SECONDS = 60.0
"""A worker whose loop has not turned for so long is not ready, whatever it said last."""

Samples: TypeAlias = Iterable[tuple[Sequence[str], Any]]
"""Labels beside that of the worker, and the value; ``None``: it is not known."""

OF_PARTITION = ("topic", "partition")


class MetricRow(NamedTuple):
    """A metric.

    Attributes
    ----------
    kind
        Family of the client library.
    name, text
        Name without ``PREFIX``, and the help text.
    labels
        Labels beside ``worker``.
    samples
        Gives the samples of a worker from its figures and the moment.
    """

    kind: type[Metric]
    name: str
    text: str
    labels: Sequence[str]
    samples: Callable[[ServiceStats, float], Samples]


def _read(of: Any, path: str) -> Any:
    """Read an attribute by its path; ``None`` where something on the way is not known."""
    for name in path.split("."):
        of = None if of is None else getattr(of, name)
    return of


def _count(
    name: str, text: str, by: Sequence[str] = (), kinds: Mapping[str, Sequence[str]] | None = None
) -> MetricRow:
    """Describe counts of a partition.

    Parameters
    ----------
    name, text, by
        Of the metric, and its further labels.
    kinds
        Names of the counts with values of the labels. A name that ends with a space is the beginning of several; what
        follows it is a label before the others. None: the count has the name of the metric.
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
    """Describe a value of a partition, or with ``by`` values by a further label: an attribute, or a function."""

    def samples(of: ServiceStats, now: float) -> Samples:
        for at, its in sorted(of.partitions.items()):
            place = [at.topic, str(at.partition)]
            found = _read(its, value) if isinstance(value, str) else value(its, now)
            yield from (([*place, own], each) for own, each in (found or {}).items()) if by else [(place, found)]

    return MetricRow(kind, name, text, [*OF_PARTITION, *by], samples)


def _class(name: str, text: str, path: str) -> MetricRow:
    """Describe a value of each known class of a partition."""

    def values(of: PartitionStats, now: float) -> Any:
        return of.found and {known: _read(own, path) for known, own in of.found.classes.items()}

    return _gauge(name, text, values, ["class"])


def _worker(
    name: str, text: str, value: Callable[[ServiceStats, float], Any], kind: type[Metric] = GaugeMetricFamily
) -> MetricRow:
    """Describe a value of a worker."""
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
    "dead_letters": "Records that could not be used and were published to the dead-letter topic.",
    "labelled": "Records with a label: learnt, not decided.",
    "skipped": "Records with a missing value that on_missing=skip has left out.",
    "replayed": "Records replayed silently, from a snapshot up to the committed offset.",
    "unreadable": "Times that a partition could not be read on: a damaged batch, or a codec that is not installed.",
    "unknown_rate_jumps": "Jumps of the share called unknown (UnknownRateJumped).",
    "data_faults": "Columns that began to fail and rows that began to repeat (ColumnFailed, RowsRepeated).",
    "encoder_failures": "Decisions and events that the encoder could not encode, once for each time a transaction is "
    "tried: dead letters, or left out.",
    "commands_left": f"{NAMED_ACTIONS} that could not be done; the log says why. A label that cannot be one counts "
    "in each partition.",
    "features_missing": "Feature values that instances lacked; their share is the ratio to features_expected.",
    "features_expected": "Feature values that instances should have had: one for each feature of the model.",
    "timestamps_replaced": "Timestamps that the output topic would refuse or not keep, replaced by the present (the "
    "header stream-osr.timestamp has the original).",
    "unaccounted_records": "Records committed that are neither an acknowledged decision or dead letter, nor a label, "
    "a skipped or a held-back one. Must stay 0.",
}
"""Help texts of the counts of a partition, by their names."""

OF_CLASS = {
    "expected_recall": (
        "recall.recall",
        "Share of a class's instances that get their own label now, by the references.",
    ),
    "expected_recall_low": ("recall.low", "Lower end of its interval (95 %)."),
    "expected_recall_high": ("recall.high", "Upper end of its interval (95 %)."),
    "false_unknown": ("recall.false_unknown", "Share of a class's instances called unknown now, by the references."),
    "density_rank": (
        "rank",
        "Mean density rank of its latest instances: 0.5 in training, less when it moved or widened.",
    ),
}
"""Values of a known class: the attribute, and the help text."""

METRICS: tuple[MetricRow, ...] = (
    *(_count(name, text) for name, text in COUNTS.items()),
    _count("decisions", "Decisions published.", ["decided"], {"known": ["known"], "unknown": ["unknown"]}),
    _count("events_summed", "Events that an EventsSummed told of instead of their own.", ["type"], {SUMMED: []}),
    _count(
        "lost_records",
        "Records that are not decided: the input deleted them unread (retention), or somebody moved the committed "
        "offsets (offsets).",
        ["reason"],
        {LOST: []},
    ),
    _count("repeated_records", "Records decided again, by reason, as of lost_records.", ["reason"], {REPEATED: []}),
    _gauge("lag_records", "Records in the input that have not been committed, up to its last record.", "lag"),
    _gauge("unstable_records", "Records that wait for the end of a transaction upstream.", "unstable"),
    _gauge("committed_offset", "Offset after the last committed record.", "position"),
    _gauge("end_offset", "Last stable offset of the input: what is committed ends there.", "end"),
    _gauge("held_decisions", "Decisions held back (decision_delay).", lambda of, now: of.menu and of.paused),
    _gauge("suspended", "1 while the partition cannot be loaded or continued; it is tried again.", "suspended"),
    _gauge("replaying", "1 while the partition is replayed, 0 when it is live.", "replaying"),
    _gauge("snapshot_age_seconds", "Seconds since the latest snapshot.", lambda of, now: _age(of.snapshot, now)),
    _gauge("known_subclasses", "Subclasses of the known classes.", "menu.known"),
    _gauge("emerging_subclasses", "Emerging subclasses.", "menu.emerging"),
    _gauge("active_subclasses", "Emerging subclasses that were announced and are not dormant.", "menu.active"),
    _gauge(
        "subclasses",
        "K: known and emerging subclasses.",
        lambda of, now: of.menu and of.menu.known + of.menu.emerging,
    ),
    _gauge("alpha0", "Concentration of the stream's restaurant.", "menu.alpha0"),
    _gauge("gamma", "Concentration of the menu.", "menu.gamma"),
    _gauge("references", "Reference instances that guard the known classes; 0: nothing does.", "menu.references"),
    _gauge("promised_recall", "Share of known instances that get their label, by training.", "recall.promised"),
    _gauge("expected_recall", "The same now, as the references tell without a label.", "recall.now.recall"),
    _gauge("expected_recall_low", "Lower end of its interval (95 %).", "recall.now.low"),
    _gauge("false_unknown", "Share of known instances called unknown now.", "recall.now.false_unknown"),
    _gauge(
        "recall_dropped",
        "1 while the expected recall is below the promise (RecallDropped), until it is back.",
        lambda of, now: of.recall.now and of.recall.dropped,
    ),
    _gauge("dependent", "1 while instances are treated as dependent (DependenceFound).", "dependent"),
    _gauge(
        "signals",
        "What went on beside the known since the stream began, by signal: part of the state, it outlives a process.",
        lambda of, now: of.found and {signal: getattr(of.found.signals, signal) for signal in COUNTED},
        ["signal"],
        CounterMetricFamily,
    ),
    _gauge(
        "subclasses_at",
        "Emerging subclasses, by the stage of their lives.",
        lambda of, now: of.found and of.found.stages._asdict(),
        ["stage"],
    ),
    _gauge("new_classes", "Estimated number of new classes in what has emerged.", "found.new.number"),
    _gauge("new_classes_low", "The least that it may be.", "found.new.low"),
    _gauge("new_classes_high", "The most that it may be.", "found.new.high"),
    _gauge("known_classes", "Known classes; beyond 50 they share the series class=other.", "found.known_classes"),
    _gauge("unknown_usual", "Share usually called unknown, against which a jump is told.", "found.usual"),
    *(_class(f"class_{name}", text, path) for name, (path, text) in OF_CLASS.items()),
    _count(
        "class_decisions",
        "Decisions published, by the known class that is nearest and by what they say.",
        ["class", "decided"],
        {KNOWN_OF: ["known"], UNKNOWN_OF: ["unknown"]},
    ),
    _count("class_drifts", "Times that a known class has changed (ClassDrifted).", ["class"], {DRIFTED: []}),
    _count("events_of_type", "Events published, by type.", ["type"], {OF_TYPE: []}),
    _worker_count("transactions_failed", "Transactions that failed or took too long."),
    _worker_count("transactions_abandoned", "Transactions that never ended and were left behind."),
    _worker_count("transactions_fenced", "Transactions refused because another producer has taken this one's place."),
    _worker_count("transactions_retried", "Transactions tried again."),
    _worker_count("commands_unreadable", "Records of the topic of labels that are no commands, since its beginning."),
    _worker_count("rebalances", "Times that partitions went to other workers."),
    _worker_count("consumers", "Consumers made: one at the start, one more after each failure."),
    _worker_count("worker_restarts", "Times a worker was started again."),
    _worker("assigned_partitions", "Partitions of the worker.", lambda of, now: len(of.partitions)),
    _worker("ready", "1 if decisions reach the broker.", lambda of, now: not _obstacles(of, now)),
    _worker(
        "progress_age_seconds",
        "Seconds since a commit, or since all was done. No sample: nothing was done yet, or nothing is assigned.",
        lambda of, now: _age(of.progress, now),
    ),
    _worker("loop_age_seconds", "Seconds since the loop last came round.", lambda of, now: now - of.loop),
    _worker(
        "model",
        "The model that the worker runs.",
        lambda of, now: {"identity": of.model, "fingerprint": of.fingerprint} if of.model else None,
        InfoMetricFamily,
    ),
    _times("batch", "Time that a micro-batch took, replayed ones too."),
    _times("transaction", "Time from the beginning of a transaction to its commit."),
    _times("snapshot", "Time that writing a snapshot took."),
    _times("latency", "Time from a record's timestamp, if it has one, to the later commit of its decision."),
)
"""All metrics, in the order in which they are told."""


class Health(NamedTuple):
    """Answer to a health check, and its text."""

    well: bool
    message: str


@dataclass(eq=False)
class Overview(Collector):
    """All workers of this machine's service.

    Parameters
    ----------
    stats
        Gives the latest figures of each worker, by its name.
    longest
        Seconds that the loop may take for a turn.
    restarts
        Gives how often each worker has been started again.
    """

    stats: Callable[[], Mapping[str, ServiceStats]]
    longest: float
    restarts: Callable[[], Mapping[str, int]] = dict

    def healthy(self) -> Health:
        """Say whether the loop of every worker turns."""
        now = time.monotonic()
        late = [
            f"the loop of {name} has not turned for {now - of.loop:.0f} s"
            for name, of in self.stats().items()
            if now - of.loop > self.longest
        ]
        return Health(not late, "; ".join(late) or "every loop turns")

    def ready(self) -> Health:
        """Say whether the decisions of every worker reach the broker, and why not; and where recall has dropped."""
        now, workers = time.monotonic(), self.stats()
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


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else now - moment


def _obstacles(stats: ServiceStats, now: float) -> tuple[str, ...]:
    """List why a worker is not ready: its own reasons, or that its loop is stuck."""
    silent = now - stats.loop
    stuck = (f"its loop has not turned for {silent:.0f} s",) if silent > STALE_SECONDS else ()
    return (*stats.reasons, *stuck)
