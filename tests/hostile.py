"""Hostile input: texts, numbers, JSON and bytes; and a check of the recognizer afterwards."""

from __future__ import annotations

import json
import math
from copy import copy
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer
from tests.blobs import KNOWN, NEW, around, ended, fitted, play

NASTY = (
    *("", " ", "\0", "\ufeff", "\u2028", "\x85", "\r", "\n", "\t", '"', "'", ",", ";", "\\", "\ud800", "a\udfff"),
    *("=1+1", "+cmd|' /C calc'!A0", "-1", "@SUM(A1)", "\t=1", "'=1", "\uff1d1", "unknown", "left", "None", "nan"),
    *("0", "-0", "01", "1_000", "1e5", "\u0663", "9" * 400, "1e400", "k" * 300, "\N{SNOWMAN}" * 2000, "{}", "[1]"),
    *("true", "features", "a", "A", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "\x1b[31m"),
    *("<script>", "../x"),
)
texts = (
    st.sampled_from(NASTY) | st.text(max_size=6) | st.text(st.characters(categories=["Cs", "Cc", "Cf"]), max_size=3)
)
numbers: st.SearchStrategy[Any] = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([1e99, -1e99, 1e100, 1.1e100, 1e308, 5e-324, -0.0, 2**63 - 1, 2**63, -(2**63) - 1, 10**400]),
)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
NAMES = ("a", "b", "id", "t", "y", "features")
new_ids = st.integers(0, 9).map("n{}".format)
new_labels = st.sampled_from(["third", "fourth", 7, True]) | texts
ordinary = st.tuples(st.sampled_from(sorted(KNOWN)), st.integers(0, 199), st.booleans())


@cache
def around_class(label: str) -> list[dict[str, float]]:
    """200 instances of a known class."""
    return around(KNOWN[label], 200, np.random.default_rng(len(label)))


@cache
def trained() -> OpenSetRecognizer:
    return fitted(chains=1, batch_size=8, window=16, max_classes=6, seed=5)


def fresh() -> OpenSetRecognizer:
    """A recognizer of two known classes that has seen nothing yet."""
    return copy(trained())


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """An ordinary instance, with its own label or without; one of no known class; or anything.

    None teaches a known class what is not so: then it would be right to forget it.
    """
    kind = draw(st.sampled_from(["ordinary", "ordinary", "new", "broken"]))
    if kind == "ordinary":
        label, number, labelled = draw(ordinary)
        return {**around_class(label)[number], **({"y": label} if labelled else {}), "id": f"k{number}"}
    out = draw(st.dictionaries(st.sampled_from(NAMES) | texts, json_values, max_size=4 if kind == "broken" else 1))
    if kind == "new":
        out |= {**dict(zip("ab", NEW, strict=True)), "id": draw(new_ids)}
        out |= {} if draw(st.booleans()) else {"y": draw(new_labels)}
    return {name: value for name, value in out.items() if not (name == "y" and value in (*KNOWN, "unknown"))}


def as_json(value: Any, *, ascii_only: bool) -> bytes:
    """JSON as Python writes it: NaN, halves of surrogate pairs and all."""
    return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Three times out of four the usual (``|`` counts the branches of both)."""
    return st.sampled_from([usual, usual, usual, rare]).flatmap(lambda drawn: drawn)


DEPTHS = (3, 100, *range(900, 1030, 8), 1024, 5000)


def nested_everywhere(depth: int) -> list[bytes]:
    """Deep by itself, and in all places where something may be."""
    deep = b"[" * depth + b"1" + b"]" * depth
    return [deep, *(b'{"a": 1, "b": 2, "%b": %b}' % (name.encode(), deep) for name in NAMES)]


nowhere_near_json = st.one_of(
    st.binary(max_size=20),
    texts.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([value for depth in DEPTHS for value in nested_everywhere(depth)]),
    st.sampled_from([400, 4301, 20_000]).map(lambda digits: b'{"a": 1, "b": ' + b"9" * digits + b"}"),
    st.sampled_from([b"", b"null", b'{"a": 1, "b": 1e999}', b'{"a": 1, "a": 2, "b": 3}', b"\xef\xbb\xbf{}", b"{}"]),
)
like_json = st.builds(as_json, objects(), ascii_only=st.booleans())
documents = mostly(like_json, nowhere_near_json)


def check_alive(model: OpenSetRecognizer) -> None:
    """Ordinary instances are decided, by probabilities, and nearly all of them rightly."""
    ended(model)
    truth = [label for label in KNOWN for _ in range(20)]
    decisions = ended(play(model, [(around_class(label)[number], None) for number, label in enumerate(truth)]))
    assert [decision.key for decision in decisions] == list(range(len(truth)))
    for decision in decisions:
        assert math.isclose(sum(decision.probabilities.values()), 1, abs_tol=1e-6)
    right = sum(decision.label == label for decision, label in zip(decisions, truth, strict=True))
    assert right >= 0.9 * len(truth), [decision.label for decision in decisions]
