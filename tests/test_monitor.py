"""A monitor adds the class "unknown" to any classifier."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from stream_osr import Input, ModelOptions
from stream_osr.errors import InvalidInstance, InvalidParameter, NotTrained
from stream_osr.monitor import OpenSetMonitor

quick = partial(OpenSetMonitor, batch_size=64, model=ModelOptions(training_sweeps=3))


def blobs(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), np.tile(["left", "right"], n // 2)
    X[y == "right", 0] += 20
    return X, y


def new(n: int = 70, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal([10, 30], size=(n, 2))


def logistic(C: float = 1.0) -> Any:
    """A classifier that has learnt the two classes."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C).fit(*blobs())


# The recall that is reported


@pytest.mark.long
@pytest.mark.parametrize("name", ["tabular", "texts", "digits", "flows", "river"])
def test_reported_recall_is_close_to_the_measured_one(name: str) -> None:
    from benchmarks.any_classifier import CLOSEST, SCENARIOS, measure

    result = measure(SCENARIOS[name][1](0))
    assert abs(result.reported - result.recall) <= CLOSEST
    assert result.recall >= 0.85
    assert result.found >= 0.8


# Labels and probabilities


def test_known_instances_have_the_label_and_the_probabilities_of_the_estimator() -> None:
    estimator = logistic(0.001)
    monitor = quick(estimator).fit(*blobs())
    own = blobs(64, seed=2)[0]
    rows, keys = np.concatenate([own, new()]), [f"k{n}" for n in range(134)]
    decisions = monitor.decide(rows, key=keys)
    assert [decision.key for decision in decisions] == keys
    found = np.array([[d.probabilities[name] for name in ("left", "right")] for d in decisions])
    p_unknown = np.array([d.p_unknown for d in decisions])
    assert found == pytest.approx((1 - p_unknown[:, None]) * estimator.predict_proba(rows), abs=1e-12)
    assert [d.label for d in decisions[:64]] == estimator.predict(own).tolist()
    assert {d.label for d in decisions[64:]} == {"unknown"}
    assert all(d.probability == d.probabilities[d.label] for d in decisions)


def test_predictions_between_batches_agree_and_change_nothing() -> None:
    X, y = blobs()
    monitor = quick(logistic()).fit(X, y)
    rows = np.concatenate([X[:5], new(5)])
    before, each = monitor.predict_proba(rows), [dict(enumerate(row)) for row in rows.tolist()]
    assert before.sum(axis=1) == pytest.approx(np.ones(10))
    assert monitor.classes_ == ["left", "right"]
    assert np.array([[*monitor.predict_proba_one(x).values()] for x in each]) == pytest.approx(before)
    assert monitor.predict(rows).tolist() == [monitor.predict_one(x) for x in each]
    assert [monitor.score_one(x) for x in each] == before[:, -1].tolist()
    assert (monitor.score_samples(rows) == -before[:, -1]).all()
    assert ((monitor.decision_function(rows) < 0) == (monitor.predict(rows) == "unknown")).all()
    assert (monitor.predict_proba(rows) == before).all()
    monitor.learn_one({0: 20.0, 1: 0.5}, key=1)
    twin = pickle.loads(pickle.dumps(monitor))
    assert twin.decide(X[:10]) == monitor.decide(X[:10])


def test_a_promoted_class_has_the_probability_of_the_recognizer() -> None:
    X, y = blobs()
    monitor = quick(logistic()).fit(X, y)
    monitor.decide(new())
    monitor.recognizer.promote(monitor.recognizer.new_classes().candidates[0].subclasses, "above")
    assert monitor.classes_ == ["left", "right", "above"]
    assert set(monitor.predict(new(20, seed=5))) == {"above"}
    assert set(monitor.predict(X)) == {"left", "right"}
    assert {d.label for d in monitor.decide(new(64, seed=6))} == {"above"}


# Features


@pytest.mark.parametrize("features", ["input", "probabilities", lambda X: np.asarray(X, float)[:, ::-1]])
def test_rows_are_decided_one_by_one_as_together_by_each_kind_of_features(features: Any) -> None:
    X, y = blobs()
    monitor, other = (quick(logistic(0.01), features).fit(X, y) for _ in range(2))
    assert (monitor.predict(X) == y).mean() > 0.97
    if features != "probabilities":
        assert set(monitor.predict(new())) == {"unknown"}
    together = monitor.decide(X[:64])
    for number, row in enumerate(X[:64].tolist()):
        other.learn_one(dict(enumerate(row)), key=number)
    other.flush()
    one_by_one = [*other.drain()]
    assert [(d.label, d.p_unknown) for d in one_by_one] == [(d.label, d.p_unknown) for d in together]
    assert [d.probability for d in one_by_one] == pytest.approx([d.probability for d in together])


def test_texts_need_an_embedding() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    X = [" ".join(["sun"] * (1 + n % 5) + ["sea"] * (n % 3)) for n in range(60)]
    X += [" ".join(["ice"] * (1 + n % 5) + ["sea"] * (n % 3)) for n in range(60)]
    y = ["warm"] * 60 + ["cold"] * 60
    classifier = make_pipeline(CountVectorizer(), LogisticRegression()).fit(X, y)
    with pytest.raises(InvalidInstance, match="Give an embedding"):
        quick(classifier).fit(X, y)
    monitor = quick(classifier, lambda texts: classifier[0].transform(texts).toarray()).fit(X, y)
    monitor.learn_one("sun sun sea", key="a")
    monitor.flush()
    assert [(d.key, d.label) for d in monitor.drain()] == [("a", "warm")]


