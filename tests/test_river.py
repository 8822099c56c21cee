"""The recognizer in river: river's own checks, pipelines, evaluation."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest

from stream_osr import ModelOptions, OpenSetRecognizer, SubclassEmerged


@pytest.mark.thorough
@pytest.mark.parametrize(("batch_size", "scaled"), [(16, False), pytest.param(256, True, marks=pytest.mark.long)])
def test_every_check_of_river_holds_and_none_is_skipped(batch_size: int, scaled: bool) -> None:
    from river import checks, preprocessing

    def make() -> Any:
        model = OpenSetRecognizer(batch_size=batch_size, chains=1, model=ModelOptions(training_sweeps=3))
        return preprocessing.MinMaxScaler() | model if scaled else model

    for check in checks.yield_checks(make()):
        check(make())
    assert make()._unit_test_skips() == set()


# In a pipeline


def segments() -> tuple[list[tuple[dict, str]], list[tuple[dict, str]]]:
    """Training part (three classes) and stream (a fourth appears half-way) of river's ImageSegments."""
    from river import datasets

    data = [(x, y) for x, y in datasets.ImageSegments() if y in ("grass", "path", "cement", "sky")]
    known = [(x, y) for x, y in data if y != "sky"]
    training, later = known[:450], known[450:750]
    new = [(x, y) for x, y in data if y == "sky"][:150]
    mixed = [pair for two in zip(later[150:], new, strict=True) for pair in two]
    return training, later[:150] + mixed


@pytest.fixture(scope="module")
def pipeline() -> Any:
    """A pipeline that has been trained and has decided a stream; not to be changed."""
    from river import compose

    pipeline = compose.Discard("region-centroid-col") | OpenSetRecognizer(batch_size=32, seed=1)
    training, stream = segments()
    for x, y in training:
        pipeline.learn_one(x, y, t=1.0, key="k")
    for position, (x, _) in enumerate(stream):
        pipeline.learn_one(x, t=10.0 * position, key=f"row {position}")
    pipeline[-1].flush()
    return pipeline


def test_pipeline_hands_time_and_key_through_and_predicts(pipeline: Any) -> None:
    decisions = list(copy.deepcopy(pipeline)[-1].drain())
    assert [(d.key, d.t) for d in decisions] == [(f"row {i}", 10.0 * i) for i in range(450)]
    training, _ = segments()
    assert sum(pipeline.predict_one(x) == y for x, y in training[:90]) >= 80
    assert list(pipeline.predict_proba_one(training[0][0]))[-1] == "unknown"
    for x in (training[0][0], segments()[1][151][0]):
        assert pipeline.score_one(x) == pipeline.predict_proba_one(x)["unknown"]
    assert OpenSetRecognizer().score_one(training[0][0]) == 0.0


def test_pipeline_streams_and_discovers(pipeline: Any) -> None:
    model = copy.deepcopy(pipeline)[-1]
    truth = [y for _, y in segments()[1]]
    confusion = Counter((y, d.label) for y, d in zip(truth, model.drain(), strict=True))
    assert confusion["sky", "unknown"] >= 140
    assert sum(confusion[y, y] for y in ("grass", "path", "cement")) >= 270
    emerged = [event for event in model.drain_events() if isinstance(event, SubclassEmerged)]
    assert any(event.first_seen.key == "row 151" for event in emerged)


def test_pipeline_takes_frames_with_times_and_keys() -> None:
    import pandas as pd
    from river import preprocessing

    training, stream = segments()
    pipeline = preprocessing.StandardScaler() | OpenSetRecognizer(batch_size=8)
    pipeline.learn_many(pd.DataFrame([x for x, _ in training]), pd.Series([y for _, y in training]))
    pipeline.learn_many(pd.DataFrame([x for x, _ in stream[:20]]), t=range(20), key=list("abcdefghijklmnopqrst"))
    decisions = list(pipeline[-1].drain())
    assert [(d.t, d.key) for d in decisions] == list(zip(range(16), "abcdefghijklmnop", strict=True))
    rows = pd.DataFrame([x for x, _ in training[:50]])
    assert set(pipeline.predict_many(rows)) <= {"grass", "path", "cement", "unknown"}
    assert list(pipeline.predict_proba_many(rows).columns)[-1] == "unknown"


# Evaluation


@pytest.mark.thorough
def test_progressive_validation_with_delay_and_a_pipeline_and_predictions_during_training() -> None:
    from river import datasets, evaluate, metrics, preprocessing

    pipeline = preprocessing.MinMaxScaler() | OpenSetRecognizer(batch_size=16)
    both = metrics.F1() + metrics.ConfusionMatrix()
    assert evaluate.progressive_val_score(datasets.Phishing().take(200), pipeline, both, delay=10) is not None
    # two overlapping classes in two dimensions: with no instance seated every one would be called unknown
    model, rows = OpenSetRecognizer(seed=1), datasets.Bananas().take(1500)
    assert evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get() > 0.65
