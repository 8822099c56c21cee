"""Formatting of text and numbers of the data for pages and charts."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from stream_osr.printable_text import printable

LONGEST, LONGEST_LIVE = 300, 400
"""Most characters of a text of the data, in the report and on the live page."""


def page_text(value: Any) -> Any:
    r"""Escape the invisible characters of a text of the data, as on a terminal.

    >>> page_text("red" + chr(0x202E)), page_text(3)
    ('red\\u202e', 3)
    """
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def plain(value: Any) -> Any:
    """Escape all text of a specification, and replace numbers that JSON cannot represent by ``None``."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return page_text(value)


def cut(value: object, most: int = LONGEST_LIVE) -> str:
    """Shorten a text of the data for a page.

    >>> cut("longer", 5)
    'long…'
    """
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def percent(share: float | None) -> str:
    """Format a share as a percentage.

    >>> percent(0.25), percent(None)
    ('25.0 %', 'n/a')
    """
    return "n/a" if share is None or share != share else f"{100 * share:.1f} %"


def number_of(value: object) -> float | None:
    """Read a number that may be missing.

    >>> number_of(None), number_of(float("nan")), number_of(2)
    (None, None, 2.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def subclass_name(key: int) -> str:
    """Return the name of a subclass, as in the paper."""
    return f"S{key}"
