"""Interface of the work on records: the streams of the service, or the reconciliation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..client.interface import Committed, Offset, RefusedMessage
from ..places import Place
from ..wire.messages import Outgoing, Received
from .topic_monitor import Watch


class TransactionContent(NamedTuple):
    """Content of one transaction.

    Attributes
    ----------
    content
        Content in the form of the job.
    messages
        Messages in order.
    offsets
        Committed offset of each partition.
    """

    content: Any
    messages: Sequence[Outgoing]
    offsets: Mapping[Place, Offset]


class NotLoadable(NamedTuple):
    """The reason why a partition cannot be loaded now. The service retries.

    Attributes
    ----------
    why
        The reason.
    suspended
        Whether loading needs an external change.
    """

    why: str
    suspended: bool = False


class Loaded(NamedTuple):
    """A loaded partition.

    Attributes
    ----------
    begin
        Offset of the next record to read.
    commit
        Offset of a new start, which is committed at once. ``None`` if the partition resumes from the committed
        offset.
    """

    begin: int
    commit: Offset | None = None


class Job(Protocol):
    """Work on records."""

    @property
    def most_read(self) -> int:
        """Most records of one poll."""

    def check(self, watch: Watch) -> None:
        """Check all requirements at the start."""

    def expect(self, places: Sequence[Place]) -> None:
        """Read together what the next partitions need, or forget what was read. The default does nothing."""
        return

    def load(self, place: Place, where: Committed) -> Loaded | NotLoadable:
        """Restore a partition to its committed state."""

    def start_committed(self, place: Place) -> None:
        """Handle the commit of a partition's start. The default does nothing."""
        return

    def drop(self, place: Place) -> None:
        """Drop a partition that another worker has, or that must be loaded again."""

    def failed(self) -> Mapping[Place, str]:
        """Return failed partitions with reasons since the last call. The default is none."""
        return {}

    def finished(self, where: Callable[[Place], Committed]) -> bool:
        """Return whether the group has reached the end of a bounded run in all partitions."""
        return False

    @property
    def owned(self) -> Sequence[Place]:
        """Loaded partitions."""

    def accept(self, place: Place, records: list[Received]) -> None:
        """Accept new records of a partition."""

    def work(self) -> None:
        """Do the work of each iteration of the loop."""
        return

    def prepare(self) -> TransactionContent | None:
        """Prepare the content of the next transaction and advance the state, or return ``None`` if there is none."""

    def undo(self, group: TransactionContent) -> None:
        """Revert a transaction. The latest must be reverted first."""

    def replace_refused(self, group: TransactionContent, refused: Sequence[RefusedMessage]) -> TransactionContent:
        """Replace messages that a topic rejects."""

    def committed(self, group: TransactionContent, at: float) -> None:
        """Handle the commit of a transaction at a time in seconds since 1970."""

    def matches(self, place: Place, committed: Offset | None) -> bool:
        """Return whether a partition's state matches its committed offset."""

    def work_after_commit(self) -> None:
        """Do the work that needs committed state, such as snapshots."""
        return

    def measure(self, place: Place) -> int:
        """Update the statistics of a partition, and return the number of waiting records."""

    def obstacles(self) -> list[str]:
        """Return the reasons why the job is not ready. The default is none."""
        return []

    def input_recreated(self, topic: str, topic_id: str) -> None:
        """Continue with an input that was created again, or raise an error."""

    def finish(self) -> None:
        """Do the last work before the end, with all state committed."""
        return

    def close(self) -> None:
        """Release all resources."""
        return
