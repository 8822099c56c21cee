"""What goes over the wire: instances in; decisions, events and dead letters out.

Nothing here depends on the clock or on which worker does it: the same records give the same bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import orjson

from stream_osr import Decision, Event
from stream_osr.errors import ConnectorError
from stream_osr_connectors.base import Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.values import DecodeError, shown

from .settings import ServiceSettings
from .unpacking import RawName

Headers = Sequence[tuple[str, bytes]]

DECISION = "stream-osr.decision.v1"
EVENT = "stream-osr.event.v1"

_OURS = ("ce_", "content-type", "__connect.errors.")
"""Headers that are about the message itself: ours replace those of the input."""

MOST_KEY_BYTES = 4096
MOST_HEADER_BYTES = 1 << 16
"""Of what is passed through: longer ones are dead letters, so that decisions and events always fit."""

_ENCODING = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


class Received(Protocol):
    """A record as the consumer hands it over."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    @property
    def partition(self) -> int:
        """Number of the partition."""

    @property
    def offset(self) -> int:
        """Place in the partition."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; -1: none."""

    @property
    def key(self) -> bytes | None:
        """Bytes of the key."""

    @property
    def value(self) -> bytes | None:
        """Bytes of the value; None: a tombstone."""

    @property
    def headers(self) -> Headers:
        """Names and bytes."""


