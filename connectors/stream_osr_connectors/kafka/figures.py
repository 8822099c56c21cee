"""What the service tells about itself while it runs: counts and moments, for metrics and health checks.

Written by the loop's thread alone; others may read at any time.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class PartitionFigures:
    """Figures of one partition that this worker owns.

    Attributes
    ----------
    position
        Offset after the last committed record.
    end
        Offset after the last record of the partition, as last heard; None: not heard yet.
    replaying
        A replay is under way: nothing is published.
    snapshot
        Moment of the latest snapshot (``time.monotonic``); None: none by this worker.
    """

    position: int = 0
    end: int | None = None
    replaying: bool = False
    snapshot: float | None = None


@dataclass(slots=True)
class Figures:
    """Figures of one worker.

    Attributes
    ----------
    counts
        By name and partition: ``records``, ``decisions``, ``known``, ``unknown``, ``events``, ``dead_letters``,
        ``labelled``, ``skipped``, ``batches``, ``replayed``; by name and -1: ``transactions``, ``failed``
        transactions, ``stuck`` ones, ``rebalances``, ``consumers`` made, ``snapshots``.
    partitions
        By number, those that this worker owns.
    batch_seconds, transaction_seconds, snapshot_seconds
        Sums; their numbers are in ``counts``.
    progress
        Moment of the last commit, or of the last time there was nothing to do (``time.monotonic``).
    loop
        Moment when the loop last came round.
    ready
        Every partition that was assigned is live.
    """

    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    partitions: dict[int, PartitionFigures] = field(default_factory=dict)
    batch_seconds: float = 0.0
    transaction_seconds: float = 0.0
    snapshot_seconds: float = 0.0
    progress: float = field(default_factory=time.monotonic)
    loop: float = field(default_factory=time.monotonic)
    ready: bool = False

    def add(self, name: str, partition: int = -1, by: int = 1) -> None:
        """Count something."""
        self.counts[name, partition] += by
