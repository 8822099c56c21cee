"""The input file of a run, in which features of instances are looked up by number and key."""

from __future__ import annotations

import csv
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson

from stream_osr.errors import ConnectorError
from stream_osr.instances.embedding import flat


def json_object(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON object, or return ``None``.

    >>> json_object(b'{"seq": 1}'), json_object(b"[1]"), json_object(b"{")
    ({'seq': 1}, None, None)
    """
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


STRIDE = 256
"""Lines between two stored places."""
NEAR = 4096
"""Lines after the expected one that are searched for a key."""
REMEMBERED = 4096
"""Size of the cache of features."""
LONGEST_ROW = 1 << 20
"""Most bytes that are read from a line."""


class InputRows:
    """Lookup of features in a file of instances, CSV or JSON Lines.

    Decision number *n* belongs to row *n* or a later row, because rows with a label and invalid rows are not decided.
    The key identifies the row.

    Parameters
    ----------
    path
        The file.
    key
        Column of the key. ``None`` if each row has a decision and no row was rejected.
    hidden
        Columns that are not features.

    Raises
    ------
    ConnectorError
        If the file cannot be read.
    """

    def __init__(self, path: Path, key: str | None, hidden: tuple[str, ...] = ()) -> None:
        if path.suffix.lower() == ".gz":
            raise ConnectorError(f"{path} is compressed and cannot be searched. Give --input an uncompressed file")
        if path.suffix.lower() in (".parquet", ".pq") or path.is_dir():
            raise ConnectorError(f"{path} is not a text file. Give --input CSV or JSON Lines")
        self._path, self._key = path, key
        self._lock = threading.Lock()
        self._marks = [0]
        self._marked = self._lines = self._ahead = self._missed = 0
        self._header: list[str] | None = None
        self._begun = False
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self._hidden = {*hidden, *([] if key is None else [key])}
        self._found = lru_cache(REMEMBERED)(self._look)
        self._begin()

    def _begin(self) -> bool:
        """Detect the format of the file when its first line is complete."""
        try:
            with self._path.open("rb") as file:
                first = file.readline(LONGEST_ROW)
        except OSError as error:
            raise ConnectorError(f"cannot read {self._path}: {error.strerror}. Check the path") from None
        if not first.endswith(b"\n"):
            return False
        if not first.lstrip().startswith(b"{"):
            self._header = names = self._cells(first)
            if self._key is not None and self._key not in names:
                raise ConnectorError(
                    f"{self._path} has no column {self._key!r}, --key must be one of {', '.join(names[:20])}"
                )
        self._begun = True
        return True

    def find(self, decision: Mapping[str, Any], texts: Collection[str] = ()) -> dict[str, Any] | None:
        """Return the features of a decided instance, or ``None`` if they are not found.

        In CSV a value that looks like a number is a number, except in the columns ``texts``.
        """
        number, key = decision.get("seq"), decision.get("key")
        if not isinstance(number, int) or (self._key is not None and key is None):
            return None
        with self._lock:
            found = self._found(number, str(key)) if self._begun or self._begin() else None
        if found is None or self._header is None:
            return found
        return {name: (cell or None) if name in texts else _number(cell) for name, cell in found.items()}

    def _look(self, number: int, key: str) -> dict[str, Any] | None:
        start = number + (self._header is not None)
        near = start + self._ahead
        for begin, most in ((start, 1),) if self._key is None else ((max(start, near - 64), 128), (start, NEAR)):
            for line, row in self._rows(begin, most):
                if self._key is None or str(row.get(self._key)) == key:
                    self._ahead = max(0, line - start)
                    return flat({name: value for name, value in row.items() if name not in self._hidden})
        self._missed += 1
        return None

    def _rows(self, line: int, most: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rows from a line on, with line numbers."""
        with suppress(OSError), self._path.open("rb") as file:
            self._mark(file, line)
            at = min(line // STRIDE, len(self._marks) - 1)
            file.seek(self._marks[at])
            for _ in islice(file, line - at * STRIDE):
                pass
            for here in range(line, line + most):
                if not (text := file.readline(LONGEST_ROW)):
                    return
                if (row := self._row(text)) is not None:
                    yield here, row

    def _mark(self, file: IO[bytes], line: int) -> None:
        """Store the places of lines at regular intervals, up to a line."""
        file.seek(self._marked)
        while self._lines < line + STRIDE:
            text = file.readline()
            if not text.endswith(b"\n"):
                return
            self._marked += len(text)
            self._lines += 1
            if self._lines % STRIDE == 0:
                self._marks.append(self._marked)

    def _row(self, text: bytes) -> dict[str, Any] | None:
        if self._header is None:
            return json_object(text)
        cells = self._cells(text)
        return dict(zip(self._header, cells, strict=True)) if len(cells) == len(self._header) else None

    def _cells(self, line: bytes) -> list[str]:
        return next(csv.reader([line.decode(errors="replace")], delimiter=self._delimiter), [])

    def notes(self) -> list[str]:
        """Return the number of instances that were not found, in words."""
        if not self._missed:
            return []
        remedy = "" if self._key else " (--key COLUMN finds instances by key)"
        return [f"The features of {self._missed} instances were not found in {self._path.name}{remedy}."]


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell or None
