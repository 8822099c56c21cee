"""Labelled records as columns: training reads blocks of records at once where it can."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from ..base import BadRecord, Position, Record, Source
from ..json_fields import JsonFields
from ..values import DecodeError, key_of, label_of_json, seconds

if TYPE_CHECKING:
    import numpy as np

MOST, LEAST = 4096, 64
"""Largest and smallest number of records of a block."""

SMALLER = 8
"""Ratio between the sizes of two attempts at a block."""

_PLAIN = frozenset((int, float, str, bool, list))
"""Types of the values of a feature."""

OF_NUMBERS = "+-.0123456789Ee"
"""Characters of a number in which ``float`` and :func:`stream_osr.instances.reading.number` agree."""

T = TypeVar("T")


class Columns(NamedTuple):
    """Records as columns.

    Attributes
    ----------
    features
        Values of each feature: texts of fields, or values as in :class:`stream_osr_connectors.base.Record`.
    labels
        Label of each record.
    n
        Number of records.
    as_text
        Whether values are texts, as in a CSV file.
    written
        Whether a record names the features that it has no value of.
    position
        Where reading resumes after the last record.
    """

    features: Mapping[str, Any]
    labels: Sequence[str | int | bool]
    n: int
    as_text: bool = False
    written: bool = False
    position: Position | None = None


@runtime_checkable
class ColumnSource(Protocol):
    """A source that can also read several labelled records at once."""

    def take_columns(self, most: int) -> Columns | None:
        """Read the next records, at most ``most``. ``None``: the iterator must read the next record."""

    def give_back(self) -> None:
        """Return the records of the last :meth:`take_columns`, to be read again."""


class ColumnReader(Iterator[Columns | Record | BadRecord]):
    """Iterator over the records of a source, in blocks if the source and the caller can read them so.

    The first record comes by itself. A block with an unusual record is divided, so that few records are read one by
    one. ``known`` are the blocks after the first record, if they have been read before. The reader empties them.
    """

    def __init__(self, source: Source, known: deque[Columns] | None = None) -> None:
        self._source, self._known = source, deque[Columns]() if known is None else known
        self._columns = source if isinstance(source, ColumnSource) else None
        self._most, self._singles, self._begun = MOST, 1, False
        self._before: Position | None = None

    def __next__(self) -> Columns | Record | BadRecord:
        if self._known and not self._singles:
            columns = self._known[0]
            if len(self._known) == 1:
                self._source.seek(columns.position)
            return columns
        while self._columns is not None and not self._singles:
            found = self._columns.take_columns(self._most)
            if found is not None:
                self._most = min(MOST, 2 * self._most)
                return found
            self._divide()
        record = next(self._source)
        self._begun = self._begun or isinstance(record, Record)
        self._singles = max(0, self._singles - 1) if self._begun else 1
        self._before = record.position
        return record

    def accept(self, columns: Columns) -> None:
        """Note that the caller has used the last block."""
        if self._known:
            self._before = self._known.popleft().position

    def refuse(self, columns: Columns) -> None:
        """Return the last block, which the caller cannot use."""
        if self._known:
            self._known.clear()
            self._source.seek(self._before)
        elif self._columns is not None:
            self._columns.give_back()
        self._most = columns.n
        self._divide()

    def _divide(self) -> None:
        if self._most > LEAST:
            self._most = max(LEAST, self._most // SMALLER)
        else:
            self._singles = LEAST


def converted(values: Sequence[Any], convert: Callable[[Any], T]) -> list[T]:
    """Convert values, each distinct one once.

    >>> converted(["1", "2", "1"], int)
    [1, 2, 1]
    """
    found: dict[tuple[type, Any], T] = {}
    values = values.tolist() if hasattr(values, "tolist") else values
    for value in values:
        key = type(value), value
        if key not in found:
            found[key] = convert(value)
    return [found[type(value), value] for value in values]


def columns_of(
    table: Mapping[str, Sequence[Any]], n: int, fields: JsonFields, *, written: bool = False
) -> Columns | None:
    """Convert n rows with the same fields. ``None``: they must be converted one by one.

    The values of a column are an array of numbers, or a list.
    """
    if "features" in table or fields.label is None or fields.label not in table:
        return None
    try:
        labels = converted(table[fields.label], partial(label_of_json, kind=fields.label_type))
        for name, convert in ((fields.key, key_of), (fields.time, seconds)):
            converted(table.get(name or "", ()), convert)
    except (DecodeError, TypeError):
        return None
    features = {}
    for name in fields.features or (name for name in table if name not in fields.special):
        values = table.get(name, ())
        kinds = set(map(type, values)) if isinstance(values, list) else {float}
        if fields.features is None and kinds.isdisjoint(_PLAIN):
            continue
        endless = math.inf in values or -math.inf in values
        if endless or not len(values) or not kinds <= (_PLAIN | {type(None)} if fields.features is None else _PLAIN):
            return None
        features[name] = values
    return (
        Columns(features, [label for label in labels if label is not None], n, written=written)
        if (features and None not in labels)
        else None
    )


def plain_numbers(texts: Sequence[str]) -> np.ndarray | None:
    """Convert texts to finite numbers. ``None``: a text needs more than ``float``.

    >>> plain_numbers(["1.5", "2"]), plain_numbers(["1.5", "NA"]), plain_numbers(["1", ""])
    (array([1.5, 2. ]), None, None)
    """
    import numpy as np  # slow to import

    if "".join(texts).encode().translate(None, OF_NUMBERS.encode()):
        return None
    try:
        values = np.array([*map(float, texts)])
    except ValueError:  # an empty field, for example
        return None
    return values if np.isfinite(values).all() else None