class Outgoing(NamedTuple):
    """A message to be published.

    Attributes
    ----------
    topic
        Where it goes.
    partition
        Partition of the input that it comes from; it goes to the same one, or there are fewer (modulo).
    key, value, headers
        Bytes.
    timestamp
        Milliseconds since 1970; None: when it is sent.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int | None


class Origin(NamedTuple):
    """What is kept of a record until its decision is published: where it lay, and what is passed through."""

    offset: int
    timestamp: int
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Refusal(NamedTuple):
    """Why a record is a dead letter.

    Attributes
    ----------
    stage
        ``DECODE``: its bytes are no instance; ``VALIDATE``: the instance cannot be used; ``PROCESS``: its
        micro-batch failed.
    error
        What was raised.
    """

    stage: str
    error: Exception


class Decoder(Protocol):
    """Turns the value of a record into an instance; another one is a module:function in the settings."""

    def __call__(self, received: Received) -> Record:
        """Decode one record.

        Raises
        ------
        DecodeError
            With the reason. Any other exception makes the record a dead letter, too.
        """


def json_decoder(fields: JsonFields, max_bytes: int) -> Decoder:
    """Make the decoder of UTF-8 JSON objects.

    Examples
    --------
    >>> decode = json_decoder(JsonFields(features=["a"]), max_bytes=100)
    >>> decode(Message("t", 0, 7, 1500, b"k1", b'{"a": 2.5, "b": 1}', []))
    Record(features={'a': 2.5}, key='k1', time=1.5, label=None, position=None)
    >>> decode(Message("t", 0, 8, 1500, b"k1", b'{"a": NaN}', []))
    Traceback (most recent call last):
        ...
    stream_osr_connectors.values.DecodeError: not JSON: unexpected character, expected a JSON value at character 7
    """

    def decode(received: Received) -> Record:
        value = received.value
        if value is None:
            raise DecodeError("the record has no value (a tombstone); an instance is a JSON object")
        if len(value) > max_bytes:
            raise DecodeError(f"the value has {len(value)} bytes; max_instance_bytes allows {max_bytes}")
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            reason = error.msg[:1].lower() + error.msg[1:].split(": line")[0]
            raise DecodeError(f"not JSON: {reason} at character {error.pos + 1}") from None
        if not isinstance(parsed, dict):
            raise DecodeError(f"the value is {shown(parsed)}, not a JSON object of named fields")
        record = fields.record(parsed)
        key, time = record.key, record.time
        if key is None:
            key = _key_text(received)
        if time is None and received.timestamp >= 0:
            time = received.timestamp / 1000
        return Record(record.features, key, time, record.label)

    return decode


def make_decoder(settings: ServiceSettings, features: Sequence[str] | None) -> Decoder:
    """Make the decoder that the settings ask for; ``features`` are those of the model.

    Raises
    ------
    ConnectorError
        If there is no such decoder.
    """
    if settings.decoder == "json":
        named = settings.features if settings.features is not None else features
        fields = JsonFields(settings.key, settings.time, settings.label, named, settings.label_type)
        return json_decoder(fields, settings.max_instance_bytes)
    module, _, name = settings.decoder.partition(":")
    try:
        make: Callable[[ServiceSettings], Decoder] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConnectorError(
            f"decoder {settings.decoder!r} cannot be loaded ({error}); give json, or module:function of a function "
            "that takes the settings and returns a decoder"
        ) from None
    return make(settings)


class Message(NamedTuple):
    """A record made by hand, for tests and decoders."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Publisher(NamedTuple):
    """Makes outgoing messages.

    Attributes
    ----------
    group, instance
        Of the worker.
    input, output, events, dead_letters
        Topics.
    model
        Fingerprint of the trained model.
    largest
        Bytes that a dead letter may have.
    """

    group: str
    instance: str
    input: str
    output: str
    events: str
    dead_letters: str
    model: str
    largest: int

    def decision(self, partition: int, origin: Origin, decision: Decision) -> Outgoing:
        """Publish a decision under the key, timestamp and headers of its instance."""
        value = {
            "schema": DECISION,
            "topic": self.input,
            "partition": partition,
            "offset": origin.offset,
            "model": self.model,
            **decision.as_dict(),
        }
        name = f"{self.input}-{partition}-{origin.offset}"
        headers = [*self._envelope(name, DECISION, partition, origin.timestamp), *origin.headers]
        return Outgoing(self.output, partition, origin.key, _encode(value), headers, _timestamp(origin.timestamp))

    def event(self, partition: int, place: str, timestamp: int, event: Event) -> Outgoing:
        """Publish an event under its subclass (``topic/partition:id``), so that those of one stay in order."""
        content = event.as_dict()
        subject = f"{self.input}/{partition}"
        if "subclass_id" in content:
            subject += f":{content['subclass_id']}"
        value = {"schema": EVENT, "topic": self.input, "partition": partition, "subject": subject, **content}
        headers = self._envelope(f"{self.input}-{partition}-{place}", EVENT, partition, timestamp)
        headers.append(("ce_subject", subject.encode()))
        return Outgoing(self.events, partition, subject.encode(), _encode(value), headers, _timestamp(timestamp))

    def dead_letter(self, received: Received, refusal: Refusal) -> Outgoing:
        """Publish what was read, byte for byte, with Kafka Connect's headers that say why.

        A record that is too large for the topic, or that has neither key nor value, cannot be sent as it is: what
        does not fit is left out, and the header ``stream-osr.value`` says why. The original lies where the headers
        tell.
        """
        error = refusal.error
        told = {
            "topic": self.input,
            "partition": str(received.partition),
            "offset": str(received.offset),
            "connector.name": self.group,
            "task.id": self.instance,
            "stage": refusal.stage,
            "class.name": "stream_osr_connectors.kafka",
            "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
            "exception.message": str(error)[:2000],
        }
        ours = [(f"__connect.errors.{name}", _utf8(text)) for name, text in told.items()]
        headers = [*((name, item or b"") for name, item in received.headers), *ours]
        key, value = received.key, received.value
        if key is None and value is None:
            value = b""
            headers.append(("stream-osr.value", b"null"))
        elif _size(key, value, headers) > self.largest:
            key, value = b"" if key is None or len(key) > MOST_KEY_BYTES else key, None
            headers.append(("stream-osr.value", b"too large"))
            if _size(key, value, headers) > self.largest:
                headers = [*ours, headers[-1]]
        return Outgoing(self.dead_letters, received.partition, key, value, headers, _timestamp(received.timestamp))

    def _envelope(self, name: str, kind: str, partition: int, timestamp: int) -> list[tuple[str, bytes]]:
        """Headers of CloudEvents' binary mode; the id makes outputs deduplicable."""
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", name.encode()),
            ("ce_source", f"/{self.group}/{self.input}/{partition}".encode()),
            ("ce_type", kind.encode()),
            ("content-type", b"application/json"),
        ]
        if timestamp >= 0:
            headers.append(("ce_time", f"{_second(timestamp // 1000)}.{timestamp % 1000:03d}Z".encode()))
        return headers


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
    if received.headers and (size := _size(None, None, received.headers)) > MOST_HEADER_BYTES:
        raise DecodeError(f"the headers have {size} bytes; {MOST_HEADER_BYTES} are allowed")


def origin_of(received: Received) -> Origin:
    """Keep of a record what its decision is published with."""
    passed = tuple((name, value or b"") for name, value in received.headers if not name.startswith(_OURS))
    return Origin(received.offset, received.timestamp, received.key, passed)


def _key_text(received: Received) -> str:
    """Name an instance: by the record's key if it is text, else by where it lies."""
    if received.key is not None:
        try:
            return received.key.decode()
        except UnicodeDecodeError:
            pass
    return f"{received.topic}-{received.partition}-{received.offset}"


def _encode(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=_ENCODING)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


@lru_cache(maxsize=64)  # records of one second come together
def _second(seconds: int) -> str:
    """Write a moment, in seconds since 1970, as ISO 8601 has it, without the zone."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def _timestamp(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes that a record takes at most."""
    return (
        128 + len(key or b"") + len(value or b"") + sum(10 + len(name.encode()) + len(item) for name, item in headers)
    )
