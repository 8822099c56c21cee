"""What is needed of values, and refused if it is not so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_osr.archive.form import Refused

ROUNDING = 1e-6
"""Relative error of what has been added and subtracted for long (``tests/hdp/test_dishes.py``)."""


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


def need_different(values: Sequence[Any], where: str) -> None:
    """Refuse what occurs twice."""
    seen: set[Any] = set()
    for value in values:
        need(value not in seen, where, f"with {value!r} twice", "each once")
        seen.add(value)


def ascending(values: np.ndarray, where: str, *, strictly: bool = True) -> None:
    """Refuse values that do not ascend."""
    steps = np.diff(values)
    need((steps > 0).all() if strictly else (steps >= 0).all(), where, "not ascending", "ascending values")


def counts(values: np.ndarray, where: str) -> None:
    """Refuse what is no whole number."""
    wrong = np.argwhere(values != np.rint(values))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        raise Refused(f"{where}{list(at)}", str(values[at]), "a count")


def in_range(values: np.ndarray, count: int, where: str) -> None:
    """Refuse positions among fewer than they say."""
    above = np.argwhere(values >= count)
    if len(above):
        at = tuple(above[0].tolist())
        raise Refused(f"{where}{list(at)}", str(values[at]), f"below {count}: there are {count}")
