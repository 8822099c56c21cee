"""What the service needs of a Kafka client: the one place that another client would have to fill.

Nothing outside this folder knows which client it is. Whatever a client raises comes out as a :class:`ClientError`
with its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from stream_osr_kafka.wire.messages import Outgoing, Received


class Kind(Enum):
    """What an error asks for."""

    AGAIN = "again"
    """Nothing but patience: the brokers are away, busy or changing places. Also what nobody has thought of."""

    RIGHT = "right"
    """A right, or a topic: patience while the service runs, because it may come back; at the start a person."""

    RECORD = "record"
    """One message cannot be published as it is; all others can."""

    TAKEN = "taken"
    """Another process has our name."""

    FATAL = "fatal"
    """A person: no patience will help."""


class ClientError(Exception):
    """Whatever the client has raised.

    Parameters
    ----------
    kind
        What it asks for.
    said
        Its name and message.
    """

    def __init__(self, kind: Kind, said: str) -> None:
        super().__init__(said)
        self.kind = kind


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Committed(NamedTuple):
    """What the broker says about a partition: the committed offset with its metadata, and what it still holds.

    Attributes
    ----------
    offset, metadata
        As committed; None: nothing yet.
    first, end
        Offset of the first record, and the one after the last.
    """

    offset: int | None
    metadata: str
    first: int
    end: int


class Topic(NamedTuple):
    """A topic as the brokers describe it.

    Attributes
    ----------
    id
        Another one after it was deleted and made again; empty: not known.
    partitions, replicas
        How many.
    missing
        There is no such topic.
    refused
        We may not even look at it.
    rights
        Operations that we are allowed (``READ``, ``WRITE``); None: the brokers do not say.
    """

    id: str = ""
    partitions: int = 0
    replicas: int = 0
    missing: bool = False
    refused: bool = False
    rights: frozenset[str] | None = None

    def allows(self, operation: str) -> bool:
        """Say whether we have a right, as far as is known."""
        return not self.refused and (self.rights is None or operation in self.rights)


class Offset(NamedTuple):
    """An offset that is committed, with its metadata."""

    offset: int
    metadata: str


Unreadable = Callable[[int, int, Exception, str], None]
"""Told of a partition that cannot be read on from an offset, why, and the remedy."""


class Consumer(Protocol):
    """A member of the group that reads one topic; partitions come and go inside `poll` only.

    Attributes
    ----------
    assigned
        Partitions that the group has given and nobody has begun.
    lost
        Partitions that have gone; whoever takes notice empties it.
    """

    assigned: set[int]
    lost: set[int]

    def poll(self, seconds: float) -> dict[int, list[Received]]:
        """Read what is there, by partition."""

    def begin(self, number: int, offset: int) -> None:
        """Read a partition from an offset on."""

    def hold(self, *numbers: int) -> None:
        """Read no more of some partitions, which stay ours."""

    def let_go_on(self, *numbers: int) -> None:
        """Read them again."""

    def has(self, number: int) -> bool:
        """Say whether a partition is ours."""

    def position(self, number: int) -> int | None:
        """Say which offset is read next; None: not known."""

    def where(self, number: int) -> Committed:
        """Ask where a partition stands."""

    def committed(self, number: int) -> Offset | None:
        """Ask what is committed of a partition, whosever it is; None: nothing."""

    @property
    def joined(self) -> bool:
        """It is a member of the group, as far as it knows."""

    @property
    def membership(self) -> Any:
        """What a producer needs so that offsets of a stale member are refused."""

    @property
    def topic_id(self) -> str:
        """Id of the topic, as far as this client knows it."""

    def close(self) -> None:
        """Leave, without waiting for long."""


class Refused(NamedTuple):
    """A message that was not acknowledged: its place among those sent, and why."""

    place: int
    error: ClientError


class Sent(NamedTuple):
    """What became of messages.

    Attributes
    ----------
    acknowledged
        How many each topic has acknowledged.
    offsets
        Where these lie, in order.
    refused
        Those that were not.
    """

    acknowledged: Counter[str]
    offsets: list[int]
    refused: list[Refused]


class Sender(Protocol):
    """Whatever sends messages."""

    def send(self, messages: Sequence[Outgoing]) -> Sent:
        """Send messages and wait until the broker has answered for each."""

    def close(self, seconds: float) -> None:
        """Let go of it, whatever state it is in."""


class Producer(Sender, Protocol):
    """A producer with a transactional id: it ends what its predecessor had begun.

    Its calls may wait without a limit: they belong into a thread that can be given up.
    """

    def open(self) -> None:
        """End what the producer before has begun."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send_offsets(self, offsets: Mapping[Place, Offset], membership: Any) -> None:
        """Make offsets part of the transaction."""

    def commit(self) -> None:
        """End the transaction: all of it counts."""


class Follower(Protocol):
    """A reader of a whole topic that belongs to no group."""

    places: Sequence[Place]

    def poll(self, seconds: float, most: int | None = None) -> Sequence[Received]:
        """Read what is there."""

    def position(self, place: Place) -> int:
        """Say which offset is read next."""

    def seek(self, offsets: Mapping[Place, int]) -> None:
        """Go somewhere in some partitions."""

    def bounds(self) -> tuple[dict[Place, int], dict[Place, int]]:
        """Ask for the first offset of each partition, and the one after the last."""

    def close(self) -> None:
        """Let go of the topic."""


class Admin(Protocol):
    """Who asks the brokers about topics."""

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe topics; those that are not there are missing."""

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Ask for the settings of topics; of a topic that we may not ask about there are none."""

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Ask for the offset after the last committed record of partitions."""

    def committed(self, group: str, topic: str) -> dict[int, Offset]:
        """Ask for all that a group has committed in a topic."""

    def create(self, topics: Mapping[str, Mapping[str, Any]]) -> None:
        """Make topics, and wait until they are there."""

    def close(self) -> None:
        """Let go of the brokers."""
