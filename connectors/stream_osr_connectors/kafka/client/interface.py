"""Types of the interface between the service and its Kafka client.

Code outside this package does not depend on kafka-python. Every exception of the client becomes a
:class:`ClientError` with a kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from stream_osr_connectors.kafka.places import Place


class ErrorKind(Enum):
    """Kind of an error, by the required reaction."""

    AGAIN = "again"
    """Retry: the brokers are unavailable, busy or moving partitions. Also the kind of unexpected errors."""

    RIGHT = "right"
    """A missing right or topic. A running service retries, and at the start a person must act."""

    RECORD = "record"
    """One message cannot be published. All others can."""

    TAKEN = "taken"
    """Another process has the same name in the group."""

    FENCED = "fenced"
    """Another producer has taken over the transactional id."""

    FATAL = "fatal"
    """A person must act, because a retry cannot help."""


class ClientError(Exception):
    """Error of the client.

    Parameters
    ----------
    kind
        Kind of the error.
    message
        Name and message of the exception.
    too_large
        Whether a message, or a batch of messages, exceeds the size limit of the brokers.
    """

    def __init__(self, kind: ErrorKind, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.too_large = too_large


class OpenTransaction(NamedTuple):
    """Producer with an open transaction in a partition.

    Attributes
    ----------
    producer
        Producer id that the brokers assigned.
    transactional_id
        Transactional id, ``None`` if the brokers do not return it.
    """

    producer: int
    transactional_id: str | None


class Committed(NamedTuple):
    """State of a partition at the broker: the committed offset with its metadata, and the range of records.

    Attributes
    ----------
    offset, metadata
        Committed offset with its metadata, ``None`` for no commit.
    first, end
        Offset of the first record, and offset after the last record.
    begin
        Offset of the first record at or after the start time of the stream, ``None`` without a start time.
    """

    offset: int | None
    metadata: str
    first: int
    end: int
    begin: int | None = None


class Topic(NamedTuple):
    """Description of a topic from the brokers.

    Attributes
    ----------
    id
        Topic id, which changes when a topic is created again. Empty if unknown.
    partitions, replicas, in_sync
        Number of partitions, and least number of replicas and of in-sync replicas of a partition.
    missing
        Whether the topic does not exist.
    refused
        Whether the user has no right to describe it.
    rights
        Allowed operations (``READ``, ``WRITE``), ``None`` if the brokers do not return them.
    configs
        Settings as text, if requested.
    offline
        Partitions without a leader.
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
        """Return whether the user has a right, as far as is known."""
        return not self.refused and (self.rights is None or operation in self.rights)

    def number(self, name: str) -> int:
        """Return a setting as a number."""
        return int(self.configs[name])


class Offset(NamedTuple):
    """A committed offset with its metadata."""

    offset: int
    metadata: str


Unreadable = Callable[[Place, int, Exception, str], None]
"""Callback for a partition that cannot be read from an offset on, with the error and the remedy."""


class RefusedMessage(NamedTuple):
    """A message that was not acknowledged: its place in the batch, and the error."""

    place: int
    error: ClientError


class SendResult(NamedTuple):
    """Result of sending messages.

    Attributes
    ----------
    acknowledged
        Number of acknowledged messages of each topic.
    offsets
        Offsets of acknowledged messages, in order.
    refused
        Messages that were not acknowledged.
    """

    acknowledged: Counter[str]
    offsets: list[int]
    refused: list[RefusedMessage]
