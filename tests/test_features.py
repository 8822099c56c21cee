"""Rows of numbers from dicts: order, missing values, what is counted. What is refused is in test_bad_input.py."""

from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict
from types import MappingProxyType

import numpy as np
import pytest

from stream_osr.errors import InvalidFeature
from stream_osr.instances.entries import LARGEST, number_of
from stream_osr.instances.features import Features
from stream_osr.instances.tables import column_values, frame_rows


def test_order_is_that_of_the_names_whatever_the_order_of_arrival():
    for names in (["b", "a", "c"], ["c", "b", "a"]):
        features = Features([names[0]])
        assert Features(names).names == features.extended(names).names == ("a", "b", "c")
        assert features.names == (names[0],)
        assert features.extended([names[0]]) is features
    assert Features([10, 9, 100]).names == (9, 10, 100)


def test_names_of_several_kinds_have_an_order_too():
    mixed = [("x", 1), ("x", "y"), ("x", None)]  # which Python cannot compare
    for names in (["b", 2, None, ("x", 1), 1.5, "a", 1, ("w", "y")], mixed):
        assert Features(names).names == Features(names[::-1]).names
        assert {*Features(names).names} == {*names}


@pytest.mark.parametrize(
    ("x", "values", "missing", "extra"),
    [
        ({"a": 1, "b": 2.5, "c": 9, "d": "x"}, [1, 2.5], 0, 2),
        ({"a": None, "b": math.nan}, [math.nan, math.nan], 2, 0),
        ({"a": True, "b": None}, [1, math.nan], 1, 0),
        ({"a": 2**70, "b": 1}, [2.0**70, 1], 0, 0),
        ({"a": LARGEST, "b": -LARGEST}, [LARGEST, -LARGEST], 0, 0),
        (MappingProxyType({"a": 1, "b": 2, "c": 3}), [1, 2], 0, 1),
        ({}, [math.nan, math.nan], 2, 0),
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
    assert dict(x) == before


def test_row_does_not_share_memory_with_the_instance():
    values = np.array(1.0)
    row = Features(["a", "b"]).row({"a": values, "b": np.float64(2)})
    values[...] = 5.0
    assert row.values.tolist() == [1.0, 2.0]


def test_refusal_names_feature_and_row_and_cuts_long_values_short():
    with pytest.raises(InvalidFeature, match=r"feature 'b' of row 12 is 'two' \(str\)") as caught:
        Features(["a", "b"]).row({"a": 1, "b": "two"}, 12)
    assert (caught.value.feature, caught.value.found, caught.value.row) == ("b", "two", 12)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(InvalidFeature, match=r"feature \('b', 1\) is inf \(float\)"):
        Features([("b", 1)]).row({("b", 1): math.inf})
    with pytest.raises(InvalidFeature, match=r"\.\.\.xxxxxxxxxxxxxxxxxx' \(str\)") as caught:
        number_of("a", "x" * 10_000)
    assert len(str(caught.value)) < 250


def test_frame_becomes_columns_and_rows():
    import pandas as pd

    columns, rows = frame_rows(pd.DataFrame({"b": [1, 2], "a": [0.5, None]}))
    assert columns == ["b", "a"]
    assert rows[0] == {"b": 1, "a": 0.5}
    assert math.isnan(rows[1]["a"])
    assert frame_rows(pd.DataFrame(index=[7, 8, 9])) == ([], [{}, {}, {}])


def test_columns_beside_a_frame():
    assert column_values(None, 2, "y") == [None, None]
    assert column_values([1, math.nan], 2, "y") == [1, None]
    assert column_values((v for v in "ab"), 2, "y") == ["a", "b"]
    assert column_values(np.array([1, 2]), 2, "y") == [1, 2]
    assert all(type(v) is int for v in column_values(np.array([1, 2]), 2, "y"))
