"""Decisions and events in another format than JSON: the encoder of the settings, and what happens when it fails."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import get_args

import orjson

from ..log import Seldom
from ..settings import ServiceSettings, function_of
from .messages import Encoded, EncodedKind, Encoder, Headers, Outgoing

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
            out = message._replace(value=found.value, headers=list(_headers(message.headers, found)))
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
        told = ", ".join(type(part).__name__ for part in parts)
        raise EncodeError(f"the encoder returned ({told}); expected was Encoded(value: bytes, content_type: str)")
    return Encoded(*parts)


def _headers(headers: Headers, found: Encoded) -> Iterator[tuple[str, bytes | None]]:
    """Replace the content type, and add the schema behind it."""
    for name, value in headers:
        if name != "content-type":
            yield name, value
            continue
        yield name, found.content_type.encode()
        if found.dataschema:
            yield "ce_dataschema", found.dataschema.encode()
