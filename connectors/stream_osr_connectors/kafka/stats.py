"""Statistics of a running service, for metrics and health checks.

Only the loop's thread writes them. Other threads may read them at any time. Times are from ``time.monotonic``, which
is the same clock for all processes of a machine. Unknown values are absent, so that they do not look healthy.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.class_count import Estimate
from stream_osr.discovery.summaries import Signals
from stream_osr.stream import MenuSize, StageCounts
from stream_osr.trust.recall import ExpectedRecall

from .places import Place

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the buckets of a histogram in seconds. The last bucket is unbounded."""

LATENCY_BOUNDS = (*BOUNDS, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Upper ends for the latency, because a backlog may be hours old."""

SUMMED = "summed "
"""Prefix of counts of events that were only counted. The type follows."""

LOST, REPEATED = "lost ", "repeated "
"""Prefixes of counts of records without a decision, and of records that were decided again. The reason follows."""

REASONS = ("retention", "offsets")
"""``retention``: the input deleted unread records. ``offsets``: the committed offsets were moved or deleted."""

OF_TYPE, DRIFTED, KNOWN_OF, UNKNOWN_OF = "type ", "drifted ", "known of ", "unknown of "
"""Prefixes of counts of events, drifts and decisions. The type or the short name of the known class follows."""

STARTING = "starting"
"""Reason why a worker without statistics is not ready."""


class Histogram(NamedTuple):
    """Immutable histogram of durations, so that a reader never sees a partial observation.

    Attributes
    ----------
    counts
        Count of each bucket, including the unbounded one.
    seconds
        Sum of all durations.
    bounds
        Upper ends of the buckets.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0
    bounds: tuple[float, ...] = BOUNDS

    @classmethod
    def over(cls, bounds: tuple[float, ...]) -> Histogram:
        """Create an empty histogram with other bounds."""
        return cls((0,) * (len(bounds) + 1), 0.0, bounds)

    def observed(self, seconds: float | np.ndarray) -> Histogram:
        """Return the histogram with one or several additional durations."""
        places = np.searchsorted(self.bounds, np.atleast_1d(seconds))
        counts = np.bincount(places, minlength=len(self.counts)) + self.counts
        return Histogram(tuple(counts.tolist()), self.seconds + float(np.sum(seconds)), self.bounds)

    def cumulative(self) -> list[int]:
        """Return cumulative counts, as in Prometheus. The last is the total.

        >>> Histogram().observed(0.005).observed(0.3).observed(90.0).cumulative()
        [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3]
        """
        return list(accumulate(self.counts))


class PartitionRecall(NamedTuple):
    """Recall of the known classes of a partition.

    Attributes
    ----------
    now
        Estimated recall, ``None`` before the first estimate or without reference instances.
    promised
        Expected recall from training, ``None`` without reference instances.
    dropped
        Whether the estimated recall has dropped below the expected recall.
    """

    now: ExpectedRecall | None = None
    promised: float | None = None
    dropped: bool = False

    def __str__(self) -> str:
        below = "below" if self.dropped else "beside"
        return f"recall of the known classes {self.now}, {below} the {self.promised:.3f} promised"


NO_RECALL = PartitionRecall()


class ClassMetrics(NamedTuple):
    """Statistics of a known class, or of all classes with the same short name.

    Attributes
    ----------
    recall
        Estimated recall, ``None`` before the first estimate or without reference instances.
    rank
        Mean density rank of the latest instances, ``None`` without instances.
    """

    recall: ExpectedRecall | None
    rank: float | None


class ModelMetrics(NamedTuple):
    """Statistics of the model after a micro-batch.

    Attributes
    ----------
    signals
        Counts of signals.
    stages
        Number of emerging subclasses in each stage.
    new
        Estimated number of new classes, with its interval.
    usual
        Usual unknown rate, ``None`` if it is not known.
    known_classes
        Number of known classes.
    classes
        Statistics of known classes, by short name.
    """

    signals: Signals
    stages: StageCounts
    new: Estimate
    usual: float | None
    known_classes: int
    classes: Mapping[str, ClassMetrics]


@dataclass(slots=True)
class PartitionStats:
    """Statistics of one partition of this worker.

    Attributes
    ----------
    position
        Offset after the last committed record.
    end
        Last stable offset of the partition, the end of committed records. ``None`` if unknown.
    unstable
        Number of later records, which wait for the end of a transaction. ``None`` if unknown.
    read
        Offset of the next record to read, ``None`` if unknown.
    pending
        Number of records that were read and not committed.
    paused
        Number of delayed decisions.
    replaying
        Whether a replay is running, without output.
    suspended
        Whether the partition cannot be loaded or continued. The service retries.
    snapshot
        Time of the latest snapshot, or of the snapshot from which the partition was loaded, if known.
    menu
        Subclasses and concentrations after the latest micro-batch, ``None`` without a recognizer.
    recall
        Recall of known classes after the latest micro-batch.
    dependent
        Whether neighbouring instances are treated as dependent, ``None`` without a recognizer.
    frame
        Offset of all known classes from their training place, in a line (`Signals.frame`).
    found
        Recent statistics of the model, ``None`` before the first or during a replay.
    keys, keys_awake, most_keys
        Numbers of keys, of keys with a recognizer in memory, and of keys that are allowed. ``None`` without `by`.
    key_memory_needed
        Bytes of the recognizers of the keys that are used, if `key_memory` is too small for them.
    """

    position: int = 0
    end: int | None = None
    unstable: int | None = None
    read: int | None = None
    pending: int = 0
    paused: int = 0
    replaying: bool = False
    suspended: bool = False
    snapshot: float | None = None
    menu: MenuSize | None = None
    recall: PartitionRecall = NO_RECALL
    dependent: bool | None = None
    frame: str = ""
    found: ModelMetrics | None = None
    keys: int | None = None
    keys_awake: int | None = None
    most_keys: int | None = None
    key_memory_needed: int | None = None

    def follow(self, model: OpenSetRecognizer) -> None:
        """Read statistics from a recognizer."""
        self.menu, signals = model.value.menu, model.signals
        promised = model.trained.report.known_recall if self.menu.references else None
        self.recall = PartitionRecall(signals.expected_recall, promised, signals.recall_dropped)
        self.dependent, self.frame = signals.dependent, signals.frame

    @property
    def key_shortage(self) -> str:
        """Why `key_memory` is too small, empty if it is not."""
        text = "key_memory is too small for the keys in use: recognizers are read again and again. Set it to"
        return "" if self.key_memory_needed is None else f"{text} {1.2 * self.key_memory_needed:.0f}"

    @property
    def lag(self) -> int | None:
        """Number of uncommitted records up to the end of the partition, ``None`` if unknown."""
        return None if self.readable is None else self.readable + (self.unstable or 0)

    @property
    def readable(self) -> int | None:
        """Number of uncommitted records that can be read, because they are not in open transactions.

        If all records were read, only transaction markers remain between the committed offset and the end.
        """
        if self.end is None:
            return None
        if not self.pending and self.read is not None and self.read >= self.end:
            return 0
        return max(0, self.end - self.position)


HANGS_SECONDS = 3.0
"""Seconds after which reading or writing of a state is reported while it runs."""


@dataclass(slots=True)
class Activity:
    """Reading and writing of states by one thread, which other threads report while it hangs.

    Attributes
    ----------
    running
        What is read or written, and since when. ``None``: nothing.
    """

    running: tuple[str, float] | None = None

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Note what the thread does."""
        before, self.running = self.running, (what, time.monotonic())
        try:
            yield
        finally:
            self.running = before

    @property
    def seconds(self) -> float:
        """Seconds for which the thread has been doing the same."""
        return 0.0 if (running := self.running) is None else time.monotonic() - running[1]

    @property
    def hangs(self) -> str:
        """What takes long, empty if nothing does."""
        running, seconds = self.running, self.seconds
        return f"{running[0]} takes {seconds:.0f} s" if running and seconds > HANGS_SECONDS else ""


@dataclass(slots=True)
class StorageStats:
    """Reading and writing of states.

    Attributes
    ----------
    loop, copying
        What the loop does, and the thread that writes the copy.
    failure
        Latest failure of the copy, empty if it has all states.
    behind
        Number of files that the copy lacks.
    place
        What the copy is a copy of, and its folder.
    """

    loop: Activity = field(default_factory=Activity)
    copying: Activity = field(default_factory=Activity)
    failure: str = ""
    behind: int = 0
    place: tuple[str, str] = ("", "")

    @property
    def copy_trouble(self) -> str:
        """Why the folder lacks states, empty if it does not. Decisions do not depend on it."""
        why, (store, folder) = self.failure or self.copying.hangs, self.place
        text = f"{folder}, the copy of {store} on this machine, lacks {self.behind} files: {why}"
        return text if why and self.behind else ""


@dataclass(slots=True)
class ServiceStats:
    """Statistics of one worker.

    Attributes
    ----------
    counts
        Counts by name and partition. The names are those of the metrics (``records``, ``events``, ``dead_letters``
        and so on), ``known`` and ``unknown`` for decisions, and the prefixes above with a type, a reason or a known
        class. Counts of the worker have ``None`` as the partition: ``commands_unreadable``, ``transactions``,
        ``transactions_failed``, ``transactions_abandoned``, ``transactions_fenced``, ``transactions_retried``,
        ``rebalances`` and ``consumers``.
    times
        Histograms by name: ``batch`` (micro-batches, replayed or not), ``transaction``, ``snapshot`` and ``latency``
        (from the timestamp of a record to the commit of the decision).
    partitions
        Partitions of this worker.
    progress
        Time of the last commit, or of the last time there was nothing to do. ``None`` without partitions or before
        the first.
    loop
        Time of the last progress of the loop.
    obstacles
        Reasons in words why decisions do not reach the broker now. Empty if the worker is ready.
    outside
        Reasons that other threads found, because the loop may be blocked.
    model, fingerprint
        Identity of the model with its settings, and fingerprint of the trained part. Empty if no model is loaded.
    opened_at
        Whether the worker has reached the brokers and topics once.
    storage
        Reading and writing of states.
    """

    counts: Counter[tuple[str, Place | None]] = field(default_factory=Counter)
    times: dict[str, Histogram] = field(default_factory=dict)
    partitions: dict[Place, PartitionStats] = field(default_factory=dict)
    progress: float | None = None
    loop: float = field(default_factory=time.monotonic)
    obstacles: tuple[str, ...] = (STARTING,)
    outside: tuple[str, ...] = ()
    model: str = ""
    fingerprint: str = ""
    opened_at: bool = False
    storage: StorageStats = field(default_factory=StorageStats)

    @property
    def ready(self) -> bool:
        """Whether decisions reach the broker."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the worker is not ready, without repetitions."""
        reasons = dict.fromkeys((self.storage.loop.hangs, *self.outside, *self.obstacles))
        return tuple(filter(None, reasons))

    def add(self, name: str, place: Place | None = None, by: int = 1) -> None:
        """Increase a count of a partition or of the worker."""
        self.counts[name, place] += by

    def observe(self, name: str, seconds: float) -> None:
        """Add a duration to a histogram."""
        self.times[name] = self.histogram(name).observed(seconds)

    def observe_latency(self, timestamps: np.ndarray, at: float) -> None:
        """Add the ages of records at the commit of their decisions to the histogram of the latency.

        Parameters
        ----------
        timestamps
            Timestamps of the records in milliseconds since 1970. Negative timestamps (none) and timestamps after the
            commit are ignored.
        at
            Time of the commit in seconds since 1970.
        """
        seconds = at - timestamps / 1000
        self.times["latency"] = self.histogram("latency").observed(seconds[(timestamps >= 0) & (seconds >= 0)])

    def histogram(self, name: str) -> Histogram:
        """Return a histogram by name."""
        return self.times.get(name) or (Histogram.over(LATENCY_BOUNDS) if name == "latency" else Histogram())

    def turn(self) -> None:
        """Record progress of the loop."""
        self.loop = time.monotonic()

    def copy(self) -> ServiceStats:
        """Return a copy. The loop may continue meanwhile."""
        partitions = {place: replace(partition) for place, partition in dict(self.partitions).items()}
        return replace(self, counts=Counter(dict(self.counts)), times=dict(self.times), partitions=partitions)

    def ended(self, why: str) -> ServiceStats:
        """Return the remaining statistics of an ended process, without its partitions."""
        left = self.copy()
        empty: dict[str, Any] = {"outside": (), "model": "", "fingerprint": "", "storage": StorageStats()}
        return replace(left, partitions={}, progress=None, obstacles=(why,), **empty)
