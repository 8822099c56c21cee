"""The quick ways in and out do what the slow ones do."""

from __future__ import annotations

import math
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.features import Features, frame_matrix
from stream_osr.model import whitening
from stream_osr.model.known import log_class_densities
from stream_osr.model.responsibilities import query_rows, responsibilities_of
from stream_osr.model.whitening import whiten
from stream_osr.parallel import each
from stream_osr.stream.predictions import PredictiveCache
from tests.blobs import ended, fitted, play, stream_part

PARAMETERS: dict[str, Any] = {"batch_size": 16, "window": 48, "half_life": 100.0, "seed": 5}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table.from_pylist}


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(training_sweeps=10).trained


def recognizer(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(trained, **grouped(**{**PARAMETERS, **arguments}))


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_frame_is_decided_like_its_rows(trained, make):
    rows = [x for x, _ in stream_part(150)]
    keys, times = [f"k{i}" for i in range(150)], [float(i) for i in range(150)]
    by_frame, by_row, slowly = (recognizer(trained) for _ in range(3))
    by_frame.learn_many(make([{"z": 1.0, **x} for x in rows]), t=times, key=keys)
    for x, t, key in zip(rows, times, keys, strict=True):
        by_row.learn_one({"z": 1.0, **x}, t=t, key=key)
        other = (OrderedDict, MappingProxyType)[len(key) % 2]
        slowly.learn_one(other({"z": 1.0, **x}), t=t, key=key)
    assert by_frame.counters["extra"] == by_row.counters["extra"] == 150
    assert by_frame.pending == by_row.pending
    expected = ended(by_row)
    assert len(expected) == 150
    assert ended(by_frame) == expected
    assert ended(slowly) == expected
    assert list(map(str, by_frame.predict_many(make(rows[:5])))) == [by_row.predict_one(x) for x in rows[:5]]
    probabilities = by_frame.predict_proba_many(make(rows[:5]))
    assert isinstance(probabilities, type(make(rows)))
    for label in ("left", "right", "unknown"):
        asked = [by_row.predict_proba_one(x)[label] for x in rows[:5]]
        np.testing.assert_allclose(np.asarray(probabilities[label]), asked, atol=1e-12)


def test_frames_that_are_not_plain():
    features = Features(["a", "b"])
    assert frame_matrix(pd.DataFrame({"a": [1.0]}), features) is None
    assert frame_matrix(pd.DataFrame({"a": [1.0], "b": [None]}), features) is None
    assert frame_matrix(pd.DataFrame({"a": [1.0], "b": [math.nan]}), features) is None
    assert frame_matrix(pd.DataFrame({"a": [True], "b": [1]}), features) is None
    assert frame_matrix({"a": 1.0}, features) is None
    rows, extra = frame_matrix(pd.DataFrame({"c": ["x"], "b": [2], "a": [1.0]}), features) or (None, None)
    np.testing.assert_array_equal(rows, [[1.0, 2.0]])
    assert extra == 1


def visit(glance: PredictiveCache, rows: np.ndarray) -> np.ndarray:
    """Predict whitened rows in each chain by itself."""
    chains, who = glance._chains, query_rows(rows, glance._chains[0].known.prior)
    densities = [log_class_densities(chain.known, chain.frozen, who.rows)[0] for chain in chains]
    mean, found = np.mean(densities, axis=0), []
    for number, (chain, own) in enumerate(zip(chains, densities, strict=True)):
        shares = responsibilities_of(chain.known, chain.state, who, own)
        found.append(glance._balanced(number, shares, own, own, mean))
    return glance._final(np.mean(found, axis=0), mean)


@pytest.mark.parametrize("chains", [1, 3, 5])
@pytest.mark.parametrize("far", [1.0, 30.0, 1e9])
def test_a_glance_is_the_immediate_visit(trained, chains, far):
    model = recognizer(trained, chains=chains)
    play(model, stream_part(100)).flush()
    values = np.random.default_rng(0).normal(scale=far, size=(12, 2))
    glance = PredictiveCache(trained, model.value.stream, model.value.parameters)
    rows = whiten(trained.whitening, values)
    if far > whitening.HORIZON:
        assert np.abs(rows).max() <= whitening.HORIZON
    np.testing.assert_allclose(glance.probabilities(values), visit(glance, rows), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("chains", [1, 4])
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


def test_rows_are_decided_like_dicts(trained):
    rows = [x for x, _ in stream_part(150)]
    keys, times = [f"k{i}" for i in range(150)], [None, *(float(i) for i in range(149))]
    by_rows, by_dicts = (recognizer(trained, max_wait=wait) for wait in (5.0, 5.0))
    by_rows.learn_rows(np.array([[x["a"], x["b"]] for x in rows]), t=times, key=keys)
    for x, t, key in zip(rows, times, keys, strict=True):
        by_dicts.learn_one(x, t=t, key=key)
    assert by_rows.pending == by_dicts.pending
    assert ended(by_rows) == ended(by_dicts)


@pytest.mark.parametrize(
    ("rows", "told", "message"),
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
def test_rows_that_are_none_leave_nothing_behind(trained, rows, told, message):
    model = recognizer(trained)
    with pytest.raises(ValueError, match=message):
        model.learn_rows(rows, **told)
    assert model.pending == 0


def test_rows_are_copied(trained):
    model, other = recognizer(trained), recognizer(trained)
    rows = np.array([[x["a"], x["b"]] for x, _ in stream_part(8)])
    other.learn_rows(rows.copy())
    model.learn_rows(rows)
    rows[:] = 0.0
    assert ended(model) == ended(other)
