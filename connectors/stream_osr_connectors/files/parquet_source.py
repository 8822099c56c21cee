"""Source for Parquet files, which reads batches of rows as Python values (extra: parquet)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

from stream_osr.errors import ConnectorError, MissingExtra

from ..base import BadRecord, BatchCloser, Position, Record
from ..values import DecodeError
from .columns import Columns, columns_of
from .identity import identity_at
from .json_lines import as_text
from .open_file import is_standard, why
from .read_options import ReadOptions, checked_fields, what_there_is

AT_ONCE = 1024
"""Rows in memory at once."""

_BUFFER = 1 << 16
"""Bytes to read ahead in each column."""


def arrow() -> Any:
    """Import pyarrow and its modules for Parquet.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Parquet needs {error.name}. Install it: pip install 'stream-osr[parquet]'") from None
    return pyarrow


class ParquetRows:
    """The rows of one Parquet file, from any row on, in constant memory.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    name
        Name of the file.
    types
        Arrow type of each column by name.
    index
        Columns of the index of a data frame, from the metadata of pandas.
    count
        Number of rows.

    Raises
    ------
    ConnectorError
        If the file cannot be opened or is not Parquet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        pa = arrow()
        self.name = os.fspath(path)
        if is_standard(path):
            raise ConnectorError(
                "Parquet cannot be read from standard input, because its end comes first. Give a file"
            )
        try:
            with Path(path).open("rb"):  # says what is wrong as it does of other files
                self._file = pa.OSFile(self.name)
        except (OSError, pa.ArrowException) as error:
            raise ConnectorError(f"cannot open {self.name}: {why(error)}. Check the path") from None
        try:
            self._parquet = pa.parquet.ParquetFile(self._file, buffer_size=_BUFFER, pre_buffer=False)
            schema = self._parquet.schema_arrow
        except (OSError, pa.ArrowException) as error:
            self._file.close()
            raise ConnectorError(
                f"{self.name} is no Parquet file that can be read ({why(error)}). Check that it is complete"
            ) from None
        if repeated := sorted({name for name in schema.names if schema.names.count(name) > 1}):
            self.close()
            raise ConnectorError(f"{self.name} has column {repeated[0]!r} more than once. Rename the columns")
        self.types: dict[str, Any] = {field.name: field.type for field in schema}
        self.index = _index_of(schema.pandas_metadata)
        self.count: int = self._parquet.metadata.num_rows

    def batches(self, columns: Sequence[str], start: int = 0) -> Iterator[Any]:
        """Read record batches from a row on, counted from 0.

        Raises
        ------
        ConnectorError
            If the rest of the file cannot be read. All records before that were delivered.
        """
        pa, number, groups = arrow(), start, self._parquet.metadata.num_row_groups
        group = 0
        while group < groups and start >= (size := self._parquet.metadata.row_group(group).num_rows):
            start, group = start - size, group + 1
        wanted = list(columns)
        try:
            for batch in self._parquet.iter_batches(
                AT_ONCE, row_groups=list(range(group, groups)), columns=wanted, use_threads=False
            ):
                if start >= batch.num_rows:
                    start -= batch.num_rows
                    continue
                rest, start = batch.slice(start), 0
                number += rest.num_rows
                yield rest
        except (OSError, pa.ArrowException) as error:
            raise ConnectorError(
                f"{self.name}: reading stopped at row {number}: {why(error)}. Earlier records were delivered. "
                "Repair the file and resume from the last position"
            ) from None

    def rows(self, columns: Sequence[str], start: int = 0) -> Iterator[dict[str, Any]]:
        """Read rows from a number on, as :meth:`batches` does."""
        return chain.from_iterable(map(rows_of, self.batches(columns, start)))

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._file.close()


def rows_of(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a record batch. Values are numbers, text, booleans, or seconds since 1970."""
    names, pa = batch.schema.names, arrow()
    values = [_plain(pa, batch.column(at)) for at in range(len(names))]
    for row in zip(*values, strict=True) if values else [()] * batch.num_rows:
        yield dict(zip(names, row, strict=True))


def _index_of(pandas: Any) -> frozenset[str]:
    """Return the index columns, from the metadata that pandas writes with a table."""
    columns = pandas.get("index_columns") if isinstance(pandas, dict) else None
    return frozenset(name for name in columns if isinstance(name, str)) if isinstance(columns, list) else frozenset()


def is_feature(kind: Any) -> bool:
    """Return whether values of an Arrow type are numbers, text, booleans, or lists of numbers or booleans."""
    types = arrow().types
    if is_list(kind):
        return is_feature(kind.value_type) and not is_list(kind.value_type) and not _is_text(kind.value_type)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return _is_text(kind) or any(each(kind) for each in numbers)


