"""Reads the table of records (``records.table``): names, fields, and rules made of their words."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

from stream_osr.archive.rules import (
    Rule,
    array,
    flag,
    label,
    many,
    mapping,
    maybe,
    number,
    plain,
    record,
    text,
    whole,
)

_WORD = re.compile(r"[a-zA-Z*0-9+|]+")
_LIMITS: dict[str, Callable[[float], tuple[float, float]]] = {
    ">=": lambda least: (least, math.inf),
    "<=": lambda most: (-math.inf, most),
    ">": lambda least: (math.nextafter(least, math.inf), math.inf),
}


class Field(NamedTuple):
    """What a field may hold; the format version that it came with; what it is, as text, in files that lack it."""

    rule: Rule
    since: int
    default: str | None


class Row(NamedTuple):
    """A record: letters of the sizes that others have to agree with, and fields in their order."""

    letters: list[str]
    fields: dict[str, Field]


def read_table(first: int) -> dict[str, Row]:
    """Read the table; fields that do not say since when they are there came with format version ``first``."""
    rows: dict[str, Row] = {}
    row = Row([], {})
    for line in files(__package__).joinpath("records.table").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, *letters = line.split()
            row = rows[name] = Row(letters, {})
            continue
        name, rest = line.split(None, 1)
        rest, _, since = rest.partition(" since ")
        rest, _, default = rest.partition(" = ")
        words = rest.split()
        rule = _rule(words)
        if words:
            raise ValueError(f"records.table: {line.strip()}: what is {words[0]}?")
        row.fields[name] = Field(rule, int(since or first), default or None)
    return rows


def literal(default: str) -> Any:
    """Read a default."""
    return ast.literal_eval(default)


def _rule(words: list[str]) -> Rule:
    """Take the words of a rule from the front of a list."""
    word = words.pop(0)
    if word == "maybe":
        return maybe(_rule(words))
    if word == "tuple":
        letter = words.pop(0) if words[0] != "of" else "*"
        words.pop(0)
        return many(_rule(words), letter)
    if word == "map":
        key = _rule(words)
        words.pop(0)
        return mapping(key, _rule(words))
    if word in ("label", "plain", "flag"):
        return {"label": label, "plain": plain, "flag": flag}[word]
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
        return number(low, high, finite=word == "number")
    if word not in "fiub":
        raise ValueError(f"records.table: what is {word}?")
    below = words.pop(0) if words[:1] == ["below"] and words.pop(0) else ""
    gaps = {words.pop(0) for _ in range(len(words)) if words and words[0] in ("-inf", "nan")}
    return array(word, *letters, low=low, high=high, below=below, gaps=gaps)


def _letters(words: list[str]) -> list[str]:
    out = []
    while words and _WORD.fullmatch(words[0]) and words[0] not in ("to", "below", "nan") and words[1:2] != [".."]:
        out.append(words.pop(0))
    return out


def _bounds(words: list[str]) -> tuple[float, float]:
    if words and words[0] in _LIMITS:
        limit = _LIMITS[words.pop(0)]
        return limit(float(words.pop(0)))
    if words[1:2] == [".."]:
        low, _, high = (words.pop(0) for _ in range(3))
        return float(low), float(high)
    return -math.inf, math.inf
