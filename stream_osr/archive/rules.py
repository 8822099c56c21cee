"""Rules for the fields of records, and their checks.

A rule is a function of a value, the name of the place, and the known sizes by their letters (``K`` dishes, ``J``
classes). It raises `RefusedValue`. The first field of a record with a letter defines its size, and the others must
agree. ``records.table`` has the names, fields, rules, and relations between the fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from types import CodeType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stream_osr.archive.record import RecordForm, RefusedValue
from stream_osr.model.jit import Array
from stream_osr.printable_text import brief, typed


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


def some(values: Sequence[Any] | Array, where: str) -> None:
    """Refuse an empty value."""
    need(len(values), where, "empty", "one at least")


def distinct(values: Sequence[Any] | Array, where: str) -> None:
    """Refuse repeated values."""
    seen: set[Any] = set()
    for value in values.tolist() if isinstance(values, Array) else values:
        need(value not in seen, where, f"with {value!r} twice", "each once")
        seen.add(value)


def ascending(values: Array, where: str) -> None:
    """Refuse values that do not ascend within each row."""
    need((values[..., 1:] >= values[..., :-1]).all(), where, "not ascending", "ascending values")


def counted(values: Array, where: str) -> None:
    """Refuse values that are no whole numbers."""
    each(values == np.rint(values), values, where, "a count")


Scope = dict[str, tuple[int, str]]
"""Sizes, with the fields that define them."""

Rule = Callable[[Any, str, Scope], None]

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
        if kind == "f":
            fits &= np.isfinite(value)
            for gap in allowed:
                fits |= _GAPS[gap](value)
        if not fits.all():
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


def also(check: Callable[[Any, str], None], rule: Rule) -> Rule:
    """Expect a value that meets a rule, and then a check of the whole."""

    def both(value: Any, where: str, scope: Scope) -> None:
        rule(value, where, scope)
        check(value, where)

    return both


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


def record(name: str | Collection[str], *letters: str) -> Rule:
    """Expect a record with one of several names. Its sizes have the given letters."""
    names = [name] if isinstance(name, str) else list(name)

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, RecordForm) or value.name not in names:
            found = value.name if isinstance(value, RecordForm) else typed(value)
            raise RefusedValue(where, found, f"a record {' or '.join(names)}")
        assert value.sizes is not None
        for letter, size in zip(letters, value.sizes, strict=bool(letters)):
            agree(size, letter, where, scope)

    return rule


_WORD = re.compile(r"[a-zA-Z*0-9+|]+")
_PLAIN = {"label": label, "plain": plain, "flag": flag, "anything": anything}
_ALSO = {"some": some, "distinct": distinct, "ascending": ascending, "counted": counted}


class RecordSpec(NamedTuple):
    """Specification of a record: letters of the sizes that others must agree with, and fields in their order.

    Attributes
    ----------
    module
        Module of the type.
    letters
        Letters of the sizes.
    rules
        Rule for each field.
    relations
        Relations between fields: compiled expressions, whose file name is their text.
    optional
        Fields that are not written if they are None.
    """

    module: str
    letters: list[str]
    rules: dict[str, Rule]
    relations: list[CodeType]
    optional: set[str]


def read_table() -> dict[str, RecordSpec]:
    """Read the table of records."""
    rows, module = dict[str, RecordSpec](), ""
    for line in files(__package__).joinpath("records.table").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, *letters = line.split()
            if name == "in":
                (module,) = letters
            else:
                row = rows[name] = RecordSpec(module, letters, {}, [], set())
            continue
        name, rest = line.split(None, 1)
        if name == ":":
            row.relations.append(compile(rest, rest, "eval"))
            continue
        words, optional = rest.split(), name.endswith("?")
        name = name.removesuffix("?")
        row.rules[name] = maybe(_rule(words)) if optional else _rule(words)
        row.optional.update([name] if optional else ())
        if words:
            raise ValueError(f"records.table: {line.strip()}: what is {words[0]}?")
    return rows


def _rule(words: list[str]) -> Rule:
    """Read a rule from the front of a list of words."""
    word = words.pop(0)
    if word == "maybe":
        return maybe(_rule(words))
    if word in _ALSO:
        return also(_ALSO[word], _rule(words))
    if word in ("tuple", "list"):
        letter = words.pop(0) if words[0] != "of" else "*"
        words.pop(0)
        return many(_rule(words), letter, of=tuple if word == "tuple" else list)
    if word == "map":
        key = _rule(words)
        words.pop(0)
        return mapping(key, _rule(words))
    if word in _PLAIN:
        return _PLAIN[word]
    if word == "text":
        return text(*words.pop(0).split("|") if words and "|" in words[0] else ())
    letters = _letters(words)
    if word[0].isupper():
        return record(word.split("|"), *letters)
    low, high = _bounds(words)
    if word == "whole":
        least, most = (-(1 << 62) if low == -math.inf else int(low)), ((1 << 62) if high == math.inf else int(high))
        return whole(least, most, *letters)
    if word in ("number", "any-number"):
        return (number if word == "number" else any_number)(low, high)
    if word not in "fiub":
        raise ValueError(f"records.table: what is {word}?")
    below = words.pop(0) if words[:1] == ["below"] and words.pop(0) else ""
    allowed = {words.pop(0) for _ in range(len(words)) if words and words[0] in ("-inf", "nan")}
    return array(word, *letters, low=low, high=high, below=below, allowed=allowed)


def _letters(words: list[str]) -> list[str]:
    out = []
    while words and _WORD.fullmatch(words[0]) and words[0] not in ("to", "below", "nan") and words[1:2] != [".."]:
        out.append(words.pop(0))
    return out


def _bounds(words: list[str]) -> tuple[float, float]:
    low, high = -math.inf, math.inf
    if words[1:2] == [".."]:
        low, _, high = float(words.pop(0)), words.pop(0), float(words.pop(0))
    while words and words[0] in (">", ">=", "<="):
        sign, bound = words.pop(0), float(words.pop(0))
        if sign == "<=":
            high = bound
        else:
            low = bound if sign == ">=" else math.nextafter(bound, math.inf)
    return low, high
