"""Types of messages: instances as input, and decisions, events and dead letters as output.

Nothing here depends on the clock or the worker. The same records give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import orjson

from stream_osr import Event
from stream_osr.support.limits import MOST_KEY_BYTES
from stream_osr_connectors.base import Record
from stream_osr_connectors.engine import DecidedRecord, Refusal
from stream_osr_connectors.values import DecodeError

from ..places import Place

Headers = Sequence[tuple[str, bytes | None]]
"""Names and values of headers. A null value differs from an empty one."""

ENCODING = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
"""Options of orjson for published messages."""

_OURS = ("ce_", "content-type", "__connect.errors.")
"""Prefixes of headers about the message itself, which replace those of the input."""

MOST_HEADER_BYTES = 1 << 16
"""Most bytes of headers that are passed through. A record with more is a dead letter."""


class RawName(str):
    """Name of a header that is not UTF-8. Encoding returns the original bytes."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the original bytes."""
        return super().encode(encoding, "surrogateescape")


class Received(NamedTuple):
    """A record of the input. The client's record type has these fields and others.

    Attributes
    ----------
    topic, partition, offset
        Place of the record.
    timestamp
        Milliseconds since 1970, -1 for none.
    key, value
        Bytes. A value of ``None`` is a tombstone.
    headers
        Names with bytes or null.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Message = Received
"""Type of records for tests and decoders."""


class Outgoing(NamedTuple):
    """A message to be published.

    Attributes
    ----------
    topic
        Topic of the message.
    partition
        Partition of the input. The message goes to the same partition, modulo the number of partitions.
    key, value, headers
        Bytes, and names with bytes or null for headers.
    timestamp
        Milliseconds since 1970, ``None`` for the time of sending.
    offset
        Offset of the input record, -1 for none.
    source
        Topic of the input record, empty for none.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None
    offset: int = -1
    source: str = ""

    @property
    def place(self) -> Place:
        """Partition of the input."""
        return Place(self.source, self.partition)


class RecordOrigin(NamedTuple):
    """Offset of a record and the fields that pass through to its decision.

    Attributes
    ----------
    offset, timestamp, key, headers
        As in :class:`Received`. Headers about the message itself do not pass through.
    by
        Key of the stream.
    record
        The record, if it is known.
    """

    offset: int
    timestamp: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    by: str | None = None
    record: Received | None = None


@dataclass(slots=True)
class TakenRecords:
    """Records of a step by their treatment.

    Attributes
    ----------
    refused
        Unusable records with reasons.
    labelled
        Number of labelled records, which the model has learnt.
    skipped
        Number of records that ``on_missing="skip"`` skipped.
    missing, values
        Number of missing and of expected feature values of the accepted instances.
    keys_refused
        Number of refused records of new keys, because the partition had `max_keys` keys.
    """

    refused: list[tuple[Received, Refusal]] = field(default_factory=list)
    labelled: int = 0
    skipped: int = 0
    missing: int = 0
    values: int = 0
    keys_refused: int = 0


class PartitionOutput(NamedTuple):
    """Output of a step.

    Attributes
    ----------
    decisions
        Final decisions with their records.
    events
        Events to publish.
    taken
        Records by treatment.
    place
        Name of the step in event ids: the offset of the last record (and the place in the labels).
    timestamp
        Timestamp of the last record in milliseconds since 1970, -1 for none.
    left
        Number of commands that failed.
    streams
        Key of the stream of each event, or nothing without the setting `by`.
    """

    decisions: list[DecidedRecord[RecordOrigin]]
    events: list[Event]
    taken: TakenRecords
    place: str
    timestamp: int
    left: int = 0
    streams: Sequence[str] = ()


class Decoder(Protocol):
    """Interface of decoders, which convert a record to an instance. Settings can name a custom decoder."""

    def __call__(self, received: Received) -> Record:
        """Decode one record.

        Raises
        ------
        DecodeError
            With the reason. Any other exception makes the record a dead letter, too.
        """


EncodedKind = Literal["decision", "event"]
"""Kinds of messages that an encoder encodes."""


class Encoded(NamedTuple):
    """An encoded decision or event.

    Attributes
    ----------
    value
        Value of the message.
    content_type
        Media type, for the header ``content-type``.
    dataschema
        URI of the schema, for the header ``ce_dataschema``. Empty for no header.
    """

    value: bytes
    content_type: str
    dataschema: str = ""


class Encoder(Protocol):
    """Interface of encoders, which convert a decision or an event to bytes. Settings can name a custom encoder.

    An encoder must be a pure function, because a retried transaction encodes its messages again.
    """

    def __call__(self, kind: EncodedKind, content: Mapping[str, Any]) -> Encoded:
        """Encode one decision or event.

        Parameters
        ----------
        kind
            Kind of the message.
        content
            Content of the JSON object, as from ``json.loads``. Each call gets a new copy.

        Raises
        ------
        Exception
            Any exception turns the record of a decision into a dead letter, or skips an event.
        """


def check_envelope(received: Received) -> None:
    """Reject invalid keys and headers, because they are passed through and keys are stored.

    Raises
    ------
    DecodeError
        With the part that is too long or not text.
    """
    for place, (name, _) in enumerate(received.headers, start=1):
        if isinstance(name, RawName):
            raise DecodeError(f"the name of header {place} of {len(received.headers)} is not UTF-8")
    if received.key is not None and len(received.key) > MOST_KEY_BYTES:
        raise DecodeError(f"the key has {len(received.key)} bytes, and {MOST_KEY_BYTES} are allowed")
    if received.headers and (size := size_of(None, None, received.headers)) > MOST_HEADER_BYTES:
        raise DecodeError(f"the headers have {size} bytes, and {MOST_HEADER_BYTES} are allowed")


def origin_of(received: Received, by: str | None = None) -> RecordOrigin:
    """Return the parts of a record that its decision is published with."""
    headers = received.headers
    passed = tuple((name, item) for name, item in headers if not name.startswith(_OURS)) if headers else ()
    return RecordOrigin(received.offset, received.timestamp, received.key, passed, by, received)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound on the size of a record in bytes."""
    passed = sum(10 + len(name.encode()) + len(item or b"") for name, item in headers)
    return 128 + len(key or b"") + len(value or b"") + passed
