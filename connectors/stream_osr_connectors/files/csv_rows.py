"""Rows of fields out of lines of text, by the rules of CSV and with a way on after broken quotes.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break may be run by a spreadsheet, and keys and
rows that were set aside come from anywhere: an apostrophe before it makes it text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from stream_osr.errors import ConnectorError

from ..values import DecodeError
from .lines import Line, LineReader

_MAX_LINES = 1000
"""How many lines one row may take: bounds what a stray quote can make the reader do again and again."""

_FORMULA = re.compile(r"'*(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class RowReader(Iterator[list[str]]):
    """Iterator over the rows of a table, blank lines left out.

    A row that is not CSV raises `DecodeError`, and reading goes on with the line after the one it began
    on: a stray quote makes a row take in the lines that follow, and they are not to be lost with it.
    ``padded``: spaces may stand before a field, also before its quotes.
    """

    def __init__(self, lines: LineReader, delimiter: str, max_bytes: int, *, padded: bool = False) -> None:
        self._lines = lines
        self._row_lines = _RowLines(lines, max_bytes)
        # strict, because otherwise a quote that is never closed swallows the rest without an error
        self._rows = csv.reader(self._row_lines, delimiter=delimiter, strict=True, skipinitialspace=padded)

    @property
    def taken(self) -> list[Line]:
        """The lines that the last row, or the last error, is about."""
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
            return DecodeError("it has a carriage return without a line feed; save the file with line feeds")
        if others or str(error) == "unexpected end of data":
            reason = f"a quoted field begins here and is not closed properly ({reason}); check the quotes"
        return DecodeError(reason)


class _RowLines(Iterator[str]):
    """The decoded lines of one row, as `csv.reader` asks for them: several if a field holds line breaks.

    An iterator rather than a generator, because a generator is finished by the first error it raises.
    """

    def __init__(self, lines: LineReader, max_bytes: int) -> None:
        self.taken: list[Line] = []
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
    """Say what divides the fields of a header: another character where the one that is expected is not in it.

    >>> divides("a,b;c", ","), divides("a;b;c", ","), divides("a", ","), divides("a,b", chr(9))
    (',', ';', ',', ',')
    """
    other = max(";\t|,", key=line.count)
    return delimiter if delimiter in line or other not in line else other


def check_delimiter(delimiter: str) -> None:
    """Refuse what cannot stand between the fields of a table."""
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise ConnectorError(f"delimiter {delimiter!r} cannot be used; give one character, such as ',' or a tab")


def defused(text: str) -> str:
    """Put an apostrophe before what a spreadsheet would run; a number stays one.

    >>> defused("=1+1"), defused("-1.5"), defused("-x"), defused("plain"), defused("'=1")
    ("'=1+1", '-1.5', "'-x", 'plain', "''=1")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def restored(text: str) -> str:
    """Take away the apostrophe that :func:`defused` has put there, and no other.

    >>> [restored(text) for text in ("'=1+1", "-1.5", "''=1", "'tis")]
    ['=1+1', '-1.5', "'=1", "'tis"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text, 1) else text
