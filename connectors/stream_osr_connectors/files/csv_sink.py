"""Records to tables: CSV with a header row."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence

from stream_osr.errors import ConnectorError

from ..base import Position
from .byte_sink import ByteSink
from .csv_source import check_delimiter, defused
from .json_lines import json_text


class CsvSink(ByteSink):
    r"""Records as rows of a CSV file under a header row.

    ``None``, NaN and infinite numbers become empty fields; lists and mappings their JSON text. A field
    that a record lacks stays empty; one that the header lacks is an error, since it would be lost. Text that a
    spreadsheet would take for a formula gets an apostrophe before it (`csv_rows`); numbers stay numbers.

    Delivery: what was written is durable after `flush`; together with `truncate` to a stored `position`
    every record is in the file exactly once. Standard output and pipes take nothing back: at least once.
    Positions are those of `ByteSink`, with ``"fields"`` (names in the header, or ``None``) and ``"safe"``.
    While it is open, no other sink opens the same file.

    Parameters
    ----------
    path
        The file, replaced by the first `write` or `flush` unless `truncate` continues it; one that ends
        in ``.gz`` is compressed; ``-`` is standard output.
    fields
        Names in the header; if not given, those of the first record.
    delimiter
        The character between fields.
    safe
        Whether text that begins like a formula is made plain text; ``CsvSource(path, safe=True)`` reads what was
        there before. ``False`` for what only programs read.
    private
        Whether a file that is made is its owner's alone; one that exists keeps its rights.

    Raises
    ------
    ConnectorError
        If the file cannot be opened or written, somebody else is writing it, or a record does not fit the header.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "decisions.csv")
    ...     with CsvSink(path) as sink:
    ...         sink.write({"key": "a,7", "label": None, "p": {"red": 0.5}})
    ...     path.read_text()
    'key,label,p\n"a,7",,"{""red"":0.5}"\n'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fields: Sequence[str] | None = None,
        delimiter: str = ",",
        safe: bool = True,
        private: bool = False,
    ) -> None:
        check_delimiter(delimiter)
        super().__init__(path, private=private)
        self._given_safe = self._safe = safe
        # a dictionary for the sake of quick look-ups; its order is that of the columns
        self._given = self._fields = None if fields is None else dict.fromkeys(fields)
        self._header_due = True
        self._writer = csv.writer(_Echo(), delimiter=delimiter)

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record as a row.

        Raises
        ------
        ConnectorError
            If the file does not take it, or the record has a field that the header lacks; the record is
            then not written.
        """
        fields = dict.fromkeys(record) if self._fields is None else self._fields
        if extra := [repr(name) for name in record if name not in fields]:
            raise ConnectorError(
                f"{self.name}: the header has no {', '.join(extra)}; name all fields when opening, "
                "or write JSON Lines, where records may differ"
            )
        row = self._row([self._cell(record.get(name)) for name in fields])
        self._put(self._header(fields) + row if self._header_due else row)
        self._fields, self._header_due = fields, False

    def flush(self) -> None:
        """Make everything written so far durable; where the fields were named, so is the header.

        Raises
        ------
        ConnectorError
            If the file does not take it, for instance because the disk is full.
        """
        if self._header_due and self._fields is not None:
            self._put(self._header(self._fields))
            self._header_due = False
        super().flush()

    def position(self) -> Position:
        """Say where the file ended at the last `flush`, and what its header is."""
        fields = None if self._fields is None else list(self._fields)
        return {**super().position(), "fields": fields, "safe": self._safe}

    def truncate(self, position: Position | None) -> None:
        """Cut off everything written after a position; ``None`` is the beginning.

        Header and formulas go on as the position says, since that is what stands in the file.

        Raises
        ------
        ConnectorError
            As that of `ByteSink`, and if the position is none of a CSV file.
        """
        super().truncate(position)
        within = position if position is not None and position["offset"] else {}
        fields = within.get("fields")
        self._fields = dict.fromkeys(fields) if isinstance(fields, list) else self._given
        self._safe = bool(within.get("safe", self._given_safe))
        self._header_due = not within

    def _offset_in(self, position: Position) -> int:
        offset, fields = super()._offset_in(position), position.get("fields")
        if offset and not (isinstance(fields, list) and all(isinstance(name, str) for name in fields)):
            raise ConnectorError(
                f"{dict(position)!r} is not a position of the CSV file {self.name}: 'fields' should "
                "be the names in its header; give what position() returned"
            )
        return offset

    def _header(self, fields: Mapping[str, None]) -> bytes:
        return self._row([self._cell(name) for name in fields])

    def _row(self, texts: Sequence[str]) -> bytes:
        # csv quotes the characters of its line end, so the end must be both of them while it writes
        line: str = self._writer.writerow(texts)
        return (line.removesuffix("\r\n") + "\n").encode("utf-8", "backslashreplace")

    def _cell(self, value: object) -> str:
        if isinstance(value, str):
            return defused(value) if self._safe else value
        if isinstance(value, float) and math.isfinite(value):  # as JSON has it, too, only sooner
            return repr(float(value))
        text = json_text(value)
        return "" if text == "null" else text


class _Echo:
    """A file for `csv.writer` that hands each row back."""

    def write(self, text: str) -> str:
        return text
