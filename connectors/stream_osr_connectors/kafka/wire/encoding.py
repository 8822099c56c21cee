"""Encoding of decisions, events and dead letters of a micro-batch, as JSON or in a custom format.

Parts that all messages of a micro-batch share are created once. A custom encoder of the settings converts JSON to
another format. This module also handles its failures.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple, get_args

import orjson

from stream_osr import Decision
from stream_osr.support.limits import MOST_KEY_BYTES

from ...engine import DecidedRecord, Refusal
from ..log import Seldom
from ..places import Place
from ..settings import ServiceSettings, function_of
from .messages import (
    ENCODING,
    Encoded,
    EncodedKind,
    Encoder,
    Outgoing,
    PartitionOutput,
    Received,
    RecordOrigin,
    size_of,
)

DECISION = "stream-osr.decision.v1"
EVENT = "stream-osr.event.v1"

PACKAGE = __name__.rsplit(".", 2)[0]
"""Class name in dead letters."""

_SPECVERSION = ("ce_specversion", b"1.0")
_CONTENT = ("content-type", b"application/json")
_FIELDS = Decision._fields[:-1]
"""Fields of every decision."""

_LATEST = 253_402_300_799_999
"""Last millisecond of the year 9999, the end of the supported dates."""


class Publisher(NamedTuple):
    """Creates outgoing messages.

    Attributes
    ----------
    settings
        Settings with worker, group and topics.
    model
        Fingerprint of the trained model.
    largest
        Most bytes of a dead letter.
    names
        Names of input topics in ids, if they differ from the topic because it was created again.
    """

    settings: ServiceSettings
    model: str
    largest: int
    names: Mapping[str, str] = {}

    def decisions(self, source: Place, decided: Sequence[DecidedRecord[RecordOrigin]]) -> list[Outgoing]:
        """Return the messages of decisions, with key, timestamp and headers of their instances."""
        id, origin, kind = self._constant(source, DECISION)
        topic, number = source
        place = {"schema": DECISION, "topic": topic, "partition": number, "offset": 0}
        begin = orjson.dumps(place)[: -len(b"0}")]
        model = b"," + orjson.dumps({"model": self.model})[1:-1] + b","
        encode, output = _with_text_labels, self.settings.output
        out = []
        for (offset, timestamp, key, passed, by, _), decision, contributions in decided:
            at = b"%d" % offset
            try:
                content = encode(decision)
            except TypeError:
                encode = _with_any_labels
                content = encode(decision)
            stream = b"" if by is None else b'"by":%b,' % orjson.dumps(by)
            if contributions is not None:
                its = orjson.dumps({"contributions": contributions.as_dict()}, option=ENCODING)
                content = b"%b,%b" % (content[:-1], its[1:])
            value = b"".join((begin, at, model, stream, content[1:]))
            headers = [_SPECVERSION, ("ce_id", id + at), origin, kind, _CONTENT, *_time(timestamp), *passed]
            out.append(Outgoing(output, number, key, value, headers, _timestamp(timestamp), offset, topic))
        return out

    def events(self, source: Place, outcome: PartitionOutput) -> list[Outgoing]:
        """Return the messages of the events of a micro-batch.

        The key is the subclass (``topic/partition:id``, or ``topic/partition:KEY/id`` with the setting `by`), so that
        the events of a subclass stay in order.
        """
        begin, origin, kind = self._constant(source, EVENT)
        topic, number = source
        place, timestamp = str(source), outcome.timestamp
        where = {"schema": EVENT, "topic": topic, "partition": number}
        out = []
        for n, (event, by) in enumerate(zip_longest(outcome.events, outcome.streams)):
            content = event.as_dict()
            subject = _subject(place, by, content.get("subclass_id"))
            stream = {} if by is None else {"by": by}
            key = subject.encode()
            id = ("ce_id", b"%b%b-%d" % (begin, outcome.place.encode(), n))
            headers = [_SPECVERSION, id, origin, kind, _CONTENT, *_time(timestamp), ("ce_subject", key)]
            encoded = orjson.dumps({**where, "subject": subject, **stream, **content}, option=ENCODING)
            message = Outgoing(self.settings.events, number, key, encoded, headers, _timestamp(timestamp))
            out.append(message._replace(source=topic))
        return out

    def dead_letters(self, refused: Sequence[tuple[Received, Refusal]]) -> list[Outgoing]:
        """Return the messages of dead letters, with unchanged bytes and the error headers of Kafka Connect.

        A record that is too large for the topic, or has neither key nor value, cannot be sent unchanged. Then parts
        are omitted, and the header ``stream-osr.value`` has the reason. The headers contain the place of the
        original.
        """
        return [self._dead_letter(received, refusal) for received, refusal in refused]

    def _dead_letter(self, received: Received, refusal: Refusal) -> Outgoing:
        error, kind = refusal.error, type(refusal.error)
        common_fields = {
            "topic": received.topic,
            "partition": str(received.partition),
            "offset": str(received.offset),
            "connector.name": self.settings.group,
            "task.id": self.settings.instance,
            "stage": refusal.stage,
            "class.name": PACKAGE,
            "exception.class.name": f"{kind.__module__}.{kind.__qualname__}",
            "exception.message": _said(error)[:2000],
        }
        ours = [
            (f"__connect.errors.{name}", text.encode("utf-8", "backslashreplace"))
            for name, text in common_fields.items()
        ]
        headers: list[tuple[str, bytes | None]] = [*received.headers, *ours]
        key, value = received.key, received.value
        if key is None and value is None:
            value = b""
            headers.append(("stream-osr.value", b"null"))
        elif size_of(key, value, headers) > self.largest:
            key, value = b"" if key is None or len(key) > MOST_KEY_BYTES else key, None
            headers.append(("stream-osr.value", b"too large"))
            if size_of(key, value, headers) > self.largest:
                headers = [*ours, headers[-1]]
        timestamp = _timestamp(received.timestamp)
        topic, number = self.settings.dead_letters, received.partition
        return Outgoing(topic, number, key, value, headers, timestamp, received.offset, received.topic)

    def _constant(self, place: Place, kind: str) -> tuple[bytes, tuple[str, bytes], tuple[str, bytes]]:
        """Return the common CloudEvents headers of a kind of messages: prefix of ids, source and type."""
        source = f"/{self.settings.group}/{place}"
        id = f"{self.names.get(place.topic, place.topic)}-{place.partition}-"
        return id.encode(), ("ce_source", source.encode()), ("ce_type", kind.encode())


def _subject(place: str, by: str | None, subclass_id: int | None) -> str:
    """Return the name of a subclass, or of the stream."""
    parts = [*([] if by is None else [by]), *([] if subclass_id is None else [str(subclass_id)])]
    return f"{place}:{'/'.join(parts)}" if parts else place


def _said(error: Exception) -> str:
    """Return the text of an error. The exception of a custom decoder may fail to return a text."""
    try:
        return str(error)
    except MemoryError:
        raise
    except Exception as failure:
        return f"no text: {type(failure).__name__}"


def _with_text_labels(decision: Decision) -> bytes:
    """Encode a decision with text labels. Other labels raise a TypeError."""
    if decision.odd_columns:
        return _with_any_labels(decision)
    return orjson.dumps(dict(zip(_FIELDS, decision[:-1], strict=True)), option=orjson.OPT_SERIALIZE_NUMPY)


def _with_any_labels(decision: Decision) -> bytes:
    return orjson.dumps(decision.as_dict(), option=ENCODING)


def _time(timestamp: int) -> tuple[tuple[str, bytes], ...]:
    """Return the header of a time in milliseconds since 1970, or nothing for a time outside the supported dates."""
    if not 0 <= timestamp <= _LATEST:
        return ()
    return (("ce_time", b"%b.%03dZ" % (_second(timestamp // 1000), timestamp % 1000)),)


@lru_cache(maxsize=64)  # records of one second come together
def _second(seconds: int) -> bytes:
    """Format a time in seconds since 1970 in ISO 8601 without a zone."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat().encode()


