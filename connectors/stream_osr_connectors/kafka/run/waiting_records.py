"""Records without a final decision, as snapshots store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from stream_osr.support.rules import Scope, many, maybe, text, tuple_of, whole

from ..places import Place
from ..wire.messages import Received

WrittenRecord: TypeAlias = tuple[Any, ...]
"""Offset, timestamp, key, headers and value. Bytes are text with the same bytes, because archives contain text."""

_HEADERS = many(tuple_of(text(), maybe(text())))
_WITHOUT_VALUE = tuple_of(whole(0), whole(), maybe(text()), _HEADERS)
_WHOLE = tuple_of(whole(0), whole(), maybe(text()), _HEADERS, maybe(text()))


def _rule(value: Any, where: str, scope: Scope) -> None:
    """Check a record. Earlier releases stored no value."""
    (_WITHOUT_VALUE if isinstance(value, tuple) and len(value) == 4 else _WHOLE)(value, where, scope)


RECORDS = many(_rule, of=list)
"""Rule of the records in a snapshot."""


def written(records: Sequence[Received]) -> list[WrittenRecord]:
    """Return records in the form of a snapshot."""
    return [
        (each.offset, each.timestamp, _text(each.key), tuple((name, _text(value)) for name, value in each.headers),
         _text(each.value))
        for each in records
    ]  # fmt: skip


def restored(place: Place, records: Sequence[WrittenRecord]) -> tuple[Received, ...]:
    """Return the records of a partition in a snapshot."""
    return tuple(
        Received(*place, offset, timestamp, _bytes(key), _bytes(value[0]) if value else None, _headers(headers))
        for offset, timestamp, key, headers, *value in records
    )


def _headers(headers: Sequence[tuple[str, str | None]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _bytes(value)) for name, value in headers)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")
