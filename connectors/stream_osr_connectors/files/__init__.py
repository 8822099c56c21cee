"""Files: streams come from them, and answers go to them.

`Source` and `Sink` are the two interfaces; files (CSV and JSON Lines, plain, gzip or standard input and
output; Parquet with the extra ``parquet``), folders of files and memory are the implementations.
"""

from ..base import BadRecord, CheckedSink, Position, Record, Sink, Source
from ..memory import MemorySink, MemorySource
from ..values import LabelType
from .csv_sink import CsvSink
from .csv_source import CsvSource
from .folder_source import FolderSource
from .formats import Format, open_sink, open_source
from .json_lines import JsonLinesSink, JsonLinesSource
from .parquet_sink import ParquetSink
from .parquet_source import ParquetSource

__all__ = [
    "BadRecord",
    "CheckedSink",
    "CsvSink",
    "CsvSource",
    "FolderSource",
    "Format",
    "JsonLinesSink",
    "JsonLinesSource",
    "LabelType",
    "MemorySink",
    "MemorySource",
    "ParquetSink",
    "ParquetSource",
    "Position",
    "Record",
    "Sink",
    "Source",
    "open_sink",
    "open_source",
]
