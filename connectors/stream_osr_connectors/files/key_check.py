"""Search for columns that look like keys. As features they would spoil a model."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple

from stream_osr.instances.reading import Unreadable, is_dated, number

from ..base import Record
from ..values import DecodeError, seconds
from .csv_source import CsvSource
from .folder_source import FolderSource
from .formats import Format, open_source
from .open_file import is_folder, may_be_regular

LOOKED_AT = 5000
"""Number of records to read from the beginning of a file."""

LEAST = 20
"""Smallest number of records. Fewer are not enough to judge a column of distinct values."""

FLAWS = 0.01
"""Largest share of values that may be missing or repeated, because keys of real tables have such values."""

_NAMED = re.compile(
    r"(?i:(?:.*[ _\-.])?(?:id|[pu]id|key|uuid|guid|no|nr|num|number)|index|row|unnamed: 0)|.*[a-z](?:Id|ID|No|Nr|Key)"
)
"""Names of keys: ``id``, ``account_number``, ``CustomerId``."""

_TIMED = re.compile(r"(?:.*[ _\-.])?(?:t|at|ts|time|date|datetime|timestamp|when)", re.IGNORECASE)
"""Names of times."""


class LikelyKey(NamedTuple):
    """A column that looks like a key.

    Attributes
    ----------
    name
        Name of the column.
    why
        Evidence in a few words.
    option
        The option for the column: ``--key``, or ``--time`` for a moment.
    """

    name: str
    why: str
    option: Literal["--key", "--time"] = "--key"


def find_key(
    path: str | os.PathLike[str], format: Format | None = None, but: Collection[str | None] = ()
) -> LikelyKey | None:
    r"""Search for a key at the beginning of a file, or of the first file of a folder.

    Parameters
    ----------
    path, format
        As in `open_source`. Only regular files and folders are read.
    but
        Columns with another role.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "in.csv")
    ...     _ = path.write_text("name,x\n" + "".join(f"n{i},{i % 7}\n" for i in range(30)))
    ...     find_key(path), find_key(path, but=["name"])
    (LikelyKey(name='name', why='it is text, and no two of the 30 values are the same', option='--key'), None)
    """
    if not (may_be_regular(path) or is_folder(path)):
        return None
    with open_source(path, format=format) as source:
        if isinstance(source, CsvSource | FolderSource):
            source.categorical = frozenset(source.feature_columns)  # text, as it stands there
            source.seek(None)
        records = islice(source, LOOKED_AT)
        return key_among((each.features for each in records if isinstance(each, Record)), but)


def key_among(rows: Iterable[Mapping[str, Any]], but: Collection[str | None] = ()) -> LikelyKey | None:
    """Search for a key among the columns of some rows.

    A key is a column with hardly any repeated value. It is text, or whole numbers that count up or down by one, or
    whole numbers under a name such as ``id``. Measurements that all differ are not keys. Whole numbers that only
    rise, or only fall, under a name such as ``ts`` are times.

    Examples
    --------
    >>> key_among({"x": i * 0.37, "nr": 100 + i} for i in range(20))
    LikelyKey(name='nr', why='its 20 values count up by one', option='--key')
    >>> key_among({"machine_id": i * i, "x": i % 5} for i in range(20))
    LikelyKey(name='machine_id', why='its name suggests it, and no two of the 20 values are the same', option='--key')
    >>> key_among({"when": f"2026-03-{day:02d}"} for day in range(1, 31)).option
    '--time'
    """
    columns: dict[str, _Column] = {}
    count = 0
    for count, row in enumerate(rows, start=1):
        for name in row if count == 1 else list(columns):
            if name not in but:
                column = columns.setdefault(name, _Column())
                if column.take(row.get(name)) > FLAWS * LOOKED_AT:
                    del columns[name]
    if count < LEAST:
        return None
    whys = {name: _why(name, each) for name, each in columns.items() if each.flaws <= FLAWS * count}
    likely = [LikelyKey(name, why, _option(name, columns[name].values)) for name, why in whys.items() if why]
    return min(likely, key=lambda each: not _NAMED.fullmatch(each.name), default=None)


class _Column:
    """The values of a column, and the number of missing and repeated ones."""

    def __init__(self) -> None:
        self.values: dict[Any, None] = {}
        self.flaws = 0

    def take(self, value: Any) -> int:
        """Add the next value. Return the number of flaws so far. A list is no key."""
        if isinstance(value, list):
            self.flaws = LOOKED_AT
            return self.flaws
        self.flaws += value is None or value in self.values
        if value is not None:
            self.values[value] = None
        return self.flaws


def _why(name: str, column: _Column) -> str:
    """Return the evidence that a column of distinct values is a key, or empty text."""
    values = list(column.values)
    some = "no two of the" if not column.flaws else "hardly two of the"
    numbers = [_whole(value) for value in values]
    whole = [number for number in numbers if number is not None]
    if len(whole) == len(values):
        steps = {after - before for before, after in pairwise(whole)}
        if not column.flaws and steps in ({1}, {-1}):
            return f"its {len(values)} values count {'up' if 1 in steps else 'down'} by one"
        if _TIMED.fullmatch(name) and (min(steps) > 0 or max(steps) < 0):
            return f"its name suggests it, and its {len(values)} values only {'rise' if min(steps) > 0 else 'fall'}"
        if _NAMED.fullmatch(name):
            return f"its name suggests it, and {some} {len(values)} values are the same"
    elif all(isinstance(value, str) and not _is_number(value) and not is_dated(value) for value in values):
        return f"it is text, and {some} {len(values)} values are the same"
    return ""


def _option(name: str, values: Iterable[Any]) -> Literal["--key", "--time"]:
    if _TIMED.fullmatch(name) is None and any(not isinstance(each, str) or _is_number(each) for each in values):
        return "--key"
    try:
        return "--time" if all(seconds(value) is not None for value in values) else "--key"
    except DecodeError:
        return "--key"


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}(?:\.0)?", value.strip()):
        return int(float(value)) if "." in value else int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_number(text: str) -> bool:
    try:
        number(text, "decimal")
    except Unreadable:
        return False
    return True
