"""Source for CSV files with a header row, which continues after broken quotes.

A spreadsheet may run a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break. Keys and rows that
were set aside have unknown origin. An apostrophe before such a cell makes it text.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar, Unpack

from stream_osr.errors import ConnectorError
from stream_osr.instances.reading import TRUTH, Comma
from stream_osr.printable_text import counted

from ..base import BadRecord, Position, Record
from ..values import DecodeError, category, label_of_text, number, seconds
from .columns import OF_NUMBERS, Columns, converted, plain_numbers
from .line_source import LineReader, LineSource, Rows, TextLine, raw_text
from .read_options import ReadOptions, what_there_is

if TYPE_CHECKING:
    from stream_osr.instances.kinds import Name

_MAX_LINES = 1000
"""Most lines of one row. This bounds how much the reader repeats after a stray quote."""

_FORMULA = re.compile(r"'*(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class RowReader(Iterator[list[str]]):
    """Iterator over the rows of a table without blank lines.

    A row that is not CSV raises `DecodeError`, and reading continues with the line after its first line. A stray
    quote makes a row include the lines after it, which must not be lost. ``padded`` allows spaces before a field,
    also before its quotes.
    """

    def __init__(self, lines: LineReader, delimiter: str, max_bytes: int, *, padded: bool = False) -> None:
        self._lines = lines
        self._row_lines = _RowLines(lines, max_bytes)
        # strict, because otherwise a quote that is never closed swallows the rest without an error
        self._rows = csv.reader(self._row_lines, delimiter=delimiter, strict=True, skipinitialspace=padded)

    @property
    def taken(self) -> list[TextLine]:
        """The lines of the last row, or of the last error."""
        return self._row_lines.taken

    def __next__(self) -> list[str]:
        row: list[str] = []
        while not row:
            self.taken.clear()
            try:
                row = next(self._rows)
            except (csv.Error, DecodeError) as error:
                raise self._rejected(error) from None
        return row

    def _rejected(self, error: csv.Error | DecodeError) -> DecodeError:
        others = self.taken[1:]
        del self.taken[1:]
        self._lines.give_back(others)
        reason = f"not CSV: {error}" if isinstance(error, csv.Error) else str(error)
        if str(error).startswith("new-line character"):
            return DecodeError("it has a carriage return without a line feed. Save the file with line feeds")
        if others or str(error) == "unexpected end of data":
            reason = f"a quoted field begins here and is not closed properly ({reason}). Check the quotes"
        return DecodeError(reason)


class _RowLines(Iterator[str]):
    """The decoded lines of one row, for `csv.reader`. A field with line breaks takes several lines.

    This is an iterator and not a generator, because a generator ends with the first error that it raises.
    """

    def __init__(self, lines: LineReader, max_bytes: int) -> None:
        self.taken: list[TextLine] = []
        self._lines = lines
        self._max_bytes = max_bytes
        self._size = 0

    def __next__(self) -> str:
        line = next(self._lines)
        if not self.taken:
            self._size = 0
        self.taken.append(line)
        self._size += len(line.data)
        if len(self.taken) > _MAX_LINES or self._size > self._max_bytes:
            raise DecodeError(f"still open after {len(self.taken)} lines")
        return line.text()


def divides(line: str, delimiter: str) -> str:
    """Return the delimiter of a header. It differs from the expected one if the header lacks that.

    >>> divides("a,b;c", ","), divides("a;b;c", ","), divides("a", ","), divides("a,b", chr(9))
    (',', ';', ',', ',')
    """
    other = max(";\t|,", key=line.count)
    return delimiter if delimiter in line or other not in line else other


def check_delimiter(delimiter: str) -> None:
    """Refuse a delimiter that cannot be used."""
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise ConnectorError(f"delimiter {delimiter!r} cannot be used. Give one character, such as ',' or a tab")


def defused(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run. Numbers stay numbers.

    >>> defused("=1+1"), defused("-1.5"), defused("-x"), defused("plain"), defused("'=1")
    ("'=1+1", '-1.5', "'-x", 'plain', "''=1")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def restored(text: str) -> str:
    """Remove the apostrophe that :func:`defused` has added, and no other.

    >>> [restored(text) for text in ("'=1+1", "-1.5", "''=1", "'tis")]
    ['=1+1', '-1.5', "'=1", "'tis"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text, 1) else text


