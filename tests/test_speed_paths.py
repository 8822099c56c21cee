"""The quick ways in and out do what the slow ones do."""

from __future__ import annotations

import math
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.support.parallel import each
from tests.blobs import ended, fitted, play, stream_part

PARAMETERS: dict[str, Any] = {"batch_size": 16, "window": 48, "half_life": 100.0, "seed": 5}


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(training_sweeps=10).trained


def recognizer(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(trained, **grouped(**{**PARAMETERS, **arguments}))


def test_frames_are_decided_like_their_rows_and_like_other_mappings(trained):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rows = [x for x, _ in stream_part(150)]
    keys, times = [f"k{i}" for i in range(150)], [float(i) for i in range(150)]
    by_row, slowly = (recognizer(trained) for _ in range(2))
    for x, t, key in zip(rows, times, keys, strict=True):
        by_row.learn_one({"z": 1.0, **x}, t=t, key=key)
        other = (OrderedDict, MappingProxyType)[len(key) % 2]
        slowly.learn_one(other({"z": 1.0, **x}), t=t, key=key)
    pending, expected = by_row.pending, ended(by_row)
    assert len(expected) == 150
    assert ended(slowly) == expected
    for make in (pd.DataFrame, pl.DataFrame, pa.Table.from_pylist):
        by_frame = recognizer(trained)
        by_frame.learn_many(make([{"z": 1.0, **x} for x in rows]), t=times, key=keys)
        assert by_frame.counters["extra"] == by_row.counters["extra"] == 150
        assert by_frame.pending == pending
        assert ended(by_frame) == expected
        assert list(map(str, by_frame.predict_many(make(rows[:5])))) == [by_row.predict_one(x) for x in rows[:5]]
        probabilities = by_frame.predict_proba_many(make(rows[:5]))
        assert isinstance(probabilities, type(make(rows)))
        for label in ("left", "right", "unknown"):
            own = [by_row.predict_proba_one(x)[label] for x in rows[:5]]
            np.testing.assert_allclose(np.asarray(probabilities[label]), own, atol=1e-12)


@pytest.mark.parametrize("chains", [pytest.param(1, marks=pytest.mark.thorough), 4])
def test_results_do_not_depend_on_the_number_of_threads(chains):
    found = []
    for n_jobs in (1, 2, None):
        model = play(fitted(training_sweeps=5, chains=chains, n_jobs=n_jobs, batch_size=16), stream_part(80))
        found.append((model.trained.fingerprint, ended(model)))
    assert found[0] == found[1] == found[2]


def test_each_keeps_the_order_and_passes_errors_on():
    assert each(lambda i: i * i, range(50), 4) == [i * i for i in range(50)]
    assert each(str, [], 4) == []
    with pytest.raises(ZeroDivisionError):
        each(lambda i: 1 // i, [1, 0, 2], 2)


def test_rows_are_copied_and_decided_like_dicts(trained):
    rows = [x for x, _ in stream_part(150)]
    keys, times = [f"k{i}" for i in range(150)], [None, *(float(i) for i in range(149))]
    by_rows, by_dicts = (recognizer(trained, max_wait=5.0) for _ in range(2))
    matrix = np.array([[x["a"], x["b"]] for x in rows])
    by_rows.learn_rows(matrix, t=times, key=keys)
    matrix[:] = 0.0
    for x, t, key in zip(rows, times, keys, strict=True):
        by_dicts.learn_one(x, t=t, key=key)
    assert by_rows.pending == by_dicts.pending > 0
    assert ended(by_rows) == ended(by_dicts)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[1.0, 2.0]], {}, "expected an array of floats with 2 columns"),
        (np.array([[1, 2]]), {}, "expected an array of floats"),
        (np.zeros((2, 3)), {}, "expected an array of floats"),
        (np.array([[0.0, 1.0], [math.inf, 1.0]]), {}, "feature 'a' of row 1 is inf"),
        (np.array([[0.0, math.nan]]), {}, "feature 'b' of row 0 is None .*: it is missing"),
        (np.zeros((2, 2)), {"t": [0.0]}, "t has 1 entries for 2 rows"),
        (np.zeros((2, 2)), {"t": [0.0, math.inf]}, "row 1: t is inf"),
        (np.zeros((2, 2)), {"key": ["k", []]}, "row 1: key is"),
    ],
)
def test_rows_that_are_refused_leave_nothing_behind(trained, rows, options, message):
    model = recognizer(trained)
    with pytest.raises(ValueError, match=message):
        model.learn_rows(rows, **options)
    assert model.pending == 0
