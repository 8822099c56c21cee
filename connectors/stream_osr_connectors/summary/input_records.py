"""Reading the records that a run wrote, as JSON Lines or a table, with the place of each record."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief, printable
from stream_osr_connectors.files.class_columns import ClassColumns
from stream_osr_connectors.files.csv_source import RowReader
from stream_osr_connectors.files.line_source import LineReader, TextLine
from stream_osr_connectors.files.open_file import is_gzip
from stream_osr_connectors.files.parquet_source import ParquetRows
from stream_osr_connectors.values import DecodeError

LONGEST_LINE = 1 << 26
"""Most bytes of a record. It has a probability for each class, and class names may be long."""

LARGEST = 1 << 53
"""Bound on positions, ids and counts. Charts cannot distinguish larger integers."""

PARQUET = b"PAR1"
"""First bytes of a Parquet file."""

FEW = 100
"""Most lines of one row of a table."""

_STOPPED = " because the run was stopped or is still running. The rest is skipped"

UNUSABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""Exceptions that an invalid record raises."""

_TEXT = frozenset({"type", "model", "key", "label", "first_label", "nearest_class"})
"""Columns of a table whose cells are always text."""


class ReadRecord(dict[str, Any]):
    """A record and its place, as messages name it."""

    __slots__ = ("place",)

    def __init__(self, record: Mapping[str, Any], place: str) -> None:
        super().__init__(record)
        self.place = place


@contextmanager
def reading(record: Mapping[str, Any], kind: Literal["decision", "event"], number: int) -> Iterator[None]:
    """Read a record in a ``with`` block, and report an invalid record in one line.

    Parameters
    ----------
    record
        The record.
    kind
        Expected kind of record.
    number
        Number of the record, from 0. Messages use it if the record is from no file.

    Raises
    ------
    ConnectorError
        If the block raises one of ``UNUSABLE``.
    """
    try:
        yield
    except UNUSABLE as error:
        raise refusal(getattr(record, "place", f"{_KINDS[kind][0]} {number + 1}"), kind, error) from None


_KINDS = {"decision": ("record", "--output"), "event": ("event", "--events")}


def refusal(place: str, kind: str, error: BaseException) -> ConnectorError:
    """Return an error in one line about an invalid record: its place, its expected kind, and the reason."""
    why, option = printable(why_unusable(error), 300), _KINDS[kind][1]
    return ConnectorError(f"{place} is no {kind} ({why}). Give the file that `stream-osr run {option}` wrote")


def why_unusable(error: BaseException) -> str:
    """Return the reason why a record cannot be used.

    >>> why_unusable(KeyError("seq")), why_unusable(ValueError("seq is -1"))
    ("it has no 'seq'", 'seq is -1')
    """
    return f"it has no {error.args[0]!r}" if isinstance(error, KeyError) and error.args else str(error)


