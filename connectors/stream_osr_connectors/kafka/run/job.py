"""Interface of the work on records: the service's own streams or the reconciliation, fed by the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..client import Committed, Offset, Place, RefusedMessage
from ..wire.messages import Outgoing, Received
from .topic_monitor import Watch


class TransactionContent(NamedTuple):
    """Content of one transaction.

    Attributes
    ----------
    content
        What the job knows it by.
    messages
        In order.
    offsets
        By partition: how far it gets.
    """

    content: Any
    messages: Sequence[Outgoing]
    offsets: Mapping[Place, Offset]


class NotLoadable(NamedTuple):
    """The reason for which a partition cannot be loaded now; it is tried again.

    Attributes
    ----------
    why
        The reason.
    suspended
        Only a change from outside lets it be loaded.
    """

    why: str
    suspended: bool = False


class Loaded(NamedTuple):
    """A partition that has been loaded.

    Attributes
    ----------
    begin
        Offset to read on from.
    commit
        A new beginning, which is committed at once; None: it goes on from what is committed.
    """

    begin: int
    commit: Offset | None = None


class Job(Protocol):
    """Work on the records that are read."""

    @property
    def most_read(self) -> int:
        """Records that a poll may bring."""

    def check(self, watch: Watch) -> None:
        """Make sure, at the start, that everything is there."""

    def load(self, place: Place, where: Committed) -> Loaded | NotLoadable:
        """Bring a partition back to where the broker says that it is."""

    def begun(self, place: Place) -> None:
        """Note that the beginning of a partition is committed, and that it is read; by default nothing is done."""
        return

    def let_go(self, place: Place) -> None:
        """Drop a partition: it is another's, or is to be loaded again."""

    def broken(self) -> Mapping[Place, str]:
        """Partitions that cannot go on, and the reasons, since this was last called; by default none."""
        return {}

    def finished(self, where: Callable[[Place], Committed]) -> bool:
        """Tell whether the group has reached the end of a bounded run, in all partitions."""
        return False

    @property
    def owned(self) -> Sequence[Place]:
        """Partitions that are loaded."""

    def take(self, place: Place, records: list[Received]) -> None:
        """Take what was read of a partition."""

    def turn(self) -> None:
        """Do what comes with each turn."""
        return

    def prepare(self) -> TransactionContent | None:
        """Make the next transaction's content, and go on from it; None: there is nothing yet."""

    def undo(self, group: TransactionContent) -> None:
        """Go back to what was before; the latest first."""

    def instead(self, group: TransactionContent, refused: Sequence[RefusedMessage]) -> TransactionContent:
        """Replace what a topic does not take."""

    def done(self, group: TransactionContent, at: float) -> None:
        """Note that it was committed at a moment, in seconds since 1970."""

    def stands_at(self, place: Place, committed: Offset | None) -> bool:
        """Say whether a partition is where the broker says that it is."""

    def rest(self) -> None:
        """Do what is due when all is committed: snapshots."""
        return

    def look(self, place: Place) -> int:
        """Update the figures of a partition; return how many records wait."""

    def obstacles(self) -> list[str]:
        """Say why it is not ready, as far as the job is concerned; by default nothing is in the way."""
        return []

    def renewed(self, topic: str, topic_id: str) -> None:
        """Go on with an input that was deleted and made again, or end."""

    def leave(self) -> None:
        """Do what is left before the end, with all committed."""
        return

    def close(self) -> None:
        """Let go of everything."""
        return
