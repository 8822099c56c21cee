"""Sink for CSV files with a header row."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence

from stream_osr.errors import ConnectorError

from ..base import Position
from .byte_sink import ByteSink
from .class_columns import spread, without_later
from .csv_source import check_delimiter, defused
from .json_lines import json_text


class CsvSink(ByteSink):
    r"""Records as rows of a CSV file under a header row.

    ``None``, NaN and infinite numbers become empty fields. Lists and mappings become their JSON text. A missing field
    stays empty. A field that is not in the header is an error, because its value would be lost. Text that a
    spreadsheet would take for a formula gets an apostrophe before it (`csv_rows`). Numbers stay numbers. A decision
    has a column ``p_CLASS`` for each class of the header in place of ``probabilities``.

    Delivery: everything written is durable after `flush`. With `truncate` to a stored `position`, every record is in
    the file exactly once. Standard output and pipes cannot be cut back: at least once. Positions are those of
    `ByteSink`, with ``"fields"`` (names in the header, or ``None``) and ``"safe"``. While the sink is open, no other
    sink opens the same file.

    Parameters
    ----------
    path
        The file. The first `write` or `flush` replaces its content, unless `truncate` continues it. A name that ends
        in ``.gz`` means compression. ``-`` is standard output.
    fields
        Names in the header (default: those of the first record).
    delimiter
        Character between fields.
    safe
        Whether to put an apostrophe before text that begins like a formula. ``CsvSource(path, safe=True)`` removes it
        again. Use ``False`` for tables that only programs read.
    private
        Whether only the owner can read a new file. An existing file keeps its permissions.

    Raises
    ------
    ConnectorError
        If the file cannot be opened or written, another process writes it, or a record does not fit the header.

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
            If the file does not accept the record, or the record has a field that the header lacks. The record is
            then not written.
        """
        record = spread(without_later(record, self._fields), self._fields)
        fields = dict.fromkeys(record) if self._fields is None else self._fields
        if extra := [repr(name) for name in record if name not in fields]:
            raise ConnectorError(
                f"{self.name}: the header has no {', '.join(extra)}. Name all fields when opening, "
                "or write JSON Lines, where records may differ"
            )
        row = self._row([self._cell(record.get(name)) for name in fields])
        self._put(self._header(fields) + row if self._header_due else row)
        self._fields, self._header_due = fields, False

    def flush(self) -> None:
        """Make everything written so far durable, including the header if its fields are known.

        Raises
        ------
        ConnectorError
            If the file does not accept the data, for instance because the disk is full.
        """
        if self._header_due and self._fields is not None:
            self._put(self._header(self._fields))
            self._header_due = False
        super().flush()

    def position(self) -> Position:
        """Return where the file ended at the last `flush`, and its header."""
        fields = None if self._fields is None else list(self._fields)
        return {**super().position(), "fields": fields, "safe": self._safe}

    def truncate(self, position: Position | None) -> None:
        """Cut off everything written after a position, or everything for ``None``.

        The header and the treatment of formulas continue as in the position, because the file has them.

        Raises
        ------
        ConnectorError
            As in `ByteSink`, and if the position is not one of a CSV file.
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
                "be the names in its header. Give what position() returned"
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
    """A file for `csv.writer` that returns each row."""

    def write(self, text: str) -> str:
        return text
