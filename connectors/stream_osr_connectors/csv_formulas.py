"""Cells that a spreadsheet would take for formulas, made into text, and back.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break may be run by a spreadsheet, and keys and
rows that were set aside come from anywhere. An apostrophe before it makes it text.
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def defused(text: str) -> str:
    """Put an apostrophe before what a spreadsheet would run; a number stays one.

    >>> defused("=1+1"), defused("-1.5"), defused("-x"), defused("plain"), defused("'=1")
    ("'=1+1", '-1.5', "'-x", 'plain', "''=1")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def restored(text: str) -> str:
    """Take away the apostrophe that :func:`defused` has put there, and no other.

    >>> [restored(text) for text in ("'=1+1", "-1.5", "''=1", "'tis")]
    ['=1+1', '-1.5', "'=1", "'tis"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text, 1) else text