_T = TypeVar("_T")

_SEPARATOR = re.compile(r"sep=(.)", re.IGNORECASE)
"""First line of a file from Excel."""

_DIVIDED = re.compile("[,;\t|]")

_INDEX = "Unnamed: 0"
"""Name that pandas uses for a first column without a name. Such a column is the index of a data frame."""


class CsvSource(LineSource):
    r"""Records from a CSV file with a header row.

    Every column except the key, the time, the label and the stream key is a feature. A feature is numeric unless it
    is one of the categories, whose values are text. An empty field is a missing value (``None``), and so are the
    usual markers (``NA``, ``?``, ...) in a numeric column. A row that cannot be used, or repeats the header, becomes
    a `BadRecord`, and reading continues with the next one. Blank lines, and comments and Excel's ``sep=;`` before the
    header, are skipped. Names of columns have no spaces around them. Empty fields after the last column do not count.

    Delivery: every row once and in order, replayable from a file, not from standard input. Positions are
    ``{"offset": bytes before, "row": lines before, "hashed": n, "sha256": hash of the first n bytes}``, counted in
    the decompressed content. A pipe has no hash.

    Parameters
    ----------
    path
        The file, in UTF-8. A name that ends in ``.gz`` means compression. ``-`` is standard input.
    key, time, label
        Columns of the key (text), the event time (seconds since 1970 or an ISO 8601 timestamp, UTC if it has no
        offset) and the label, or ``None`` if there is no such column.
    by
        Column of the stream key (text), or ``None``.
    features
        Feature columns (default: all others).
    categorical
        Features that are categories (`survey` finds them).
    label_type
        ``"auto"`` converts a label of digits only, with or without a sign, to an int and leaves others text.
        ``"str"`` leaves all labels text. ``"int"`` requires whole numbers. Only an empty field is a missing label:
        ``NA`` is a label like any other.
    delimiter
        Character between fields. If the header lacks it, the source uses a semicolon, a tab, a vertical bar or a
        comma that the header has.
    safe
        Whether `CsvSink` wrote the file with ``safe``. The source then removes the apostrophes that the sink put
        before text that begins like a formula.
    max_record_bytes
        Longest row that is accepted.
    follow
        Whether to wait at the end of a file that is still being written. For standard input: whether it is a pipe,
        and ``while_waiting`` runs a callback during waits.

    Raises
    ------
    ConnectorError
        When opening: the file cannot be read, has no header, repeats a column name, or lacks a named column. While
        iterating: the rest of the file cannot be read, for instance because its gzip data are cut off. All records
        before that were delivered.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "sensors.csv")
    ...     _ = path.write_text("a,b,class\n1,2,red\n3,,blue\n5,hot,red\n")
    ...     with CsvSource(path, label="class") as source:
    ...         for record in source:
    ...             print(record.features if isinstance(record, Record) else record.reason[:52])
    {'a': 1.0, 'b': 2.0}
    {'a': 3.0, 'b': None}
    column 'b' holds 'hot', which is not a finite number
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        delimiter: str = ",",
        safe: bool = False,
        categorical: Collection[str] = (),
        **reading: Unpack[ReadOptions],
    ) -> None:
        check_delimiter(delimiter)
        super().__init__(path, **reading)
        self.categorical = frozenset(categorical)
        self._delimiter = delimiter
        self._safe = safe
        self._taken: list[TextLine] = []
        try:
            self._place_columns(self._read_header())
        except BaseException:
            self.close()
            raise
        self._first = self._rows.taken[-1]

    def __next__(self) -> Record | BadRecord:
        lines = self._rows.taken
        try:
            row = self._plain(next(self._rows))
            if lines[0].row == 1 and self._is_header(row):  # of a followed file that was begun anew
                self._place_columns(row)
                return next(self)
            return self._record(row, self._lines.position_after(lines[-1]))
        except DecodeError as error:
            position = self._lines.position_after(lines[-1])
            return BadRecord(position, lines[0].row, raw_text(lines), str(error))

    def take_rows(self, features: Sequence[Name], most: int) -> Rows | None:
        """Read the next records as rows of numbers (:class:`.line_source.RowSource`)."""
        fields = self._fields
        if fields.label or fields.by or self.categorical or self._padded or {*features} != {*self.feature_columns}:
            return None
        lines = self._lines.several(most)
        rows = self._rows_of(lines, [self._places[str(name)] for name in features])
        if rows is None:
            self._lines.give_back(lines)
        return rows

    def take_columns(self, most: int) -> Columns | None:
        """Read the next records as columns of text (:class:`.columns.ColumnSource`)."""
        label, time, self._taken = self._fields.label, self._fields.time, self._lines.several(most, again=True)
        columns = None if self._padded or label is None else self._columns_of(self._taken)
        try:
            if columns is not None and label is not None:
                _ = time and converted(columns[self._places[time]], seconds)
                read = partial(label_of_text, kind=self._fields.label_type)
                labels = [each for each in converted(columns[self._places[label]], read) if each is not None]
                if len(labels) == len(self._taken):
                    features = {name: columns[self._places[name]] for name in self.feature_columns}
                    position = self._lines.position_after(self._taken[-1])
                    return Columns(features, labels, len(labels), as_text=True, written=True, position=position)
        except DecodeError:
            pass
        self.give_back()
        return None

    def give_back(self) -> None:
        """Return the records of the last :meth:`take_columns`."""
        self._lines.give_back(self._taken)

    def _rows_of(self, lines: list[TextLine], places: list[int]) -> Rows | None:
        """Read lines at once. ``None``: a line must be read by itself."""
        import numpy as np  # slow to import

        columns = self._columns_of(lines)
        values = [] if columns is None else [plain_numbers(columns[place]) for place in places]
        if columns is None or any(column is None for column in values):
            return None
        key, time = (None if name is None else columns[self._places[name]] for name in self._fields[:2])
        try:
            times = None if time is None else [*map(seconds, time)]
        except DecodeError:
            return None
        keys = None if key is None else [text or None for text in key]
        position = self._lines.position_after(lines[-1])
        return Rows(np.array(values).T, keys, times, lines, position, self._ignored)

    def _columns_of(self, lines: list[TextLine]) -> list[tuple[str, ...]] | None:
        """Divide lines into the fields of each column. ``None``: a line must be read by itself."""
        longest = csv.field_size_limit()
        if not lines or any(line.dropped or len(line.data) > longest for line in lines):
            return None
        try:
            text = b"".join(line.data for line in lines).decode().replace("\r\n", "\n").removesuffix("\n")
            if any(character in text for character in "\r\0\ufeff'"[: 4 if self._safe else 3]):
                return None
            rows: Iterable[list[str]] = (row.split(self._delimiter) for row in text.split("\n"))
            if '"' in text:
                rows = csv.reader(text.split("\n"), delimiter=self._delimiter, strict=True)
            columns = [*zip(*rows, strict=True)]
        except (ValueError, csv.Error):
            return None
        if (
            len(columns) < self._width
            or len(columns[0]) < len(lines)
            or any(map(str.strip, chain(*columns[self._width :])))
        ):
            return None
        if self._header[0] in map(str.strip, columns[0]):  # the row may repeat the header
            return None
        return columns

    def _is_header(self, row: list[str]) -> bool:
        """Return whether a row contains at least half of the column names."""
        return 2 * len({cell.strip() for cell in row} & {*self._places}) >= len(self._places)

    def _record(self, row: list[str], position: Position) -> Record:
        if len(row) < self._width or any(cell.strip() for cell in row[self._width :]):
            fields = counted(len(row), "field")
            raise DecodeError(f"the row has {fields}, the header {self._width}. Check delimiters and quotes")
        if row[0].strip() == self._header[0] and [cell.strip() for cell in row[: self._width]] == self._header:
            raise DecodeError("the row repeats the header: the file was put together from several")
        return Record(
            features=self._plain_numbers(row) or {name: self._feature(row, name) for name in self.feature_columns},
            key=self._read(row, self._fields.key, lambda text: text or None),
            time=self._read(row, self._fields.time, seconds),
            label=self._read(row, self._fields.label, lambda text: label_of_text(text, self._fields.label_type)),
            position=position,
            raw=raw_text(self._rows.taken),
            ignored=self._ignored,
            by=self._read(row, self._fields.by, lambda text: text or None),
        )

    def _plain_numbers(self, row: list[str]) -> dict[str, float] | None:
        """Read the features of a row at once. ``None``: they need more than ``float``."""
        cells = [] if self.categorical else [row[place] for place in self._feature_places]
        if "".join(cells).strip(OF_NUMBERS):
            return None
        try:
            values = [*map(float, cells)]
        except ValueError:  # an empty field, for example
            return None
        return dict(zip(self.feature_columns, values, strict=True)) if cells and math.isfinite(sum(values)) else None

    def _feature(self, row: list[str], name: str) -> object:
        return self._read(row, name, category if name in self.categorical else self._number)

    def _number(self, text: str) -> float | None:
        try:
            return number(text, self._comma)
        except DecodeError:
            if (truth := TRUTH.get(text.strip().lower())) is None:
                raise
            return truth

    def _read(self, row: list[str], name: str | None, convert: Callable[[str], _T]) -> _T | None:
        """Convert one field of a row. The reason of a failure names the column."""
        if name is None:
            return None
        try:
            return convert(row[self._places[name]])
        except DecodeError as error:
            raise DecodeError(f"column {name!r} {error}") from None

    def _plain(self, row: list[str]) -> list[str]:
        return [restored(cell) for cell in row] if self._safe else row

    def _read_header(self) -> list[str]:
        name = self._lines.name
        try:
            line, named = next(self._lines), self._named()
            while line.is_blank() or self._is_comment(raw_text([line])):
                line = next(self._lines)
            if found := _SEPARATOR.fullmatch(raw_text([line]).strip()):
                self._delimiter = found[1]
                line = next(self._lines)
            text = raw_text([line])
            if text.strip() not in named:
                self._delimiter = divides(text, self._delimiter)
            self._comma: Comma = "decimal" if self._delimiter == ";" else ""
            self._padded = re.search(rf'{re.escape(self._delimiter)} +"', text) is not None
            self._lines.give_back([line])
            self._rows = RowReader(self._lines, self._delimiter, self._max_bytes, padded=self._padded)
            return self._plain(next(self._rows))
        except StopIteration:
            raise ConnectorError(f"{name} is empty. A CSV file begins with a row of column names") from None
        except DecodeError as error:
            raise ConnectorError(
                f"{name}: the header cannot be read: {error}. A CSV file begins with column names in UTF-8"
            ) from None

    def _named(self) -> set[str]:
        """Return the columns that the caller has named."""
        return {*self._fields.special, *(self._fields.features or ())}

    def _is_comment(self, text: str) -> bool:
        """Return whether a line above the header is a comment: it begins with ``#`` and contains no named column."""
        named = self._named()
        return (
            text.startswith("#")
            and bool(named)
            and named.isdisjoint(each.strip(' "\r\n') for each in _DIVIDED.split(text))
        )

    def _place_columns(self, row: list[str]) -> None:
        """Find the index of every column in use, and refuse ambiguous names."""
        source, header = self._lines.name, [name.strip() for name in row]
        if len(set(header)) < len(set(row)):
            header = row  # spaces alone tell two columns apart
        named, features = self._fields.special, self._fields.features
        while features is None and header and not header[-1]:
            header.pop()  # each row ends with a delimiter
        if header and not header[0] and _INDEX not in header:
            header[0] = _INDEX
        repeated = [repr(name) for name, times in Counter(header).items() if name and times > 1]
        if repeated:
            raise ConnectorError(f"{source}: the header has {', '.join(repeated)} more than once. Rename the columns")
        if "" in header and features is None:
            raise ConnectorError(
                f"{source}: column {header.index('') + 1} has no name. "
                "Name it, remove it from the file, or name the feature columns"
            )
        self._header = [name.strip() for name in row[: len(header)]]
        self._width, self._places = len(header), {name: place for place, name in enumerate(header) if name}
        self.feature_columns = [name for name in header if name not in named] if features is None else features
        for name in (*named, *self.feature_columns):
            if name not in self._places and name.strip() in self._places:
                self._places[name] = self._places.pop(name.strip())
            if name not in self._places:
                raise ConnectorError(f"{source} has no column {name!r}. {what_there_is(name, list(self._places))}")
        self._feature_places = [self._places[name] for name in self.feature_columns]
        used = {*named, *self.feature_columns}
        self._ignored = tuple(name for name in self._places if name not in used)
