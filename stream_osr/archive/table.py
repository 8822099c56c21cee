"""Reads the table of records (``records.table``): names, fields, and rules made of their words."""

from __future__ import annotations

import math
import re
from importlib.resources import files
from typing import NamedTuple

from stream_osr.archive import needs, rules
from stream_osr.archive.rules import Rule

_WORD = re.compile(r"[a-zA-Z*0-9+|]+")
_PLAIN = {"label": rules.label, "plain": rules.plain, "flag": rules.flag, "anything": rules.anything}
_ALSO = {name: getattr(needs, name) for name in ("some", "distinct", "ascending", "counted")}


class Row(NamedTuple):
    """A record: letters of the sizes that others have to agree with, and fields in their order.

    Attributes
    ----------
    module
        Where its type is.
    letters
        Of the sizes.
    rules
        What each field may hold.
    """

    module: str
    letters: list[str]
    rules: dict[str, Rule]


def read_table() -> dict[str, Row]:
    """Read the table."""
    rows, module = dict[str, Row](), ""
    for line in files(__package__).joinpath("records.table").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, *letters = line.split()
            if name == "in":
                (module,) = letters
            else:
                row = rows[name] = Row(module, letters, {})
            continue
        name, rest = line.split(None, 1)
        words = rest.split()
        row.rules[name] = _rule(words)
        if words:
            raise ValueError(f"records.table: {line.strip()}: what is {words[0]}?")
    return rows


def _rule(words: list[str]) -> Rule:
    """Take the words of a rule from the front of a list."""
    word = words.pop(0)
    if word == "maybe":
        return rules.maybe(_rule(words))
    if word in _ALSO:
        return rules.also(_ALSO[word], _rule(words))
    if word in ("tuple", "list"):
        letter = words.pop(0) if words[0] != "of" else "*"
        words.pop(0)
        return rules.many(_rule(words), letter, of=tuple if word == "tuple" else list)
    if word == "map":
        key = _rule(words)
        words.pop(0)
        return rules.mapping(key, _rule(words))
    if word in _PLAIN:
        return _PLAIN[word]
    if word == "text":
        return rules.text(*words.pop(0).split("|") if words and "|" in words[0] else ())
    letters = _letters(words)
    if word[0].isupper():
        return rules.record(word.split("|"), *letters)
    low, high = _bounds(words)
    if word == "whole":
        least, most = (-(1 << 62) if low == -math.inf else int(low)), ((1 << 62) if high == math.inf else int(high))
        return rules.whole(least, most, *letters)
    if word in ("number", "any-number"):
        return rules.number(low, high, finite=word == "number")
    if word not in "fiub":
        raise ValueError(f"records.table: what is {word}?")
    below = words.pop(0) if words[:1] == ["below"] and words.pop(0) else ""
    gaps = {words.pop(0) for _ in range(len(words)) if words and words[0] in ("-inf", "nan")}
    return rules.array(word, *letters, low=low, high=high, below=below, gaps=gaps)


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
