"""Decisions, events and dead letters as bytes, a micro-batch at a time, and in another format than JSON.

What is the same in all messages of a micro-batch is made once. The encoder of the settings makes another format of
JSON; what happens when it fails stands here, too.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, get_args

import orjson

from stream_osr import Decision
from stream_osr.limits import MOST_KEY_BYTES

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
    Refusal,
    size_of,
)

DECISION = "stream-osr.decision.v1"
EVENT = "stream-osr.event.v1"

PACKAGE = __name__.rsplit(".", 2)[0]
"""The class that dead letters name."""

_SPECVERSION = ("ce_specversion", b"1.0")
_CONTENT = ("content-type", b"application/json")
_FIELDS = Decision._fields

_LATEST = 253_402_300_799_999
"""Millisecond of the year 9999: dates end there."""


class Publisher(NamedTuple):
    """Makes outgoing messages.

    Attributes
    ----------
    settings
        Name the worker, its group and the topics.
    model
        Fingerprint of the trained model.
    largest
        Bytes that a dead letter may have.
    names
        Names of the inputs in ids, by topic, where they differ from the topic: it was deleted and made again.
    """

    settings: ServiceSettings
    model: str
    largest: int
    names: Mapping[str, str] = {}

    def decisions(self, source: Place, decided: Sequence[tuple[RecordOrigin, Decision]]) -> list[Outgoing]:
        """Publish decisions of a partition, each under the key, timestamp and headers of its instance."""
        id, origin, kind = self._constant(source, DECISION)
        topic, number = source
        place = {"schema": DECISION, "topic": topic, "partition": number, "offset": 0}
        begin = orjson.dumps(place)[: -len(b"0}")]
        model = b"," + orjson.dumps({"model": self.model})[1:-1] + b","
        encode, output = _with_text_labels, self.settings.output
        out = []
        for (offset, timestamp, key, passed), decision in decided:
            at = b"%d" % offset
            try:
                content = encode(decision)
            except TypeError:
                encode = _with_any_labels
                content = encode(decision)
            value = b"".join((begin, at, model, content[1:]))
            headers = [_SPECVERSION, ("ce_id", id + at), origin, kind, _CONTENT, *_time(timestamp), *passed]
            out.append(Outgoing(output, number, key, value, headers, _timestamp(timestamp), offset, topic))
        return out

    def events(self, source: Place, outcome: PartitionOutput) -> list[Outgoing]:
        """Publish the events of a micro-batch.

        Each under its subclass (``topic/partition:id``), so that those of one stay in order.
        """
        begin, origin, kind = self._constant(source, EVENT)
        topic, number = source
        place, timestamp = str(source), outcome.timestamp
        where = {"schema": EVENT, "topic": topic, "partition": number}
        out = []
        for n, event in enumerate(outcome.events):
            content = event.as_dict()
            subject = f"{place}:{content['subclass_id']}" if "subclass_id" in content else place
            key = subject.encode()
            id = ("ce_id", b"%b%b-%d" % (begin, outcome.place.encode(), n))
            headers = [_SPECVERSION, id, origin, kind, _CONTENT, *_time(timestamp), ("ce_subject", key)]
            encoded = orjson.dumps({**where, "subject": subject, **content}, option=ENCODING)
            message = Outgoing(self.settings.events, number, key, encoded, headers, _timestamp(timestamp))
            out.append(message._replace(source=topic))
        return out

    def dead_letters(self, refused: Sequence[tuple[Received, Refusal]]) -> list[Outgoing]:
        """Publish what was read and refused, byte for byte, with Kafka Connect's headers that say why.

        A record that is too large for the topic, or that has neither key nor value, cannot be sent as it is: what
        does not fit is left out, and the header ``stream-osr.value`` says why. The original lies where the headers
        tell.
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
        """Make what all messages of a kind have of CloudEvents' binary mode: how ids begin, source, type."""
        source = f"/{self.settings.group}/{place}"
        id = f"{self.names.get(place.topic, place.topic)}-{place.partition}-"
        return id.encode(), ("ce_source", source.encode()), ("ce_type", kind.encode())


