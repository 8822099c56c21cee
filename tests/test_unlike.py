"""Instances without the features of training: counted, warned of once, and decided all the same."""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import InvalidInstance
from stream_osr.training.schema_check import NONE, check_features, least_features
from tests.blobs import around, learn_all

NAMES = ("a", "b", "c", "d")
WHOLE = dict.fromkeys(NAMES, 1.0)


def model_of(missing: int = 0) -> OpenSetRecognizer:
    """Trained on 80 instances of four features, of which some lack a value."""
    rng = np.random.default_rng(3)
    rows = [(x, y) for y, at in (("left", 0.0), ("right", 9.0)) for x in around([at] * 4, 40, rng, NAMES)]
    model = OpenSetRecognizer(chains=1, batch_size=8, seed=5)
    learn_all(model, [(x if number >= missing else {**x, "d": None}, y) for number, (x, y) in enumerate(rows)])
    model.freeze()
    model.counters.clear()
    return model


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return model_of().trained


def streaming(trained: TrainedModel, **arguments: object) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(
        trained, **grouped(**{"chains": 1, "batch_size": 8, "seed": 5, **arguments})
    )


def test_half_of_the_features_are_required_where_training_had_nearly_all(trained: TrainedModel) -> None:
    for p, missing, least in ((1, 0, 1), (2, 0, 1), (3, 0, 2), (4, 0, 2), (5, 0, 3), (5, 50, 3), (5, 51, 1)):
        report = replace(trained.report, instances={"left": 60, "right": 40}, missing_values=missing)
        model = replace(trained, names=NAMES[:p] + ("e",) * (p - 4), report=report)
        assert least_features(model) == least, (p, missing)
    assert least_features(model_of(missing=32).trained) == 2, "a tenth of 320 values"
    assert least_features(model_of(missing=33).trained) == NONE


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({}, "none of the model's 4 features is there .*: expected 'a', 'b', 'c', 'd', found no field. Name the"),
        ({"a": None, "b": float("nan"), "A": 1}, "none of the model's 4 features .*, found 'A', 'a', 'b'. Name "),
        ({"a": 1.0, "x": 1}, "1 of the model's 4 features is there .* had nearly all: expected 'b', 'c', 'd' as "),
        (dict.fromkeys(range(10**5), 1), r"found 0, 1, 2, 3, 4 and 99995 more\. "),
        ({"n" * 10**6: 1, 10**5000: 1}, r"found 'nnn.{10,40}nnn', an int too large to show\. "),
    ],
)
def test_the_error_of_a_refused_instance_names_the_features(trained: TrainedModel, x: dict, said: str) -> None:
    with pytest.raises(InvalidInstance, match=said) as caught:
        check_features(trained, x)
    assert len(str(caught.value)) < 500
    with pytest.raises(InvalidInstance, match="found 'A', 'note'"):
        check_features(trained, dict.fromkeys(NAMES), found=("A", "note"))


def test_half_of_the_features_and_other_types_pass(trained: TrainedModel) -> None:
    for x in (WHOLE, {"a": 1.0, "b": 2.0}, {"a": "high", "c": 3}, {**WHOLE, "e": 5.0}, [1.0], None):
        check_features(trained, x)  # type: ignore[arg-type]


def test_they_are_decided_with_one_warning(trained: TrainedModel, caplog: pytest.LogCaptureFixture) -> None:
    import pandas as pd

    model = streaming(trained, batch_size=1)
    for x in (WHOLE, {"a": 1.0, "b": 2.0}):
        model.learn_one(x)
    assert model.counters["unlike"] == 0
    assert not caplog.records
    model.learn_one({"a": 1.0, "B": 2.0})
    model.learn_one({})
    model.learn_one({"a": None}, "left")
    model.learn_many(pd.DataFrame({"A": [1.0, 2.0], "b": [1.0, 2.0]}))
    model.learn_many(pd.DataFrame(WHOLE, index=[0]))
    model.predict_one({})
    assert len(list(model.drain())) == 7
    assert model.counters["unlike"] == 5
    assert model.signals.data_quality == model.counters["bad_rows"] == 6, "one with half of its features"
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("stream_osr", logging.WARNING)
    assert "1 of the model's 4 features is there" in record.getMessage()
    assert "found 'B', 'a'" in record.getMessage()


def test_a_model_warns_once(trained: TrainedModel, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = streaming(trained)
    model.learn_one({})
    model.save(tmp_path / "model.osr")
    for other in (OpenSetRecognizer.load(tmp_path / "model.osr"), pickle.loads(pickle.dumps(model))):
        other.learn_one({})
        assert other.counters["unlike"] == 2
    assert len(caplog.records) == 1
    streaming(trained).learn_one({})
    assert len(caplog.records) == 2, "of each"


def test_a_frame_that_is_refused_counts_nothing(trained: TrainedModel) -> None:
    import pandas as pd

    model = streaming(trained)
    with pytest.raises(InvalidInstance):
        model.learn_many(pd.DataFrame({"a": [1.0, "high"]}))
    assert model.counters == {"bad_rows": 1}


def test_an_instance_that_ends_training_is_one_of_the_stream(trained: TrainedModel) -> None:
    model = OpenSetRecognizer(chains=1, seed=5)
    learn_all(model, [*((x, "left") for x in around([0.0] * 4, 20, np.random.default_rng(3), NAMES)), ({}, "left")])
    assert model.counters["unlike"] == 0, "training decides what the features are"
    model.learn_one({"a": 1.0})
    assert model.counters["unlike"] == 1


def test_what_connectors_refuse_is_counted_and_saved(trained: TrainedModel, tmp_path: Path) -> None:
    model = streaming(trained)
    model.value.count_refused()
    model.value.count_refused(3, counted=1)
    assert (model.counters["refused"], model.signals.data_quality) == (4, 3)
    model.save(tmp_path / "model.osr")
    assert OpenSetRecognizer.load(tmp_path / "model.osr").counters == model.counters
