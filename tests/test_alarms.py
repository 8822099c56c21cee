"""Columns in which a new value alone means unknown."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import Input, ModelOptions, OpenSetRecognizer
from stream_osr.errors import InvalidParameter

D = 60


def rows(count: int, seed: int) -> list[tuple[dict[str, Any], str]]:
    """Draw instances of two classes in many dimensions."""
    rng = np.random.default_rng(seed)
    at = rng.integers(2, size=count)
    X = rng.normal(size=(count, D)) + 4.0 * at[:, None]
    return [
        ({f"x{c}": v for c, v in enumerate(row)}, "ab"[j]) for row, j in zip(X.tolist(), at.tolist(), strict=True)
    ]


def trained(lamp: Any, **arguments: Any) -> OpenSetRecognizer:
    """Train with an alarm column. ``lamp`` makes its value from the label and the number of the instance."""
    model = OpenSetRecognizer(chains=2, batch_size=32, **{"input": Input(alarms=["lamp"]), **arguments})
    for i, (x, label) in enumerate(rows(300, 0)):
        model.learn_one(x | {"lamp": lamp(label, i)}, label)
    model.freeze()
    return model


@pytest.mark.parametrize(
    ("lamp", "known", "new"),
    [
        (lambda label, i: 0, 0, 1),
        (lambda label, i: 2025.0, 2025.0, 2026.0),
        (lambda label, i: i % 3, 2, 3),
        (lambda label, i: "off", "off", "on"),
        (lambda label, i: bool(i % 2), True, "broken"),
    ],
    ids=["zero", "a large number", "three numbers", "text", "boolean"],
)
def test_a_new_value_alone_means_unknown(lamp, known, new) -> None:
    model = trained(lamp)
    for x, label in rows(60, 1):
        assert model.predict_one(x | {"lamp": known}) == label
        assert model.predict_one(x | {"lamp": None}) == label
        assert model.predict_one(x | {"lamp": new}) == "unknown"
    stream = [(x | {"lamp": new if i % 8 == 0 else known}, label) for i, (x, label) in enumerate(rows(320, 2))]
    for x, _ in stream:
        model.learn_one(x)
    model.flush()
    for i, (decision, (_, label)) in enumerate(zip(model.drain(), stream, strict=True)):
        assert decision.label == ("unknown" if i % 8 == 0 else label)
        assert i % 8 or decision.p_unknown > 0.9


def test_an_alarm_does_not_divide_the_classes() -> None:
    alone = OpenSetRecognizer(chains=2)
    for x, label in rows(300, 0):
        alone.learn_one(x, label)
    assert trained(lambda label, i: 0).trained.report.subclass_shares == alone.freeze().subclass_shares


def test_a_value_of_another_class_excludes_a_class() -> None:
    model = trained(lambda label, i: int(label == "b" and i % 4 == 0))
    for x, label in rows(60, 1):
        assert model.predict_one(x | {"lamp": 1}) == ("b" if label == "b" else "unknown")


def test_with_principal_components_and_drawn_hyperparameters() -> None:
    model = trained(lambda label, i: 7, pca=10, model=ModelOptions(ensemble="drawn"))
    x, label = rows(1, 1)[0]
    assert [model.predict_one(x | {"lamp": lamp}) for lamp in (7, 8)] == [label, "unknown"]


def test_an_alarm_is_saved_with_the_model(tmp_path: Path) -> None:
    model = trained(lambda label, i: 7)
    model.save(tmp_path / "m.osr")
    x = rows(1, 1)[0][0] | {"lamp": 8}
    for other in (OpenSetRecognizer.load(tmp_path / "m.osr"), pickle.loads(pickle.dumps(model))):
        assert other.input.alarms == ("lamp",)
        assert other.predict_proba_one(x) == model.predict_proba_one(x)


def test_an_alarm_that_varies_is_refused() -> None:
    message = r"alarms has 'lamp', which is a number with [0-9]+ values in training: expected a category"
    with pytest.raises(InvalidParameter, match=message):
        trained(lambda label, i: i / 7)
    with pytest.raises(InvalidParameter, match=r"alarms has .lump., which is not a feature.*did you mean .lamp."):
        trained(lambda label, i: 0, input=Input(alarms=["lump"]))
    with pytest.raises(InvalidParameter, match="alarms is 'lamp': give a list of names of features"):
        Input(alarms="lamp")
