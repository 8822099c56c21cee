"""Training on blocks of rows is the same as training row by row."""

from __future__ import annotations

import threading
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from stream_osr import Input, Limits, OpenSetRecognizer
from stream_osr.errors import InvalidFeature, InvalidLabel, NotTrained, StreamOSRError
from stream_osr.monitor import OpenSetMonitor
from stream_osr.stream import training_blocks, training_phase
from tests.tiers import examples

COLOURS = ["red", "blue", " red", "NA", "", None, "5", "green"]


def learnt(model: OpenSetRecognizer) -> tuple[Any, ...]:
    """Return everything that training has stored."""
    training = model.value.training
    assert training is not None
    kinds = training.features.kinds
    counters = {name: n for name, n in model.counters.items() if n}
    own = training.features.names, {**kinds.values}, kinds.undecided, kinds.fixed
    return *(_plain(each) for each in training.as_state()), own, counters


def _plain(value: Any) -> Any:
    """Convert a value for comparisons, in which NaN equals NaN."""
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in value)
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def columns_of(draw: Any, n: int) -> dict[str, list[Any]]:
    """Draw columns of several kinds, with missing values."""
    number = st.sampled_from([0.0, 1.5, -2.0, 3.0, 7.25, -999.0])
    kinds: dict[str, Any] = {
        "plain": number,
        "gaps": st.one_of(number, st.just(float("nan"))),
        "late": st.just(float("nan")),
        "text": st.sampled_from(COLOURS),
        "codes": st.sampled_from([1, 2, 3]),
        "flag": st.booleans(),
        "when": st.sampled_from([datetime(2026, 1, 2), datetime(2026, 5, 6), None]),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, unique=True))
    columns = {name: [draw(kinds[name]) for _ in range(n)] for name in chosen}
    if "late" in columns:
        for at in range(draw(st.integers(0, n)), n):
            columns["late"][at] = draw(number)
    return columns


@examples(60)
@given(st.data())
def test_blocks_of_any_size_train_like_rows(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 40))
    columns = columns_of(data.draw, n)
    labels = [data.draw(st.sampled_from(["a", "b", "c"])) for _ in range(n)]
    groups = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(["p", "q", 3]), min_size=n, max_size=n)))
    cuts = sorted({0, n, *data.draw(st.lists(st.integers(0, n), max_size=4))})
    its: dict[str, Any] = {
        "limits": Limits(max_training=7),
        "categorical": ["codes"] if "codes" in columns else None,
        "input": Input(missing=data.draw(st.sampled_from([None, ["-999"], ["red"]]))),
    }
    door = data.draw(st.sampled_from(["pandas", "polars", "dicts"]))
    one, many = OpenSetRecognizer(seed=3, **its), OpenSetRecognizer(seed=3, **its)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for at, (x, y) in enumerate(zip(rows, labels, strict=True)):
        one.learn_one(x, y, group=None if groups is None else groups[at])
    for begin, end in pairwise(cuts):
        part: Any = rows[begin:end]
        if door == "pandas":
            part = pd.DataFrame({name: pd.Series(its[begin:end], dtype=_dtype(its)) for name, its in columns.items()})
        elif door == "polars":
            part = pl.DataFrame({name: its[begin:end] for name, its in columns.items()}, strict=False)
        many.learn_many(part, labels[begin:end], group=None if groups is None else groups[begin:end])
    assert learnt(many) == learnt(one)


def _dtype(values: list[Any]) -> Any:
    return object if any(value is None or isinstance(value, str | datetime) for value in values) else None


def frame(n: int = 200) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(5)
    y = rng.integers(3, size=n)
    X = pd.DataFrame(rng.normal(size=(n, 3)) + 5.0 * y[:, None], columns=["a", "b", "c"])
    return X, pd.Series([f"k{each}" for each in y])


def test_rows_of_a_frame_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = frame()
    X["d"] = ["x", "y"] * 100
    X.loc[5, "a"] = np.nan
    read: list[int] = []
    original = training_blocks.intake.read
    monkeypatch.setattr(training_blocks.intake, "read", lambda *a, **k: read.append(a[5]) or original(*a, **k))
    model = OpenSetRecognizer()
    model.learn_many(X, y)
    assert read == [0, 1]  # the first one has the features, the second a new value
    assert len(model.value.training or ()) == 200


@pytest.mark.parametrize(
    ("column", "value", "error"),
    [("a", np.inf, InvalidFeature), ("a", 1e200, InvalidFeature), ("y", 1.5, InvalidLabel), ("y", " ", InvalidLabel)],
)
def test_a_wrong_row_is_named_and_nothing_is_learnt(column: str, value: object, error: type[StreamOSRError]) -> None:
    X, y = frame()
    model = OpenSetRecognizer()
    model.learn_many(X, y)
    before = learnt(model)
    y = y.astype(object)
    (X if column == "a" else y).loc[*((7, "a") if column == "a" else (7,))] = value
    with pytest.raises(error, match=r"row 7"):
        model.learn_many(X, y)
    assert learnt(model)[:-1] == before[:-1]  # the refused row is counted


