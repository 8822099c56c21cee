"""File runs that end after a number of records."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.base import Source
from stream_osr_connectors.files.file_run import FileRun, Sinks


def run(
    model: OpenSetRecognizer, source: Source, sinks: Sinks, *, until: int | None = None, **options: Any
) -> Counter[str]:
    """Run a model over a source, perhaps until so many records are read."""
    one = FileRun(model, source, sinks, **options)
    if until is not None:
        one.stop = lambda: one.totals["read"] >= until
    return one.run()
