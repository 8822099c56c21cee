"""Progress in the log: lag, records, and obstacles between the records and the broker."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping

from ..client.errors import explain
from ..log import Seldom
from ..places import Place
from ..stats import ServiceStats
from .job import Job
from .reading import Reader
from .topic_monitor import Watch

LOOK_SECONDS = 0.5
ALONE_SECONDS = 3.0
"""Seconds after which a member without partitions counts as a standby."""

STILL_SECONDS = 15.0
"""Seconds without a commit after which a worker with waiting records is not ready."""


class ProgressLog:
    """Updates the statistics, and logs when the worker becomes ready or not ready.

    Parameters
    ----------
    job, reader, watch
        Parts of the worker whose progress is logged.
    stats
        Statistics that receive the results.
    max_wait
        Seconds that a record may wait for others, ``None`` for no limit.

    Attributes
    ----------
    committed
        Time of the latest commit, or of the last time that there was nothing to do.
    """

    def __init__(self, job: Job, reader: Reader, watch: Watch, stats: ServiceStats, max_wait: float | None) -> None:
        self._job, self._reader, self._watch, self._stats = job, reader, watch, stats
        self._longest = math.inf if max_wait is None else STILL_SECONDS + max_wait
        self._patience = 0.0 if max_wait is not None and max_wait <= STILL_SECONDS else self._longest
        self._seldom = Seldom()
        self._looked = self.committed = self._idle = time.monotonic()
        self._joined = math.inf
        self._loaded: frozenset[Place] = frozenset()
        self._assigned = -math.inf
        self._was_ready = False

    @property
    def has_its_share(self) -> bool:
        """Whether the worker has partitions, or the group had time to assign some."""
        return bool(self._stats.partitions) or time.monotonic() - self._joined >= ALONE_SECONDS

    def look(self, unloaded: Mapping[Place, str], trouble: str) -> None:
        """Update the statistics and the log, at most twice a second.

        Parameters
        ----------
        unloaded
            Assigned partitions that are not loaded, with reasons.
        trouble
            Reason why transactions fail, or empty.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        self._joined = min(self._joined, now) if self._reader.is_member else math.inf
        waiting = 0
        for place, partition_stats in self._stats.partitions.items():
            self._watch.tell_ends(place, partition_stats)
            if not partition_stats.suspended:
                partition_stats.pending = self._job.measure(place)
                if not self._watch.held_up(place):
                    partition_stats.read = self._reader.position(place)
                waiting += partition_stats.pending
        if not waiting:  # records that wait for the end of a transaction upstream have not been read
            self._idle = now
        loaded = {place: its for place, its in self._stats.partitions.items() if not its.suspended}
        behind = max(waiting, sum(its.readable or 0 for its in loaded.values()))
        if not self._loaded.issuperset(loaded):
            self._assigned = now
        self._loaded = frozenset(loaded)
        if not loaded:
            self._stats.progress = None
        elif not waiting and all(partition.lag == 0 for partition in loaded.values()):
            self.committed = self._stats.progress = now
        else:
            self._stats.progress = self.committed
        self._stats.obstacles = obstacles = self._obstacles(waiting, behind, now, unloaded, trouble)
        if not obstacles and not self._was_ready:
            count = len(loaded)
            self._seldom.forget("not ready")
            line = f"ready: {count} partitions live{'' if count else ', it stands by'}"
            self._seldom.say("ready", line, logging.INFO)
        if obstacles and self._was_ready:
            self._seldom.forget("ready")
            self._seldom.say("not ready", f"not ready: {'; '.join(obstacles)}")
        self._was_ready = not obstacles

    def _obstacles(
        self, waiting: int, behind: int, now: float, unloaded: Mapping[Place, str], trouble: str
    ) -> tuple[str, ...]:
        found = self._watch.obstacles()
        if self._reader.trouble:
            found.append(self._reader.trouble)
        elif not self._reader.is_member:
            found.append("not a member of the group yet")
        elif not self._stats.partitions and now - self._joined < ALONE_SECONDS:
            found.append("the group has given it no partition yet")
        found += [f"{place} cannot be read on" for place in self._reader.unreadable]
        found += [f"{place} {why}" for place, why in sorted(unloaded.items())]
        found += self._job.obstacles()
        if trouble:
            found.append(f"transactions fail: {trouble}")
        elif behind and self.committed < self._assigned and now - self._assigned >= self._patience:
            found.append(
                f"no micro-batch is committed yet since partitions were assigned, with {behind} records to do"
            )
        elif waiting and now - max(self.committed, self._idle) > self._longest:
            idle = f"nothing was committed for {now - self.committed:.0f} s, with {waiting} records read"
            found.append(explain(idle))
        return tuple(found)
