"""What a recognizer makes of missing values, in training, stream, predictions and labels."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from tests.blobs import ended

CENTRES = {"low": (-9.0, 0.0, 0.0), "high": (9.0, 0.0, 0.0), "new": (0.0, 9.0, 9.0)}


def drawn(labels: list[str], share: float, seed: int) -> tuple[pd.DataFrame, list[str]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(labels), 3)) + [CENTRES[label] for label in labels]
    X[rng.random(X.shape) < share] = np.nan
    return pd.DataFrame(X, columns=["a", "b", "c"]), labels


def trained(share: float = 0.0, **arguments: object) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(**{"batch_size": 32, "seed": 3, "chains": 2, **arguments}))
    X, y = drawn(["low", "high"] * 150, share, 1)
    model.learn_many(X, y)
    model.freeze()
    return model


def decided(model: OpenSetRecognizer) -> list[tuple[object, dict]]:
    return [(d.label, d.probabilities) for d in ended(model)]


def test_classes_are_known_with_a_third_of_the_values_missing() -> None:
    model = trained(0.3)
    X, y = drawn(["low", "high", "new"] * 120, 0.3, 2)
    model.learn_many(X)
    there = X.notna().to_numpy()
    right: Counter[str] = Counter()
    for label, d, has in zip(y, ended(model), there, strict=True):
        if has[0] or (label == "new" and has.any()):  # the first feature tells the known classes apart
            right[label] += d.label == (label if label != "new" else "unknown")
            right["all"] += 1
    assert right["low"] + right["high"] + right["new"] > 0.93 * right["all"]
    in_training = drawn(["low", "high"] * 150, 0.3, 1)[0].isna().to_numpy()
    assert model.counters["missing"] == (~there).sum() + in_training.sum()


@pytest.mark.parametrize("chains", [1, 2])
def test_a_prediction_says_what_can_be_said(chains: int) -> None:
    model = trained(chains=chains)
    told = model.predict_proba_one({"a": -9.0})
    assert told["low"] > 0.9
    untold = model.predict_proba_one({"b": 0.0, "c": 0.0})
    assert abs(untold["low"] - untold["high"]) < 0.2, "the middle between them is none of them"
    assert untold["unknown"] < 0.5
    rest = [np.nan, 0.0, 0.0]
    many = model.predict_proba_many(pd.DataFrame({"a": [-9.0, np.nan, 9.0], "b": rest, "c": rest}))
    assert many.iloc[0].to_dict() == pytest.approx(told)
    assert many.iloc[1].to_dict() == pytest.approx(untold)
    assert many.iloc[2].to_dict() == pytest.approx(model.predict_proba_one({"a": 9.0, "b": 0.0, "c": 0.0}))


def test_predictions_change_nothing_and_the_stream_goes_on_bit_for_bit() -> None:
    one, other = trained(0.1), trained(0.1)
    for at, x in enumerate(drawn(["low", "high", "new"] * 40, 0.3, 4)[0].to_dict("records")):
        if at == 50:
            other = OpenSetRecognizer.from_state(other.as_state())
        for each in (one, other):
            each.learn_one(x, "low" if at == 60 else None)
        one.predict_proba_one(x)
    assert decided(one) == decided(other)


def test_a_label_with_missing_values_goes_to_the_middle_of_no_other_class() -> None:
    model = trained()
    for _ in range(5):
        model.learn_one({"b": 0.0, "c": 0.0}, "high")
    row = model.value.evidence[-1].row
    space = model.trained.whitening
    assert (space.center + row @ space.backward)[0] == pytest.approx(9.0, abs=4.0)


def test_everything_missing_is_decided_by_the_seats_alone() -> None:
    model = trained()
    model.learn_one(dict.fromkeys("abc"))
    (decision,) = ended(model)
    assert decision.probabilities["low"] == pytest.approx(decision.probabilities["high"], abs=0.15)
    assert decision.p_unknown < 0.2


def test_with_gaps_nothing_depends_on_threads() -> None:
    """Each chain has scratch memory of its own: shared, two runs of these rows differ by up to .2."""
    rng = np.random.default_rng(0)
    centres = 4.0 * rng.normal(size=(5, 8))
    training, stream = rng.integers(3, size=120), rng.integers(5, size=320)
    rows = centres[stream] + rng.normal(size=(320, 8))
    rows[rng.random(rows.shape) < 0.15] = np.nan
    model = OpenSetRecognizer(seed=3)
    model.learn_many(centres[training] + rng.normal(size=(120, 8)), training)
    model.freeze()
    told = []
    for threads in (1, 4, 4, 4):
        each = OpenSetRecognizer.from_trained(model.trained, seed=3, batch_size=64, n_jobs=threads)
        each.learn_many(rows)
        told.append(decided(each))
    assert all(own == told[0] for own in told[1:])
