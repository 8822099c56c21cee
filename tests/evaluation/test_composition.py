"""What a subclass is made of, at the border of what is called mixed."""

from __future__ import annotations

from collections import Counter

from stream_osr.evaluation.composition import in_words, main_class


def test_a_subclass_is_called_after_a_class_of_60_percent_else_mixed():
    cases = (({"sky": 6, "path": 4}, "sky"), ({"path": 41, "sky": 59}, None), ({"sky": 1}, "sky"), ({}, None))
    for made_of, expected in cases:
        assert main_class(Counter(made_of)) == expected
        assert in_words(Counter(made_of)).startswith("mixed: ") == (expected is None and bool(made_of))


def test_the_largest_are_named_first_and_the_smallest_not_at_all():
    assert in_words(Counter({"a": 1, "b": 150, "c": 349})) == "c 70 %, b 30 %"
    assert in_words(Counter({"a": 10, "b": 30, "c": 60}), most=1) == "c 60 %"
