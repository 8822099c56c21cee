"""Parquet files of tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_parquet(path: Path, table: Any, **options: Any) -> Path:
    """Write columns by their names, or rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table) if isinstance(table, dict) else pa.Table.from_pylist(table), path, **options)
    return path


def read_parquet(path: Path) -> Any:
    """Read a file or a folder of parts, by the library itself."""
    import pyarrow.parquet as pq

    return pq.read_table(path)
