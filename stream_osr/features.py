"""From what callers hand over (dicts, data frames) to rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import InvalidFeature, InvalidInstance

Name = Hashable

LARGEST = 1e100
"""Values beyond this magnitude are refused: their squares overflow."""

_EXPECTED = "expected a finite number (None or NaN if missing)"


class Row(NamedTuple):
    """One instance as numbers.

    Attributes
    ----------
    values
        NaN where the feature is missing, shape (p,).
    missing
        How many of the expected features are missing.
    extra
        How many features came that are not expected.
    """

    values: np.ndarray
    missing: int
    extra: int


class Features:
    """The expected features, in a fixed order.

    Examples
    --------
    >>> features = Features(["b", "a"])
    >>> features.names
    ('a', 'b')
    >>> features.row({"a": 1, "b": 2.5, "c": 7})
    Row(values=array([1. , 2.5]), missing=0, extra=1)
    >>> features.row({"a": 1, "b": "high"})
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidFeature: feature 'b' is 'high' (str): expected a finite number (None or NaN if missing)
    """

    def __init__(self, names: Iterable[Name]) -> None:
        self.names: tuple[Name, ...] = tuple(sorted(names, key=lambda name: (type(name).__name__, name)))
        self._expected = frozenset(self.names)
        self._get: Any = None
        if len(self.names) > 1:
            self._get = itemgetter(*self.names)

    def joined(self, names: Iterable[Name]) -> Features:
        """Return these features and the given ones; itself when there is nothing new among them."""
        new = [name for name in names if name not in self._expected]
        return Features([*self.names, *new]) if new else self

    def row(self, x: Mapping[Any, object], number: int | None = None) -> Row:
        """Read one instance; ``number`` is its place in a data frame or file, for error messages.

        Raises
        ------
        InvalidFeature
            If a value is not a number, infinite or absurdly large.
        """
        absent = 0
        try:
            found = self._get(x) if self._get is not None else tuple(x[name] for name in self.names)
        except KeyError:
            found = tuple(x.get(name) for name in self.names)
            absent = sum(name not in x for name in self.names)
        extra = len(x) - (len(self.names) - absent)
        try:
            values = np.array(found)
        except (TypeError, ValueError, OverflowError):
            values = np.array(None)
        if values.dtype.kind in "fiub" and values.shape == (len(self.names),):
            values = values.astype(np.float64)
        else:
            values = np.array([number_of(name, v, number) for name, v in zip(self.names, found, strict=True)], float)
        with np.errstate(invalid="ignore"):
            usable = np.abs(values) <= LARGEST
        missing = 0
        if not usable.all():
            for at in np.flatnonzero(~usable):
                if math.isnan(values[at]):
                    missing += 1
                else:
                    number_of(self.names[at], found[at], number)
        return Row(values, missing, extra)


def is_missing(value: object) -> bool:
    """Tell None, NaN and the missing values of data frame libraries from everything else."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def number_of(name: Name, value: object, number: int | None = None) -> float:
    """Read one value; NaN if it is missing.

    Raises
    ------
    InvalidFeature
        If it is no number, infinite or beyond ``LARGEST``.
    """
    if is_missing(value):
        return math.nan
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, str | bytes | complex) or not hasattr(value, "__float__"):
        raise InvalidFeature(name, value, _EXPECTED, number)
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise InvalidFeature(name, value, _EXPECTED, number) from None
    except OverflowError:
        result = math.inf
    if abs(result) > LARGEST:
        raise InvalidFeature(
            name, value, f"{_EXPECTED} of magnitude at most {LARGEST:g}; scale the feature, or leave it out", number
        )
    return result


def check_mapping(x: object) -> Mapping[Any, object]:
    """Return ``x`` if it is a mapping of features.

    Raises
    ------
    InvalidInstance
        If it is anything else.
    """
    if not isinstance(x, Mapping):
        raise InvalidInstance(
            f"an instance is a dict of feature names and numbers; this is {type(x).__name__}. "
            "Data frames go to learn_many"
        )
    return x


def frame_rows(X: Any) -> tuple[list[Name], list[dict[Name, object]]]:
    """Read a data frame (pandas, polars, pyarrow) as columns and rows.

    Raises
    ------
    InvalidInstance
        If it is no data frame.
    """
    from river.utils.dataframe import into_frame

    try:
        frame = into_frame(X)
    except TypeError:
        raise InvalidInstance(
            f"expected a pandas, polars or pyarrow data frame; this is {type(X).__name__}. A dict goes to learn_one"
        ) from None
    columns: list[Name] = list(frame.columns)
    arrays = [frame[:, at].to_list() for at in range(len(columns))]
    return columns, [dict(zip(columns, values, strict=True)) for values in zip(*arrays, strict=True)]


def column_values(values: Any, n: int, name: str) -> Sequence[Any]:
    """Read a series, array or list that goes with the rows of a frame; None: nothing for every row.

    Raises
    ------
    InvalidInstance
        If its length is not that of the frame.
    """
    if values is None:
        return [None] * n
    out = values.to_list() if hasattr(values, "to_list") else values.tolist() if hasattr(values, "tolist") else None
    out = list(values) if out is None else out
    if len(out) != n:
        raise InvalidInstance(f"{name} has {len(out)} entries for {n} rows; give one for each row")
    return [None if is_missing(v) else v for v in out]
