"""Check of the times and keys of instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stream_osr.errors import InvalidInstance
from stream_osr.instances.entries import LARGEST, TIMES
from stream_osr.instances.missing_values import is_missing
from stream_osr.instances.tables import column_values
from stream_osr.printable_text import typed
from stream_osr.support.limits import check_key, fits_as_key

_PLAIN_KEYS = frozenset((str, int))
MOST_LEVELS = 16
"""Largest depth of nested tuples in a key."""


def times_of(values: object, n: int) -> Sequence[float | None]:
    """Check the times of n rows, all at once if they are plain.

    Raises
    ------
    InvalidInstance
        If one is no finite number, or their number differs from n.
    """
    if type(values) is list and len(values) == n and set(map(type, values)) == {float}:
        with np.errstate(invalid="ignore"):
            if (np.abs(values) <= LARGEST).all():
                return values
    return _checked(time_of, column_values(values, n, "t"))


def keys_of(values: object, n: int) -> Sequence[Any]:
    """Check the keys of n rows, all at once if they are plain.

    Raises
    ------
    InvalidInstance
        If one cannot be hashed or exceeds the limits, or their number differs from n.
    """
    if (
        type(values) is list
        and len(values) == n
        and _PLAIN_KEYS.issuperset(map(type, values))
        and all(map(fits_as_key, values))
    ):
        return values
    return _checked(key_of, column_values(values, n, "key"))


def _checked(check: Callable[[Any], Any], values: Sequence[Any]) -> Sequence[Any]:
    out: list[Any] = []
    for number, value in enumerate(values):
        try:
            out.append(None if value is None else check(value))
        except InvalidInstance as error:
            raise InvalidInstance(f"row {number}: {error}") from None
    return out


def time_of(t: object) -> float | None:
    """Check a time. ``None``: it is missing.

    Raises
    ------
    InvalidInstance
        If it is no finite number.

    Examples
    --------
    >>> time_of(3), time_of(np.float64(0.5)), time_of(float("nan"))
    (3, 0.5, None)
    """
    if type(t) is float and -LARGEST <= t <= LARGEST:
        return t
    if is_missing(t):
        return None
    value = t.item() if isinstance(t, np.generic) and not isinstance(t, TIMES) else t
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return value
    raise InvalidInstance(
        f"t is {typed(t)}: expected a finite number such as seconds (of a datetime: its timestamp()), or None"
    )


def key_of(key: Any) -> Any:
    """Check a key.

    Raises
    ------
    InvalidInstance
        If it cannot be hashed, is nested too deeply, or exceeds the limits (:mod:`stream_osr.support.limits`).
    """
    if isinstance(key, tuple):
        _check_depth(key)
    try:
        hash(key)
    except TypeError:
        raise InvalidInstance(f"key is {typed(key)}: expected something hashable, such as a str or an int") from None
    key = key.item() if isinstance(key, np.generic) else key
    if key is not None:
        check_key(key)
    return key


def _check_depth(key: tuple[Any, ...]) -> None:
    """Refuse deeply nested tuples, which would exceed Python's recursion limit."""
    level: list[Any] = [key]
    for _ in range(MOST_LEVELS):
        level = [each for whole in level for each in whole if isinstance(each, tuple)]
        if not level:
            return
    raise InvalidInstance(f"key is a tuple of more than {MOST_LEVELS} levels of tuples. Give a flat one, or text")


def group_of(group: object) -> str | float | None:
    """Check the group of a training instance: the person, device or day. ``None``: it is missing.

    Raises
    ------
    InvalidInstance
        If it is neither text nor a number, or exceeds the limits.

    Examples
    --------
    >>> group_of("anna"), group_of(np.int64(3)), group_of(float("nan"))
    ('anna', 3, None)
    """
    if is_missing(group):
        return None
    value = group.item() if isinstance(group, np.generic) else group
    if not isinstance(value, str | int | float):
        raise InvalidInstance(f"group is {typed(group)}: expected text or a number (of a date: its isoformat())")
    check_key(value)
    return value
