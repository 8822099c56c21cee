"""A partition of this worker, as it goes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..wire.boundaries import Boundary
from ..wire.messages import Received
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
