"""Sources and sinks, opened by file name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePath
from typing import Literal, TypeAlias, Unpack, get_args

from stream_osr.errors import ConnectorError

from ..base import Sink, Source
from .class_columns import header
from .csv_sink import CsvSink
from .csv_source import CsvSource
from .folder_source import FolderSource
from .json_lines import JsonLinesSink, JsonLinesSource
from .open_file import is_folder
from .output_columns import Kind
from .parquet_sink import ParquetSink
from .parquet_source import ParquetSource
from .read_options import ReadOptions

Format: TypeAlias = Literal["csv", "tsv", "jsonl", "parquet"]
"""Comma-separated, tab-separated, JSON Lines, and Parquet."""

_BY_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def open_source(
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    csv_safe: bool = False,
    categorical: Collection[str] = (),
    **reading: Unpack[ReadOptions],
) -> Source:
    """Open a file, a folder of files, or standard input as a source of records.

    Parameters
    ----------
    path
        The file. ``-`` is standard input, which needs a format. For a folder, all its files are read in the order of
        their names (`FolderSource`).
    format
        ``"csv"``, ``"tsv"``, ``"jsonl"`` or ``"parquet"``. The default is the format of the suffix: ``.csv``,
        ``.tsv``, ``.jsonl``, ``.ndjson`` or ``.json``, each also with ``.gz``, and ``.parquet`` or ``.pq``.
    key, time, label, features, label_type, by, max_record_bytes, follow
        As in `CsvSource`, `JsonLinesSource` and `ParquetSource`.
    csv_safe
        ``safe`` of `CsvSource`: whether `open_sink` or `stream-osr` wrote the table.
    categorical
        Columns of a table whose values are categories. In JSON, text and booleans are categories.

    Raises
    ------
    ConnectorError
        If the format is unknown, and as in these classes.
    MissingExtra
        If the format is Parquet, and pyarrow is not installed.

    Examples
    --------
    >>> open_source("readings.xlsx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    stream_osr.errors.ConnectorError: cannot tell the format of readings.xlsx by its suffix ...
    """
    if is_folder(path):
        if reading.get("follow"):
            raise ConnectorError(
                f"{os.fspath(path)} is a folder, and only a file can be followed. A run with --resume reads "
                "files that were added later"
            )
        return FolderSource(
            path,
            lambda each: open_source(each, format=format, csv_safe=csv_safe, categorical=categorical, **reading),
            lambda each: _format(each, format, standard=None),
        )
    chosen = _format(path, format, standard=None)
    if chosen == "jsonl":
        return JsonLinesSource(path, **reading)
    if chosen == "parquet":
        return ParquetSource(path, **reading)
    delimiter = "\t" if chosen == "tsv" else ","
    return CsvSource(path, delimiter=delimiter, safe=csv_safe, categorical=categorical, **reading)


def open_sink(
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    csv_safe: bool = True,
    private: bool = False,
    columns: Mapping[str, Kind] | None = None,
    classes: Iterable[object] | None = None,
) -> Sink:
    """Open a file or standard output as a sink.

    The first `write` or `flush` replaces the content of the file, unless `truncate` sets where it continues. Until
    the sink is closed, no other sink can open the same file, in this program or another.

    Parameters
    ----------
    path
        The file. ``-`` is standard output.
    format
        As in `open_source`. The default for standard output is JSON Lines.
    csv_safe
        ``safe`` of `CsvSink`: whether to put an apostrophe before table text that a spreadsheet would run.
    private
        Whether only the owner can read a new file. Use it for files with rows. An existing file keeps its
        permissions.
    columns
        Names and types of the columns: the header of a table (`CsvSink`), or the types of Parquet (`ParquetSink`).
        The default are those of the first record. JSON Lines does not need them.
    classes
        Known classes. In the header of a table each has a column ``p_CLASS`` in place of ``probabilities``.

    Raises
    ------
    ConnectorError
        If the format is unknown, the file cannot be opened, or another process writes it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "decisions.csv.gz")
    ...     with open_sink(path) as sink:
    ...         sink.write({"key": "a7", "probability": 0.5})
    ...     with open_source(path, key="key") as source:
    ...         record = next(source)
    >>> record.key, record.features
    ('a7', {'probability': 0.5})
    """
    chosen = _format(path, format, standard="jsonl")
    if chosen == "jsonl":
        return JsonLinesSink(path, private=private)
    if chosen == "parquet":
        return ParquetSink(path, columns=columns, private=private)
    fields = None if columns is None else list(columns) if classes is None else header(columns, classes)
    return CsvSink(path, fields=fields, delimiter="\t" if chosen == "tsv" else ",", safe=csv_safe, private=private)


def _format(path: str | os.PathLike[str], format: Format | None, standard: Format | None) -> Format:
    """Return the format. ``standard`` is that of the standard stream, or ``None`` if the caller must give it."""
    known = get_args(Format)
    if format is not None:
        if format not in known:
            raise ConnectorError(f"format {format!r} is not known. It is one of {', '.join(known)}")
        return format
    if os.fspath(path) == "-":
        if standard is None:
            raise ConnectorError(f"standard input has no suffix. Give its format: one of {', '.join(known)}")
        return standard
    whole = PurePath(path).name.lower()
    name = whole.removesuffix(".gz")
    found = _BY_SUFFIX.get(PurePath(name).suffix)
    if found == "parquet" and name != whole:
        raise ConnectorError(f"{os.fspath(path)}: Parquet is compressed inside. Remove .gz, or unpack the file")
    if found is None:
        raise ConnectorError(
            f"cannot tell the format of {os.fspath(path)} by its suffix (known: {', '.join(_BY_SUFFIX)}, "
            f"each but Parquet also with .gz). Rename the file or give the format: one of {', '.join(known)}"
        )
    return found
