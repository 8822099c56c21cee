"""Rows of a Parquet file as Python has them, batch by batch (extra: parquet)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stream_osr.errors import ConnectorError, MissingExtra

from .opening import is_standard, why

AT_ONCE = 1024
"""Rows that are in memory at once."""

_BUFFER = 1 << 16
"""Bytes that are read ahead in each column."""


def arrow() -> Any:
    """Import pyarrow, with what reads and writes Parquet.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Parquet needs {error.name}; pip install 'stream-osr[parquet]' brings it") from None
    return pyarrow


class ParquetRows:
    """The rows of one Parquet file, from wherever one wants them, in constant memory.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    name
        Of the file.
    types
        Arrow type of each column, by its name.
    index
        Columns that are the index of a data frame, as pandas says in the file.
    count
        Rows that there are.

    Raises
    ------
    ConnectorError
        If it cannot be opened, or is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        pa = arrow()
        self.name = os.fspath(path)
        if is_standard(path):
            raise ConnectorError("Parquet cannot be read from standard input, its end comes first; give a file")
        try:
            with Path(path).open("rb"):  # says what is wrong as it does of other files
                self._file = pa.OSFile(self.name)
        except (OSError, pa.ArrowException) as error:
            raise ConnectorError(f"cannot open {self.name}: {why(error)}; check the path") from None
        try:
            self._parquet = pa.parquet.ParquetFile(self._file, buffer_size=_BUFFER, pre_buffer=False)
            schema = self._parquet.schema_arrow
        except (OSError, pa.ArrowException) as error:
            self._file.close()
            raise ConnectorError(
                f"{self.name} is no Parquet file that can be read ({why(error)}); was it written to its end?"
            ) from None
        if repeated := sorted({name for name in schema.names if schema.names.count(name) > 1}):
            self.close()
            raise ConnectorError(f"{self.name} has column {repeated[0]!r} more than once; rename the columns")
        self.types: dict[str, Any] = {field.name: field.type for field in schema}
        self.index = _index_of(schema.pandas_metadata)
        self.count: int = self._parquet.metadata.num_rows

    def rows(self, columns: Sequence[str], start: int = 0) -> Iterator[dict[str, Any]]:
        """Read rows from one on, numbered from 0: numbers, text, booleans; of a time its seconds since 1970.

        Raises
        ------
        ConnectorError
            If the file cannot be read on; everything before that was delivered.
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
                values = [_plain(pa, rest.column(name)) for name in wanted]
                for row in zip(*values, strict=True) if values else [()] * rest.num_rows:
                    number += 1
                    yield dict(zip(wanted, row, strict=True))
        except (OSError, pa.ArrowException) as error:
            raise ConnectorError(
                f"{self.name}: reading stopped at row {number}: {why(error)}. What stands before that was delivered; "
                "repair the file and resume from the last position"
            ) from None

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


def _index_of(pandas: Any) -> frozenset[str]:
    """Name the columns that are the index, by what pandas has written beside a table."""
    columns = pandas.get("index_columns") if isinstance(pandas, dict) else None
    return frozenset(name for name in columns if isinstance(name, str)) if isinstance(columns, list) else frozenset()


def is_feature(kind: Any) -> bool:
    """Say whether values of an Arrow type are numbers, text or booleans."""
    types = arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(each(kind) for each in known) or is_text(kind)


def is_text(kind: Any) -> bool:
    """Say whether values of an Arrow type are text."""
    types = arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(each(kind) for each in (types.is_string, types.is_large_string, types.is_string_view))


def is_categorical(kind: Any) -> bool:
    """Say whether values of an Arrow type are those of a categorical column of a data frame."""
    return bool(arrow().types.is_dictionary(kind))


def type_in_words(kind: Any) -> str:
    """Say what an Arrow type is, without its units and names.

    >>> pa = arrow()
    >>> type_in_words(pa.list_(pa.float64())), type_in_words(pa.timestamp("us")), type_in_words(pa.binary())
    ('list<double>', 'timestamp', 'binary')
    """
    types = arrow().types
    if any(each(kind) for each in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return f"list<{type_in_words(kind.value_type)}>"
    return str(kind).partition("[")[0]


def _plain(pa: Any, column: Any) -> list[Any]:
    """Turn a column into plain values."""
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
