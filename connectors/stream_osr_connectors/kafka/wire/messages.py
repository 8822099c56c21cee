"""Types of messages: instances in; decisions, events and dead letters out. And what may pass through.

Nothing here depends on the clock or on which worker does it: the same records give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import orjson

from stream_osr import Decision, Event
from stream_osr.limits import MOST_KEY_BYTES
from stream_osr_connectors.base import Record
from stream_osr_connectors.values import DecodeError

from ..places import Place

Headers = Sequence[tuple[str, bytes | None]]
"""Names and bytes; a value may be null, which is not the same as empty."""

ENCODING = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
"""Of what is published, as JSON."""

_OURS = ("ce_", "content-type", "__connect.errors.")
"""Headers that are about the message itself: ours replace those of the input."""

MOST_HEADER_BYTES = 1 << 16
"""Of what is passed through: more is a dead letter, so that decisions and events always fit."""


class RawName(str):
    """Name of a header whose bytes are not UTF-8. Whoever encodes it gets these bytes again."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes as they were."""
        return super().encode(encoding, "surrogateescape")


class Received(NamedTuple):
    """A record as the consumer hands it over: the client's own has these fields, and others.

    Attributes
    ----------
    topic, partition, offset
        Where it lies.
    timestamp
        Milliseconds since 1970; -1: none.
    key, value
        Bytes; a value of None is a tombstone.
    headers
        Names and bytes, or null.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Message = Received
"""A record made by hand, for tests and decoders."""


class Outgoing(NamedTuple):
    """A message to be published.

    Attributes
    ----------
    topic
        Where it goes.
    partition
        Partition of the input that it comes from; it goes to the same one, or there are fewer (modulo).
    key, value, headers
        Bytes; of headers names and bytes, or null.
    timestamp
        Milliseconds since 1970; None: when it is sent.
    offset
        Of the record of the input that it is about; -1: of none.
    source
        Topic of the input that it comes from; empty: none.
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
        """Partition of the input that it comes from."""
        return Place(self.source, self.partition)


class RecordOrigin(NamedTuple):
    """Origin of a record, kept until its decision is published: its place, and the fields that pass through."""

    offset: int
    timestamp: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Refusal(NamedTuple):
    """Reason for which a record is a dead letter.

    Attributes
    ----------
    stage
        ``DECODE``: its bytes are no instance; ``VALIDATE``: the instance cannot be used; ``PROCESS``: its
        micro-batch failed; ``ENCODE``: the encoder of the settings failed for the decision; ``PUBLISH``: its topic
        does not take the decision.
    error
        What was raised.
    """

    stage: str
    error: Exception


@dataclass(slots=True)
class TakenRecords:
    """Records by their further course.

    Attributes
    ----------
    waiting
        Those that wait for the decision of the micro-batch.
    labelled
        Those that were evidence.
    refused
        Those that could not be used, and why.
    skipped
        How many ``on_missing="skip"`` left out.
    missing, values
        Feature values that were missing, and those that were expected, over the instances taken.
    """

    waiting: list[Received] = field(default_factory=list)
    labelled: list[Received] = field(default_factory=list)
    refused: list[tuple[Received, Refusal]] = field(default_factory=list)
    skipped: int = 0
    missing: int = 0
    values: int = 0


class PartitionOutput(NamedTuple):
    """Output of a micro-batch.

    Attributes
    ----------
    decisions
        Final ones, each with the record that it is about.
    events
        What is to be told.
    taken
        What became of its records.
    place
        Names the micro-batch in ids of events: the offset of its last record (and the place in the labels).
    timestamp
        Of its last record, milliseconds since 1970; -1: none.
    left
        What was asked of it and could not be done.
    """

    decisions: list[tuple[RecordOrigin, Decision]]
    events: list[Event]
    taken: TakenRecords
    place: str
    timestamp: int
    left: int = 0


class Decoder(Protocol):
    """Turns the value of a record into an instance; another one is a module:function in the settings."""

    def __call__(self, received: Received) -> Record:
        """Decode one record.

        Raises
        ------
        DecodeError
            With the reason. Any other exception makes the record a dead letter, too.
        """


EncodedKind = Literal["decision", "event"]
"""What an encoder encodes."""


class Encoded(NamedTuple):
    """A decision or an event as an encoder has made it.

    Attributes
    ----------
    value
        Value of the message.
    content_type
        Its media type, for the header ``content-type``.
    dataschema
        Where its schema is, a URI, for the header ``ce_dataschema``; empty: there is no such header.
    """

    value: bytes
    content_type: str
    dataschema: str = ""


class Encoder(Protocol):
    """Turns a decision or an event into bytes; a module:function in the settings makes one.

    Its result has to follow from its arguments alone: a transaction that is tried again encodes its messages again.
    """

    def __call__(self, kind: EncodedKind, content: Mapping[str, Any]) -> Encoded:
        """Encode one decision or event.

        Parameters
        ----------
        kind
            What it is.
        content
            What the JSON object would hold, as ``json.loads`` gives it; a value of its own for each call.

        Raises
        ------
        Exception
            Whatever it raises makes a dead letter of the record of a decision, and leaves an event out.
        """


def check_envelope(received: Received) -> None:
    """Refuse keys and headers that nobody can mean: they are passed through, and keys are remembered.

    Raises
    ------
    DecodeError
        With what is too long, or no text.
    """
    for place, (name, _) in enumerate(received.headers, start=1):
        if isinstance(name, RawName):
            raise DecodeError(f"the name of header {place} of {len(received.headers)} is not UTF-8")
    if received.key is not None and len(received.key) > MOST_KEY_BYTES:
        raise DecodeError(f"the key has {len(received.key)} bytes; {MOST_KEY_BYTES} are allowed")
    if received.headers and (size := size_of(None, None, received.headers)) > MOST_HEADER_BYTES:
        raise DecodeError(f"the headers have {size} bytes; {MOST_HEADER_BYTES} are allowed")


def origin_of(received: Received) -> RecordOrigin:
    """Keep of a record what its decision is published with."""
    headers = received.headers
    passed = tuple((name, item) for name, item in headers if not name.startswith(_OURS)) if headers else ()
    return RecordOrigin(received.offset, received.timestamp, received.key, passed)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes that a record takes at most."""
    passed = sum(10 + len(name.encode()) + len(item or b"") for name, item in headers)
    return 128 + len(key or b"") + len(value or b"") + passed