def _is_text(kind: Any) -> bool:
    types = arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is a type of lists."""
    types = arrow().types
    plain, views = (types.is_list, types.is_large_list), (types.is_list_view, types.is_large_list_view)
    return any(each(kind) for each in (*plain, types.is_fixed_size_list, *views))


def type_in_words(kind: Any) -> str:
    """Return the name of an Arrow type, without units and names.

    >>> pa = arrow()
    >>> type_in_words(pa.list_(pa.float64())), type_in_words(pa.timestamp("us")), type_in_words(pa.binary())
    ('list<double>', 'timestamp', 'binary')
    """
    if is_list(kind):
        return f"list<{type_in_words(kind.value_type)}>"
    return str(kind).partition("[")[0]


def _plain(pa: Any, column: Any) -> list[Any]:
    """Convert a column to plain values."""
    kind, types = column.type, pa.types
    if types.is_date(kind):
        column = column.cast(pa.timestamp("ms"))
        kind = column.type
    if types.is_timestamp(kind):
        units = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        return [None if each is None else each / units for each in column.cast(pa.int64()).to_pylist()]
    if types.is_decimal(kind) or types.is_float16(kind):
        column = column.cast(pa.float64())
    if types.is_map(kind):
        return [None if each is None else dict(each) for each in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _values_of(pa: Any, column: Any) -> Any:
    """Convert a column to an array of numbers if it has no null, and to plain values otherwise."""
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return column.to_numpy(zero_copy_only=False) if numeric and not column.null_count else _plain(pa, column)


class ParquetSource(BatchCloser, Iterator[Record | BadRecord]):
    """Records from the rows of a Parquet file, whose column types separate numbers from text.

    Every column of numbers, text or booleans except the key, the time, the label and the stream key is a feature.
    Text and booleans are categories. A column of lists of numbers is a feature for each number. Columns of other
    types (times, bytes, lists of text) are not features: ``left_out`` has their names and types. An empty value is a
    missing value, and so is NaN. A column ``"features"`` of named fields contains the features, as in JSON Lines. The
    index of a data frame is not a feature if the file marks it as the index. ``declared`` has the columns of a
    categorical type: their values are categories whatever they look like.

    Parameters
    ----------
    path
        The file.
    key, time, label, features, label_type, by
        As in `JsonLinesSource`. A time may also be a timestamp (UTC if it has no time zone).
    max_record_bytes
        No effect, because a row has the length in the file.
    follow
        Must be ``False``, because a Parquet file is readable only when it is complete.

    Raises
    ------
    ConnectorError
        When opening: the file cannot be read, is no Parquet file, lacks a named column, or has only columns that
        cannot be features. While iterating: the rest of the file cannot be read. All records before that were
        delivered.
    MissingExtra
        If pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "sensors.parquet")
    ...     pa.parquet.write_table(pa.table({"id": [7, 8], "a": [1.5, None], "kind": ["hot", "cold"]}), path)
    ...     with ParquetSource(path, key="id") as source:
    ...         [(record.key, record.features) for record in source]
    [(7, {'a': 1.5, 'kind': 'hot'}), (8, {'kind': 'cold'})]
    """

    def __init__(self, path: str | os.PathLike[str], **reading: Unpack[ReadOptions]) -> None:
        fields = {name: value for name, value in reading.items() if name not in ("max_record_bytes", "follow")}
        self._fields = checked_fields(**fields)  # type: ignore[arg-type]  # the others are left out
        if reading.get("follow"):
            raise ConnectorError(
                f"{os.fspath(path)} cannot be followed: Parquet is readable only when it is complete. "
                "Follow CSV or JSON Lines"
            )
        self._parquet = ParquetRows(path)
        self.name = self._parquet.name
        self.left_out: dict[str, str] = {}
        try:
            self._columns = self._place_columns()
            size = Path(path).stat().st_size
            with Path(path).open("rb") as file:
                self._identity = {"size": size, **identity_at(file, size)}
        except BaseException:
            self.close()
            raise
        self._begin(0)

    @property
    def whole_keys(self) -> bool:
        """Whether all keys are whole numbers."""
        kind = self._parquet.types.get(self._fields.key or "")
        return kind is not None and bool(arrow().types.is_integer(kind))

    def _begin(self, row: int) -> None:
        """Go to a row."""
        self._row, self._batches = row, self._parquet.batches(self._columns, row)
        self._batch: Any = None
        self._at = self._size = 0
        self._rows: list[dict[str, Any]] | None = None

    def _next_batch(self) -> bool:
        """Read the next record batch if the present one is used up. Return false at the end."""
        while self._at >= self._size:
            self._batch, self._at, self._rows = next(self._batches, None), 0, None
            self._size = 0 if self._batch is None else self._batch.num_rows
            if self._batch is None:
                return False
        return True

    def take_columns(self, most: int) -> Columns | None:
        """Read the next records as columns (:class:`.columns.ColumnSource`)."""
        self._taken = 0
        if not self._next_batch():
            return None
        part = self._batch.slice(self._at, most)
        table = {name: _values_of(arrow(), part.column(at)) for at, name in enumerate(part.schema.names)}
        written = any(value != value for values in table.values() for value in values if isinstance(value, float))
        if written and any(part.column(at).null_count for at in range(part.num_columns)):
            return None
        found = columns_of(table, part.num_rows, self._fields, written=written)
        if found is None:
            return None
        self._taken = part.num_rows
        self._at, self._row = self._at + self._taken, self._row + self._taken
        return found._replace(position={"row": self._row, **self._identity})

    def give_back(self) -> None:
        """Return the records of the last :meth:`take_columns`."""
        self._at, self._row, self._taken = self._at - self._taken, self._row - self._taken, 0

    def __next__(self) -> Record | BadRecord:
        if not self._next_batch():
            raise StopIteration
        if self._rows is None:
            self._rows = [*rows_of(self._batch)]
        row, self._at = self._rows[self._at], self._at + 1
        self._row += 1
        position = {"row": self._row, **self._identity}
        try:
            record = self._fields.record(row, position, row)
            return record._replace(ignored=self._ignored) if self._ignored else record
        except DecodeError as error:
            return BadRecord(position, self._row, as_text(row), str(error))

    def seek(self, position: Position | None) -> None:
        """Continue after the record that carried this position, or at the beginning for ``None``.

        Raises
        ------
        ConnectorError
            If it is not the file of the position, or the position is not one of a Parquet file.
        """
        row = 0 if position is None else position.get("row")
        if type(row) is not int or row < 0 or (position is not None and "size" not in position):
            raise ConnectorError(
                f"{position!r} is not a position in a Parquet file: 'row' and 'size' should be whole numbers. "
                "Give a position from a record of this file"
            )
        its = None if position is None else {name: value for name, value in position.items() if name != "row"}
        if row > self._parquet.count or its not in (None, self._identity):
            raise ConnectorError(
                f"{self.name}: this is not the file that was being read (its size, or its first or last bytes, "
                "differ). Give the file of the position, or start without a position"
            )
        self._begin(row)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._parquet.close()

    def _place_columns(self) -> list[str]:
        """Find the columns to read, and refuse ambiguous names."""
        types, fields = self._parquet.types, self._fields
        named = [*fields.special]
        nested = types.get("features")
        if nested is not None and arrow().types.is_struct(nested):
            there: dict[str, Any] = {field.name: field.type for field in nested}
            held = ["features"]
        else:
            there, held = types, []
        from stream_osr.instances.embedding import folded  # slow to import

        self.feature_columns = None if fields.features is None else folded(fields.features, there)
        if self.feature_columns is None:
            free = {name: kind for name, kind in there.items() if held or name not in named}
            index = frozenset() if held else self._parquet.index & free.keys()
            usable = {name: kind for name, kind in free.items() if is_feature(kind) and name not in index}
            self.feature_columns = list(usable)
            self.left_out = {
                name: "the index of a data frame" if name in index else type_in_words(kind)
                for name, kind in free.items()
                if name not in usable
            }
            if self.left_out and not self.feature_columns:
                its = ", ".join(f"{name!r} is {kind}" for name, kind in self.left_out.items())
                raise ConnectorError(
                    f"{self.name} has no feature, which is numbers, text, booleans or lists of numbers: {its}. "
                    "Convert a column, or give a struct column 'features'"
                )
        for name, among in (*((name, types) for name in named), *((name, there) for name in self.feature_columns)):
            if name not in among:
                raise ConnectorError(f"{self.name} has no column {name!r}. {what_there_is(name, list(among))}")
        used = {*named, *self.feature_columns}
        self._ignored = tuple(name for name in there if name not in used)
        for name in self.feature_columns:
            if not is_feature(there[name]):
                raise ConnectorError(
                    f"{self.name}: column {name!r} is of type {there[name]}. A feature is numbers, text, "
                    "booleans or lists of numbers"
                )
        is_categorical = arrow().types.is_dictionary
        self.declared = frozenset(name for name in self.feature_columns if is_categorical(there[name]))
        return list(dict.fromkeys([*named, *(held or self.feature_columns)]))