def whole(value: object, name: str) -> int:
    """Read a position, an id or a count.

    >>> whole("12", "seq"), whole(12.0, "seq")
    (12, 12)
    >>> whole(2**70, "seq")
    Traceback (most recent call last):
    ...
    ValueError: seq is 1180591620717411303424, not a whole number from 0 to 2^53
    """
    number = real(value, name) if isinstance(value, float | str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or number != number // 1:
        raise ValueError(f"{name} is {brief(value)}, not a whole number")
    if not 0 <= number < LARGEST:
        raise ValueError(f"{name} is {brief(value)}, not a whole number from 0 to 2^53")
    return int(number)


def real(value: object, name: str) -> float:
    """Read a finite number.

    >>> real("0.25", "p_unknown")
    0.25
    >>> real("much", "p_unknown")
    Traceback (most recent call last):
    ...
    ValueError: p_unknown is 'much', not a finite number
    """
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            if math.isfinite(number := float(value)):
                return number
    raise ValueError(f"{name} is {brief(value)}, not a finite number")


def number_of(value: object) -> float | None:
    """Read a number that may be missing.

    >>> number_of(None), number_of(float("nan")), number_of(2)
    (None, None, 2.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def read_records(path: Path, notes: list[str]) -> Iterator[ReadRecord]:
    """Yield the records of a file of any format.

    Parameters
    ----------
    path
        The file. Files that end in ``.gz`` are decompressed. For Parquet, the folder of the parts, or one part.
    notes
        Receives a sentence if the end of the file is incomplete and skipped.

    Raises
    ------
    ConnectorError
        If the file has no known format. The message names file and line.
    """
    if is_parquet(path):
        yield from _parquet(path)
        return
    with closing(LineReader(path, LONGEST_LINE)) as lines:
        first = next((line for line in _lines(lines, notes) if not line.is_blank()), None)
        if first is None:
            return
        lines.give_back([first])
        table = first.data.lstrip()[:1] not in (b"{", b"[", b"") and (b"," in first.data or b"\t" in first.data)
        yield from _rows(lines, path, notes) if table else _objects(lines, notes)


def is_parquet(path: Path) -> bool:
    """Return whether a path is a Parquet file, or a folder, in which a run writes Parquet."""
    if path.is_dir():
        return True
    with path.open("rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _parquet(path: Path) -> Iterator[ReadRecord]:
    """Read the parts in order."""
    parts = sorted(each for each in path.iterdir() if not each.name.startswith(".")) if path.is_dir() else [path]
    for part in parts:
        with closing(ParquetRows(part)) as rows:
            for number, row in enumerate(rows.rows(list(rows.types)), start=1):
                place = f"{part}, row {number}"
                texts = row.items()
                record = {name: _cell(name, its, place) if isinstance(its, str) else its for name, its in texts}
                yield ReadRecord(_of_its_type(record), place)


def _lines(lines: LineReader, notes: list[str]) -> Iterator[TextLine]:
    """Yield lines as far as the file can be decompressed."""
    try:
        for line in lines:  # noqa: UP028  # `yield from` would close them
            yield line
    except ConnectorError:
        if not is_gzip(lines.name):
            raise
        notes.append(f"{lines.name} cannot be decompressed to its end{_STOPPED}")


def _objects(lines: LineReader, notes: list[str]) -> Iterator[ReadRecord]:
    for line in _lines(lines, notes):
        if line.is_blank():
            continue
        place = f"{lines.name}, line {line.row}"
        try:
            record = json.loads(line.text())
        except DecodeError as error:
            raise ConnectorError(f"{place}: {error}") from None
        except (ValueError, RecursionError) as error:
            if not line.data.endswith(b"\n"):
                notes.append(f"{place} is not whole{_STOPPED}")
                return
            why = "nested too deeply" if isinstance(error, RecursionError) else error
            raise ConnectorError(f"{place} is not JSON ({why}). Give what `stream-osr run` wrote") from None
        if not isinstance(record, dict):
            raise ConnectorError(f"{place} is no JSON object. Give decisions or events")
        yield ReadRecord(record, place)


def _rows(lines: LineReader, path: Path, notes: list[str]) -> Iterator[ReadRecord]:
    tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
    rows = RowReader(lines, "\t" if tabs else ",", LONGEST_LINE)
    header: list[str] | None = None
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except ConnectorError:
            if not is_gzip(lines.name):
                raise
            notes.append(f"{lines.name} cannot be decompressed to its end{_STOPPED}")
            return
        except DecodeError as error:
            place = f"{lines.name}, line {rows.taken[0].row}"
            if not _ends_open(list(_lines(lines, notes))):
                raise ConnectorError(f"{place}: {error}") from None
            notes.append(f"{place} is not whole{_STOPPED}")
            return
        place = f"{lines.name}, line {rows.taken[0].row}"
        if header is None:
            header, classes = row, ClassColumns(row)
        elif not rows.taken[-1].data.endswith(b"\n"):
            notes.append(f"{place} is not whole{_STOPPED}")
        elif len(row) != len(header):
            raise ConnectorError(f"{place} has {len(row)} fields, the header {len(header)}. Give what a run wrote")
        else:
            cells = {name: _cell(name, text, place) for name, text in zip(header, row, strict=True)}
            yield ReadRecord(_of_its_type(classes.gather(cells)), place)


def _of_its_type(record: dict[str, Any]) -> dict[str, Any]:
    """Remove empty columns from an event that was read from a table."""
    return {name: its for name, its in record.items() if its is not None} if "type" in record else record


def _ends_open(rest: Sequence[TextLine]) -> bool:
    """Return whether these lines are the rest of an unclosed row at the end of the file."""
    return not rest or (len(rest) < FEW and not rest[-1].data.endswith(b"\n"))


def _cell(name: str, text: str, place: str) -> Any:
    if name in _TEXT or text[:1] not in ("{", "["):
        return text or None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ConnectorError(f"{place}: column {name!r} holds {brief(text)}, which is not JSON") from None
