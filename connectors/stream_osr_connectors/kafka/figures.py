"""What the service tells about itself while it runs: counts and moments, for metrics and health checks.

Written by the loop's thread alone; others may read at any time. Moments are those of ``time.monotonic``, one clock
for all processes of a machine.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace

from stream_osr.engine import Menu


@dataclass(slots=True)
class PartitionFigures:
    """Figures of one partition that this worker owns.

    Attributes
    ----------
    position
        Offset after the last committed record.
    end
        Offset after the last record of the partition, as last heard; None: not heard yet.
    lag
        Records that are there and have not been committed; None: not heard yet.
    replaying
        A replay is under way: nothing is published.
    snapshot
        Moment of the latest snapshot, or of the one that the partition was loaded from, as far as known.
    menu
        Subclasses and concentrations after the latest micro-batch; None: there was none yet.
    """

    position: int = 0
    end: int | None = None
    lag: int | None = None
    replaying: bool = False
    snapshot: float | None = None
    menu: Menu | None = None


@dataclass(slots=True)
class Figures:
    """Figures of one worker.

    Attributes
    ----------
    counts
        By name and partition: ``records``, ``known`` and ``unknown`` decisions, ``events``, ``dead_letters``,
        ``labelled``, ``skipped``, ``batches``, ``replayed``, ``unreadable`` (times that a partition could not be
        read on); by name and -1: ``steps`` (micro-batches closed, replayed or not), ``transactions``, ``failed``
        transactions, ``abandoned`` ones among them, ``rebalances``, ``consumers`` made, ``snapshots``.
    partitions
        By number, those that this worker owns.
    batch_seconds, transaction_seconds, snapshot_seconds
        Sums over ``steps``, ``transactions`` and ``snapshots``.
    progress
        Moment of the last commit, or of the last time there was nothing to do.
    loop
        Moment when the loop last came round, or did something that shows that it will.
    ready
        Every partition that was assigned is live.
    opened
        It has got through to the brokers and the topics once.
    """

    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    partitions: dict[int, PartitionFigures] = field(default_factory=dict)
    batch_seconds: float = 0.0
    transaction_seconds: float = 0.0
    snapshot_seconds: float = 0.0
    progress: float = field(default_factory=time.monotonic)
    loop: float = field(default_factory=time.monotonic)
    ready: bool = False
    opened: bool = False

    def add(self, name: str, partition: int = -1, by: int = 1) -> None:
        """Count something."""
        self.counts[name, partition] += by

    def turn(self) -> None:
        """Note that the loop is not stuck."""
        self.loop = time.monotonic()

    def copy(self) -> Figures:
        """Copy them as they are now; the loop may go on meanwhile."""
        partitions = {number: replace(partition) for number, partition in dict(self.partitions).items()}
        return replace(self, counts=Counter(dict(self.counts)), partitions=partitions)
