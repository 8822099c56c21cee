"""Source and sink for JSON Lines: one object on each line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief

from ..base import BadRecord, Record
from ..values import DecodeError, plain, written
from .byte_sink import ByteSink
from .columns import Columns, columns_of
from .line_source import LineSource, TextLine, raw_text, without_break


class JsonLinesSink(ByteSink):
    r"""Records as compact JSON objects, one on each line, with their keys in the given order.

    Floats have enough digits to be read back unchanged. NaN and infinite numbers, which JSON lacks, become ``null``.
    Numpy scalars and arrays become their values. The text is ASCII.

    Delivery: everything written is durable after `flush`. With `truncate` to a stored `position`, every record is in
    the file exactly once. Standard output and pipes cannot be cut back: at least once. Positions are those of
    `ByteSink`. While the sink is open, no other sink opens the same file.

    Parameters
    ----------
    path
        The file. The first `write` or `flush` replaces its content, unless `truncate` continues it. A name that ends
        in ``.gz`` means compression. ``-`` is standard output.
    private
        Whether only the owner can read a new file. An existing file keeps its permissions.

    Raises
    ------
    ConnectorError
        If the file cannot be opened or written, another process writes it, or a value has no form in JSON.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "decisions.jsonl")
    ...     with JsonLinesSink(path) as sink:
    ...         sink.write({"key": "a7", "probability": 0.1, "distance": float("nan")})
    ...     path.read_text()
    '{"key":"a7","probability":0.1,"distance":null}\n'
    """

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record.

        Raises
        ------
        ConnectorError
            If the file does not accept the record, or a value has no form in JSON. The record is then not written.
        """
        self._put(_line(record))


def _line(record: Mapping[str, object]) -> bytes:
    """Write a record as one line, by orjson if it is installed, the record has plain types, and its text is ASCII."""
    if (orjson := _orjson()) is not None:
        own = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS  # no form in JSON
        try:
            line: bytes = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE | own)
        except TypeError:  # json_text converts the value, or refuses it
            pass
        else:
            if line.isascii():
                return line
    return f"{json_text(record)}\n".encode()


@cache
def _orjson() -> Any:
    """Import orjson when the first record is written. ``None``: this extra is not installed."""
    with suppress(ImportError):
        return import_module("orjson")
    return None


_encode: Callable[[object], str] = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def json_text(value: object) -> str:
    """Write a value as compact JSON in ASCII.

    Raises
    ------
    ConnectorError
        If the value has no form in JSON.

    >>> json_text({"p": 0.5, "seen": [1, None]})
    '{"p":0.5,"seen":[1,null]}'
    """
    with suppress(TypeError, ValueError):  # most values have JSON types and are finite
        return _encode(value)
    try:
        return _encode(plain(value))
    except (TypeError, ValueError) as error:
        raise ConnectorError(f"cannot write {brief(value)} as JSON: {error}") from None


def as_text(value: object) -> str:
    """Write a value as :func:`json_text` does, or as Python does if it has no form in JSON."""
    try:
        return json_text(value)
    except ConnectorError:
        return written(value)


_ARRAY = re.compile(rb"\s*\[\s*(?:\{|$)")
"""First bytes of a file with a single array of objects."""


