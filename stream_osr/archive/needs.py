"""What is needed of values, and refused if it is not so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_osr.archive.form import Refused

ROUNDING = 1e-6
"""Relative error of what has been added and subtracted for long (``tests/hdp/test_dishes.py``)."""


def each(holds: np.ndarray, values: np.ndarray, where: str, expected: str) -> None:
    """Refuse the first of some values for which something does not hold.

    Raises
    ------
    Refused
        Naming it.
    """
    if not holds.all():
        at = tuple(np.argwhere(~holds)[0].tolist())
        raise Refused(f"{where}{list(at)}", str(values[at]), expected)


def check_same(found: np.ndarray, expected: np.ndarray, where: str, why: str, rounding: float = ROUNDING) -> None:
    """Compare numbers that are computed in two ways; minus infinity is equal to itself.

    Raises
    ------
    Refused
        Naming the first that differs.
    """
    with np.errstate(invalid="ignore"):
        fits = np.abs(found - expected) <= rounding * np.maximum(1.0, np.abs(expected))
    wrong = np.argwhere(~fits & (found != expected))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        raise Refused(f"{where}{list(at)}", f"{found[at]:.9g}", f"{expected[at]:.9g}, {why}")


def need(holds: Any, where: str, found: object, expected: str) -> None:
    """Refuse what does not hold.

    Raises
    ------
    Refused
        If so.
    """
    if not holds:
        raise Refused(where, str(found), expected)


def some(values: Sequence[Any] | np.ndarray, where: str) -> None:
    """Refuse what is empty."""
    need(len(values), where, "empty", "one at least")


def distinct(values: Sequence[Any] | np.ndarray, where: str) -> None:
    """Refuse what occurs twice."""
    seen: set[Any] = set()
    for value in values.tolist() if isinstance(values, np.ndarray) else values:
        need(value not in seen, where, f"with {value!r} twice", "each once")
        seen.add(value)


def ascending(values: np.ndarray, where: str) -> None:
    """Refuse values that do not ascend, each row by itself."""
    need((values[..., 1:] >= values[..., :-1]).all(), where, "not ascending", "ascending values")


def counted(values: np.ndarray, where: str) -> None:
    """Refuse what is no whole number."""
    each(values == np.rint(values), values, where, "a count")


def in_range(values: np.ndarray, count: int, where: str) -> None:
    """Refuse positions among fewer than they say."""
    each(values < count, values, where, f"below {count}: there are {count}")
