"""A partition of this worker, as it goes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..wire.boundaries import Boundary
from ..wire.messages import Received
from .cutting import Cut, ready, replayed
from .partition import Partition


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

    def cut(self, size: int, longest: float | None, now: float, *, asked: bool, labels: int) -> Cut | None:
        """Cut the next micro-batch; None: it is not ready.

        Parameters
        ----------
        size
            Records of a full one.
        longest
            Seconds that a record may wait; None: until it is full.
        now
            The moment.
        asked
            Somebody has asked something of it.
        labels
            Where the topic of labels ends.
        """
        done = self.state.history.last
        if self.replay:
            return replayed(self.buffer, done, self.replay[0])
        due = longest is not None and bool(self.buffer) and now - self.since >= longest
        return ready(self.buffer, done, size=size, due=due, asked=asked, labels=labels)
