"""Rules for the fields of records: what an archive may hold. Records declare them beside the types of their fields.

A rule is a function of a value, the name of the place, and the known sizes by their letters (``K`` dishes, ``J``
classes). It raises `RefusedValue`. The first field of a record with a letter defines its size, and the others must
agree. Rules are metadata of ``Annotated`` types (:mod:`stream_osr.archive.declared`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from stream_osr.printable_text import brief, typed

Array = np.ndarray


class RefusedValue(Exception):  # what is refused is a value, and the caller makes an error of it
    """Value that no valid archive contains.

    Parameters
    ----------
    where
        Record and field, or another name of the place.
    found
        Value that was found.
    expected
        Value that is expected.
    """

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(f"{where} is {found}; expected {expected}")


class RecordForm:
    """Record as it is written.

    Attributes
    ----------
    name
        Stable name.
    sizes
        Sizes that others must agree with, by their letters, once the record has been checked.
    """

    __slots__ = ("__dict__", "name", "sizes")

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name = name
        self.__dict__ = values
        self.sizes: Scope | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Fields by name. Those with another name than an attribute above are attributes, too."""
        return self.__dict__

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def each(holds: Array, values: Array, where: str, expected: str) -> None:
    """Refuse the first of several values that does not meet a condition.

    Raises
    ------
    RefusedValue
        With the value.
    """
    if not holds.all():
        at = tuple(np.argwhere(~holds)[0].tolist())
        raise RefusedValue(f"{where}{list(at)}", str(values[at]), expected)


def need(holds: Any, where: str, found: object, expected: str) -> None:
    """Refuse a value that does not meet a condition.

    Raises
    ------
    RefusedValue
        If the condition is false.
    """
    if not holds:
        raise RefusedValue(where, str(found), expected)


Scope = dict[str, tuple[int, str]]
"""Sizes, with the fields that define them."""

Rule = Callable[[Any, str, Scope], None]


def some(values: Sequence[Any] | Array, where: str, scope: Scope) -> None:
    """Refuse an empty value."""
    need(len(values), where, "empty", "one at least")


def distinct(values: Sequence[Any] | Array, where: str, scope: Scope) -> None:
    """Refuse repeated values."""
    seen: set[Any] = set()
    for value in values.tolist() if isinstance(values, Array) else values:
        need(value not in seen, where, f"with {value!r} twice", "each once")
        seen.add(value)


def ascending(values: Array, where: str, scope: Scope) -> None:
    """Refuse values that do not ascend within each row."""
    need((values[..., 1:] >= values[..., :-1]).all(), where, "not ascending", "ascending values")


def counted(values: Array, where: str, scope: Scope) -> None:
    """Refuse values that are no whole numbers."""
    each(values == np.rint(values), values, where, "a count")


_TYPES = {"f": "float64", "i": "int64", "u": "uint64", "b": "bool"}
_GAPS: dict[str, Callable[[Array], Array]] = {"-inf": np.isneginf, "nan": np.isnan}


def agree(size: int, letter: str, where: str, scope: Scope) -> None:
    """Compare a size with its letter, ``K`` or ``K+1``, or with numbers, ``5|6``.

    The first use of a letter defines it.
    """
    if letter == "*":
        return
    name, _, more = letter.partition("+")
    extra = int(more or 0)
    if letter[0].isdigit():
        fits, expected = str(size) in letter.split("|"), f"{letter.replace('|', ' or ')} (always)"
    elif name in scope:
        known, whose = scope[name]
        fits, expected = size == known + extra, f"{known + extra} ({whose} has {known})"
    else:
        fits, expected = size >= extra, f"{extra} (at least)"
        scope[name] = (size - extra, where)
    if not fits:
        raise RefusedValue(where, f"of {size}", expected)


