"""From the text and the JSON values of a file to features, times, keys and labels, and back again.

Each function either returns the value or raises `DecodeError` with a reason that follows the name of its
column in a sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TypeAlias

from stream_osr import reading
from stream_osr.printable_text import brief

LabelType: TypeAlias = Literal["auto", "str", "int"]
"""What labels become: what they look like, always text, or always whole numbers."""

_WHOLE_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")


class DecodeError(ValueError):
    """Reason for which a record cannot be decoded, in plain words; becomes the reason of a `BadRecord`."""


def written(value: object) -> str:
    """Write out a value: in full, or as :func:`~stream_osr.printable_text.brief` does where Python cannot.

    >>> written({"a": "x" * 50}), written({"a": 10**5000})
    ("{'a': 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}", 'a dict too large to show')
    """
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return brief(value)


def number(text: str, comma: reading.Comma = "") -> float | None:
    """Read a number; ``None`` if it is missing.

    >>> number("1e3"), number(" -2.5 "), number("NA"), number("")
    (1000.0, -2.5, None, None)
    """
    try:
        return reading.number(text, comma)
    except reading.Unreadable as error:
        if str(error).startswith("may be"):
            raise DecodeError(f"holds {brief(text)}, which {error}; write it without commas") from None
        raise DecodeError(
            f"holds {brief(text)}, which is not a finite number, and the column is numeric by its values in training;"
            " leave it empty if the value is missing, or train with the column as a category or without it"
        ) from None


def category(text: str) -> str | None:
    """Read a value of a category; only an empty field is a missing one, ``NA`` may well be a value.

    >>> category("tcp"), category("NA"), category(" ")
    ('tcp', 'NA', None)
    """
    return text if text.strip() else None


def seconds(value: object) -> float | None:
    """Read a time: seconds since 1970, or an ISO 8601 timestamp (without an offset it is UTC).

    A text that can be read as a number is one, so ``20240131`` is a count of seconds and no date.

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
        "such as 2026-01-31T10:00:00Z; write it so"
    )


def key_of(value: object) -> str | int | None:
    """Check a key: text or a whole number, which data frames write as 7.0; ``None`` if there is none.

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
    """Read a label from a table; only an empty field means that there is none.

    ``NA`` or ``None`` may well be the name of a class, and taking it for a missing label would end
    the training early without a word. So they are labels.

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
    """Check a label that JSON has given a type already; ``kind`` only says what else to turn it into.

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
    raise DecodeError(f"holds {brief(value)}, which is not a whole number; label type 'str' keeps it as text")


def plain(value: object) -> object:
    """Turn a value into what JSON can hold: numpy's scalars and arrays, and ``None`` for NaN and infinity.

    Raises
    ------
    TypeError
        If there is no such form.

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
    raise TypeError(f"{brief(value)} is a {type(value).__name__}; text, numbers, lists and mappings can be written")