def _said(error: Exception) -> str:
    """Return what an error says; one of a decoder of the user's own may fail at that, too."""
    try:
        return str(error)
    except MemoryError:
        raise
    except Exception as failure:
        return f"it cannot be told: {type(failure).__name__}"


def _with_text_labels(decision: Decision) -> bytes:
    """Encode a decision; a TypeError if its labels are something else than text."""
    return orjson.dumps(dict(zip(_FIELDS, decision, strict=True)), option=orjson.OPT_SERIALIZE_NUMPY)


def _with_any_labels(decision: Decision) -> bytes:
    return orjson.dumps(decision.as_dict(), option=ENCODING)


def _time(timestamp: int) -> tuple[tuple[str, bytes], ...]:
    """Make the header of a time, in milliseconds since 1970; none where there is none, or none that has a date."""
    if not 0 <= timestamp <= _LATEST:
        return ()
    return (("ce_time", b"%b.%03dZ" % (_second(timestamp // 1000), timestamp % 1000)),)


@lru_cache(maxsize=64)  # records of one second come together
def _second(seconds: int) -> bytes:
    """Write a moment, in seconds since 1970, as ISO 8601 has it, without the zone."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat().encode()


def _timestamp(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None


IN_A_ROW = 10
"""So many failures of an encoder, without a success between them, count as a failure for everything."""


class EncodeError(ValueError):
    """An encoder has returned something else than :class:`.messages.Encoded`."""


class Encoding:
    """The encoder of the settings, applied to messages that were made as JSON.

    Parameters
    ----------
    name
        The setting, for what is said of it.
    encoder
        What it names; None: JSON, and every message stays as it is.

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
        """Make the encoder that the settings name.

        Raises
        ------
        ConnectorError
            If there is no such encoder.
        """
        encoder = None if settings.encoder == "json" else function_of(settings, "encoder")(settings)
        return cls(settings.encoder, encoder)

    @property
    def is_json(self) -> bool:
        """Messages stay as they are."""
        return self._encoder is None

    def encoded(self, kind: EncodedKind, message: Outgoing) -> Outgoing:
        """Encode a message that holds JSON; the key, the timestamp and all other headers stay.

        Raises
        ------
        Exception
            Whatever the encoder raises, and :class:`EncodeError` if its result cannot be published.
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
        """Log a failure, now and then."""
        which, outcome = f"of {message.offset}", "is a dead letter (stage ENCODE)"
        if kind == "event":
            which, outcome = f"{dict(message.headers)['ce_id']!r}", "is left out"
        about = f"{message.place}: the encoder {self._name} cannot encode the {kind} {which}, which {outcome}"
        self._seldom.say(kind, f"{about}: {raised_at(error)}", logging.ERROR)

    def obstacles(self) -> list[str]:
        """Name the kinds of messages for which the encoder has failed each of the latest times."""
        return [
            f"the encoder {self._name} fails for every {kind} (the latest: {self._latest[kind]})"
            for kind in get_args(EncodedKind)
            if self._failures[kind] >= IN_A_ROW
        ]


def raised_at(error: Exception) -> str:
    """Name the type of an error and the line that raised it, without its text: that may hold content of a record."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = frames[-1]
    return f"{type(error).__name__} in {last.name}, {last.filename.rpartition('/')[2]}:{last.lineno}"


def _checked(found: object) -> Encoded:
    """Refuse what cannot be published."""
    parts = found if isinstance(found, tuple) else (found,)
    wanted = (bytes, str, str)[: max(2, len(parts))]
    if len(parts) != len(wanted) or not all(map(isinstance, parts, wanted)):
        text = ", ".join(type(part).__name__ for part in parts)
        raise EncodeError(f"the encoder returned ({text}); expected was Encoded(value: bytes, content_type: str)")
    return Encoded(*parts)
