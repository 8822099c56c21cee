"""Instances, labels and frames as people hand them over in Python: river loops, scikit-learn, enumerations."""

from __future__ import annotations

import enum
import logging
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stream_osr import Input, OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.errors import InvalidFeature, InvalidInstance

if TYPE_CHECKING:
    import pandas as pd

NAMES = ["flow", "heat", "noise"]


class Protocol(str, enum.Enum):  # noqa: UP042  (not a StrEnum: its text is not its value)
    TCP = "tcp"
    UDP = "udp"


class State(enum.IntEnum):
    IDLE = 1
    RUNNING = 2


def table(n: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    import pandas as pd

    rng = np.random.default_rng(seed)
    y = np.array(["idle", "running"] * (n // 2))
    X = rng.normal(size=(n, 3)) + 12.0 * (y == "running")[:, None]
    return pd.DataFrame(X, columns=NAMES), y


def classifier(X: Any, y: Any) -> Any:
    from stream_osr.sklearn import OpenSetClassifier

    return OpenSetClassifier(chains=1).fit(X, y)


def trained(X: Any, y: Any, **arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(chains=1, **arguments))
    model.learn_many(X, y)
    model.freeze()
    return model


def right(model: Any, X: Any, y: Any) -> int:
    predict = model.predict_many if isinstance(model, OpenSetRecognizer) else model.predict
    return int((np.asarray(predict(X)) == np.asarray(y)).sum())


# Members of enumerations


def test_text_members_are_their_values_as_labels_and_as_categories() -> None:
    rng = random.Random(0)
    model = OpenSetRecognizer(chains=1)
    for member in [Protocol.TCP, Protocol.UDP] * 30:
        model.learn_one({"p": member, "size": rng.gauss(0, 1)}, member)
    assert model.freeze().instances == {"tcp": 30, "udp": 30}
    for text, label in (("tcp", "tcp"), ("udp", "udp"), (Protocol.UDP, "udp")):
        assert model.predict_one({"p": text, "size": 0.1}) == label


def test_whole_number_members_are_plain_numbers_and_categories() -> None:
    X, y = table()
    members = [State.IDLE if label == "idle" else State.RUNNING for label in y]
    model = trained(X.assign(s=members), members, categorical=["s"])
    assert {type(label) for label in model.freeze().instances} == {int}
    assert set(model.trained.values["s"]) == {"1", "2"}
    plain = X.assign(s=[int(member) for member in members])
    assert model.predict_many(plain).dtype.kind == "i"
    assert right(model, plain, members) == len(y)


# Categorical columns


def test_categories_of_any_type_are_text() -> None:
    import pandas as pd

    X, y = table()
    frame = X.assign(
        intervals=pd.cut(X["flow"], 3),
        days=pd.Categorical(pd.to_datetime(np.where(y == "idle", "2026-01-01", "2026-01-02"))),
        durations=pd.Categorical([pd.Timedelta(seconds=int(label == "idle")) for label in y]),
    )
    model = trained(frame, y)
    assert {*model.trained.values} == {"intervals", "days", "durations"}
    assert right(model, frame, y) == len(y)


# Frames for scikit-learn


def test_columns_that_training_leaves_out_do_not_disturb_predict() -> None:
    import pandas as pd

    X, y = table()
    days, seconds = pd.date_range("2026", periods=60), pd.to_timedelta(range(60), unit="s")
    for column in ({"at": days}, {"at": seconds}, {"level_0": range(60)}):
        frame = X.assign(**column)
        fitted = classifier(frame, y)
        assert right(fitted, frame, y) == len(fitted.decide(frame)) == len(y)


def test_booleans_of_any_type_are_boolean_classes() -> None:
    import pandas as pd

    X, y = table()
    for dtype in ("boolean", "bool", "bool[pyarrow]"):
        truth = pd.Series(y == "idle", dtype=dtype)
        fitted = classifier(X, truth)
        assert (fitted.classes_.dtype, fitted.unknown_, fitted.score(X, truth)) == (bool, "unknown", 1.0)


# Labels of a frame


def test_labelled_rows_after_one_without_a_label_are_named(caplog: pytest.LogCaptureFixture) -> None:
    import pandas as pd

    X, y = table()
    for at, missing in ((slice(50, 60), None), *((slice(30, 31), each) for each in (None, np.nan, pd.NA))):
        caplog.clear()
        labels = y.astype(object)
        labels[at] = missing
        OpenSetRecognizer(chains=1).learn_many(X, labels)
        said = "row 30 has no label, which ended training: the 29 labelled rows after it"
        assert (said in caplog.text) == (at.start == 30) == bool(caplog.text)


def test_labels_in_several_columns_are_refused_as_such() -> None:
    import pandas as pd

    X, y = table()
    for labels in (pd.DataFrame({"y": y}), y[:, None], pd.get_dummies(pd.Series(y))):
        with pytest.raises(InvalidInstance, match=r"y has the shape \(60, [12]\).* Give one column"):
            OpenSetRecognizer(chains=1).learn_many(X, labels)


# Predictions of instances that are unlike those of training


def test_predictions_without_the_features_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    X, y = table()
    model = trained(X, y)
    with caplog.at_level(logging.WARNING, "stream_osr"):
        model.predict_many(X.drop(columns="noise"))
        model.predict_one({"flow": 0.1, "heat": 0.2, "noise": None})
        assert not caplog.text
        model.predict_many(X.rename(columns=str.upper))
        model.predict_one({"FLOW": 0.1})
    assert caplog.text.count("unlike those of training") == 1
    assert "expected 'flow', 'heat', 'noise', found 'FLOW', 'HEAT', 'NOISE'" in caplog.text
    assert model.counters["unlike"] == 0


# Values that are no features


def test_values_that_are_no_features_do_not_speak_of_training() -> None:
    import pandas as pd

    for value in ({1: 2}, b"tcp", 1 + 2j, pd.Period("2026-01-01")):
        with pytest.raises(InvalidFeature, match="features are numbers, text or booleans: convert the val") as caught:
            OpenSetRecognizer().learn_one({"flow": 1.0, "v": value}, "idle")
        assert "in training" not in str(caught.value)


def test_named_fields_of_an_array_have_one_dimension() -> None:
    array = np.zeros((5, 1), dtype=[("a", float), ("b", float)])
    with pytest.raises(InvalidInstance, match=r"named fields and the shape \(5, 1\).*Give X\.ravel"):
        OpenSetRecognizer().learn_many(array, [1] * 5)


# Columns without a value in training


@pytest.mark.parametrize("empty", [np.nan, None, "", "n/a"])
def test_column_without_a_value_in_training_is_left_out(empty: Any) -> None:
    X, y = table()
    model = trained(X.assign(e=empty), y)
    if empty != "n/a":  # a value of a category
        assert model.freeze().left_out == {"e": "no value in training"}
    for value in (empty, 1.0, 1e6, "text"):
        assert right(model, X.assign(e=value), y) == len(y)
        assert not np.isnan(model.predict_proba_many(X.assign(e=value)).to_numpy()).any()


def test_such_columns_alone_train_nothing() -> None:
    with pytest.raises(InvalidInstance, match="no feature that can be used: 'e': no value in training"):
        trained([{"e": None}] * 4, [1, 2, 1, 2])


def test_report_lists_the_first_of_many_small_classes() -> None:
    X, _ = table()
    assert "'k11' (1) and 48 more. More instances" in str(trained(X, [f"k{i}" for i in range(60)]).freeze())


@pytest.mark.parametrize("on_missing", ["impute", "skip"])
def test_times_that_begin_late_are_left_out_and_no_missing_values(on_missing: Any) -> None:
    import pandas as pd

    X, y = table()
    times = {"a": pd.Timestamp("2026-01-01"), "b": pd.Timedelta(1, "s"), "c": np.datetime64("2026-01-01")}
    model = OpenSetRecognizer(chains=1, input=Input(on_missing=on_missing))
    for number, (x, label) in enumerate(zip(X.to_dict("records"), y, strict=True)):
        model.learn_one({**x, **(times if number else dict.fromkeys(times))}, label)
    report = model.freeze()
    assert report.left_out == dict.fromkeys(times, "a date or time")
    assert sum(report.instances.values()) == 60 - (on_missing == "skip")
    assert model.counters["bad_rows"] == 1
