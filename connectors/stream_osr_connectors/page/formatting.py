"""Text and numbers of the data, as a page or a drawing may show them."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from stream_osr.showing import printable

LONGEST = 300
"""Characters of a text of the data."""


def page_text(value: Any) -> Any:
    r"""Show a text of the data as text: what has no shape stands there escaped, as on a terminal.

    >>> page_text("red" + chr(0x202E)), page_text(3)
    ('red\\u202e', 3)
    """
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def plain(value: Any) -> Any:
    """Make all text of a specification that of the page, and leave no number that JSON does not have."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return page_text(value)
