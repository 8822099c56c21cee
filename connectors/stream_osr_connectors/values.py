"""Conversion between values of a file (text and JSON) and features, times, keys and labels.

Each function returns the value or raises `DecodeError`. The reason continues a sentence that begins with the name of
the column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TypeAlias

from stream_osr.instances import reading
from stream_osr.printable_text import brief

LabelType: TypeAlias = Literal["auto", "str", "int"]
"""Type of the labels: as they look, always text, or always whole numbers."""

_WHOLE_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")


class DecodeError(ValueError):
    """Reason in plain words why a record cannot be decoded. It becomes the reason of a `BadRecord`."""


def written(value: object) -> str:
    """Write out a value in full, or as :func:`~stream_osr.printable_text.brief` does where Python cannot.

    >>> written({"a": "x" * 50}), written({"a": 10**5000})
    ("{'a': 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}", 'a dict too large to show')
    """
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return brief(value)


def number(text: str, comma: reading.Comma = "") -> float | None:
    """Read a number, or ``None`` for a missing value.

    >>> number("1e3"), number(" -2.5 "), number("NA"), number("")
    (1000.0, -2.5, None, None)
    """
    try:
        return reading.number(text, comma)
    except reading.Unreadable as error:
        if str(error).startswith("may be"):
            raise DecodeError(f"holds {brief(text)}, which {error}. Write it without commas") from None
        raise DecodeError(
            f"holds {brief(text)}, which is not a finite number, and the column is numeric by its values in training."
            " Leave it empty if the value is missing, or train with the column as a category or without it"
        ) from None


def category(text: str) -> str | None:
    """Read a category. Only an empty field is a missing value, because ``NA`` may be a value.

    >>> category("tcp"), category("NA"), category(" ")
    ('tcp', 'NA', None)
    """
    return text if text.strip() else None


def seconds(value: object) -> float | None:
    """Read a time: seconds since 1970, or an ISO 8601 timestamp (UTC if it has no offset).

    A text that can be read as a number is a number, so ``20240131`` is a number of seconds and not a date.

    >>> seconds("1.5"), seconds("1970-01-01T01:00:00"), seconds("1970-01-01 01:00+01:00"), seconds(7)
    (1.5, 3600.0, 0.0, 7.0)
    """
    if value is None:
        return None
    if isinstance(value, str):
        with suppress(DecodeError):
            return number(value)
        if (found := reading.moment(value)) is not None:
            return found.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number beyond the range of floats
            if math.isnan(value):
                return None
            if math.isfinite(value):
                return float(value)
    raise DecodeError(
        f"holds {brief(value)}, which is neither seconds since 1970 nor an ISO 8601 timestamp "
        "such as 2026-01-31T10:00:00Z. Write it in one of these forms"
    )


def key_of(value: object) -> str | int | None:
    """Check a key: text or a whole number, which data frames write as 7.0. ``None`` means no key.

    >>> key_of("a7"), key_of(7), key_of(7.0), key_of(None)
    ('a7', 7, 7, None)
    """
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if value.is_integer() and abs(value) < 1 << 53:
            return int(value)
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    raise DecodeError(f"holds {brief(value)}: a key is text or a whole number")


def label_of_text(text: str, kind: LabelType) -> str | int | None:
    """Read a label from a table. Only an empty field means no label.

    ``NA`` and ``None`` are labels, because they may be names of classes. As missing labels they would end the
    training early without a message.

    >>> label_of_text("3", "auto"), label_of_text("3", "str"), label_of_text("3.0", "int")
    (3, '3', 3)
    >>> label_of_text("007", "auto")
    '007'
    >>> label_of_text("3.0", "auto"), label_of_text("None", "auto"), label_of_text("", "auto")
    ('3.0', 'None', None)
    """
    if not text.strip():
        return None
    if kind == "int" or (kind == "auto" and _WHOLE_NUMBER.fullmatch(text)):
        return _whole(text)
    return text


def label_of_json(value: object, kind: LabelType) -> str | int | bool | None:
    """Check a label from JSON, which has a type already. ``kind`` is the type to convert it to.

    >>> label_of_json("3", "auto"), label_of_json(3, "str"), label_of_json(3.0, "int"), label_of_json(3.0, "auto")
    ('3', '3', 3, 3)
    """
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return _whole(value) if kind == "int" else value
    if isinstance(value, int):
        if kind == "str":
            return str(value).lower() if isinstance(value, bool) else str(value)
        return int(value) if kind == "int" else value
    if isinstance(value, float) and kind == "str":
        return reading.spelled(value)
    if isinstance(value, float) and (kind == "int" or value.is_integer()):
        return _whole(value)
    raise DecodeError(f"holds {brief(value)}: a label is text, a whole number, true or false")


def _whole(value: str | float) -> int:
    try:
        if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
            return int(value)
        parsed = number(value) if isinstance(value, str) else value
        if parsed is not None and parsed.is_integer():  # data frames write 3.0 where other labels are missing
            return int(parsed)
    except ValueError:
        pass
    raise DecodeError(f"holds {brief(value)}, which is not a whole number. Label type 'str' keeps it as text")


def plain(value: object) -> object:
    """Convert a value to JSON types: numpy scalars and arrays to Python values, NaN and infinity to ``None``.

    Raises
    ------
    TypeError
        If the value has no such form.

    >>> import numpy as np
    >>> plain({"p": np.float32(0.5), np.int64(3): (np.bool_(True), float("nan"))})
    {'p': 0.5, 3: [True, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # scalars and arrays of numpy, without importing it
        converted: object = value.tolist()
        if type(converted) is not type(value):  # extended precision converts to itself
            return plain(converted)
    raise TypeError(
        f"{brief(value)} is a {type(value).__name__}. Only text, numbers, lists and mappings can be written"
    )
