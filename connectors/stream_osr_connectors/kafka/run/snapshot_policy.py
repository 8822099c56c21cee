"""The partitions of a worker, and when snapshots of them are written.

Snapshots are written regularly, before the metadata of the committed offset is full, and at the end.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_osr.errors import ConnectorError, PersistenceError

from ..client.interface import Offset
from ..log import Seldom
from ..places import Place
from ..settings import ServiceSettings
from ..stats import ServiceStats
from ..wire.boundaries import MOST_CHARACTERS, Boundary
from ..wire.messages import Received
from .partition import Partition
from .recovery import Recovery
from .snapshots import Snapshots

RETRY_SECONDS = 10.0
"""Seconds before a retry of a required snapshot."""

PREPARE_SECONDS = 0.2
"""Seconds for the preparation of a snapshot of many keys in each iteration of the loop."""

LONGEST_SHARE = 10
"""Least time from a snapshot to the next, as a multiple of the duration. Snapshots of many keys take seconds."""

FEW_STEPS = 100
"""Number of steps whose text always fits."""


@dataclass(slots=True)
class Owned:
    """A partition of this worker.

    Attributes
    ----------
    state
        State after the processed micro-batches.
    buffer
        Records that wait for a micro-batch.
    since
        Arrival of the first waiting record.
    replay
        Boundaries of micro-batches to replay.
    snapshots
        Boundaries of the latest snapshots, the newest last.
    written
        Time of the latest snapshot.
    uncommitted
        Number of records in uncommitted micro-batches.
    failed
        Whether the latest snapshot failed.
    pending
        Committed state of a snapshot that is being prepared, because it has many keys.
    spent
        Duration of the latest snapshot in seconds.
    trouble, again
        Reason why the partition waits, and time of the next attempt.
    crowded
        Whether only full micro-batches are processed (see :meth:`SnapshotPolicy.is_crowded`).
    begun
        Whether its start is committed.
    """

    state: Partition
    replay: deque[Boundary]
    snapshots: list[Boundary]
    written: float
    buffer: deque[Received] = field(default_factory=deque)
    since: float = 0.0
    uncommitted: int = 0
    failed: bool = False
    pending: Partition | None = None
    spent: float = 0.0
    trouble: str = ""
    again: float = 0.0
    crowded: bool = False
    begun: bool = True


class SnapshotPolicy:
    """Writes snapshots of the partitions of a worker, always of committed states.

    Parameters
    ----------
    settings
        What the operator has set.
    snapshots
        Snapshots of the group.
    recovery
        Recovery, which creates the metadata of offsets.
    stats
        Statistics to update.
    """

    def __init__(
        self, settings: ServiceSettings, snapshots: Snapshots, recovery: Recovery, stats: ServiceStats
    ) -> None:
        self._settings, self._snapshots, self._recovery, self._stats = settings, snapshots, recovery, stats
        self._seldom = Seldom()

    def keep(self, partitions: Mapping[Place, Owned]) -> None:
        """Write the most overdue snapshot. Only one in each round, so that other partitions do not wait for long."""
        now = time.monotonic()
        live = {place: owned for place, owned in partitions.items() if not owned.replay}
        full = [
            place
            for place, owned in live.items()
            if self._is_full(owned.state) and not (owned.failed and now - owned.written < RETRY_SECONDS)
        ]
        due = [
            (owned.written, place)
            for place, owned in live.items()
            if now - owned.written >= max(self._settings.snapshot_interval, LONGEST_SHARE * owned.spent)
            and owned.state.history.last not in owned.snapshots[-1:]
        ]
        for place in full or [place for _, place in sorted(due)[:1]]:
            owned = live[place]
            if owned.pending is None or owned.pending.lineage != owned.state.lineage:
                owned.pending, owned.spent = owned.state, 0.0
            keys = owned.pending.keys
            ready = keys is None or keys.prepare(PREPARE_SECONDS)
            owned.spent += time.monotonic() - now
            if ready:
                self._write(place, owned, owned.pending)

    def leave(self, partitions: Mapping[Place, Owned]) -> None:
        """Write all snapshots, so that the next start has nothing to replay. This may take half of stop_timeout."""
        ends = time.monotonic() + self._settings.stop_timeout / 2
        for place, owned in sorted(partitions.items()):
            keys, left = owned.state.keys, ends - time.monotonic()
            if left > 0 and not owned.replay and (keys is None or keys.prepare(left)):
                self._write(place, owned, owned.state)

    def offset(self, place: Place, state: Partition) -> Offset:
        """Return the offset of a partition to commit.

        Raises
        ------
        ConnectorError
            If the metadata is too long.
        """
        text = self._recovery.progress(state).text()
        if len(text) > MOST_CHARACTERS:
            raise ConnectorError(
                f"{place}: no snapshot could be written for so long that the ends of the "
                "micro-batches since no longer fit beside the committed offset. See the log for the reason"
            )
        return Offset(state.history.last.offset, text)

    def is_crowded(self, place: Place, state: Partition) -> bool:
        """Return True and log it if the metadata of the committed offset is three quarters full.

        Then only full micro-batches are processed, because equal steps take no additional space. Transaction markers
        in the input make steps unequal, so the metadata still grows, but more slowly.
        """
        crowded = self._is_full(state, 0.75)
        if crowded:
            self._seldom.say(
                f"crowded {place}",
                f"{place}: no snapshot could be written for so long that micro-batches close only when full. "
                "max_wait applies again when a snapshot is written",
                logging.ERROR,
            )
        return crowded

    def _is_full(self, state: Partition, share: float = 0.5) -> bool:
        """Return whether the boundaries fill more than a share of the metadata."""
        steps = len(state.history.steps)
        return steps >= FEW_STEPS and len(self._recovery.progress(state).text()) > share * MOST_CHARACTERS

    def _write(self, place: Place, owned: Owned, state: Partition) -> None:
        """Write a snapshot of a committed state, and drop boundaries before the previous snapshot."""
        at, owned.failed, owned.pending = state.history.last, False, None
        if at in owned.snapshots[-1:]:
            return
        begun = time.perf_counter()
        try:
            self._snapshots.write(place, state)
        except PersistenceError as error:
            owned.written, owned.failed = time.monotonic(), True
            self._seldom.say(str(place), f"no snapshot of {place}: {error}", logging.ERROR)
            return
        self._seldom.forget(str(place))
        owned.snapshots.append(at)
        del owned.snapshots[:-2]
        history = owned.state.history
        owned.state = owned.state._replace(history=history.since(owned.snapshots[0]))
        if self._is_full(owned.state):
            owned.state = owned.state._replace(history=history.since(at))
        owned.written, owned.spent = time.monotonic(), owned.spent + time.perf_counter() - begun
        self._stats.observe("snapshot", owned.spent)
        if place in self._stats.partitions:
            self._stats.partitions[place].snapshot = owned.written
