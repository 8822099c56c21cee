"""Open a source or a sink by the name of its file."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Literal, TypeAlias, Unpack, get_args

from stream_osr.errors import ConnectorError

from ..base import Sink, Source
from .columns import Kind
from .csv_sink import CsvSink
from .csv_source import CsvSource
from .folder_source import FolderSource
from .json_lines import JsonLinesSink, JsonLinesSource
from .line_source import ReadOptions
from .open_file import is_folder
from .parquet_sink import ParquetSink
from .parquet_source import ParquetSource

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
    """Open a file, a folder of files, or standard input, as a source of records.

    Parameters
    ----------
    path
        The file; ``-`` is standard input, which needs a format. Of a folder all files are read, in the order of their
        names (`FolderSource`).
    format
        ``"csv"``, ``"tsv"``, ``"jsonl"`` or ``"parquet"``; if not given, it is told by the suffix: ``.csv``,
        ``.tsv``, ``.jsonl``, ``.ndjson`` or ``.json``, and any of them with ``.gz``; ``.parquet`` or ``.pq``.
    key, time, label, features, label_type, max_record_bytes, follow
        As for `CsvSource`, `JsonLinesSource` and `ParquetSource`.
    csv_safe
        ``safe`` of `CsvSource`: the table was written by `open_sink`, or by `stream-osr`.
    categorical
        Columns of a table whose values are categories; in JSON text and booleans are.

    Raises
    ------
    ConnectorError
        If the format cannot be told, and as those say.
    MissingExtra
        If it is Parquet, and pyarrow is not installed.

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
                f"{os.fspath(path)} is a folder, and only a file can be followed; a run that goes on (--resume) "
                "takes the files that came later"
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
) -> Sink:
    """Open a file, or standard output, as a sink.

    What the file held is replaced by the first `write` or `flush`, unless `truncate` says from where it
    goes on. Until it is closed, no other sink opens the same file, in this program or another.

    Parameters
    ----------
    path
        The file; ``-`` is standard output.
    format
        As for `open_source`; standard output gets JSON Lines if nothing is said.
    csv_safe
        ``safe`` of `CsvSink`: text in a table that a spreadsheet would take for a formula is made plain text.
    private
        Whether a file that is made is its owner's alone, as befits what holds rows; one that exists keeps its rights.
    columns
        Names of the columns, and what stands in each: the header of a table (`CsvSink`), the types of Parquet
        (`ParquetSink`). If not given, those of the first record; JSON Lines needs nothing of the kind.

    Raises
    ------
    ConnectorError
        If the format cannot be told, the file cannot be opened, or somebody else is writing it.

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
    fields = None if columns is None else list(columns)
    return CsvSink(path, fields=fields, delimiter="\t" if chosen == "tsv" else ",", safe=csv_safe, private=private)


def _format(path: str | os.PathLike[str], format: Format | None, standard: Format | None) -> Format:
    """Choose the format; ``standard`` is that of the standard stream, ``None`` if it has to be given."""
    known = get_args(Format)
    if format is not None:
        if format not in known:
            raise ConnectorError(f"format {format!r} is not known; it is one of {', '.join(known)}")
        return format
    if os.fspath(path) == "-":
        if standard is None:
            raise ConnectorError(f"standard input has no suffix; say its format: one of {', '.join(known)}")
        return standard
    whole = PurePath(path).name.lower()
    name = whole.removesuffix(".gz")
    found = _BY_SUFFIX.get(PurePath(name).suffix)
    if found == "parquet" and name != whole:
        raise ConnectorError(f"{os.fspath(path)}: Parquet is compressed inside; leave .gz away, or unpack it")
    if found is None:
        raise ConnectorError(
            f"cannot tell the format of {os.fspath(path)} by its suffix (known: {', '.join(_BY_SUFFIX)}, "
            f"each but Parquet also with .gz); rename the file or say the format: one of {', '.join(known)}"
        )
    return found
