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
from stream_osr.showing import shown, typed

Scope = dict[str, tuple[int, str]]
"""Sizes, and the fields that say so."""

Rule = Callable[[Any, str, Scope], None]

_TYPES = {"f": np.dtype(np.float64), "i": np.dtype(np.int64), "u": np.dtype(np.uint64), "b": np.dtype(np.bool_)}
_NAMES = {"f": "float64", "i": "int64", "u": "uint64", "b": "bool"}


def agree(size: int, letter: str, where: str, scope: Scope) -> None:
    """Compare a size with that of its letter, ``K`` or ``K+1`` or a number; set it if nobody has."""
    if letter == "*":
        return
    name, _, more = letter.partition("+")
    extra = int(more or 0)
    if name.isdigit():
        expected, whose = int(name), "always"
    elif name not in scope and size >= extra:
        scope[name] = (size - extra, where)
        return
    else:
        expected, whose = scope.get(name, (0, "it"))
        expected, whose = expected + extra, f"{whose} has {expected}" if name in scope else "at least"
    if size != expected:
        raise Refused(where, f"of {size}", f"{expected} ({whose})")


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
        if not isinstance(value, np.ndarray):
            raise Refused(where, typed(value), f"an array of {_NAMES[kind]}")
        if value.dtype != _TYPES[kind]:
            raise Refused(where, f"of {value.dtype}", f"an array of {_NAMES[kind]}")
        if value.ndim != len(letters):
            raise Refused(where, f"of {value.ndim} dimensions", f"{len(letters)}")
        for size, letter in zip(value.shape, letters, strict=True):
            agree(size, letter, where, scope)
        top = high
        if below:
            size, whose = scope[below]
            top = min(high, size - 1)
        wrong = ~((value >= low) & (value <= top))
        if kind == "f":
            wrong |= ~np.isfinite(value)
            for gap, allowed in (("-inf", np.isneginf), ("nan", np.isnan)):
                if gap in gaps:
                    wrong &= ~allowed(value)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0].tolist())
            reason = f" ({whose} has {size})" if below else ""
            expected = _range(low, top, "whole numbers" if kind == "i" else "finite numbers") + reason
            raise Refused(f"{where}{list(at)}", str(value[at]), expected)

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


def number(low: float = -math.inf, high: float = math.inf, *, finite: bool = True) -> Rule:
    """Expect a number within bounds."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        usable = fits and (abs(value) < 1 << 1000 if isinstance(value, int) or finite else True)
        if not usable:
            raise Refused(where, typed(value), _range(low, high, "a finite number" if finite else "a number"))

    return rule


def flag(value: Any, where: str, scope: Scope) -> None:
    """Expect a truth value."""
    if type(value) is not bool:
        raise Refused(where, typed(value), "true or false")


def text(*among: str) -> Rule:
    """Expect text, or one of these."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, str) or (among and value not in among):
            raise Refused(where, typed(value), f"one of {', '.join(among)}" if among else "text")

    return rule


def label(value: Any, where: str, scope: Scope) -> None:
    """Expect the label of a class."""
    if not isinstance(value, str | int):
        raise Refused(where, typed(value), "a label: text, a whole number, true or false")


def plain(value: Any, where: str, scope: Scope) -> None:
    """Expect what a caller may have given as a key or as the name of a feature: what can be hashed."""
    if isinstance(value, tuple):
        for at, each in enumerate(value):
            plain(each, f"{where}[{at}]", scope)
    elif not (value is None or isinstance(value, str | int | float)):
        raise Refused(where, shown(type(value).__name__), "text, a number, or a tuple of them")


def anything(value: Any, where: str, scope: Scope) -> None:
    """Expect nothing of a value; records in it have been checked each for itself."""


def maybe(rule: Rule) -> Rule:
    """Expect nothing, or what the rule says."""

    def optional(value: Any, where: str, scope: Scope) -> None:
        if value is not None:
            rule(value, where, scope)

    return optional


def many(rule: Rule, letter: str = "*", *, of: type[Any] = tuple) -> Rule:
    """Expect a tuple (or list) of so many values."""

    def each(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, of):
            raise Refused(where, typed(value), f"a {of.__name__}")
        agree(len(value), letter, where, scope)
        for at, one in enumerate(value):
            rule(one, f"{where}[{at}]", scope)

    return each


def mapping(key: Rule, of: Rule) -> Rule:
    """Expect a mapping."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, dict):
            raise Refused(where, typed(value), "a mapping")
        for name, each in value.items():
            key(name, f"a key of {where}", scope)
            of(each, f"{where}[{shown(name)}]", scope)

    return rule


def fields(also: Mapping[str, Rule] = MappingProxyType({}), /, **rules: Rule) -> Rule:
    """Expect a mapping with exactly these keys, and perhaps some others."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, Mapping):
            raise Refused(where, typed(value), "a mapping")
        for name in (*rules, *value):
            if name not in value or not (name in rules or name in also):
                raise Refused(
                    f"{where} {shown(name)}".strip(), "missing" if name in rules else "there", ", ".join(rules)
                )
        for name, of in {**rules, **also}.items():
            if name in value:
                of(value[name], f"{where}.{name}" if where else name, scope)

    return rule


def tuple_of(*rules: Rule) -> Rule:
    """Expect a tuple of exactly these values."""

    def rule(value: Any, where: str, scope: Scope) -> None:
        if not isinstance(value, tuple) or len(value) != len(rules):
            raise Refused(where, typed(value), f"a tuple of {len(rules)}")
        for at, (of, each) in enumerate(zip(rules, value, strict=True)):
            of(each, f"{where}[{at}]", scope)

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
