"""Source for the files of a folder, read as one input."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stream_osr.errors import ConnectorError

from ..base import BadRecord, BatchCloser, Position, Record, Source
from .columns import Columns, ColumnSource
from .csv_source import CsvSource
from .identity import identity_at


class FolderSource(BatchCloser, Iterator[Record | BadRecord]):
    r"""Records from the files of a folder in the order of their names, each with a header.

    All files must have the same format and the same columns. Files whose names begin with a dot or an underscore are
    ignored. The source lists the files when it is opened. A run that resumes reads later files.

    Delivery: every record once and in order, replayable across the files. A position is the position in its file with
    three more fields. ``"file"`` is the name of the file, ``"before"`` the hash of the names before it, and
    ``"read"`` the hash of the identities of those files (`identity`).

    Parameters
    ----------
    path
        The folder.
    open_one
        Opens one file.
    format_of
        Returns the format of a file.

    Attributes
    ----------
    feature_columns
        Names of the features, if the files are tables.
    left_out, declared
        For Parquet: columns whose types cannot be features, and columns whose types are categorical.

    Raises
    ------
    ConnectorError
        When opening: there is no file, formats or columns differ, or a file cannot be opened. While iterating: as the
        sources of the files.

    Examples
    --------
    >>> import tempfile
    >>> from stream_osr_connectors.files import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in ("monday", "tuesday"):
    ...         _ = Path(folder, f"{day}.csv").write_text(f"a,day\n1,{day}\n")
    ...     with open_source(folder, key="day") as source:
    ...         [(record.key, record.position["file"]) for record in source]
    [('monday', 'monday.csv'), ('tuesday', 'tuesday.csv')]
    """

    def __init__(
        self, path: str | os.PathLike[str], open_one: Callable[[Path], Source], format_of: Callable[[Path], str]
    ) -> None:
        self.name = os.fspath(path)
        self._files = sorted(each for each in Path(path).iterdir() if each.name[:1] not in (".", "_"))
        self._names = [each.name for each in self._files]
        self._open_one = open_one
        self.categorical: frozenset[str] | None = None  # if a caller sets it, that of tables
        self.whole_keys = True  # as of Parquet; found out by the look at all files
        self._check_all(format_of)
        self._open(0, [])

    def __next__(self) -> Record | BadRecord:
        while True:
            try:
                record = next(self._source)
                break
            except StopIteration:
                if self._at + 1 >= len(self._files):
                    raise
                self._go_to(self._at + 1, [*self._identities, _identity(self._files[self._at])])
        return record._replace(position=self._position(record.position))

    def _position(self, position: Position | None) -> Position:
        """Add the file to a position in it."""
        its = {"file": self._names[self._at], "before": self._before, "read": self._read}
        return {**(position or {}), **its}

    def take_columns(self, most: int) -> Columns | None:
        """Read the next records of a file as columns (:class:`.columns.ColumnSource`)."""
        found = self._source.take_columns(most) if isinstance(self._source, ColumnSource) else None
        return None if found is None else found._replace(position=self._position(found.position))

    def give_back(self) -> None:
        """Return the records of the last :meth:`take_columns`."""
        if isinstance(self._source, ColumnSource):
            self._source.give_back()

    def seek(self, position: Position | None) -> None:
        """Continue after the record that carried this position, or at the beginning for ``None``.

        Raises
        ------
        ConnectorError
            If the file is missing, or the files before it have changed or are new. Also as the source of the file.
        """
        if position is None:
            self._go_to(0, [])
            return
        file, before = position.get("file"), position.get("before")
        if not isinstance(file, str) or not isinstance(before, str):
            raise ConnectorError(
                f"{dict(position)!r} is not a position in a folder: 'file' should be the name of a file. "
                "Give a position from a record of this folder"
            )
        if file not in self._names:
            raise ConnectorError(f"{self.name} has no file {file!r}, which was being read. Give the whole folder")
        at = self._names.index(file)
        if _digest(self._names[:at]) != before:
            raise ConnectorError(
                f"{self.name}: the files before {file!r} are not those that were read. The name of a new file must "
                "come after the names of older files"
            )
        identities = [_identity(path) for path in self._files[:at]]
        if position.get("read") != _digest(identities):
            raise ConnectorError(
                f"{self.name}: a file before {file!r} is not the one that was read (its size, or its first or last "
                "bytes, differ). Give the files that were read, or start without a position (without --resume)"
            )
        self._go_to(at, identities)
        self._source.seek({name: value for name, value in position.items() if name not in ("file", "before", "read")})

    def close(self) -> None:
        """Close the open file. A second call does nothing."""
        self._source.close()

    def _check_all(self, format_of: Callable[[Path], str]) -> None:
        """Check that all files belong together."""
        if not self._files:
            raise ConnectorError(f"{self.name} is a folder without files. Give a folder with files")
        if inside := [path.name for path in self._files if path.is_dir()]:
            raise ConnectorError(f"{self.name} holds the folder {inside[0]!r}. Give a folder of files only")
        first: tuple[str, Any] | None = None
        for path in self._files:
            with self._open_one(path) as source:
                found = format_of(path), frozenset(getattr(source, "feature_columns", ()))
                self.whole_keys &= bool(getattr(source, "whole_keys", False))
            if first is None:
                first = found
            elif found[0] != first[0]:
                raise ConnectorError(
                    f"{self.name} holds {self._names[0]!r} ({first[0]}) and {path.name!r} ({found[0]}). "
                    "Give a folder of files of one format"
                )
            elif found[1] != first[1]:
                name = min(found[1] ^ first[1])
                has, lacks = (path.name, self._names[0]) if name in found[1] else (self._names[0], path.name)
                raise ConnectorError(
                    f"{self.name}: {has!r} has a column {name!r} and {lacks!r} has none. Give files with the same "
                    "columns, or name the features"
                )

    def _go_to(self, at: int, identities: list[str]) -> None:
        self._source.close()
        self._open(at, identities)

    def _open(self, at: int, identities: list[str]) -> None:
        """Open a file, given the identities of the files before it."""
        self._at, self._source, self._identities = at, self._open_one(self._files[at]), identities
        self._before, self._read = _digest(self._names[:at]), _digest(identities)
        self.feature_columns: Sequence[str] = getattr(self._source, "feature_columns", ())
        self.left_out: Mapping[str, str] = getattr(self._source, "left_out", {})
        self.declared: frozenset[str] = getattr(self._source, "declared", frozenset())
        if self.categorical is not None and isinstance(self._source, CsvSource):
            self._source.categorical = self.categorical


def _identity(path: Path) -> str:
    """Return the identity of a whole file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        return f"{size} {identity_at(file, size)['sha256'] if size else ''}"


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()
