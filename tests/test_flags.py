"""Numbers with two values, and one-hot columns: what a recognizer makes of them, with nothing said about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped
from stream_osr.errors import InvalidFeature
from tests.blobs import learn_all

SETTINGS: dict[str, Any] = {"batch_size": 32, "chains": 2, "training_sweeps": 10}
NAMES = ("a", "b", "blue", "fan", "green", "red", "rate")


def rows(n: int, seed: int, colour: int = -1, fan: float = 0.9, at: float = 0.0) -> np.ndarray:
    """Rows in the order of the names; the colour is any of three, or one."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(3, size=n) if colour < 0 else np.full(n, colour)
    one_hot = np.vstack([np.eye(3), np.zeros((1, 3))])[chosen]
    a, b, on = at + rng.normal(size=n), rng.normal(size=n), rng.random(n) < fan
    columns = (a, b, one_hot[:, 0], 10.0 * on, one_hot[:, 1], one_hot[:, 2], np.full(n, 50.0))
    return np.column_stack(columns)[:, np.argsort(NAMES)]


def instances(X: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(sorted(NAMES), row, strict=True)) for row in X.tolist()]


def taught(seed: int = 1) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(**{**SETTINGS, "seed": seed}))
    learn_all(model, [(x, "left") for x in instances(rows(80, seed))])
    return learn_all(model, [(x, "right") for x in instances(rows(80, seed + 50, fan=0.1, at=1.0))])


@pytest.fixture
def model() -> OpenSetRecognizer:
    out = taught()
    out.freeze()
    return out


def streamed(model: OpenSetRecognizer, n: int = 200) -> OpenSetRecognizer:
    """Let known instances come, and a class whose colour is none of the three."""
    for known, new in zip(instances(rows(n // 2, 7)), instances(rows(n // 2, 8, colour=3, at=4.0)), strict=True):
        model.learn_one(known)
        model.learn_one(new)
    model.flush()
    return model


def test_the_report_says_what_was_chosen() -> None:
    report = taught().freeze()
    assert report.two_valued_features == ("fan",)
    assert report.one_hot_features == (("blue", "green", "red"),)
    assert report.constant_features == ("rate",)
    assert "numbers with two values, taken for categories: 'fan'" in str(report)
    assert "one-hot numbers, taken for a category together: 'blue and 2 more'" in str(report)
    assert "constant in training, monitored but not modelled: 'rate'" in str(report)


def test_they_stay_numbers_in_instances_and_rows(model: OpenSetRecognizer) -> None:
    assert model.trained.values == {}
    with pytest.raises(InvalidFeature, match="'fan' is 'on'"):
        model.learn_one({**instances(rows(1, 3))[0], "fan": "on"})
    other = OpenSetRecognizer.from_trained(model.trained, **grouped(**{**SETTINGS, "seed": 1}))
    model.learn_rows(rows(96, 9))
    learn_all(other, [(x, None) for x in instances(rows(96, 9))])
    assert [(d.label, d.p_unknown) for d in model.drain()] == [(d.label, d.p_unknown) for d in other.drain()]


def test_a_new_value_is_evidence_and_no_more_however_large(model: OpenSetRecognizer) -> None:
    x = {**instances(rows(1, 3, colour=0, fan=1.0))[0], "a": 0.0, "b": 0.0}
    usual = model.predict_proba_one(x)["unknown"]
    for name, values in (("fan", (5.0, 1e6)), ("blue", (7.0, 1e6))):
        little, much = (model.predict_proba_one({**x, name: value})["unknown"] for value in values)
        assert usual < little == much
    for rate in (50.5, 1e6, None):
        assert model.predict_proba_one({**x, "rate": rate})["unknown"] == usual


def test_explanations_name_them_by_value(model: OpenSetRecognizer) -> None:
    events = [event for event in streamed(model).drain_events() if isinstance(event, SubclassEmerged)]
    (first, *_) = [event for event in events if event.explanation.mean["a"] > 2.0]
    assert set(first.explanation.mean) == {"a", "b", "rate"}
    assert first.explanation.mean["rate"] == 50.0
    assert first.explanation.shift["rate"] == 0.0
    assert set(first.explanation.values) == {"blue and 2 more", "fan"}
    assert any(text.startswith("blue and 2 more: ") for text in first.explanation.category_texts)
    assert first.explanation.values["fan"]["value"] == "10"


def test_with_a_pca_they_are_numbers() -> None:
    model = OpenSetRecognizer(**grouped(**SETTINGS, pca_components=3))
    learn_all(model, [(x, label) for seed, label in enumerate(["left", "right"]) for x in instances(rows(80, seed))])
    report = model.freeze()
    assert (report.two_valued_features, report.one_hot_features, report.dimensions) == ((), (), 3)
