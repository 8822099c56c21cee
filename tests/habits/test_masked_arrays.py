"""Masked arrays (netCDF, astropy): a masked cell is a missing value at every door."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidFeature, InvalidLabel
from stream_osr.instances.missing_values import is_missing, without_mask

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3)) + np.arange(80)[:, None] % 2 * [12.0, 0.0, 4.0]
Y = np.arange(80) % 2


def hidden(rows: np.ndarray, number: float = 1e20) -> Any:
    """The rows, with a masked number in the second column."""
    out = np.ma.array(rows.copy())
    out[:, 1] = number
    out[:, 1] = np.ma.masked
    return out


def with_none(rows: np.ndarray) -> list[dict[int, float | None]]:
    return [{0: a, 1: None, 2: c} for a, _, c in rows.tolist()]


@pytest.fixture(scope="module")
def trained() -> OpenSetRecognizer:
    model = OpenSetRecognizer(chains=1, batch_size=8)
    model.learn_many(X, Y)
    model.freeze()
    return model


def test_predictions_are_those_of_missing_values(trained: OpenSetRecognizer) -> None:
    for dtype in (np.float64, np.float32, np.int64):
        rows = X[:4].astype(dtype).astype(float)
        masked = np.ma.array(hidden(rows, -9999.0).astype(dtype))
        expected = [list(trained.predict_proba_one(x).values()) for x in with_none(rows)]
        assert trained.predict_proba_many(masked).tolist() == expected
        assert trained.predict_many(masked).tolist() == Y[:4].tolist()


def test_instances_are_learnt_without_the_hidden_number(trained: OpenSetRecognizer) -> None:
    one, many = trained.clone(include_attributes=True), trained.clone(include_attributes=True)
    for x in with_none(X[:8]):
        one.learn_one(x)
    many.learn_many(hidden(X[:8]))
    assert [each.label for each in many.drain()] == [each.label for each in one.drain()] == Y[:8].tolist()
    assert many.counters["missing"] == 8


def test_training_counts_hidden_numbers_as_missing() -> None:
    model = OpenSetRecognizer(chains=1)
    model.learn_many(hidden(X[:79]), np.ma.array(Y, mask=np.arange(80) == 79)[:79])
    assert model.counters["missing"] == 79


def test_labels_times_and_keys_may_be_masked(trained: OpenSetRecognizer) -> None:
    model = trained.clone(include_attributes=True)
    none = np.ma.array([1, 2], mask=[True, False])
    model.learn_many(X[:2], np.ma.array([5, 1], mask=[True, False]), t=none, key=none)
    model.flush()
    (decision,) = model.drain()
    assert (decision.key, decision.t) == (None, None)
    with pytest.raises(InvalidLabel):
        model.learn_one(with_none(X[:1])[0], np.ma.masked)


def test_rows_of_numbers_with_a_masked_one_are_refused(trained: OpenSetRecognizer) -> None:
    with pytest.raises(InvalidFeature, match=r"feature 1 of row 0 .* is missing"):
        trained.clone(include_attributes=True).learn_rows(hidden(X[:2]))


def test_an_instance_may_hold_the_hidden_constant(trained: OpenSetRecognizer) -> None:
    masked = {0: 0.0, 1: np.ma.masked, 2: 0.0}
    for x in (masked, {**masked, 0: 1}):
        assert trained.predict_proba_one(x) == trained.predict_proba_one({**x, 1: None})


def test_the_estimator_of_scikit_learn_takes_none_of_the_hidden_numbers() -> None:
    from stream_osr.sklearn import OpenSetClassifier

    classifier = OpenSetClassifier(chains=1).fit(X, Y)
    assert classifier.predict(hidden(X[:4])).tolist() == Y[:4].tolist()
    with pytest.raises(InvalidLabel, match="missing labels"):
        OpenSetClassifier(chains=1).fit(X, np.ma.array(Y, mask=np.arange(80) == 3))


def test_text_that_is_masked_is_none() -> None:
    found = without_mask(np.ma.array(["a", "b"], mask=[True, False]))
    assert found.tolist() == [None, "b"]
    assert math.isnan(without_mask(np.ma.array([1, 2], mask=[True, False]))[0])
    assert not is_missing(np.ma.array([1.0, 2.0], mask=True))  # an array is no value
