"""Interface between the service and its Kafka client: places, offsets, topics, refused messages and errors.

Nothing outside this folder knows which client it is; another one would have to bring what `group`, `producer`,
`plain` and `admin` do. Whatever a client raises comes out as a :class:`ClientError` with its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from stream_osr_connectors.kafka.places import Place


class ErrorKind(Enum):
    """Kind of an error, by the reaction that it needs."""

    AGAIN = "again"
    """Nothing but patience: the brokers are away, busy or changing places. Also what nobody has thought of."""

    RIGHT = "right"
    """A right, or a topic: patience while the service runs, because it may come back; at the start a person."""

    RECORD = "record"
    """One message cannot be published as it is; all others can."""

    TAKEN = "taken"
    """Another process has our name in the group."""

    FENCED = "fenced"
    """Another producer has used our transactional id since."""

    FATAL = "fatal"
    """A person: no patience will help."""


class ClientError(Exception):
    """Error raised by the client.

    Parameters
    ----------
    kind
        What it asks for.
    said
        Its name and message.
    too_large
        A message, or a batch of messages, is larger than the brokers take.
    """

    def __init__(self, kind: ErrorKind, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.too_large = too_large


class OpenTransaction(NamedTuple):
    """Producer whose transaction is open in a partition.

    Attributes
    ----------
    producer
        Id that the brokers gave to the producer.
    transactional_id
        Its own name; None: the brokers do not say.
    """

    producer: int
    transactional_id: str | None


class Committed(NamedTuple):
    """State of a partition at the broker: the committed offset with its metadata, and the range of its records.

    Attributes
    ----------
    offset, metadata
        As committed; None: nothing yet.
    first, end
        Offset of the first record, and the one after the last.
    begin
        Offset of the first record at or after the time at which the stream begins; None: no such time was given.
    """

    offset: int | None
    metadata: str
    first: int
    end: int
    begin: int | None = None


class Topic(NamedTuple):
    """A topic as the brokers describe it.

    Attributes
    ----------
    id
        Another one after it was deleted and made again; empty: not known.
    partitions, replicas, in_sync
        How many there are; replicas of the partition that has fewest, and those in sync likewise.
    missing
        There is no such topic.
    refused
        We may not even look at it.
    rights
        Operations that we are allowed (``READ``, ``WRITE``); None: the brokers do not say.
    configs
        Its settings, as text, where they were asked for.
    offline
        Partitions that no broker leads now.
    """

    id: str = ""
    partitions: int = 0
    replicas: int = 0
    in_sync: int = 0
    missing: bool = False
    refused: bool = False
    rights: frozenset[str] | None = None
    configs: Mapping[str, str] = {}
    offline: frozenset[int] = frozenset()

    def allows(self, operation: str) -> bool:
        """Say whether we have a right, as far as is known."""
        return not self.refused and (self.rights is None or operation in self.rights)

    def number(self, name: str) -> int:
        """Read a setting that is a number."""
        return int(self.configs[name])


class Offset(NamedTuple):
    """An offset that is committed, with its metadata."""

    offset: int
    metadata: str


Unreadable = Callable[[Place, int, Exception, str], None]
"""Told of a partition that cannot be read on from an offset, why, and the remedy."""


class RefusedMessage(NamedTuple):
    """A message that was not acknowledged: its place among those sent, and why."""

    place: int
    error: ClientError


class SendResult(NamedTuple):
    """Result of sending messages.

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
    refused: list[RefusedMessage]
