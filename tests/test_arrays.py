"""Arrays of numpy where data frames may stand: the same answers, and what is not the array of training is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stream_osr import OpenSetRecognizer
from tests.doors.library import InvalidFeature, InvalidInstance


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 11)), np.repeat([0, 1], 100)  # "10" comes before "2"
    X[:, 2] *= 5
    X[y == 1, 10] += 20
    return X, y, rng.normal(30, 1, size=(70, 11))


def trained(X: Any, y: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(batch_size=32, chains=2)
    model.learn_many(X, y)
    model.freeze()
    return model


def test_an_array_is_a_frame_without_names(data: Any) -> None:
    X, y, new = data
    arrays, frames = trained(X, y), trained(pd.DataFrame(X), pd.Series(y))
    assert arrays.trained.names == tuple(range(11))
    assert arrays.trained.fingerprint == frames.trained.fingerprint
    arrays.learn_many(new, key=np.arange(70))
    frames.learn_many(pd.DataFrame(new), key=range(70))
    told = [[(d.key, d.label, d.p_unknown) for d in model.drain()] for model in (arrays, frames)]
    assert told[0] == told[1]
    assert len(told[0]) == 64
    asked = np.concatenate([X, new])
    asked[3, 4] = np.nan
    assert arrays.predict_many(asked).tolist() == frames.predict_many(pd.DataFrame(asked)).to_list()
    assert (arrays.predict_proba_many(asked) == frames.predict_proba_many(pd.DataFrame(asked)).to_numpy()).all()
    assert set(arrays.predict_many(new)) == {-1}


def test_text_is_a_category() -> None:
    rng = np.random.default_rng(0)
    X = np.array(
        [[size, colour] for size, colour in zip(rng.normal(size=80), ["red", "blue"] * 40, strict=True)], object
    )
    model = trained(X, ["warm", "cold"] * 40)
    assert model.trained.values == {1: ("red", "blue")}
    assert model.predict_many(X[:4]).tolist() == ["warm", "cold"] * 2


def test_before_training_there_are_no_answers() -> None:
    model = OpenSetRecognizer()
    assert model.predict_many(np.zeros((2, 3))).tolist() == [None, None]
    assert model.predict_proba_many(np.zeros((2, 3))).shape == (2, 0)


@pytest.mark.parametrize("frozen", [False, True])
def test_other_arrays_are_refused_and_nothing_is_learnt(data: Any, frozen: bool) -> None:
    X, y, _ = data
    model = OpenSetRecognizer(batch_size=32, chains=2)
    model.learn_many(X[90:110], y[90:110])
    if frozen:
        model.freeze()
    for other, why in (
        (X[:, :4], "the array has 4 columns, and training had 11 features"),
        (X[0], r"the array has the shape \(11,\): expected two dimensions"),
    ):
        for ask in (model.predict_many, model.predict_proba_many, model.learn_many, lambda X: model.learn_many(X, y)):
            with pytest.raises(InvalidInstance, match=why):
                ask(other)
    with pytest.raises(InvalidFeature, match="feature 4 of row 1 is inf"):
        model.learn_many(np.where(np.arange(22).reshape(2, 11) == 15, np.inf, 0.0))
    assert not model.pending
    assert model.freeze().instances == {0: 10, 1: 10}
