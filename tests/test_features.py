"""Rows of numbers from dicts: order, missing values, what is counted. What is refused is in test_bad_input.py."""

from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.entries import LARGEST, number_of
from stream_osr.errors import InvalidFeature
from stream_osr.features import Features, column_values, frame_rows
from stream_osr.missing import is_missing
from stream_osr.times_and_keys import key_of, time_of


def test_order_is_that_of_the_names_whatever_the_order_of_arrival():
    for names in (["b", "a", "c"], ["c", "b", "a"]):
        assert Features(names).names == ("a", "b", "c")
        assert Features([names[0]]).extended(names).names == ("a", "b", "c")
    assert Features([10, 9, 100]).names == (9, 10, 100)


def test_names_of_several_kinds_have_an_order_too():
    names = ["b", 2, None, ("x", 1), 1.5, "a", 1, ("w", "y")]
    expected = (None, 1.5, 1, 2, "a", "b", ("w", "y"), ("x", 1))
    assert sorted(map(repr, Features(names).names)) == sorted(map(repr, expected))
    assert Features(names).names == Features(names[::-1]).names
    mixed = [("x", 1), ("x", "y"), ("x", None)]  # which Python cannot compare
    assert Features(mixed).names == Features(mixed[::-1]).names


def test_joining_nothing_new_is_the_same_object():
    features = Features(["a", "b"])
    assert features.extended(["b"]) is features
    assert features.extended([]) is features
    assert features.extended(["b", "c"]).names == ("a", "b", "c")
    assert features.names == ("a", "b")


@pytest.mark.parametrize(
    ("x", "values", "missing", "extra"),
    [
        ({"a": 1, "b": 2.5}, [1, 2.5], 0, 0),
        ({"b": 2.5, "a": 1}, [1, 2.5], 0, 0),
        ({"a": 1, "b": 2.5, "c": 9, "d": "x"}, [1, 2.5], 0, 2),
        ({"a": 1}, [1, math.nan], 1, 0),
        ({"a": 1, "c": 3}, [1, math.nan], 1, 1),
        ({"a": None, "b": math.nan}, [math.nan, math.nan], 2, 0),
        ({}, [math.nan, math.nan], 2, 0),
        ({"a": True, "b": False}, [1, 0], 0, 0),
        ({"a": True, "b": None}, [1, math.nan], 1, 0),
        ({"a": 2**70, "b": 1}, [2.0**70, 1], 0, 0),
        ({"a": LARGEST, "b": -LARGEST}, [LARGEST, -LARGEST], 0, 0),
        (Counter({"a": 1, "c": 1}), [1, 0], 0, 1),
        (defaultdict(float, {"c": 1.0}), [0, 0], 0, 1),
        (defaultdict(None, {"c": 1.0}), [math.nan, math.nan], 2, 1),
    ],
)
def test_row(x, values, missing, extra):
    before = dict(x)
    row = Features(["a", "b"]).row(x)
    np.testing.assert_array_equal(row.values, values)
    assert row.values.dtype == np.float64
    assert (row.missing, row.extra) == (missing, extra)
    assert x == before
    assert len(x) == len(before)


@pytest.mark.parametrize("names", [(), ("a",), ("a", "b", "c")], ids=len)
def test_row_of_any_width(names):
    features = Features(names)
    row = features.row(dict.fromkeys(names, 2))
    assert row.values.tolist() == [2.0] * len(names)
    assert features.row({}).missing == len(names)
    assert features.row({"z": 1}).extra == 1


def test_row_does_not_share_memory_with_the_instance():
    values = np.array(1.0)
    row = Features(["a", "b"]).row({"a": values, "b": np.float64(2)})
    values[...] = 5.0
    assert row.values.tolist() == [1.0, 2.0]


def test_refusal_names_feature_and_row():
    with pytest.raises(InvalidFeature, match=r"feature 'b' of row 12 is 'two' \(str\)"):
        Features(["a", "b"]).row({"a": 1, "b": "two"}, 12)
    with pytest.raises(InvalidFeature, match=r"feature \('b', 1\) is inf \(float\)"):
        Features([("b", 1)]).row({("b", 1): math.inf})


def test_long_values_are_cut_short_in_messages():
    with pytest.raises(InvalidFeature) as caught:
        number_of("a", "x" * 10_000)
    assert len(str(caught.value)) < 250
    assert "...xxxxxxxxxxxxxxxxxx' (str)" in str(caught.value)


@given(st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.none(), st.floats(-1e100, 1e100), st.integers(-9, 9))))
def test_row_agrees_with_reading_value_by_value(x):
    features = Features("abcd")
    row = features.row(x)
    expected = [math.nan if x.get(name) is None else float(x[name]) for name in "abcd"]
    np.testing.assert_array_equal(row.values, expected)
    assert row.missing == np.isnan(expected).sum()
    assert row.extra == len(set(x) - set("abcd"))


def test_features_can_be_pickled():
    features = pickle.loads(pickle.dumps(Features(["b", "a"])))
    assert features.row({"a": 1, "b": 2}).values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [None, math.nan, np.nan, np.float16("nan"), pd.NA, pd.NaT])
def test_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", "nan", False, math.inf, [], np.array(math.nan)], ids=repr)
def test_not_missing(value):
    assert not is_missing(value)


def test_frame_becomes_columns_and_rows():
    columns, rows = frame_rows(pd.DataFrame({"b": [1, 2], "a": [0.5, None]}))
    assert columns == ["b", "a"]
    assert rows[0] == {"b": 1, "a": 0.5}
    assert math.isnan(rows[1]["a"])


def test_frame_without_columns_has_rows_nevertheless():
    assert frame_rows(pd.DataFrame(index=[7, 8, 9])) == ([], [{}, {}, {}])
    assert frame_rows(pd.DataFrame()) == ([], [])


def test_columns_beside_a_frame():
    assert column_values(None, 2, "y") == [None, None]
    assert column_values([1, math.nan], 2, "y") == [1, None]
    assert column_values((v for v in "ab"), 2, "y") == ["a", "b"]
    assert column_values(np.array([1, 2]), 2, "y") == [1, 2]
    assert all(type(v) is int for v in column_values(pd.Series([1, 2]), 2, "y"))


def test_scalars_of_numpy_become_plain_times_and_keys():
    assert [type(v) for v in (time_of(np.float32(1)), time_of(np.int16(1)))] == [float, int]
    assert [type(v) for v in (key_of(np.int64(1)), key_of(np.str_("k")), key_of(("t", 1)))] == [int, str, tuple]
