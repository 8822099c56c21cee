"""What tests use of the inside of ``stream_osr_connectors.files``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr_connectors import files
from stream_osr_connectors.base import Source
from stream_osr_connectors.files import checkpoint, file_run, locking, open_file
from stream_osr_connectors.files.checkpoint import Checkpoint, ask, load_checkpoint, save_checkpoint, streams_of
from stream_osr_connectors.files.class_columns import class_column, class_of
from stream_osr_connectors.files.columns import columns_of, columns_of_events
from stream_osr_connectors.files.file_run import FileRun, Sinks, go_on
from stream_osr_connectors.files.intake import ATTEMPTS
from stream_osr_connectors.files.key_check import find_key, key_among
from stream_osr_connectors.files.locking import Lock, sole_writer
from stream_osr_connectors.files.parquet_source import ParquetRows
from stream_osr_connectors.files.rejected_record import MOST_KINDS, OTHERS, count_kind
from stream_osr_connectors.files.streams import KeyedStreams, keyed_of
from stream_osr_connectors.files.survey import survey


def run(
    model: OpenSetRecognizer, source: Source, sinks: Sinks, *, until: int | None = None, **options: Any
) -> Counter[str]:
    """Run a model over a source, perhaps until so many records are read."""
    one = FileRun(model, source, sinks, **options)
    if until is not None:
        one.stop = lambda: one.totals["read"] >= until
    return one.run()
