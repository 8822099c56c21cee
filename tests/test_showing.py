"""Text of the input: in one line, of bounded length, with nothing that steers a terminal."""

from __future__ import annotations

import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.printable_text import LONGEST, brief, escaped_lines, printable, typed
from tests.tiers import examples

HOSTILE = [0x07, 0x08, 0x0A, 0x0D, 0x1B, 0x7F, 0x85, 0x9B, 0x200B, 0x200E, 0x202E, 0x2028, 0x2029, 0x2066, 0x2069]
HOSTILE += [0xAD, 0xA0, 0xFEFF, 0xD800, 0xDFFF, 0xE0041]
ANY = st.text(st.characters(exclude_categories=()))


def test_what_steers_or_has_no_shape_is_escaped_as_in_python() -> None:
    for code in HOSTILE:
        assert printable(f"a{chr(code)}b") == "a" + repr(chr(code))[1:-1] + "b", hex(code)


@examples(100)
@given(ANY)
def test_lines_of_any_text_can_be_written(text: str) -> None:
    harmless(printable(text))
    for line in escaped_lines(text).split("\n"):
        harmless(line)


@examples(100)
@given(st.recursive(ANY | st.integers() | st.floats() | st.binary() | st.none(), st.lists, max_leaves=20))
def test_any_value_becomes_one_line_that_can_be_written(value: object) -> None:
    harmless(brief(value))
    assert typed(value) == f"{brief(value)} ({type(value).__name__})"


@examples(100)
@given(ANY, st.integers(10, 200))
def test_what_is_ordinary_is_itself_and_what_is_long_keeps_both_ends(text: str, most: int) -> None:
    whole = printable(text)
    assert escaped_lines(text).count("\n") == text.count("\n")
    if text.isprintable():
        assert whole == text
    cut = printable("begin" + text * 9 + "x" * most + "end", most)
    assert len(cut) <= most
    assert (cut[:3], cut[-1]) == ("beg", "d")


def test_values_that_are_deep_long_or_of_several_lines_are_cut() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, "x" * 10**7, np.zeros((300, 300)), 10**5000, {n: n for n in range(1000)}, b"\x1b" * 10**6):
        harmless(brief(value))
        assert len(brief(value)) < 200


def harmless(text: str) -> None:
    assert len(text) <= LONGEST
    text.encode("utf-8")
    for character in text:
        kind = unicodedata.category(character)
        assert kind[0] != "C", repr(text)
        assert kind[0] != "Z" or character == " ", repr(text)