class JsonLinesSource(LineSource):
    r"""Records from a JSON Lines file: one object on each line.

    Features are the fields of the nested object ``"features"`` if there is one. Otherwise they are all fields with a
    number, text, ``true``, ``false`` or a list except the key, the time and the label. Values are passed on as in the
    JSON text. ``NaN`` is a missing value (``None``). A line that cannot be used becomes a `BadRecord`, and reading
    continues with the next one. Blank lines are skipped.

    Delivery: every line once and in order, replayable from a file, not from standard input. Positions are
    ``{"offset": bytes before, "row": lines before, "hashed": n, "sha256": hash of the first n bytes}``, counted in
    the decompressed content. A pipe has no hash.

    Parameters
    ----------
    path
        The file, in UTF-8. A name that ends in ``.gz`` means compression. ``-`` is standard input.
    key, time, label
        Names of three fields. The key is text or a whole number. The event time is seconds since 1970 or an ISO 8601
        timestamp (UTC if it has no offset). The label is text, a whole number, true or false. A line without the
        field has no key, time or label.
    by
        Name of the field with the stream key, which is text or a whole number, or ``None``.
    features
        Names of the features (default: all others). A line without one of them lacks that value. The values may have
        any type.
    label_type
        ``"auto"`` keeps the type of a label in JSON. ``"str"`` converts it to text, ``"int"`` to a whole number, so
        that the labels equal those of another file.
    max_record_bytes
        Longest line that is accepted.
    follow
        Whether to wait at the end of a file that is still being written. For standard input: whether it is a pipe,
        and ``while_waiting`` runs a callback during waits.

    Raises
    ------
    ConnectorError
        If the file cannot be opened. While iterating: if the rest of the file cannot be read, for instance because
        its gzip data are cut off. All records before that were delivered.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "sensors.jsonl")
    ...     _ = path.write_text('{"id": 7, "a": 1.5, "b": NaN, "note": "ok"}\n{"id": 8\n')
    ...     with JsonLinesSource(path, key="id", features=["a", "b"]) as source:
    ...         good, bad = source
    >>> good.key, good.features
    (7, {'a': 1.5, 'b': None})
    >>> bad.row, bad.reason
    (2, "not JSON: expecting ',' delimiter at character 9")
    """

    _taken: list[TextLine]

    def __next__(self) -> Record | BadRecord:
        line = next(self._lines)
        while line.is_blank():
            line = next(self._lines)
        position = self._lines.position_after(line)
        if line.row == 1 and _ARRAY.match(line.data):
            raise ConnectorError(
                f"{self._lines.name} holds a JSON array. JSON Lines has one object on each line, without brackets "
                "around all of them and commas between (convert it: `jq -c .[]`)"
            )
        if line.row == 1 and line.data.strip() == b"{":
            raise ConnectorError(
                f"{self._lines.name} holds an object over several lines. JSON Lines has one object on each line "
                "(convert it: `jq -c .`)"
            )
        try:
            text = line.text()
            return self._fields.record(_parse(text.rstrip()), position, without_break(text))
        except DecodeError as error:
            return BadRecord(position, line.row, raw_text([line]), str(error))

    def take_columns(self, most: int) -> Columns | None:
        """Read the next records as columns (:class:`.columns.ColumnSource`)."""
        self._taken = self._lines.several(most, again=True)
        rows = None if self._fields.label is None else _rows_of(self._taken)
        table = rows and {name: [row[name] for row in rows] for name in rows[0]}
        columns = None if not rows or not table else columns_of(table, len(rows), self._fields)
        if columns is None:
            self.give_back()
            return None
        return columns._replace(position=self._lines.position_after(self._taken[-1]))

    def give_back(self) -> None:
        """Return the records of the last :meth:`take_columns`."""
        self._lines.give_back(self._taken)


def _rows_of(lines: list[TextLine]) -> list[dict[str, Any]] | None:
    """Read lines at once. ``None``: a line must be read by itself."""
    if not lines or any(line.dropped or line.cut for line in lines):
        return None
    data = b"".join(line.data for line in lines)
    if b"\0" in data or b"\xef\xbb\xbf" in data:
        return None
    try:
        rows: list[Any] = [*map(_decode, data.decode().rstrip().split("\n"))]
    except (ValueError, RecursionError):  # DecodeError is one
        return None
    alike = len(rows) == len(lines) and all(type(row) is dict and row.keys() == rows[0].keys() for row in rows)
    return rows if alike else None


def _constant(name: str) -> None:
    """Read the constants that Python's JSON accepts and the standard does not."""
    if name != "NaN":
        raise DecodeError(f"{name} is not a number that can be used. Write null if the value is missing")


_decode: Callable[[str], object] = json.JSONDecoder(parse_constant=_constant).decode


def _parse(text: str) -> dict[str, object]:
    try:
        value = _decode(text)
    except DecodeError:
        raise
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise DecodeError(f"not JSON: {reason} at character {error.pos + 1}") from None
    except RecursionError:
        raise DecodeError("the JSON is nested too deeply") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise DecodeError(f"not usable JSON: {error}") from None
    if not isinstance(value, dict):
        raise DecodeError(f"the line holds {brief(value)}, not a JSON object of named fields")
    return value
