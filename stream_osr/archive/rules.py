"""What a field of a record may hold: small rules, and how they are checked.

A rule is a function of a value, the name of its place, and the sizes that are known by then (by their letters: ``K``
dishes, ``J`` classes). It raises `Refused`. The first field of a record that has a letter sets it, the others have to
agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from stream_osr.archive.form import Form, Refused
from stream_osr.archive.needs import each
from stream_osr.showing import shown, typed

Scope = dict[str, tuple[int, str]]
"""Sizes, and the fields that say so."""

Rule = Callable[[Any, str, Scope], None]

_TYPES = {"f": "float64", "i": "int64", "u": "uint64", "b": "bool"}
_GAPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"-inf": np.isneginf, "nan": np.isnan}


def agree(size: int, letter: str, where: str, scope: Scope) -> None:
    """Compare a size with that of its letter, ``K`` or ``K+1``, set it if nobody has; or with numbers, ``5|6``."""
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
        raise Refused(where, f"of {size}", expected)


def array(
    kind: str,
    *letters: str,
    low: float = -math.inf,
    high: float = math.inf,
    below: str = "",
    gaps: Collection[str] = (),
) -> Rule:
    """Expect an array.

    Parameters
    ----------
    kind
        Of its numbers: "f", "i", "u" or "b".
    letters
        Sizes of its dimensions.
    low, high
        Bounds of the numbers, included.
    below
        The letter of the size that whole numbers stay below: they are positions.
    gaps
        What may stand there beside finite numbers: "-inf", "nan".
    """

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, np.ndarray) or value.dtype != _TYPES[kind]:
            found = f"of {value.dtype}" if isinstance(value, np.ndarray) else typed(value)
            raise Refused(where, found, f"an array of {_TYPES[kind]}")
        if value.ndim != len(letters):
            raise Refused(where, f"of {value.ndim} dimensions", f"{len(letters)}")
        for size, letter in zip(value.shape, letters, strict=True):
            agree(size, letter, where, scope)
        top = high
        if below:
            size, whose = scope[below]
            top = min(high, size - 1)
        fits = (value >= low) & (value <= top)
        if kind == "f":
            fits &= np.isfinite(value)
            for gap in gaps:
                fits |= _GAPS[gap](value)
        if not fits.all():
            reason = f" ({whose} has {size})" if below else ""
            each(fits, value, where, _range(low, top, "whole numbers" if kind == "i" else "finite numbers") + reason)

    return rule


def _range(low: float, high: float, what: str) -> str:
    bounds = [f"{name} {bound:g}" for name, bound in (("from", low), ("to", high)) if math.isfinite(bound)]
    return " ".join([what, *bounds])


def whole(low: int = -(1 << 63), high: int = (1 << 63) - 1, size: str = "") -> Rule:
    """Expect a whole number; with ``size`` it is that of a letter."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Refused(where, typed(value), _range(low, high, "a whole number"))
        if size:
            agree(value, size, where, scope)

    return rule


def _simple(fits: Callable[[Any], bool], expected: str) -> Rule:
    """Expect a plain value of some kind."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not fits(value):
            raise Refused(where, typed(value), expected)

    return rule


def number(low: float = -math.inf, high: float = math.inf, *, finite: bool = True) -> Rule:
    """Expect a number within bounds."""

    def fits(value: Any) -> bool:
        within = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        return within and (abs(value) < 1 << 1000 if isinstance(value, int) or finite else True)

    return _simple(fits, _range(low, high, "a finite number" if finite else "a number"))


flag = _simple(lambda value: type(value) is bool, "true or false")
"""Expect a truth value."""
label = _simple(lambda value: isinstance(value, str | int), "a label: text, a whole number, true or false")
"""Expect the label of a class."""


def text(*among: str) -> Rule:
    """Expect text, or one of these."""
    expected = f"one of {', '.join(among)}" if among else "text"
    return _simple(lambda value: isinstance(value, str) and (not among or value in among), expected)


def plain(value: Any, where: str, scope: Scope) -> None:
    """Expect what a caller may have given as a key or as the name of a feature: what can be hashed."""
    if isinstance(value, tuple):
        for at, one in enumerate(value):
            plain(one, f"{where}[{at}]", scope)
    elif not (value is None or isinstance(value, str | int | float)):
        raise Refused(where, shown(type(value).__name__), "text, a number, or a tuple of them")


def anything(value: Any, where: str, scope: Scope) -> None:
    """Expect nothing of a value; records in it have been checked each for itself."""


def also(check: Callable[[Any, str], None], rule: Rule) -> Rule:
    """Expect what the rule says, and what is checked of the whole then."""

    def both(value: Any, where: str, scope: Scope) -> None:
        rule(value, where, scope)
        check(value, where)

    return both


def maybe(rule: Rule) -> Rule:
    """Expect nothing, or what the rule says."""

    def optional(value: Any, where: str, scope: Scope) -> None:
        if value is not None:
            rule(value, where, scope)

    return optional


def many(rule: Rule, letter: str = "*", *, of: type[Any] = tuple) -> Rule:
    """Expect a tuple (or list) of so many values."""

    def rule_of_all(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, of):
            raise Refused(where, typed(value), f"a {of.__name__}")
        agree(len(value), letter, where, scope)
        for at, one in enumerate(value):
            rule(one, f"{where}[{at}]", scope)

    return rule_of_all


def mapping(key: Rule, of: Rule) -> Rule:
    """Expect a mapping."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, dict):
            raise Refused(where, typed(value), "a mapping")
        for name, one in value.items():
            key(name, f"a key of {where}", scope)
            of(one, f"{where}[{shown(name)}]", scope)

    return rule


def fields(more: Mapping[str, Rule] = MappingProxyType({}), /, **rules: Rule) -> Rule:
    """Expect a mapping with exactly these keys, and perhaps some others."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, Mapping):
            raise Refused(where, typed(value), "a mapping")
        for name in (*rules, *value):
            if name not in value or name not in {**rules, **more}:
                found = "missing" if name in rules else "there"
                raise Refused(f"{where} {shown(name)}".strip(), found, ", ".join(rules))
        for name, of in {**rules, **more}.items():
            if name in value:
                of(value[name], f"{where}.{name}" if where else name, scope)

    return rule


def tuple_of(*rules: Rule) -> Rule:
    """Expect a tuple of exactly these values."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, tuple) or len(value) != len(rules):
            raise Refused(where, typed(value), f"a tuple of {len(rules)}")
        for at, (of, one) in enumerate(zip(rules, value, strict=True)):
            of(one, f"{where}[{at}]", scope)

    return rule


def record(name: str | Collection[str], *letters: str) -> Rule:
    """Expect a record of a name, or one of several; its sizes have these letters here."""
    names = [name] if isinstance(name, str) else list(name)

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, Form) or value.name not in names:
            found = value.name if isinstance(value, Form) else typed(value)
            raise Refused(where, found, f"a record {' or '.join(names)}")
        assert value.sizes is not None
        for letter, size in zip(letters, value.sizes, strict=bool(letters)):
            agree(size, letter, where, scope)

    return rule
