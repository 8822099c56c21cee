"""Decisions, events and dead letters as bytes, a micro-batch at a time: what is the same in all is made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

import orjson

from stream_osr import Decision
from stream_osr.limits import MOST_KEY_BYTES

from ..places import Place
from ..settings import ServiceSettings
from .messages import ENCODING, Origin, Outcome, Outgoing, Received, Refusal, size_of

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

    def decisions(self, source: Place, decided: Sequence[tuple[Origin, Decision]]) -> list[Outgoing]:
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

    def events(self, source: Place, outcome: Outcome) -> list[Outgoing]:
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
        told = {
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
        ours = [(f"__connect.errors.{name}", text.encode("utf-8", "backslashreplace")) for name, text in told.items()]
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
