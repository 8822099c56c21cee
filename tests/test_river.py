"""The recognizer as river's users meet it: river's own checks, pipelines, evaluation."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing

from stream_osr import OpenSetRecognizer, SubclassEmerged

MODELS: dict[str, Callable[[], Any]] = {
    "default": OpenSetRecognizer,
    "small-batches": lambda: OpenSetRecognizer(batch_size=16),
    "behind-a-scaler": lambda: preprocessing.MinMaxScaler() | OpenSetRecognizer(),
}


def every_check() -> list[Any]:
    """River's checks of each model, named by model, check, and number among those of one name (data sets differ)."""
    cases = []
    for name, make in MODELS.items():
        seen: Counter[str] = Counter()
        for check in checks.yield_checks(make()):
            seen[check.__name__] += 1
            cases.append(pytest.param(make, check, id=f"{name}-{check.__name__}-{seen[check.__name__]}"))
    return cases


@pytest.mark.parametrize(("make", "check"), every_check())
def test_check_of_river(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


@pytest.mark.parametrize("model", MODELS)
def test_no_check_is_skipped(model: str) -> None:
    assert MODELS[model]()._unit_test_skips() == set()


# In a pipeline


def segments() -> tuple[list[tuple[dict, str]], list[tuple[dict, str]]]:
    """Training part (three classes) and stream (a fourth appears half-way) of river's ImageSegments."""
    data = [(x, y) for x, y in datasets.ImageSegments() if y in ("grass", "path", "cement", "sky")]
    known = [(x, y) for x, y in data if y != "sky"]
    training, later = known[:450], known[450:750]
    new = [(x, y) for x, y in data if y == "sky"][:150]
    mixed = [pair for two in zip(later[150:], new, strict=True) for pair in two]
    return training, later[:150] + mixed


@pytest.fixture(scope="module")
def pipeline() -> Any:
    """A pipeline that has been trained and has decided a stream; not to be changed."""
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
    training, stream = segments()
    pipeline = preprocessing.StandardScaler() | OpenSetRecognizer(batch_size=8)
    pipeline.learn_many(pd.DataFrame([x for x, _ in training]), pd.Series([y for _, y in training]))
    pipeline.learn_many(pd.DataFrame([x for x, _ in stream[:20]]), t=range(20), key=list("abcdefghijklmnopqrst"))
    decisions = list(pipeline[-1].drain())
    assert [(d.t, d.key) for d in decisions] == list(zip(range(16), "abcdefghijklmnop", strict=True))
    asked = pd.DataFrame([x for x, _ in training[:50]])
    assert set(pipeline.predict_many(asked)) <= {"grass", "path", "cement", "unknown"}
    assert list(pipeline.predict_proba_many(asked).columns)[-1] == "unknown"


# Evaluation


def test_progressive_validation_with_delay_and_a_pipeline_runs() -> None:
    metric = evaluate.progressive_val_score(
        datasets.Phishing().take(200),
        preprocessing.MinMaxScaler() | OpenSetRecognizer(batch_size=16),
        metrics.F1() + metrics.ConfusionMatrix(),
        delay=10,
    )
    assert metric is not None


def test_printing_with_any_labels() -> None:
    # river sorts the labels of a metric: the unknown label has to be of their kind
    for labels in ((0, 1), ("0", "1"), (False, True)):
        model, matrix = OpenSetRecognizer(batch_size=1), metrics.ConfusionMatrix()
        for i in range(40):
            model.learn_one({"a": float(i % 7) + 50.0 * (i % 2), "b": float(i % 5)}, labels[i % 2])
        for a in (0.0, 50.0, 500.0):
            matrix.update(labels[0], model.predict_one({"a": a, "b": 2.0}))
        assert matrix.total_weight == 3
        assert str(matrix)


def test_predictions_during_training_expect_known_classes():
    # two overlapping classes in two dimensions: with nobody seated every instance would be called unknown
    score = evaluate.progressive_val_score(
        datasets.Bananas().take(1500), OpenSetRecognizer(seed=1), metrics.Accuracy()
    )
    assert score.get() > 0.65