def test_a_prediction_during_training_knows_all_classes() -> None:
    X, y = frame()
    model = OpenSetRecognizer(seed=2)
    model.learn_many(X[:100], y[:100])
    assert set(model.predict_many(X[:100])) <= {"k0", "k1", "k2", "unknown"}
    model.learn_many(X[100:110] + 90.0, ["new"] * 10)  # fewer rows than before update the provisional model
    assert "new" in model.predict_proba_one({"a": 95.0, "b": 95.0, "c": 95.0})
    model.learn_many(X[110:], y[110:])
    assert "new" in model.predict_proba_one({"a": 95.0, "b": 95.0, "c": 95.0})
    assert model.value.trained is None  # a prediction changes nothing


def test_predictions_do_not_change_the_trained_model() -> None:
    X, y = frame()
    quiet, watched = OpenSetRecognizer(seed=2), OpenSetRecognizer(seed=2)
    quiet.learn_many(X, y)
    for x, label in zip(X.to_dict("records"), y, strict=True):
        watched.predict_proba_one(x)
        watched.learn_one(x, label)
    assert learnt(quiet) == learnt(watched)


def test_a_thread_may_predict_while_another_one_trains() -> None:
    X, y = frame(2000)
    model, errors = OpenSetRecognizer(seed=2), list[BaseException]()
    model.learn_many(X[:20], y[:20])
    ended = threading.Event()

    def predict() -> None:
        try:
            while not ended.is_set():
                assert sum(model.predict_proba_one({"a": 0.0, "b": 0.0, "c": 0.0}).values()) == pytest.approx(1.0)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=predict)
    thread.start()
    for x, label in zip(X[20:].to_dict("records"), y[20:], strict=True):
        model.learn_one(x, label)
    ended.set()
    thread.join()
    assert not errors
    assert len(model.value.training or ()) == 2000


def test_a_frame_that_settles_a_kind_leaves_the_rows_before_it_whole() -> None:
    numbers = [1.5 * at for at in range(1300)]
    texts, y = [str(number) for number in numbers], ["a", "b"] * 650
    model = OpenSetRecognizer()
    model.learn_many(pd.DataFrame({"c": texts[:900]}), y[:900])
    model.learn_many(pd.DataFrame({"c": texts[900:]}), y[900:])
    assert model.value.training is not None
    decided, _, _, arrived = model.value.training.decided()
    assert decided.X[np.argsort(arrived), 0].tolist() == numbers


def test_a_monitor_predicts_during_training() -> None:
    X, y = frame()
    monitor = OpenSetMonitor(LogisticRegression().fit(X, y))
    for row, label in zip(X[:60].to_dict("records"), y[:60], strict=True):
        monitor.learn_one(row, label)
    assert set(monitor.predict(X[60:80])) <= {"k0", "k1", "k2", "unknown"}
    early = OpenSetMonitor(LogisticRegression().fit(X, y), pca=2)
    early.learn_one(X.iloc[0].to_dict(), y[0])
    with pytest.raises(NotTrained):
        early.predict(X)


def test_a_prediction_that_ends_late_does_not_hide_later_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = frame()
    model = OpenSetRecognizer(seed=2)
    model.learn_many(X[:20], ["k0"] * 20)
    original = training_phase.predicting

    def slow(*given: Any) -> Any:
        found = original(*given)
        model.learn_many(X[20:] + 50.0, ["later"] * 180)  # as another thread does meanwhile
        return found

    monkeypatch.setattr(training_phase, "predicting", slow)
    model.predict_proba_one({"a": 50.0, "b": 50.0, "c": 50.0})
    monkeypatch.undo()
    assert model.predict_one({"a": 55.0, "b": 55.0, "c": 55.0}) == "later"


@pytest.mark.parametrize("labels", [[["a"], ["b"]], [{"a": 1}, {"a": 2}], [np.zeros(2), np.zeros(2)]])
def test_a_label_of_a_wrong_type_is_named(labels: list[Any]) -> None:
    with pytest.raises(InvalidLabel, match=r"row 0: label is"):
        OpenSetRecognizer().learn_many([{"a": 1.0}, {"a": 2.0}], labels)


@pytest.mark.parametrize(
    "X",
    [
        [{"e": [1.5, True]}, {"e": [2.5, False]}],
        [{"e": np.ma.array([1.0, 2.0], mask=[False, True])}, {"e": np.array([1.0, 2.0])}],
        pd.DataFrame({"c": pd.Categorical(pd.to_datetime(["2026-01-01", "2026-01-02"]))}),
        pd.DataFrame({"c": pd.array([2**63 - 1, 5], dtype="Int64")}),
        pd.DataFrame({"c": np.array([-(2**63), 5])}),
    ],
)
def test_unusual_columns_train_like_rows(X: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    many, one = (OpenSetRecognizer(input=Input(missing=[-(2**63)])) for _ in range(2))
    many.learn_many(X, ["a", "b"])
    monkeypatch.setattr("stream_osr.recognizer.learn_frame", lambda *given: None)
    one.learn_many(X, ["a", "b"])
    assert learnt(many) == learnt(one)


def test_a_label_that_looks_like_another_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    OpenSetRecognizer().learn_many(frame(3)[0], ["cat", "cat ", "cat"])
    assert len(caplog.records) == 1
