"""Missing values in training, stream, predictions and labels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from tests.blobs import ended

CENTRES = {"low": (-9.0, 0.0, 0.0), "high": (9.0, 0.0, 0.0), "new": (0.0, 9.0, 9.0)}


def drawn(labels: list[str], share: float, seed: int) -> np.ndarray:
    """Rows of these classes, of whose values this share is missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(labels), 3)) + [CENTRES[label] for label in labels]
    X[rng.random(X.shape) < share] = np.nan
    return X


def framed(X: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=["a", "b", "c"])


def trained(share: float = 0.0, **arguments: object) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(**{"batch_size": 32, "seed": 3, "chains": 2, **arguments}))
    labels = ["low", "high"] * 150
    model.learn_many(framed(drawn(labels, share, 1)), labels)
    model.freeze()
    return model


def decided(model: OpenSetRecognizer) -> list[tuple[object, dict]]:
    return [(d.label, d.probabilities) for d in ended(model)]


def test_classes_are_known_with_a_third_of_the_values_missing() -> None:
    model = trained(0.3)
    labels = ["low", "high", "new"] * 120
    X = drawn(labels, 0.3, 2)
    model.learn_many(framed(X))
    there = ~np.isnan(X)
    right: Counter[str] = Counter()
    for label, d, has in zip(labels, ended(model), there, strict=True):
        if has[0] or (label == "new" and has.any()):  # the first feature distinguishes the known classes
            right[label] += d.label == (label if label != "new" else "unknown")
            right["all"] += 1
    assert right["low"] + right["high"] + right["new"] > 0.93 * right["all"]
    in_training = np.isnan(drawn(["low", "high"] * 150, 0.3, 1))
    assert model.counters["missing"] == (~there).sum() + in_training.sum()


@pytest.mark.parametrize("chains", [1, 2])
def test_a_prediction_uses_the_values_that_are_there(chains: int) -> None:
    model = trained(chains=chains)
    one = [model.predict_proba_one(x) for x in ({"a": -9.0}, {"b": 0.0, "c": 0.0}, {"a": 9.0, "b": 0.0, "c": 0.0})]
    assert one[0]["low"] > 0.9
    assert abs(one[1]["low"] - one[1]["high"]) < 0.2, "the middle between them is none of them"
    assert one[1]["unknown"] < 0.5
    many = model.predict_proba_many(framed([[-9.0, np.nan, np.nan], [np.nan, 0.0, 0.0], [9.0, 0.0, 0.0]]))
    for row, expected in zip(many.to_dict("records"), one, strict=True):
        assert row == pytest.approx(expected)


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
    found = []
    for threads in (1, 4, 4, 4):
        each = OpenSetRecognizer.from_trained(model.trained, seed=3, batch_size=64, n_jobs=threads)
        each.learn_many(rows)
        found.append(decided(each))
    assert all(own == found[0] for own in found[1:])
