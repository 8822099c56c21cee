"""Sources and sinks for files.

`Source` and `Sink` are the two interfaces. The implementations read and write CSV and JSON Lines (plain, gzip, or
standard input and output), Parquet (extra ``parquet``), folders of files, and memory.
"""

from ..base import BadRecord, CheckedSink, Position, Record, Sink, Source
from ..memory import FrameSource, MemorySink, MemorySource
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
    "FrameSource",
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
