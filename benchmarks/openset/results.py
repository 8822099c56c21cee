"""The results file: JSON Lines, one line a cell, appended as cells finish and read again to go on."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.openset.cells import Cell

Record = dict[str, Any]
"""A cell as `Cell.as_record` writes it, ``status`` ("done" or "failed") and what was measured, or the ``error``."""


def append(path: Path, record: Record) -> None:
    """Add one line in one write: a reader, or a second writer, never sees half of it.

    What an interrupted write left at the end of the file is closed off first.
    """
    line = json.dumps(_plain(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: Path) -> dict[Cell, Record]:
    """Read the latest record of every cell; a line that is not whole counts as not there."""
    found: dict[Cell, Record] = {}
    for record in lines(path):
        try:
            found[Cell.from_record(record)] = record
        except (KeyError, TypeError):
            continue
    return found


def lines(path: Path) -> Iterator[Record]:
    """Read every line that is whole."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)


def done(records: Iterable[Record]) -> list[Record]:
    """Leave out the failed."""
    return [record for record in records if record["status"] == "done"]


def _plain(value: Any) -> Any:
    """Turn arrays into lists and what is not a finite number into null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
