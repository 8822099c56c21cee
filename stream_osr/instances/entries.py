"""Reading of single values: a number, a missing value, an index."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable
from datetime import date, time, timedelta

import numpy as np

from stream_osr.errors import InvalidFeature
from stream_osr.instances.missing_values import is_missing
from stream_osr.instances.reading import TRUTH, Comma, Unreadable, number, spelled

TIMES = (np.datetime64, np.timedelta64, date, time, timedelta)
"""Types of dates, times and durations."""

LARGEST = 1e100
"""Largest magnitude of a value. Squares of larger ones overflow."""

_NOT_NUMBERS = (bytes, complex, np.ndarray, *TIMES)
"""Types that are not numbers, although some of them convert to floats."""
_EXPECTED = "expected a finite number (None or NaN if missing)"
_REMEDY = (
    "the feature is numeric, by its values in training. Name it in categorical=[...] and train if its values are "
    "categories, or leave it out"
)
_NO_FEATURE = "features are numbers, text or booleans: convert the value, or leave the feature out"
_INDEX = re.compile(r"Unnamed: \d+(?:[._]\d+)*|(?:__index_)?level_\d+(?:__)?|index|")


def number_of(name: Hashable, value: object, row: int | None = None, comma: Comma = "") -> float:
    """Read one value. It is NaN if missing.

    Raises
    ------
    InvalidFeature
        If the value is no number, is infinite, or exceeds ``LARGEST``.
    """
    if is_missing(value):
        return math.nan
    if isinstance(value, str):
        return _number_in(name, value, row, comma)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 and not isinstance(value, TIMES):
        value = value.item()
    if isinstance(value, _NOT_NUMBERS) or not hasattr(value, "__float__"):
        raise InvalidFeature(name, value, f"{_EXPECTED}; {_NO_FEATURE}", row)
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise InvalidFeature(name, value, f"{_EXPECTED}; {_REMEDY}", row) from None
    except OverflowError:
        result = math.inf
    if abs(result) > LARGEST:
        raise InvalidFeature(
            name, value, f"{_EXPECTED} of magnitude at most {LARGEST:g}. Scale the feature, or leave it out", row
        )
    return result


def _number_in(name: Hashable, text: str, row: int | None, comma: Comma) -> float:
    """Read a number from a text. True and false in a numeric feature are 1 and 0."""
    try:
        found = number(text, comma)
    except Unreadable as error:
        truth = TRUTH.get(text.strip().lower())
        if truth is None:
            why = f"it {error}. Write it without commas" if "may be" in str(error) else _EXPECTED
            raise InvalidFeature(name, text, f"{why}; {_REMEDY}", row) from None
        return truth
    return math.nan if found is None else number_of(name, found, row)


def is_marked(value: object, markers: Collection[str]) -> bool:
    """Check whether a value is missing, or is one of the caller's markers of missing values.

    >>> is_marked(-999.0, {"-999"}), is_marked("-999", {"-999"}), is_marked(None, {"-999"}), is_marked(1, {"-999"})
    (True, True, True, False)
    """
    if is_missing(value):
        return True
    plain = isinstance(value, str | int | float | np.generic)
    return bool(markers) and plain and spelled(value) in markers


def is_blank(value: object) -> bool:
    """Check whether a value is missing in a category. Empty text is missing, ``NA`` may be a value."""
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def is_index(name: object, values: np.ndarray) -> bool:
    """Check whether a column is the index of a data frame, by its name and its values in the order of arrival.

    >>> is_index("Unnamed: 0", np.array([2.0, 0.0, 1.0])), is_index("level_0", np.array([0.0, 0.0, 1.0]))
    (True, True)
    >>> is_index("index", np.array([0.7, 0.2])), is_index("width", np.array([0.0, 1.0]))
    (False, False)
    """
    if not isinstance(name, str) or not _INDEX.fullmatch(name) or len(values) < 2:
        return False
    if not np.isfinite(values).all() or (values != np.floor(values)).any() or (values[0] == values).all():
        return False
    return len(np.unique(values)) == len(values) or bool((np.diff(values) >= 0).all())