def array(
    kind: str,
    *letters: str,
    low: float = -math.inf,
    high: float = math.inf,
    below: str = "",
    allowed: Collection[str] = (),
) -> Rule:
    """Expect an array.

    Parameters
    ----------
    kind
        Kind of the numbers: "f", "i", "u" or "b".
    letters
        Letters of the sizes of the dimensions.
    low, high
        Bounds of the numbers, inclusive.
    below
        Letter of the size that whole numbers stay below, for positions.
    allowed
        Further values that are allowed: "-inf", "nan".
    """

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, Array) or value.dtype != _TYPES[kind]:
            found = f"of {value.dtype}" if isinstance(value, Array) else typed(value)
            raise RefusedValue(where, found, f"an array of {_TYPES[kind]}")
        if value.ndim != len(letters):
            raise RefusedValue(where, f"of {value.ndim} dimensions", f"{len(letters)}")
        for size, letter in zip(value.shape, letters, strict=True):
            agree(size, letter, where, scope)
        top = high
        if below:
            size, whose = scope[below]
            top = min(high, size - 1)
        if not value.size:
            return
        least, most = value.min(), value.max()
        if low <= least and most <= top and math.isfinite(least) and math.isfinite(most):
            return  # a missing value would be the least and the largest one
        fits = (value >= low) & (value <= top)
        fits &= np.isfinite(value)
        for gap in allowed:
            fits |= _GAPS[gap](value)
        reason = f" ({whose} has {size})" if below else ""
        each(fits, value, where, _range(low, top, "whole numbers" if kind == "i" else "finite numbers") + reason)

    return rule


def _range(low: float, high: float, what: str) -> str:
    bounds = [f"{name} {bound:g}" for name, bound in (("from", low), ("to", high)) if math.isfinite(bound)]
    return " ".join([what, *bounds])


def whole(low: int = -(1 << 63), high: int = (1 << 63) - 1, size: str = "") -> Rule:
    """Expect a whole number. With ``size``, it defines the size of a letter."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if type(value) is not int or not low <= value <= high:
            raise RefusedValue(where, typed(value), _range(low, high, "a whole number"))
        if size:
            agree(value, size, where, scope)

    return rule


def _simple(fits: Callable[[Any], bool], expected: str) -> Rule:
    """Expect a plain value of a kind."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not fits(value):
            raise RefusedValue(where, typed(value), expected)

    return rule


def number(low: float = -math.inf, high: float = math.inf) -> Rule:
    """Expect a finite floating-point number within bounds. Kernels would be compiled again for a whole number."""

    def fits(value: Any) -> bool:
        return type(value) is float and low <= value <= high and abs(value) < math.inf

    return _simple(fits, _range(low, high, "a finite floating-point number"))


def any_number(low: float = -math.inf, high: float = math.inf) -> Rule:
    """Expect a number within bounds, whole or not, that the caller may have given as a time."""

    def fits(value: Any) -> bool:
        within = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        return within and (not isinstance(value, int) or abs(value) < 1 << 1000)

    return _simple(fits, _range(low, high, "a number"))


flag = _simple(lambda value: type(value) is bool, "true or false")
"""Expect a truth value."""
label = _simple(lambda value: isinstance(value, str | int), "a label: text, a whole number, true or false")
"""Expect the label of a class."""


def text(*among: str) -> Rule:
    """Expect text, or one of several texts."""
    expected = f"one of {', '.join(among)}" if among else "text"
    return _simple(lambda value: isinstance(value, str) and (not among or value in among), expected)


def plain(value: Any, where: str, scope: Scope) -> None:
    """Expect a hashable value that a caller may have given as a key or a feature name."""
    if type(value) is int or type(value) is str:
        return
    if isinstance(value, tuple):
        for at, one in enumerate(value):
            plain(one, f"{where}[{at}]", scope)
    elif not (value is None or isinstance(value, str | int | float)):
        raise RefusedValue(where, brief(type(value).__name__), "text, a number, or a tuple of them")


