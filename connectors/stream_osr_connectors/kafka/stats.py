"""Statistics of a running service, for metrics and health checks.

Written by the loop's thread alone; others may read at any time. Moments are those of ``time.monotonic``, one clock
for all processes of a machine. What is not known is not there: nothing looks well because nobody has looked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.new_classes import Estimate
from stream_osr.discovery.summaries import Signals
from stream_osr.stream import MenuSize, StageCounts
from stream_osr.trust.recall import ExpectedRecall

from .places import Place

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the buckets of a histogram in seconds; the last bucket, beyond them, has none."""

LATENCY_BOUNDS = (*BOUNDS, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""The same for the latency: a backlog may be hours old."""

SUMMED = "summed "
"""How the counts of events begin that were not told one by one; their type follows."""

LOST, REPEATED = "lost ", "repeated "
"""The counts of records that are not decided, and of those that are decided again; the reason follows."""

REASONS = ("retention", "offsets")
"""``retention``: the input deleted records that were not read; ``offsets``: somebody moved or deleted the offsets."""

OF_TYPE, DRIFTED, KNOWN_OF, UNKNOWN_OF = "type ", "drifted ", "known of ", "unknown of "
"""The same of all events, of drifts, and of decisions; the type follows, or the known class by its short name."""

STARTING = "starting"
"""Why a worker is not ready that has not said anything yet."""


class Histogram(NamedTuple):
    """Histogram of durations. A value: a reader never sees half of an observation.

    Attributes
    ----------
    counts
        Of each bucket, the one beyond the bounds too.
    seconds
        In all.
    bounds
        Upper ends of the buckets.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0
    bounds: tuple[float, ...] = BOUNDS

    @classmethod
    def over(cls, bounds: tuple[float, ...]) -> Histogram:
        """Make an empty one with other bounds."""
        return cls((0,) * (len(bounds) + 1), 0.0, bounds)

    def observed(self, seconds: float | np.ndarray) -> Histogram:
        """Take in one more, or several at once."""
        places = np.searchsorted(self.bounds, np.atleast_1d(seconds))
        counts = np.bincount(places, minlength=len(self.counts)) + self.counts
        return Histogram(tuple(counts.tolist()), self.seconds + float(np.sum(seconds)), self.bounds)

    def cumulative(self) -> list[int]:
        """Count up to the end of each bucket, as Prometheus does; the last is the count of all.

        >>> Histogram().observed(0.005).observed(0.3).observed(90.0).cumulative()
        [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3]
        """
        return list(accumulate(self.counts))


class PartitionRecall(NamedTuple):
    """Recall of the known classes of a partition.

    Attributes
    ----------
    now
        Recall to be expected; None: no reference was asked yet, or there are none.
    promised
        By training; None: there are no references, and nobody can tell whether it holds.
    dropped
        It has fallen below the promise, and is not back.
    """

    now: ExpectedRecall | None = None
    promised: float | None = None
    dropped: bool = False

    def __str__(self) -> str:
        below = "below" if self.dropped else "beside"
        return f"recall of the known classes {self.now}, {below} the {self.promised:.3f} promised"


NO_RECALL = PartitionRecall()


class ClassMetrics(NamedTuple):
    """Statistics of a known class, or of all that share a name.

    Attributes
    ----------
    recall
        Recall to be expected; None: no reference of it was asked yet, or there are none.
    rank
        Mean density rank of its latest instances; None: none came.
    """

    recall: ExpectedRecall | None
    rank: float | None


class ModelMetrics(NamedTuple):
    """Statistics of the model as of a micro-batch.

    Attributes
    ----------
    signals
        The counts of what goes on beside the known.
    stages
        How many emerging subclasses are at which stage.
    new
        Estimated number of new classes, with its interval.
    usual
        Share of the stream that is usually called unknown; None: nothing was decided yet, or nobody follows it.
    known_classes
        How many there are.
    classes
        Of each known class, by its name among the metrics.
    """

    signals: Signals
    stages: StageCounts
    new: Estimate
    usual: float | None
    known_classes: int
    classes: Mapping[str, ClassMetrics]


@dataclass(slots=True)
class PartitionStats:
    """Figures of one partition that this worker owns.

    Attributes
    ----------
    position
        Offset after the last committed record.
    end
        Last stable offset of the partition, as the broker said: what is committed ends there; None: not known.
    unstable
        Records from there on, which wait for the end of a transaction; None: not known.
    read
        Offset of the next record that the consumer will read; None: not known.
    pending
        Records that were read and have not been committed.
    paused
        Decisions that are held back.
    replaying
        A replay is under way: nothing is published.
    suspended
        The partition cannot be loaded or continued; it is tried again now and then.
    snapshot
        Moment of the latest snapshot, or of the one that the partition was loaded from, as far as known.
    menu
        Subclasses and concentrations after the latest micro-batch; None: there is no recognizer.
    recall
        That of the known classes after it.
    dependent
        Its instances are treated as dependent on their neighbours; None: there is no recognizer.
    found
        What has been found in it, as of lately; None: nobody has looked yet, or it is replayed.
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
    found: ModelMetrics | None = None

    def follow(self, model: OpenSetRecognizer) -> None:
        """Take from a recognizer what it says of itself."""
        self.menu, signals = model.menu, model.signals
        promised = model.trained.report.known_recall if self.menu.references else None
        self.recall = PartitionRecall(signals.expected_recall, promised, signals.recall_dropped)
        self.dependent = signals.dependent

    @property
    def lag(self) -> int | None:
        """Records that are there, up to the last one, and have not been committed; None: not known."""
        return None if self.readable is None else self.readable + (self.unstable or 0)

    @property
    def readable(self) -> int | None:
        """Those of them that can be read: no transaction upstream holds them back.

        What is left between the commit and the end when everything was read are marks of transactions, no records.
        """
        if self.end is None:
            return None
        if not self.pending and self.read is not None and self.read >= self.end:
            return 0
        return max(0, self.end - self.position)


@dataclass(slots=True)
class ServiceStats:
    """Figures of one worker.

    Attributes
    ----------
    counts
        By name and partition: ``records``, ``known`` and ``unknown`` decisions, ``events``, ``dead_letters``,
        ``labelled``, ``skipped``, ``replayed``, ``unreadable`` (times that a partition could not be read on),
        ``features_missing`` and ``features_expected`` (values), ``timestamps_replaced``, ``encoder_failures``
        (decisions and events that could not be encoded), ``unaccounted_records``
        (committed without what should have been acknowledged for them), ``commands_left`` (what was asked and could
        not be done), ``unknown_rate_jumps`` (of the share called unknown), ``data_faults`` (columns that began to
        fail, rows that began to repeat), ``summed`` and a type (events that were told by a sum), ``type`` and a type
        (those that were told), ``drifted``, ``known of`` and ``unknown of`` and a known class (its drifts, and
        decisions to which it was nearest); by name and None: ``commands_unreadable``
        (records of the topic of labels that are no commands), ``transactions``, ``transactions_failed``,
        ``transactions_abandoned`` among them, ``transactions_fenced``, ``transactions_retried``, ``rebalances``,
        ``consumers`` made.
    times
        By name: ``batch`` (micro-batches closed, replayed or not), ``transaction``, ``snapshot`` and ``latency``
        (from the timestamp of a record to the commit of its decision).
    partitions
        Those that this worker owns.
    progress
        Moment of the last commit, or of the last time there was nothing to do; None: nothing is assigned, or nothing
        is known.
    loop
        Moment when the loop last came round, or did something that shows that it will.
    obstacles
        Why decisions do not reach the broker now, in words; none: they do, or would if there were any to make.
    outside
        The same, as far as it is seen without the loop, which may wait for something.
    model, fingerprint
        Identity of the model with its settings, and fingerprint of its trained part; "": none is loaded.
    opened_at
        It has got through to the brokers and the topics once.
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

    @property
    def ready(self) -> bool:
        """Decisions reach the broker."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for which the worker is not ready, each once."""
        return tuple(dict.fromkeys((*self.outside, *self.obstacles)))

    def add(self, name: str, place: Place | None = None, by: int = 1) -> None:
        """Count something, of a partition or of the whole worker."""
        self.counts[name, place] += by

    def observe(self, name: str, seconds: float) -> None:
        """Note how long something took."""
        self.times[name] = self.histogram(name).observed(seconds)

    def observe_latency(self, timestamps: np.ndarray, at: float) -> None:
        """Note how old records are whose decisions are committed.

        Parameters
        ----------
        timestamps
            Of the records, milliseconds since 1970. Those that are negative (there is none) and those that are later
            than the commit are left out.
        at
            Moment of the commit, seconds since 1970.
        """
        seconds = at - timestamps / 1000
        self.times["latency"] = self.histogram("latency").observed(seconds[(timestamps >= 0) & (seconds >= 0)])

    def histogram(self, name: str) -> Histogram:
        """Give the histogram of one of the times."""
        return self.times.get(name) or (Histogram.over(LATENCY_BOUNDS) if name == "latency" else Histogram())

    def turn(self) -> None:
        """Note that the loop is not stuck."""
        self.loop = time.monotonic()

    def copy(self) -> ServiceStats:
        """Copy them as they are now; the loop may go on meanwhile."""
        partitions = {place: replace(partition) for place, partition in dict(self.partitions).items()}
        return replace(self, counts=Counter(dict(self.counts)), times=dict(self.times), partitions=partitions)

    def ended(self, why: str) -> ServiceStats:
        """Give what is left of them when the process has ended: its partitions are another's now, or nobody's."""
        left = self.copy()
        return replace(left, partitions={}, progress=None, obstacles=(why,), outside=(), model="", fingerprint="")
