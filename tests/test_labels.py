"""Labels: reduced to plain values, and never the one that says unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stream_osr import Limits, ModelOptions, OpenSetRecognizer
from stream_osr.errors import InvalidLabel
from stream_osr.instances.labels import check_label, clean_label, unknown_label
from tests.blobs import further


def test_label_is_reduced_to_a_plain_value():
    for given, expected in (
        *(("cat", "cat"), ("", ""), (np.str_("cat"), "cat"), (3, 3), (np.int8(3), 3), (np.uint64(2**63), 2**63)),
        *((np.array(3), 3), (3.0, 3), (np.float32(3), 3), (True, True), (np.bool_(False), False)),
    ):
        label = clean_label(given)
        assert (label, type(label)) == (expected, type(expected)), given


def test_anything_else_is_no_label():
    for given in (None, 2.5, math.nan, math.inf, b"cat", ("a",), ["a"], np.array([1, 2]), np.array(["a"]), 1j):
        with pytest.raises(InvalidLabel, match=r"expected str, int or bool, or None for an instance without a label"):
            clean_label(given)


def test_unknown_label_is_of_the_kind_of_the_others():
    for given, known, expected in (
        *((None, [], "unknown"), (None, ["a"], "unknown"), (None, [1], -1), (None, [False], -1)),
        *(("novel", [1], "novel"), (0, ["a"], 0), (False, [], False)),
    ):
        label = unknown_label(given, known)
        assert (label, type(label)) == (expected, type(expected)), (given, known)


def test_collision_with_the_unknown_label():
    for label, known, given in (
        *(("unknown", [], None), ("unknown", ["a"], None), (-1, [], None), (-1, [3], None)),
        *(("novel", ["a"], "novel"), (1, [3], True), (True, [3], 1), (0, [3], False)),
    ):
        message = r"is the label of unknown instances\. Rename the class, or pass another"
        with pytest.raises(InvalidLabel, match=message):
            check_label(label, known, given)
    for label, known, given in (
        *(("unknown", ["a"], "novel"), (-1, [3], 0), ("-1", ["a"], -1)),
        *((False, [True], None), (2, [True], None)),
    ):
        assert check_label(label, known, given) == label


def test_kinds_do_not_mix():
    for label, known in (("a", [1]), (1, ["a"]), ("1", [True]), (True, ["a", "b"])):
        with pytest.raises(InvalidLabel, match=r"but the known labels are like .*\. Use labels of one type"):
            check_label(label, known, None)


@pytest.mark.parametrize(
    ("classes", "each", "warned"),
    [(120, 1, True), (4, 1, False), *further((120, 3, False), (99, 1, True), (99, 2, False))],
)
def test_labels_that_look_like_none_are_reported_before_training(caplog, classes, each, warned):
    model = OpenSetRecognizer(chains=1, limits=Limits(references=0), model=ModelOptions(training_sweeps=0, sweeps=0))
    rng = np.random.default_rng(0)
    for i in range(classes * each):
        model.learn_one({"a": rng.normal(), "b": rng.normal()}, i % classes)
    model.freeze()
    expected = f"there are {classes} classes with 1.0 instances each: are these the classes, or numbers, keys, times?"
    assert (expected in caplog.messages) == warned
