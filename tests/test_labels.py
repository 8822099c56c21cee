"""Labels: reduced to plain values, and never the one that says unknown."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr import Limits, ModelOptions, OpenSetRecognizer
from stream_osr.errors import InvalidLabel
from stream_osr.labels import check_label, clean_label, unknown_label


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *(("cat", "cat"), ("", ""), (np.str_("cat"), "cat"), (3, 3), (np.int8(3), 3), (np.uint64(2**63), 2**63)),
        *((np.array(3), 3), (3.0, 3), (np.float32(3), 3), (True, True), (np.bool_(False), False)),
    ],
    ids=repr,
)
def test_label_is_reduced_to_a_plain_value(given, expected):
    label = clean_label(given)
    assert label == expected
    assert type(label) is type(expected)


@pytest.mark.parametrize(
    "given",
    [None, 2.5, float("nan"), float("inf"), b"cat", ("a",), ["a"], np.array([1, 2]), np.array(["a"]), 1j],
    ids=repr,
)
def test_anything_else_is_no_label(given):
    with pytest.raises(InvalidLabel, match=r"expected str, int or bool, or None for an instance without a label"):
        clean_label(given)


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        (None, [], "unknown"),
        (None, ["a"], "unknown"),
        (None, [1], -1),
        (None, [False], -1),
        ("novel", [1], "novel"),
        (0, ["a"], 0),
        (False, [], False),
    ],
)
def test_unknown_label_is_of_the_kind_of_the_others(given, known, expected):
    label = unknown_label(given, known)
    assert label == expected
    assert type(label) is type(expected)


@pytest.mark.parametrize(
    ("label", "known", "given", "collides"),
    [
        ("unknown", [], None, True),
        ("unknown", ["a"], None, True),
        (-1, [], None, True),
        (-1, [3], None, True),
        ("novel", ["a"], "novel", True),
        (1, [3], True, True),
        (True, [3], 1, True),
        (0, [3], False, True),
        ("unknown", ["a"], "novel", False),
        (-1, [3], 0, False),
        ("-1", ["a"], -1, False),
        (False, [True], None, False),
        (2, [True], None, False),
    ],
)
def test_collision_with_the_unknown_label(label, known, given, collides):
    if not collides:
        assert check_label(label, known, given) == label
        return
    with pytest.raises(InvalidLabel, match=r"is the label of unknown instances\. Rename the class, or pass another"):
        check_label(label, known, given)


@pytest.mark.parametrize(("label", "known"), [("a", [1]), (1, ["a"]), ("1", [True]), (True, ["a", "b"])])
def test_kinds_do_not_mix(label, known):
    with pytest.raises(InvalidLabel, match=r"but the known labels are like .*\. Use labels of one type"):
        check_label(label, known, None)


@pytest.mark.parametrize(
    ("classes", "each", "asked"), [(120, 1, True), (120, 3, False), (99, 1, True), (99, 2, False), (4, 1, False)]
)
def test_labels_that_look_like_none_are_asked_about_before_training(caplog, classes, each, asked):
    model = OpenSetRecognizer(chains=1, limits=Limits(references=0), model=ModelOptions(training_sweeps=0, sweeps=0))
    rng = np.random.default_rng(0)
    for i in range(classes * each):
        model.learn_one({"a": rng.normal(), "b": rng.normal()}, i % classes)
    model.freeze()
    expected = f"there are {classes} classes with 1.0 instances each: are these the classes, or numbers, keys, times?"
    assert (expected in caplog.messages) == asked