# A classifier that keeps learning


def test_a_classifier_of_river_keeps_learning() -> None:
    from river import naive_bayes, preprocessing

    X, y = blobs()
    monitor = quick(preprocessing.StandardScaler() | naive_bayes.GaussianNB())
    rows = [{"a": a, "b": b} for a, b in X.tolist()]
    for x, label in zip(rows, y.tolist(), strict=True):
        monitor.learn_one(x, label)
    for number, x in enumerate(rows[:64]):
        monitor.learn_one(x, key=number)
    assert [d.label for d in monitor.drain()] == y[:64].tolist()
    assert monitor.expected_recall.recall > 0.97
    x = {"a": 20.0, "b": 0.0}
    monitor.learn_one(x, key="before")
    for _ in range(500):
        monitor.learn_one(x, "left")  # it changes its mind, and the recall shows it
    monitor.learn_one(x, key="after")
    monitor.flush()
    before, after = monitor.drain()
    assert before.probabilities["left"] / (1 - before.p_unknown) < 0.1, "as it was when the instance came"
    assert after.probabilities["left"] / (1 - after.p_unknown) > 0.9
    assert monitor.estimator.predict_one(x) == "left"
    assert monitor.expected_recall.recall < 0.97


def test_a_classifier_of_river_may_stay_as_it_is() -> None:
    import pandas as pd
    from river import naive_bayes

    X, y = blobs()
    classifier = naive_bayes.GaussianNB()
    rows = [{"a": a, "b": b} for a, b in X.tolist()]
    for x, label in zip(rows, y.tolist(), strict=True):
        classifier.learn_one(x, label)
    monitor = quick(classifier, "probabilities", learn=False).fit(pd.DataFrame(rows), y)
    assert classifier.class_counts == {"left": 100, "right": 100}
    assert monitor.predict(pd.DataFrame(rows)).tolist() == classifier.predict_many(pd.DataFrame(rows)).tolist()
    with pytest.raises(InvalidParameter, match="keeps learning"):
        quick(classifier, "probabilities")


def test_a_classifier_of_river_decides_a_table_with_an_embedding() -> None:
    import pandas as pd
    from river import naive_bayes

    X, y = blobs()
    frame = pd.DataFrame(X, columns=["a", "b"])
    monitor = quick(naive_bayes.GaussianNB(), lambda x: np.array([x["a"] / 10.0, x["b"]]), learn=True).fit(frame, y)
    assert monitor.recognizer.trained.names == (0, 1)
    keys = [f"k{n}" for n in range(64)]
    assert [(d.key, d.label) for d in monitor.decide(frame[:64], key=keys)] == list(
        zip(keys, y[:64].tolist(), strict=True)
    )


def test_rows_that_are_new_to_the_estimator_need_no_folds() -> None:
    monitor = quick(logistic(), folds=0).fit(*blobs(seed=3))
    assert {d.label for d in monitor.decide(new())} == {"unknown"}
    assert monitor.expected_recall.recall > 0.97


# What goes wrong


def test_a_refused_instance_changes_nothing() -> None:
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    X, y = blobs()
    frame = pd.DataFrame(X, columns=["a", "b"])
    monitor = quick(LogisticRegression().fit(frame, y)).fit(frame, y)
    for wrong in ({"a": 1.0, "b": None}, {"a": 1.0}, {"a": "warm", "b": 2.0}):
        with pytest.raises(InvalidInstance, match="the estimator cannot use the instance"):
            monitor.learn_one(wrong)
    assert monitor.recognizer.pending == 0
    monitor.learn_one({"b": 0.5, "a": 20.0}, key="right")
    monitor.flush()
    assert [(d.key, d.label) for d in monitor.drain()] == [("right", "right")]


def test_arguments_are_checked() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    X, y = blobs()
    for estimator, arguments, message in (
        (LinearSVC().fit(X, y), {}, "CalibratedClassifierCV"),
        (LogisticRegression(), {}, "Fit it first"),
        (logistic(), {"features": "inputs"}, "features is 'inputs'"),
        (logistic(), {"folds": 1}, "folds is 1"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            OpenSetMonitor(estimator, **arguments)
    with pytest.raises(NotTrained, match="Call fit"):
        OpenSetMonitor(logistic()).predict(X)
    with pytest.raises(InvalidInstance, match="'odd' has one row"):
        OpenSetMonitor(logistic()).fit(np.concatenate([X, X[:1]]), [*y, "odd"])
    with pytest.raises(InvalidInstance, match="y has the classes"):
        OpenSetMonitor(logistic(), "probabilities").fit(X, np.where(y == "left", "up", "down"))


def test_skipped_rows_have_no_decision_and_the_others_their_own() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y = blobs()
    classifier = HistGradientBoostingClassifier(max_iter=5).fit(X, y)
    monitor = quick(classifier, input=Input(on_missing="skip")).fit(X, y)
    rows = X[:20].copy()
    rows[3, 1] = np.nan
    decisions = monitor.decide(rows)
    assert [d.key for d in decisions] == [n for n in range(20) if n != 3]
    assert [d.label for d in decisions] == [y[n] for n in range(20) if n != 3]
