"""What is kept of a record that is set aside: where it stood, and what was read."""

from __future__ import annotations

from stream_osr.errors import ConnectorError

from .base import BadRecord, Record
from .jsonl_sink import json_text
from .values import written


def row_of(record: Record, number: int) -> int:
    """Row of a record in its file, or else its number."""
    row = (record.position or {}).get("row", number)
    return row if isinstance(row, int) else number


def reason_of(record: Record | BadRecord, reason: str) -> str:
    """Give the reason, and before it the file, where the input is several.

    >>> reason_of(Record({}, position={"file": "day2.csv", "row": 2}), "it has no label")
    'day2.csv: it has no label'
    """
    file = (record.position or {}).get("file")
    return f"{file}: {reason}" if isinstance(file, str) else reason


def raw_of(record: Record) -> str:
    """Give what a record was read from: its line as it came, or what there is of it as JSON, or as Python writes it.

    >>> raw_of(Record({"x": 1.0}, raw='{"x": 1e0}')), raw_of(Record({"x": 1.0}, raw={"x": 1.0, "id": 7}))
    ('{"x": 1e0}', '{"x":1.0,"id":7}')
    >>> raw_of(Record({"x": 1.0}, key="a7"))
    "('a7', {'x': 1.0})"
    """
    if isinstance(record.raw, str):
        return record.raw
    if record.raw is not None:
        try:
            return json_text(record.raw)
        except ConnectorError:
            return written(record.raw)
    return written(record.features if record.key is None else (record.key, record.features))