def anything(value: Any, where: str, scope: Scope) -> None:
    """Accept any value. Its records have been checked separately."""


def every(*rules: Rule) -> Rule:
    """Expect a value that meets all rules, one after the other."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        for one in rules:
            one(value, where, scope)

    return rules[0] if len(rules) == 1 else rule


def maybe(rule: Rule) -> Rule:
    """Expect nothing, or a value that meets the rule."""

    def optional(value: Any, where: str, scope: Scope) -> None:
        if value is not None:
            rule(value, where, scope)

    return optional


def many(rule: Rule, letter: str = "*", *, of: type[Any] = tuple) -> Rule:
    """Expect a tuple (or list) of a given length."""

    def rule_of_all(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, of):
            raise RefusedValue(where, typed(value), f"a {of.__name__}")
        agree(len(value), letter, where, scope)
        try:
            for one in value:
                rule(one, where, scope)
        except RefusedValue:
            for at, one in enumerate(value):
                rule(one, f"{where}[{at}]", scope)

    return rule_of_all


def mapping(key: Rule, of: Rule) -> Rule:
    """Expect a mapping."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, dict):
            raise RefusedValue(where, typed(value), "a mapping")
        for name, one in value.items():
            key(name, f"a key of {where}", scope)
            try:
                of(one, where, scope)
            except RefusedValue:
                of(one, f"{where}[{brief(name)}]", scope)
                raise

    return rule


def fields(more: Mapping[str, Rule] = MappingProxyType({}), /, **rules: Rule) -> Rule:
    """Expect a mapping with exactly these keys, and optional others."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, Mapping):
            raise RefusedValue(where, typed(value), "a mapping")
        for name in (*rules, *value):
            if name not in value or name not in {**rules, **more}:
                found = "missing" if name in rules else "there"
                raise RefusedValue(f"{where} {brief(name)}".strip(), found, ", ".join(rules))
        for name, of in {**rules, **more}.items():
            if name in value:
                of(value[name], f"{where}.{name}" if where else name, scope)

    return rule


def tuple_of(*rules: Rule) -> Rule:
    """Expect a tuple of exactly these values."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, tuple) or len(value) != len(rules):
            raise RefusedValue(where, typed(value), f"a tuple of {len(rules)}")
        for at, (of, one) in enumerate(zip(rules, value, strict=True)):
            of(one, f"{where}[{at}]", scope)

    return rule


def length(letter: str) -> Rule:
    """Expect as many values as the size of a letter."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        agree(len(value), letter, where, scope)

    return rule


def record(*names: str) -> Rule:
    """Expect a record with one of several names."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, RecordForm) or value.name not in names:
            found = value.name if isinstance(value, RecordForm) else typed(value)
            raise RefusedValue(where, found, f"a record {' or '.join(names)}")

    return rule


def sizes(same: str = "", **others: str) -> Rule:
    """Expect a record whose sizes agree with those of the record around it.

    Parameters
    ----------
    same
        Letters of sizes that both records name alike, separated by spaces.
    others
        Letters around the record, by the letters within.
    """
    pairs = {**{letter: letter for letter in same.split()}, **others}

    def rule(value: Any, where: str, scope: Scope) -> None:
        for letter, around in pairs.items():
            need(letter in value.sizes, value.name, f"empty: no field defines the size {letter}", "a field that does")
            agree(value.sizes[letter][0], around, where, scope)

    return rule


ABOVE_0 = math.nextafter(0.0, math.inf)
"""The least number above 0."""
LARGEST = 1 << 62
"""Largest whole number in a record."""
Count = Annotated[int, whole(0, LARGEST)]
Position = Annotated[int, whole(-1, LARGEST)]
"""Position from 0, or -1: there is none."""
Share = Annotated[float, number(0.0, 1.0)]
NonNegative = Annotated[float, number(0.0)]
AnyNumber = Annotated[float, any_number()]