def _timestamp(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None


IN_A_ROW = 10
"""Number of consecutive failures after which the encoder is reported as failing for all messages."""


class EncodeError(ValueError):
    """The result of an encoder is not a :class:`.messages.Encoded`."""


class Encoding:
    """Application of the custom encoder to JSON messages.

    Parameters
    ----------
    name
        Value of the setting, for messages.
    encoder
        Custom encoder, or ``None`` for JSON, which leaves messages unchanged.

    Examples
    --------
    >>> shout = Encoding("mine:make", lambda kind, content: Encoded(repr(content).upper().encode(), "text/plain"))
    >>> made = Outgoing("out", 0, b"k", b'{"label":"left"}', [("content-type", b"application/json")], None)
    >>> shout.encoded("decision", made).value, shout.encoded("decision", made).headers
    (b"{'LABEL': 'LEFT'}", [('content-type', b'text/plain')])
    """

    def __init__(self, name: str, encoder: Encoder | None) -> None:
        self._name, self._encoder = name, encoder
        self._seldom = Seldom()
        self._failures: Counter[str] = Counter()
        self._latest: dict[str, str] = {}

    @classmethod
    def of(cls, settings: ServiceSettings) -> Encoding:
        """Create the encoder of the settings.

        Raises
        ------
        ConnectorError
            If there is no such encoder.
        """
        encoder = None if settings.encoder == "json" else function_of(settings, "encoder")(settings)
        return cls(settings.encoder, encoder)

    @property
    def is_json(self) -> bool:
        """Whether messages stay JSON."""
        return self._encoder is None

    def encoded(self, kind: EncodedKind, message: Outgoing) -> Outgoing:
        """Encode a JSON message. Key, timestamp and other headers do not change.

        Raises
        ------
        Exception
            The error of the encoder, or :class:`EncodeError` for an invalid result.
        """
        assert self._encoder is not None, "JSON is not encoded again"
        try:
            found = _checked(self._encoder(kind, orjson.loads(message.value or b"")))
            own = [("content-type", found.content_type.encode())]
            own += [("ce_dataschema", found.dataschema.encode())] if found.dataschema else []
            headers = [
                each for header in message.headers for each in (own if header[0] == "content-type" else [header])
            ]
            out = message._replace(value=found.value, headers=headers)
        except Exception as error:
            self._failures[kind] += 1
            self._latest[kind] = raised_at(error)
            raise
        self._failures[kind] = 0
        return out

    def tell(self, kind: EncodedKind, message: Outgoing, error: Exception) -> None:
        """Log a failure at a limited rate."""
        which, outcome = f"of {message.offset}", "is a dead letter (stage ENCODE)"
        if kind == "event":
            which, outcome = f"{dict(message.headers)['ce_id']!r}", "is left out"
        about = f"{message.place}: the encoder {self._name} cannot encode the {kind} {which}, which {outcome}"
        self._seldom.say(kind, f"{about}: {raised_at(error)}", logging.ERROR)

    def obstacles(self) -> list[str]:
        """Return the kinds of messages for which the encoder fails repeatedly."""
        return [
            f"the encoder {self._name} fails for every {kind} (the latest: {self._latest[kind]})"
            for kind in get_args(EncodedKind)
            if self._failures[kind] >= IN_A_ROW
        ]


def raised_at(error: Exception) -> str:
    """Return the type of an error and its line, without its text, which may contain data of a record."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = frames[-1]
    return f"{type(error).__name__} in {last.name}, {last.filename.rpartition('/')[2]}:{last.lineno}"


def _checked(found: object) -> Encoded:
    """Reject an invalid result of an encoder."""
    parts = found if isinstance(found, tuple) else (found,)
    wanted = (bytes, str, str)[: max(2, len(parts))]
    if len(parts) != len(wanted) or not all(map(isinstance, parts, wanted)):
        text = ", ".join(type(part).__name__ for part in parts)
        raise EncodeError(f"the encoder returned ({text}), expected Encoded(value: bytes, content_type: str)")
    return Encoded(*parts)
