"""Features of instances out of the file that was decided: found by key, near where they should be."""

from __future__ import annotations

import csv
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from stream_osr.errors import ConnectorError

STRIDE = 256
"""Lines between two marks."""
NEAR = 4096
"""Lines beyond the expected one in which a key is looked for."""
REMEMBERED = 4096
"""Instances whose features are remembered."""
LONGEST = 1 << 20
"""Bytes of a line that is looked at."""


class Inputs:
    """A file of instances, CSV or JSON Lines, in which features are looked up.

    An instance that was decided as number *n* stands in row *n*, or after it, as rows with a label or without use are
    not decided: the key tells which row it is.

    Parameters
    ----------
    path
        The file.
    key
        Column of the key; None: rows are decided one by one, and none was set aside.
    hidden
        Columns that are no features.

    Raises
    ------
    ConnectorError
        If it cannot be read.
    """

    def __init__(self, path: Path, key: str | None, hidden: tuple[str, ...] = ()) -> None:
        if path.suffix.lower() == ".gz":
            raise ConnectorError(
                f"{path} is compressed, and nothing can be looked up in it; give --input a plain file"
            )
        if path.suffix.lower() in (".parquet", ".pq") or path.is_dir():
            raise ConnectorError(
                f"{path} is no table of lines, and features are looked up in such; give --input CSV or JSON Lines"
            )
        self._path, self._key = path, key
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, dict[str, Any] | None] = OrderedDict()
        self._marks = [0]
        self._marked = 0
        self._lines = 0
        self._ahead = 0
        self._missed = 0
        self._header: list[str] | None = None
        self._begun = False
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self._hidden = {*hidden, *([] if key is None else [key])}
        self._begin()

    def _begin(self) -> bool:
        """Look which form the file has, as soon as something stands in it."""
        try:
            with self._path.open("rb") as file:
                first = file.readline(LONGEST)
        except OSError as error:
            raise ConnectorError(f"cannot read {self._path}: {error.strerror}; check the path") from None
        if not first.endswith(b"\n"):
            return False
        if not first.lstrip().startswith(b"{"):
            self._header = next(csv.reader([first.decode(errors="replace")], delimiter=self._delimiter), [])
        names = self._header
        if self._key is not None and names is not None and self._key not in names:
            raise ConnectorError(
                f"{self._path} has no column {self._key!r}; --key names one of {', '.join(names[:20])}"
            )
        self._begun = True
        return True

    def find(self, decision: Mapping[str, Any]) -> dict[str, Any] | None:
        """Find the features of an instance that was decided; None: they are not where they should be."""
        number, key = decision.get("seq"), decision.get("key")
        if not isinstance(number, int) or (self._key is not None and key is None):
            return None
        with self._lock:
            if not (self._begun or self._begin()):
                return None
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
            found = self._look(number, key)
            self._kept[number] = found
            if len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)
            self._missed += found is None
            return found

    def _look(self, number: int, key: object) -> dict[str, Any] | None:
        header = self._header is not None
        start = number + header
        if self._key is None:
            for _, row in self._rows(start, 1):
                return self._shown(row)
            return None
        near = start + self._ahead
        for begin, most in ((max(start, near - 64), 128), (start, NEAR)):
            for line, row in self._rows(begin, most):
                if str(row.get(self._key)) == str(key):
                    self._ahead = max(0, line - start)
                    return self._shown(row)
        return None

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name not in self._hidden}

    def _rows(self, line: int, most: int) -> list[tuple[int, dict[str, Any]]]:
        """Read rows from a line on, each with the number of its line."""
        out: list[tuple[int, dict[str, Any]]] = []
        try:
            with self._path.open("rb") as file:
                self._mark(file, line)
                at = min(line // STRIDE, len(self._marks) - 1)
                file.seek(self._marks[at])
                for _ in range(line - at * STRIDE):
                    if not file.readline():
                        return out
                for here in range(line, line + most):
                    text = file.readline(LONGEST)
                    if not text:
                        break
                    row = self._row(text)
                    if row is not None:
                        out.append((here, row))
        except OSError:
            return out
        return out

    def _mark(self, file: Any, line: int) -> None:
        """Note where every so-many-th line begins, up to one."""
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
            try:
                row = orjson.loads(text)
            except orjson.JSONDecodeError:
                return None
            return row if isinstance(row, dict) else None
        cells = next(csv.reader([text.decode(errors="replace")], delimiter=self._delimiter), [])
        if len(cells) != len(self._header):
            return None
        # a key is text, as the run has read it
        named = zip(self._header, cells, strict=True)
        return {name: cell if name == self._key else _number(cell) for name, cell in named}

    def notes(self) -> list[str]:
        """Say how many instances were not found."""
        if not self._missed:
            return []
        remedy = "" if self._key else "; --key COLUMN finds instances by their keys"
        return [f"The features of {self._missed} instances were not found in {self._path.name}{remedy}."]


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell or None
