"""Parsing of values: numbers, categories, labels and times, by the same rules at every entry point.

``docs/files.md`` lists the rules in a table.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from stream_osr.support.limits import LEAST_WHOLE, MOST_WHOLE

Comma: TypeAlias = Literal["", "decimal", "thousands"]
"""Meaning of a comma in the numbers of a column. Empty: training values had none."""

LabelKind: TypeAlias = Literal["str", "int", "bool"]

_MISSING = (
    " na n/a n.a. nan -nan null none nil <na> #na #n/a ? - -- . (null) \\n nat missing "
    "1.#ind -1.#ind 1.#qnan -1.#qnan #div/0! #value! #num! #ref! #null! #name? "
    ".. ... : * n.d. undefined"
)
MISSING_NUMBERS: Final = frozenset(("", "#n/a n/a", *_MISSING.split()))
"""Spellings of a missing number, in any case, from pandas, UCI, ARFF, Eurostat, databases and Excel."""

TRUTH: Final = {"true": 1.0, "false": 0.0}
"""Number for a boolean in a column of numbers."""
TRUTHS: Final = {
    word: truth
    for words, truth in (("true 1 yes y t on", "true"), ("false 0 no n f off", "false"))
    for word in words.split()
}
"""Meaning of the values of a two-valued category, if both values are listed and differ."""

FEW, FEW_WHOLE = 0.05, 0.01
"""Share of values in a numeric column that may be unreadable. The second applies if all numbers are whole, as codes
are."""

LEAST = 9
"""Number of values below which all values of a numeric column must be numbers."""

_MINUS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-"))
_SPACES = re.compile(r"(?<=\d)[ '\u2019\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_CURRENCY = re.compile(r"^([+-]?)\s*[$\u20ac\u00a3\u00a5]\s*|\s*[$\u20ac\u00a3\u00a5]$")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_LEADING_ZERO = re.compile(r"[+-]?0\d+")
_WHOLE_FLOAT = re.compile(r"([+-]?(?:0|[1-9]\d*))\.0*")
_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)")

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[.]?"
_DATE = re.compile(
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?"
    r"(?:\d{4}[./]\d\d?[./]\d\d?|\d\d?([./-])\d\d?\1\d{4}|\d\d?/\d\d?/\d\d"
    rf"|\d\d?[ ./-]{_MONTH}[ ./-]\d{{2,4}}|{_MONTH} \d\d?(?:,? \d{{4}})?)"
    r"(?:[t ,:]+\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?:[ap][.]?m[.]?)?)?(?: ?(?:z|[a-z]{3,4}|[+-]\d\d:?\d\d))?",
    re.IGNORECASE,
)


class Unreadable(ValueError):
    """Reason why a text is no number, in words that follow "it"."""


def number(text: str, comma: Comma = "") -> float | None:
    r"""Read a number. ``None``: it is missing.

    Raises
    ------
    Unreadable
        If it is no finite number, or its comma is ambiguous.

    Examples
    --------
    >>> number("1e3"), number(" \u22122.5 "), number("12%"), number("5,1"), number("1.234,5"), number("1,234.5")
    (1000.0, -2.5, 12.0, 5.1, 1234.5, 1234.5)
    >>> number("?"), number("#N/A"), number(""), number("1,234", "decimal"), number("1,234", "thousands")
    (None, None, None, 1.234, 1234.0)
    >>> number("1,234")
    Traceback (most recent call last):
        ...
    stream_osr.instances.reading.Unreadable: may be 1.234 or 1234
    """
    try:
        value = float(text)
    except ValueError:
        if text.strip().translate(_MINUS).lower() in MISSING_NUMBERS:
            return None
        try:
            value = float(_with_point(_undressed(text), comma))
        except Unreadable:
            raise
        except ValueError:
            raise Unreadable("is not a finite number") from None
    if math.isnan(value):
        return None
    if math.isinf(value) or "_" in text:  # Python reads 1_000 as a number; nothing that writes tables does
        raise Unreadable("is not a finite number")
    return value


def _undressed(text: str) -> str:
    """Remove the signs around a number and between its thousands.

    Brackets and a minus sign after the number are its sign.

    >>> _undressed(" 12 %"), _undressed("-$ 5.1"), _undressed("1'234.5"), _undressed("(5.1)"), _undressed("7-")
    ('12', '-5.1', '1234.5', '-5.1', '-7')
    """
    plain = text.strip().translate(_MINUS)
    if plain[:1] == "(" and plain[-1:] == ")":
        plain = f"-{plain[1:-1].strip()}"
    elif plain[-1:] == "-":
        plain = f"-{plain[:-1].strip()}"
    return _SPACES.sub("", _CURRENCY.sub(r"\1", plain.removesuffix("%").rstrip()))


def _with_point(text: str, comma: Comma) -> str:
    """Write a number without commas."""
    if "," not in text:
        return text
    if "." in text:
        first, last = (",", ".") if text.rfind(",") < text.rfind(".") else (".", ",")
        whole, _, rest = text.rpartition(last)
        if not _THOUSANDS.fullmatch(whole.replace(first, ",")) or first in rest:
            raise Unreadable("is not a finite number")
        return f"{whole.replace(first, '')}.{rest}"
    if _THOUSANDS.fullmatch(text):
        if comma == "thousands" or text.count(",") > 1:
            return text.replace(",", "")
        if not comma:
            raise Unreadable(f"may be {text.replace(',', '.')} or {text.replace(',', '')}")
    elif comma == "thousands":
        raise Unreadable("is not a finite number")
    return text.replace(",", ".", 1)


def canonical(text: str) -> str:
    """Return the standard spelling of a category value or label, the same at every entry point.

    >>> canonical(" tcp"), canonical("True"), canonical("80.0"), canonical("007"), canonical("5.10")
    ('tcp', 'true', '80', '007', '5.10')
    """
    text = text.strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if text.lower() in ("true", "false"):
        return text.lower()
    whole = _WHOLE_FLOAT.fullmatch(text)
    return text if whole is None else whole[1]


def spelled(value: object) -> str:
    """Return the spelling of a text, number or boolean. Whole floats are written as integers.

    >>> spelled(80.0), spelled(3), spelled(True), spelled(0.5), spelled(" a")
    ('80', '3', 'true', '0.5', 'a')
    """
    plain: Any = value.item() if hasattr(value, "item") else value  # of numpy, which takes long to import
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, int) or (isinstance(plain, float) and plain.is_integer() and abs(plain) < 1e15):
        plain = int(plain)
    return canonical(str.__str__(plain) if isinstance(plain, str) else str(plain))


def spelled_label(value: object) -> str:
    """Return the spelling of a label for comparisons: as :func:`spelled`, without a plus sign.

    >>> spelled_label("+1"), spelled_label(1.0), spelled_label("007"), spelled_label("idle ")
    ('1', '1', '007', 'idle')
    """
    text = spelled(value)
    return text[1:] if text[:1] == "+" and _WHOLE.fullmatch(text[1:]) else text


def kind_of_labels(texts: Iterable[str], *, minus_one: bool = False) -> LabelKind:
    """Return the common type of the labels of a column: integers, booleans or text.

    Parameters
    ----------
    texts
        All labels, as :func:`spelled_label` returns them.
    minus_one
        Allow -1 as the name of a class. Otherwise integer labels with -1 become text, because -1 means *unknown*.

    Examples
    --------
    >>> kind_of_labels(["1", "2"]), kind_of_labels(["007", "7"]), kind_of_labels(["200", "timeout"])
    ('int', 'str', 'str')
    >>> kind_of_labels(["true", "false"]), kind_of_labels(["1", "-1"])
    ('bool', 'str')
    """
    seen = set(texts)
    if seen and seen <= {"true", "false"}:
        return "bool"
    whole = all(_WHOLE.fullmatch(each) and LEAST_WHOLE <= int(each) <= MOST_WHOLE for each in seen if len(each) < 21)
    if not seen or not whole or any(len(each) > 20 for each in seen) or ("-1" in seen and not minus_one):
        return "str"
    return "int"


def label_as(text: str, kind: LabelKind) -> str | int | bool:
    """Convert a spelling to a label of the given type."""
    return text == "true" if kind == "bool" else int(text) if kind == "int" else text


def moment(text: str) -> datetime | None:
    """Read an ISO 8601 timestamp. It is UTC unless it has an offset. ``None``: it is no timestamp.

    >>> moment("2026-01-01 10:00:00 UTC") == moment("2026-01-01T10:00Z"), moment("tcp")
    (True, None)
    """
    text = text.strip()
    if text[-4:].upper() in (" UTC", " GMT"):
        text = text[:-4]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def is_dated(text: str) -> bool:
    """Check whether a text is a date in a format other than ISO 8601. Its day may be ambiguous.

    >>> is_dated("31.01.2026 10:00"), is_dated("1/31/26"), is_dated("31-Jan-2026"), is_dated("Jan 31, 2026 9:15 PM")
    (True, True, True, True)
    >>> is_dated("1.2.3"), is_dated("06:00"), is_dated("10.0.0.1"), is_dated("mar 5x")
    (False, False, False, False)
    """
    return _DATE.fullmatch(text.strip()) is not None


class Tally:
    """Statistics of the values of a column, to decide its kind.

    Examples
    --------
    >>> tally = Tally()
    >>> for text in ["5,1", "?", "1,234", "0,5"] + ["2,5"] * 9:
    ...     tally.take(text)
    >>> tally.kind, tally.comma, tally.missing
    ('number', 'decimal', 1)
    >>> tally = Tally()
    >>> for text in ("200", "404", "timeout"):
    ...     tally.take(text)
    >>> tally.kind
    'category'
    """

    def __init__(self) -> None:
        self.numbers = self.broken = self.odd = self.missing = self.zeros = self.moments = 0
        self._sure = self._maybe = 0

    def take(self, text: str, count: int = 1) -> None:
        """Add a value as text with its number of occurrences."""
        try:
            value = number(text, "decimal")
        except Unreadable:
            infinite = text.strip().lower().lstrip("+-") in ("inf", "infinity")
            self.numbers += count * infinite  # it says what the column is, and cannot be used
            self.odd += count * (not infinite)
            self.moments += count * (not infinite and (moment(text) is not None or is_dated(text)))
            return
        if value is None:
            self.missing += count
            return
        self.numbers += count
        self.broken += count * (not value.is_integer())
        self.zeros += count * (text[:2].strip("+-")[:1] == "0" and _LEADING_ZERO.fullmatch(text.strip()) is not None)
        if "," in text:
            plain = _undressed(text)
            unclear = _THOUSANDS.fullmatch(plain) is not None
            self._maybe += count * unclear
            self._sure += count * (not unclear and "." not in plain)

    @property
    def kind(self) -> Literal["number", "category", "time"]:
        """Kind of the column."""
        total = self.numbers + self.odd
        few = 0 if total < LEAST else max(1, int((FEW if self.broken else FEW_WHOLE) * total))
        if (self.numbers or not self.odd) and self.odd <= few and self.zeros <= few:
            return "number"
        return "time" if self.odd and self.moments >= (1.0 - FEW) * total else "category"

    @property
    def comma(self) -> Comma:
        """Meaning of a comma in the column's numbers."""
        return "decimal" if self._sure else "thousands" if self._maybe else ""

    @property
    def looks_numeric(self) -> bool:
        """True if most values read as numbers."""
        return 2 * self.numbers > self.numbers + self.odd


def comma_text(comma: Comma, name: Any) -> str:
    """Return the text on the meaning of a comma in a column."""
    return f"{name!r}: a comma is {'the decimal sign' if comma == 'decimal' else 'between thousands'}"
