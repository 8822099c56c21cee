"""A record that is set aside: its row, the reason, and its original text."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from ..base import BadRecord, Record
from ..values import written
from .json_lines import as_text


class RejectedRecord(NamedTuple):
    """A record that is set aside: its row (0 for an earlier run), the reason, and its original text."""

    row: int
    reason: str
    raw: str


def row_of(record: Record, number: int) -> int:
    """Row of a record in its file, or its number."""
    row = (record.position or {}).get("row", number)
    return row if isinstance(row, int) else number


def reason_of(record: Record | BadRecord, reason: str) -> str:
    """Return the reason. If the input is several files, the file comes first.

    >>> reason_of(Record({}, position={"file": "day2.csv", "row": 2}), "it has no label")
    'day2.csv: it has no label'
    """
    file = (record.position or {}).get("file")
    return f"{file}: {reason}" if isinstance(file, str) else reason


MOST_KINDS, OTHERS = 50, "other reasons"
"""Most kinds of reasons that are counted separately, and the name for all others."""
_FILE = re.compile(r"\A.{1,255}?\.(?:csv|tsv|jsonl?|ndjson|parquet|pq)(?:\.gz)?: ")
_FIGURE = re.compile(r"(?<![\w.])[-+]?\d[\w.,:+-]*")
_VALUE = re.compile(r"\b(is|holds|has) ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-?(?:inf|nan))(?: \(\w+\))?")
_REMEDY = re.compile(r"; |\. (?=[A-Z])")
"""Beginning of the remedy, the sentence after the problem."""


def kind_of(reason: str) -> str:
    """Return the kind of a reason: the reason without the file, values, numbers and the remedy.

    >>> kind_of("feature 'flow' is 'high' (str): expected a finite number (None or NaN if missing). Leave it out")
    "feature 'flow' is …: expected a finite number (None or NaN if missing)"
    >>> kind_of("day2.csv: the row has 3 fields, the header 4. Check delimiters and quotes")
    'the row has … fields, the header …'
    """
    first = _REMEDY.split(_VALUE.sub(r"\1 …", _FILE.sub("", reason)), maxsplit=1)[0]
    return _FIGURE.sub("…", first)[:200]


def count_kind(reasons: Counter[str], reason: str) -> None:
    """Count a reason by its kind. All kinds beyond ``MOST_KINDS`` are counted together."""
    kind = kind_of(reason)
    reasons[kind if kind in reasons or len(reasons) < MOST_KINDS else OTHERS] += 1


def raw_of(record: Record) -> str:
    """Return the original text of a record: its line, or its fields as JSON, or as Python writes them.

    >>> raw_of(Record({"x": 1.0}, raw='{"x": 1e0}')), raw_of(Record({"x": 1.0}, raw={"x": 1.0, "id": 7}))
    ('{"x": 1e0}', '{"x":1.0,"id":7}')
    >>> raw_of(Record({"x": 1.0}, key="a7"))
    "('a7', {'x': 1.0})"
    """
    if isinstance(record.raw, str):
        return record.raw
    if record.raw is not None:
        return as_text(record.raw)
    return written(record.features if record.key is None else (record.key, record.features))
