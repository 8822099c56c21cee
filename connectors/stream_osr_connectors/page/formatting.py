"""Formatting of text and numbers of the data for charts."""

from __future__ import annotations

import math
from typing import Any

from stream_osr.printable_text import printable

LONGEST = 300
"""Most characters of a text of the data in a chart."""


def plain(value: Any) -> Any:
    r"""Escape all text of a specification, and replace numbers that JSON cannot represent by ``None``.

    >>> plain({"name": "red" + chr(0x202E), "sizes": (3, float("nan"))})
    {'name': 'red\\u202e', 'sizes': [3, None]}
    """
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return printable(value, LONGEST) if isinstance(value, str) else value


def subclass_name(key: int) -> str:
    """Return the name of a subclass, as in the paper."""
    return f"S{key}"
