"""Sink for Parquet (extra: parquet): a folder of parts, because a Parquet file cannot be appended to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from stream_osr.errors import ConnectorError
from stream_osr.support.atomic import flush_folder

from ..base import Position
from .byte_sink import DurableSink
from .class_columns import without_later
from .identity import identity_at, why_not
from .locking import Lock
from .open_file import is_standard, why
from .output_columns import Kind, fitted, kind_of
from .parquet_source import arrow

ROWS_OF_A_GROUP: Final = 8192
"""Rows in memory, which become a row group of a part."""

_PART = re.compile(r"part-([0-9]{8})\.parquet")


class ParquetSink(DurableSink):
    """Records as rows of a folder of Parquet files, ``part-00000000.parquet`` and so on, one for each `flush`.

    Any program that reads Parquet reads such a folder as one table. Columns have types, and all parts have the same
    columns. A missing field is empty.

    Delivery: when `flush` returns, a part appears whole under its name. It is never written again. With `truncate` to
    a stored `position`, every record is in the folder exactly once. Positions are ``{"parts": number of parts,
    "rows": rows in them, "columns": their kinds, "offset": size of the last part, "hashed": n, "sha256": hash of its
    first and last n bytes}``. While the sink is open, no other sink opens the same folder.

    Parameters
    ----------
    path
        The folder, which the sink creates if it does not exist. The first `write` or `flush` replaces its parts,
        unless `truncate` continues them.
    columns
        Types of the columns (default: from the first record).
    private
        Whether only the owner can read a new folder and the parts.

    Raises
    ------
    ConnectorError
        If the folder cannot be written or contains something else, another process writes it, or a record does not
        fit.
    MissingExtra
        If pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "decisions.parquet")
    ...     with ParquetSink(path) as sink:
    ...         sink.write({"key": "a7", "label": "red", "probabilities": {"red": 0.9, "unknown": 0.1}})
    ...         sink.flush()
    ...         sink.write({"key": "a8", "label": None})
    ...     sorted(os.listdir(path)), pyarrow.parquet.read_table(path).column("key").to_pylist()
    (['part-00000000.parquet', 'part-00000001.parquet'], ['a7', 'a8'])
    """

    def __init__(
        self, path: str | os.PathLike[str], *, columns: Mapping[str, Kind] | None = None, private: bool = False
    ) -> None:
        arrow()
        self.name = os.fspath(path)
        if is_standard(path):
            raise ConnectorError(
                "Parquet cannot go to standard output, because it is a folder of files. Name a folder"
            )
        self._private = private
        self._given = self._columns = None if columns is None else dict(columns)
        self._rows: list[Mapping[str, object]] = []
        self._open: _Part | None = None
        self._parts = self._written = self._flushed = 0
        self._last: Position = {}
        self._lock = Lock(path)
        with ExitStack() as failing:
            failing.callback(self._lock.release)
            self._lock.take_name(needed=False)
            self._folder = _folder(path, private)
            descriptor = os.open(self._folder, os.O_RDONLY)
            try:
                self._lock.take_file(descriptor)
            finally:
                os.close(descriptor)
            self._there()
            failing.pop_all()

    def write(self, record: Mapping[str, object]) -> None:
        """Write one record, which waits in memory for its row group or for `flush`.

        Raises
        ------
        ConnectorError
            If the folder does not accept the record, or the record does not fit the columns. It is then not written.
        """
        self._check_usable()
        if self._columns is None:
            self._columns = {name: kind_of(value) for name, value in record.items()}
        record = without_later(record, self._columns)
        if extra := [repr(name) for name in record if name not in self._columns]:
            raise ConnectorError(
                f"{self.name}: there is no column {', '.join(extra)}. Name all columns when opening, "
                "or write JSON Lines, where records may differ"
            )
        row = {name: fitted(record.get(name), kind, name) for name, kind in self._columns.items()}
        self._start()
        self._rows.append(row)
        if len(self._rows) >= ROWS_OF_A_GROUP:
            self._put()

    def flush(self) -> None:
        """Make everything written so far durable, as a new part. Without new records there is no new part.

        Raises
        ------
        ConnectorError
            If the folder does not accept the data, for instance because the disk is full.
        """
        self._check_usable()
        self._start()
        if not self._rows and self._open is None:
            return
        self._put()
        self._finish()

    def position(self) -> Position:
        """Return the parts at the last `flush`, with the identity of the last one."""
        return {"parts": self._parts, "rows": self._flushed, "columns": self._columns, **self._identity()}

    def truncate(self, position: Position | None) -> None:
        """Remove all parts after a position, or all parts for ``None``. The position also sets the columns.

        Raises
        ------
        ConnectorError
            If there are fewer parts than in the position, or the content of the last part differs. Nothing is removed
            then.
        """
        parts, rows = self._checked(position)
        columns = None if position is None or not parts else position["columns"]
        self._columns = dict(columns) if isinstance(columns, Mapping) else self._given
        self._drop(parts)
        self._flushed = self._written = rows

    def _end(self) -> None:
        """Flush. If nothing was ever written and the columns are known, write them in a part without rows."""
        self.flush()
        if not self._parts and self._columns:
            self._put()
            self._finish()

    def _let_go(self) -> None:
        if self._open is not None:
            self._open.abandon()

    def _there(self) -> list[int]:
        """Return the numbers of the existing parts. Refuse a folder with other files."""
        numbers = []
        for path in self._folder.iterdir():
            part = _PART.fullmatch(path.name)
            if part is None and not path.name.startswith("."):
                raise ConnectorError(
                    f"{self.name} holds {path.name!r}, which no run has written. Parquet needs a folder for itself. "
                    "Give another name"
                )
            if part is not None:
                numbers.append(int(part[1]))
        return sorted(numbers)

    def _path_of(self, number: int) -> Path:
        return self._folder / f"part-{number:08d}.parquet"

    def _identity(self) -> Position:
        return self._last if self._parts else {"offset": 0, "inode": self._folder.stat().st_ino}

    def _checked(self, position: Position | None) -> tuple[int, int]:
        """Return parts and rows of a position to which the folder can be cut."""
        if position is None:
            return 0, 0
        counts = [position.get(name) for name in ("parts", "rows", "offset")]
        parts, rows, offset = (each if type(each) is int and each >= 0 else -1 for each in counts)
        if min(parts, rows, offset) < 0 or (parts and not isinstance(position.get("columns"), Mapping)):
            raise ConnectorError(
                f"{dict(position)!r} is not a position of the Parquet folder {self.name}. "
                "Give what position() returned"
            )
        there = self._there()
        reason = None
        if not parts:
            if there and position.get("inode") != self._folder.stat().st_ino:
                reason = f"has {len(there)} parts, and there was an empty folder"
        elif there[:parts] != list(range(parts)):
            reason = f"has {len(there)} parts and cannot be cut to {parts}"
        else:
            with self._path_of(parts - 1).open("rb") as file:
                reason = why_not(file, position, offset, compressed=False)
                reason = reason and f"has another part {self._path_of(parts - 1).name}: it {reason}"
        if reason is not None:
            raise ConnectorError(
                f"{self.name} {reason}: it is not what was being written. Give that, or start without a position"
            )
        return parts, rows

    def _start(self) -> None:
        """Remove the output of an earlier run before the first row."""
        if not self._started:
            self._drop(0)

    def _drop(self, parts: int) -> None:
        """Remove unfinished files, and all parts from a number on, the last one first."""
        self._rows.clear()
        with self._writing():
            self._let_go()
            self._open = None
            for number in reversed(self._there()):
                if number >= parts:
                    self._path_of(number).unlink()
            for left in self._folder.glob(".part-*.writing"):
                left.unlink()
            flush_folder(self._folder)
            flush_folder(self._folder.parent)
            self._failure, self._started, self._parts = None, True, parts
            self._last = self._last_position()

    def _put(self) -> None:
        """Write the buffered rows as a row group."""
        pa = arrow()
        schema = pa.schema([(name, _types(pa)[kind]()) for name, kind in (self._columns or {}).items()])
        with self._writing():
            if self._open is None:
                self._open = _Part(self._path_of(self._parts), schema, self._private)
            columns = [[row[name] for row in self._rows] for name in schema.names]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            self._open.writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        self._written += len(self._rows)
        self._rows.clear()

    def _finish(self) -> None:
        """Give the open part its name."""
        assert self._open is not None
        with self._writing():
            self._open.finish()
            self._open = None
            self._parts += 1
            self._flushed = self._written
            self._last = self._last_position()

    def _last_position(self) -> Position:
        if not self._parts:
            return {}
        with self._path_of(self._parts - 1).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return {"offset": size, **identity_at(file, size)}


class _Part:
    """A part that is being written. It gets its name when it is complete and on the disk."""

    def __init__(self, path: Path, schema: Any, private: bool) -> None:
        self._path = path
        self._hidden = path.with_name(f".{path.name}.writing")
        descriptor = os.open(self._hidden, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self.writer = arrow().parquet.ParquetWriter(self._file, schema)

    def finish(self) -> None:
        self.writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._hidden.rename(self._path)
        flush_folder(self._path.parent)

    def abandon(self) -> None:
        with suppress(OSError):
            self.writer.close()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._hidden.unlink()


def _types(pa: Any) -> Mapping[Kind, Callable[[], Any]]:
    """Return the Arrow type for each kind of column."""
    return {
        "text": pa.string,
        "whole": pa.int64,
        "number": pa.float64,
        "truth": pa.bool_,
        "figures": lambda: pa.map_(pa.string(), pa.float64()),
        "json": pa.string,
    }


def _folder(path: str | os.PathLike[str], private: bool) -> Path:
    """Create the folder if it does not exist."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ConnectorError(
            f"{folder} is a file, and Parquet goes to a folder of parts: remove it, or give another name"
        )
    try:
        folder.mkdir(mode=0o700 if private else 0o777, exist_ok=True)
    except OSError as error:
        raise ConnectorError(f"cannot open {folder} for writing: {why(error)}. Check the path") from None
    return Path(os.path.realpath(folder))
