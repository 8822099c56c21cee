"""What tests use of the inside of ``stream_osr_connectors.files``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.base import Source
from stream_osr_connectors.files.file_run import FileRun, Sinks

__all__ = [
    *("ATTEMPTS", "MOST_KINDS", "OTHERS", "Checkpoint", "FileRun", "Lock", "ParquetRows", "Sinks", "columns_of"),
    *("columns_of_events", "count_kind", "find_key", "go_on", "key_among", "load_checkpoint", "run"),
    *("save_checkpoint", "sole_writer", "survey"),
]


def run(model: OpenSetRecognizer, source: Source, sinks: Sinks, **options: Any) -> Counter[str]:
    """Run a model over a source."""
    return FileRun(model, source, sinks, **options).run()
