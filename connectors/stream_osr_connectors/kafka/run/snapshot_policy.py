"""Partitions of a worker, as they go, and when their snapshots are written.

Now and then, before the text beside the committed offset is full, and at the end.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_osr.errors import ConnectorError, PersistenceError

from ..client import Offset
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
"""Before a snapshot that could not be written is tried again, where the way on depends on it."""

FEW_STEPS = 100
"""Their text always fits."""


@dataclass(slots=True)
class Owned:
    """A partition of this worker.

    Attributes
    ----------
    state
        As far as micro-batches have been closed.
    buffer
        Records that wait for theirs.
    since
        When the first of them came.
    replay
        Boundaries up to which everything has been published before.
    snapshots
        Boundaries of the latest snapshots, the newest last.
    written
        When the newest was written.
    uncommitted
        Records of micro-batches that are closed and not committed.
    failed
        The latest snapshot could not be written.
    trouble, again
        Why it does not go on, and when that is tried again.
    crowded
        Micro-batches close only when they are full: see :meth:`SnapshotPolicy.is_crowded`.
    begun
        Its beginning is committed.
    """

    state: Partition
    replay: deque[Boundary]
    snapshots: list[Boundary]
    written: float
    buffer: deque[Received] = field(default_factory=deque)
    since: float = 0.0
    uncommitted: int = 0
    failed: bool = False
    trouble: str = ""
    again: float = 0.0
    crowded: bool = False
    begun: bool = True


class SnapshotPolicy:
    """Writes snapshots of the partitions of a worker, always as they are committed.

    Parameters
    ----------
    settings
        What the operator has set.
    snapshots
        Where they go.
    recovery
        Knows what is committed beside an offset.
    figures
        Where it tells how it goes.
    """

    def __init__(
        self, settings: ServiceSettings, snapshots: Snapshots, recovery: Recovery, stats: ServiceStats
    ) -> None:
        self._settings, self._snapshots, self._recovery, self._stats = settings, snapshots, recovery, stats
        self._seldom = Seldom()

    def keep(self, partitions: Mapping[Place, Owned]) -> None:
        """Write the snapshot that is most overdue: one in each round, so that the others do not wait for long."""
        now = time.monotonic()
        live = {place: owned for place, owned in partitions.items() if not owned.replay}
        full = [each for each, owned in live.items() if self._is_full(owned.state) and self._may_try(owned, now)]
        for place in full:
            self._try(place, live[place])
        due = [
            (owned.written, place)
            for place, owned in live.items()
            if now - owned.written >= self._settings.snapshot_interval
            and owned.state.history.last not in owned.snapshots[-1:]
        ]
        if due and not full:
            place = min(due)[1]
            self._try(place, live[place])

    def leave(self, partitions: Mapping[Place, Owned]) -> None:
        """Write them all, so that the next start has nothing to replay; half of the time for stopping is for that."""
        ends = time.monotonic() + self._settings.stop_timeout / 2
        for place, owned in sorted(partitions.items()):
            if time.monotonic() < ends and not owned.replay:
                self._try(place, owned)

    def offset(self, place: Place, state: Partition) -> Offset:
        """Make what is committed of a partition.

        Raises
        ------
        ConnectorError
            If it does not fit any more beside the offset.
        """
        text = self._recovery.progress(state).text()
        if len(text) > MOST_CHARACTERS:
            raise ConnectorError(
                f"{place}: no snapshot could be written for so long that the ends of the "
                "micro-batches since no longer fit beside the committed offset; see the log for the reason"
            )
        return Offset(state.history.last.offset, text)

    @staticmethod
    def _may_try(owned: Owned, now: float) -> bool:
        return not owned.failed or now - owned.written >= RETRY_SECONDS

    def is_crowded(self, place: Place, state: Partition) -> bool:
        """Return True, and say so, if the text beside the committed offset is three quarters full.

        Then micro-batches close only when they are full: equal steps take no room. Marks of transactions in the input
        make the steps unequal; the text then fills up more slowly.
        """
        crowded = self._is_full(state, 0.75)
        if crowded:
            self._seldom.say(
                f"crowded {place}",
                f"{place}: no snapshot could be written for so long that micro-batches close only when full; "
                "max_wait counts again when a snapshot is written",
                logging.ERROR,
            )
        return crowded

    def _is_full(self, state: Partition, share: float = 0.5) -> bool:
        """Say whether the boundaries take more than a share of the room that they have."""
        steps = len(state.history.steps)
        return steps >= FEW_STEPS and len(self._recovery.progress(state).text()) > share * MOST_CHARACTERS

    def _try(self, place: Place, owned: Owned) -> None:
        try:
            self._write(place, owned)
        except PersistenceError as error:
            owned.written, owned.failed = time.monotonic(), True
            self._seldom.say(str(place), f"no snapshot of {place}: {error}", logging.ERROR)
        else:
            owned.failed = False
            self._seldom.forget(str(place))

    def _write(self, place: Place, owned: Owned) -> None:
        """Write a partition as it was committed; boundaries before the snapshot before are not needed any more."""
        at = owned.state.history.last
        if at in owned.snapshots[-1:]:
            return
        begun = time.perf_counter()
        self._snapshots.write(place, owned.state)
        owned.snapshots.append(at)
        del owned.snapshots[:-2]
        history = owned.state.history
        owned.state = owned.state._replace(history=history.since(owned.snapshots[0]))
        if self._is_full(owned.state):
            owned.state = owned.state._replace(history=history.since(at))
        owned.written = time.monotonic()
        self._stats.observe("snapshot", time.perf_counter() - begun)
        if place in self._stats.partitions:
            self._stats.partitions[place].snapshot = owned.written
