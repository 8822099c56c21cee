"""What people hand over by mistake: a clear refusal that changes nothing, or a documented way to go on."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import pickle
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest

from stream_osr import ColumnFailed, ModelOptions, OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import (
    InvalidFeature,
    InvalidInstance,
    InvalidLabel,
    InvalidParameter,
    NotTrained,
    StreamOSRError,
)
from tests.blobs import around, check_stream, drained, fitted, further, learn_all, refused, stream_part, training_part

ZERO = {"a": 0.0, "b": 0.0}


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted().trained


def in_training(**arguments: Any) -> OpenSetRecognizer:
    """A recognizer that has yet to train, and does so in a moment: bad rows come before its chains and sweeps."""
    return learn_all(
        OpenSetRecognizer(**grouped(**{"chains": 1, "training_sweeps": 4, **arguments})), training_part(30)
    )


def in_stream(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer.from_trained(trained, **grouped(**{"batch_size": 8, **arguments}))
    return learn_all(model, [(x, None) for x, _ in stream_part(12)])


@pytest.fixture(params=["training", "stream"])
def model(request: pytest.FixtureRequest, trained: TrainedModel) -> OpenSetRecognizer:
    """A recognizer before the end of its training, and one after it."""
    return in_training() if request.param == "training" else in_stream(trained)


def same_results(model: OpenSetRecognizer, other: OpenSetRecognizer) -> None:
    """Check that two models have the same decisions and events once all is decided."""
    model.flush()
    other.flush()
    assert drained(model) == drained(other)


def unchanged_by(model: OpenSetRecognizer, error: type[StreamOSRError], match: str, *acts: Callable[[], Any]) -> int:
    """Check that the model refuses each act and changes only its number of bad rows; return their number."""
    counted, bad = model.counters.pop("bad_rows", 0), 0
    before = pickle.dumps(model)
    for act in acts:
        with pytest.raises(error, match=match):
            act()
        bad += model.counters.pop("bad_rows", 0)
        assert pickle.dumps(model) == before
    model.counters["bad_rows"] = counted + bad
    return bad


def learns(model: OpenSetRecognizer, x: Any, **others: Any) -> list[Callable[[], Any]]:
    """Learning an instance with a label, and without."""
    return [partial(model.learn_one, x, y, **others) for y in ("left", None)]


# Values of features

NO_USABLE_NUMBERS = (
    ("high", r"'high' \(str\): expected a finite number \(None or NaN if missing\); the feature is num"),
    ("1,234", r"'1,234' \(str\): it may be 1\.234 or 1234. Write it without commas"),
    (b"1", r"b'1' \(bytes\): expected a finite number"),
    (np.complex128(1), r".* \(complex\): expected a finite number"),
    ([1.0], r"\[1\.0\] \(list\): training had single values in this field"),
    ({"x": 1}, r"\{'x': 1\} \(dict\): expected a finite number"),
    (np.array([1.0, 2.0]), r"array\(\[1\., 2\.\]\) \(ndarray\): training had single values in this field"),
    (datetime.datetime(2026, 1, 2), r"datetime\.datetime.* \(datetime\): expected a finite number"),
    (np.datetime64("2026-01-02", "ns"), r"np\.datetime64.* \(datetime64\): expected a finite number"),
    (np.timedelta64(1, "s"), r"np\.timedelta64.* \(timedelta64\): expected a finite number"),
    (object(), r"<object object.* \(object\): expected a finite number"),
    (decimal.Decimal("sNaN"), r"Decimal\('sNaN'\) \(Decimal\): expected a finite number"),
    (np.float32("inf"), r"inf \(float\): expected a finite number .* of magnitude at most 1e\+100\. Scale"),
    (-1e101, r"-1e\+101 \(float\): expected a finite number .* of magnitude at most 1e\+100\. Scale"),
    (10**400, r"1000.*\.\.\.0* \(int\): expected a finite number"),
    (10**5000, r"an int too large to show \(int\): expected a finite number"),
    (decimal.Decimal("1e200"), r"Decimal\('1E\+200'\) \(Decimal\)"),
)


def test_value_that_is_no_usable_number_is_refused(model):
    for value, message in NO_USABLE_NUMBERS:
        x, message = {"a": value, "b": 1.0}, f"feature 'a' is {message}"
        assert unchanged_by(model, InvalidFeature, message, *learns(model, x)) == 2
        asks = (partial(ask, x) for ask in (model.predict_one, model.predict_proba_one))
        assert unchanged_by(model, InvalidFeature, message, *asks) == 0
    assert model.signals.data_quality == 2 * len(NO_USABLE_NUMBERS)
    for y in ("left", None):
        model.learn_one({"a": 0.5, "b": 0.5}, y)
    model.flush()
    assert [*model.drain()][-1].nearest_class == "left", "it goes on working"


NUMBERS = (
    *(3, True, np.int8(3), np.float32(3), np.float64(3), np.bool_(True), np.array(3.0), decimal.Decimal(3)),
    *(fractions.Fraction(6, 2), 2**63, 2**64, 10**99, -(10**99), 0, -0.0, 5e-324),
)


def test_value_that_is_a_number_is_read_as_a_float(trained):
    for value in NUMBERS:
        model, same = (in_stream(trained) for _ in range(2))
        model.learn_one({"a": value, "b": 1})
        same.learn_one({"a": float(value), "b": 1.0})
        same_results(model, same)
        assert model.counters["missing"] == 0, value


def test_missing_values_are_ignored_and_counted(model):
    import pandas as pd

    values = (None, math.nan, np.float32("nan"), pd.NA, pd.NaT, decimal.Decimal("NaN"), np.array(math.nan))
    for value in values:
        model.learn_one({"a": value, "b": 0.0}, "left")
    for value in values:
        model.learn_one({"a": value, "b": 0.0})
    total = 2 * len(values)
    assert model.counters["missing"] == total
    model.flush()
    expected = model.predict_proba_one({"b": 0.0})
    for value in values:
        assert model.predict_proba_one({"a": value, "b": 0.0}) == expected, value
    assert expected["unknown"] < 0.1, "nothing of what is there is unusual"
    assert min(expected["left"], expected["right"]) > 0.2, "and it does not separate the classes"
    assert model.counters["missing"] == model.counters["bad_rows"] == model.signals.data_quality == total


def test_missing_values_are_an_error_if_the_model_says_so():
    model = in_training(on_missing="error")
    message = r"feature 'b' is None \(NoneType\): it is missing. Give a number, or set on_missing='impute' or 'skip'"
    acts = [*learns(model, {"a": 1.0}), *learns(model, {"a": 1.0, "b": None})]
    assert unchanged_by(model, InvalidFeature, message, *acts) == 4
    unchanged_by(model, InvalidFeature, message, partial(model.predict_one, {"a": 1.0}))
    unchanged_by(model, InvalidFeature, "'b' of row 0", partial(model.predict_many, [{"a": 1.0}]))
    assert model.counters["missing"] == 0


def test_a_row_is_bad_once_however_many_values_it_lacks():
    model = learn_all(in_training(), [({"a": None, "b": math.nan}, "left"), ({}, "left")])
    model.learn_one({"a": 1.0, "b": 0.0, "c": 5.0}, "left")
    assert (model.counters["missing"], model.counters["bad_rows"]) == (4, 2)


def test_instances_with_missing_values_are_skipped_if_the_model_says_so():
    model = in_training(on_missing="skip", batch_size=1)
    model.learn_one({"a": 1.0}, "left")
    model.learn_one({"a": math.nan, "b": 1.0})  # which does not end training either
    assert model.freeze().instances == {"left": 30, "right": 30}
    model.learn_one({"a": 1.0})
    model.learn_one({"a": 1.0, "b": 2.0})
    assert len(list(model.drain())) == 1
    assert model.counters["skipped"] == model.counters["bad_rows"] == 3
    assert model.counters["missing"] == 0
    assert model.predict_one({"a": 1.0}) in {"left", "unknown"}  # a question has to be answered


# Features that come and go


def test_features_are_the_union_of_those_seen_in_training():
    part = [({"b": float(i % 5), "a": 1.0 * (i % 3)}, "left") for i in range(30)]
    part += [({"c": float(i % 4), "a": 20 + 1.0 * (i % 3)}, "right") for i in range(30)]
    model = learn_all(OpenSetRecognizer(), part)
    assert model.freeze().missing_values == 60
    assert model.trained.names == ("a", "b", "c")
    assert model.predict_one({"a": 1.0, "b": 2.0, "c": 1.5}) == "left"


def test_features_first_seen_after_training_are_ignored_and_counted(trained):
    model, same = in_stream(trained), in_stream(trained)
    model.learn_one({"a": 1.0, "b": 2.0, "new": 5.0, "newer": "not even a number"})
    model.learn_one({"a": 1.0, "b": 2.0, "new": 5.0}, "left")
    same.learn_one({"a": 1.0, "b": 2.0})
    same.learn_one({"a": 1.0, "b": 2.0}, "left")
    assert model.counters["extra"] == 3
    assert model.predict_proba_one({"a": 1.0, "b": 2.0, "new": 5.0}) == same.predict_proba_one({"a": 1.0, "b": 2.0})
    assert model.counters["extra"] == 3
    same_results(model, same)


def test_training_without_any_feature_cannot_end():
    fresh = OpenSetRecognizer()
    fresh.learn_one({}, "left")  # its values may all be missing: those of later instances have names
    fresh.learn_many([{}, {}], ["left", "right"])
    with pytest.raises(InvalidInstance, match=r"the training instances have no feature\. Give one"):
        fresh.freeze()
    assert fresh.predict_one({}) is None


def test_an_instance_without_features_has_missing_values_alone(model):
    learn_all(model, [({}, "left"), ({}, None)]).flush()
    assert model.counters["missing"] == 4
    assert model.predict_proba_one({}) == pytest.approx(model.predict_proba_one({"a": None, "b": None}))
    (*_, decision) = model.drain()
    assert math.isfinite(decision.distance)


def test_an_instance_that_is_no_mapping_is_refused(model):
    import pandas as pd

    for x in ([1.0, 2.0], np.zeros(2), "a=1", None, pd.Series({"a": 1.0, "b": 2.0}), {"a", "b"}):
        message = f"an instance is a dict of feature names and numbers: this is {type(x).__name__}. .* learn_many"
        unchanged_by(model, InvalidInstance, message, *learns(model, x), partial(model.predict_one, x))


# Labels


@pytest.mark.parametrize(
    ("known", "unknown", "label"),
    [
        (["x", "y"], None, "unknown"),
        ([0, 1], None, np.int64(-1)),
        ([2, 3], 1, True),  # True == 1: they would be one key of the probabilities
        (["x", "y"], 1, True),
    ],
)
def test_label_of_unknown_instances_names_no_class(known, unknown, label):
    model, x = OpenSetRecognizer(unknown=unknown), {"a": 0.0, "b": 90.0}
    part = [({"a": 30.0 * at + i % 7, "b": float(i % 5)}, y) for i in range(20) for at, y in enumerate(known)]
    learn_all(model, part)
    for _ in ("training", "stream"):
        with refused(model, InvalidLabel, r"label of unknown instances\. Rename|the known labels are like 'x'"):
            model.learn_one(x, label)
        with refused(model, InvalidLabel, r"^row 0: label"):
            model.learn_many([x], [label])
        model.freeze()
    with pytest.raises(InvalidLabel):
        model.learn_label("key", label)


def test_label_of_unknown_instances_names_no_class_of_a_trained_model(trained):
    message = "label 'left' is the label of unknown instances. Rename the class, or pass another one as unknown="
    with pytest.raises(InvalidLabel, match=message):
        OpenSetRecognizer.from_trained(trained, unknown="left")


def test_label_of_another_kind_is_refused():
    import pandas as pd

    model = learn_all(OpenSetRecognizer(), [({"a": float(i % 7), "b": float(i % 5)}, "x") for i in range(20)])
    for label, message in (
        (1, r"label is 1 \(int\), but the known labels are like 'x'. Use labels of one type"),
        (2.5, r"label is 2\.5 \(float\): expected str, int or bool, or None for an instance without a label"),
        (pd.NA, r"label is <NA> \(NAType\): expected str, int or bool, or None"),
        (pd.Series(["x"]), r"(?s)label is 0 .*\(Series\): expected str, int or bool"),
    ):
        with refused(model, InvalidLabel, message):
            model.learn_one(ZERO, label)


# Few, equal, extreme


def check_decisions(model: OpenSetRecognizer, instances: list[dict[str, Any]]) -> None:
    """Check that every question to the model has an answer, and that the answers are probabilities."""
    model.freeze()
    for i, x in enumerate(instances):
        assert sum(model.predict_proba_one(x).values()) == pytest.approx(1, abs=1e-9)
        model.learn_one(x, key=i)
        model.learn_one(x, model.trained.labels[i % len(model.trained.labels)])
    model.flush()
    model.learn_label(0, model.trained.labels[0])
    model.flush()
    decisions, events = drained(model)
    assert len(decisions) == len(instances)
    for d in decisions:
        assert sum(d.probabilities.values()) == pytest.approx(1, abs=1e-9)
        assert all(0 <= p <= 1 for p in d.probabilities.values())
        assert math.isfinite(d.distance)
    assert not re.search("nan|inf", " ".join(repr(event) + repr(event.as_dict()) for event in events))
    assert str(model.summary())
    check_stream(model.value.stream)


ELSEWHERE = [ZERO, {"a": 1e3, "b": -1e3}, {"a": None, "b": 1e99}, {"a": -1e99, "b": 1e99}] * 3
PARTS = {
    "one class": [(x, "only") for x, _ in training_part(40)[::2]],
    "one instance": [({"a": 3.0, "b": 4.0}, "only")],
    "classes of one instance": [({"a": float(i), "b": float(i * i % 7)}, f"class {i}") for i in range(12)],
    "equal instances": [({"a": 5.0, "b": 0.0}, label) for label in ("left", "right") * 20],
    "an absurd value": [*training_part(30), ({"a": 1e99, "b": -1e99}, "left")],
}


@pytest.mark.parametrize("name", PARTS)
def test_any_training_part(name):
    model = learn_all(OpenSetRecognizer(batch_size=4), PARTS[name])
    if PARTS[name][0][1] == "only":
        assert model.predict_one({"a": 1e9, "b": 50.0}) == "unknown"
    check_decisions(model, ELSEWHERE)


def test_class_of_one_instance():
    model = in_training(batch_size=4)
    model.learn_one({"a": -40.0, "b": 40.0}, "rare")
    report = model.freeze()
    assert report.small_classes == ("rare",)
    assert "fewer instances than dimensions: 'rare' (1). More instances, or a PCA, would help" in str(report)
    assert model.predict_proba_one({"a": -40.0, "b": 40.0})["rare"] > 0.5
    check_decisions(model, ELSEWHERE)


@pytest.mark.parametrize("unit", [1.0, *further(1e6)])
def test_constant_features(unit):
    model = OpenSetRecognizer(batch_size=4)
    for x, y in training_part():
        model.learn_one({"a": unit * x["a"], "b": unit * x["b"], "c": 7.0, "d": 0.0}, y)
    report = model.freeze()
    assert report.constant_features == ("c", "d")
    assert "constant in training, monitored but not modelled: 'c', 'd'" in str(report)
    usual = {**ZERO, "c": 7.0, "d": 0.0}
    for changed in ({"c": 7.0 + 1e-13}, {"c": -7.0}, {"d": 1e6}, {"c": 70.0}):
        assert model.predict_one({**usual, **changed}) == "left"
        model.learn_one({**usual, **changed})
    failed = [event for event in model.drain_events() if isinstance(event, ColumnFailed)]
    assert {(each.column, each.kind, each.low, each.value) for each in failed} == {
        ("c", "changed", 7.0, -7.0),
        ("d", "changed", 0.0, 1e6),
    }
    assert [decision.label for decision in model.drain()] == ["left"] * 4
    check_decisions(model, [usual, {**usual, "c": -7.0}, {**usual, "d": 1e6}])


@pytest.mark.parametrize("size", [1e99, 5e-324, *further(1e50, 1e-50, 1e-99, 1e-160)], ids=str)
def test_values_of_any_size(size):
    model = OpenSetRecognizer(batch_size=4)
    for x, y in training_part():
        model.learn_one({"a": max(min(x["a"] / 20, 1), -1) * size, "b": x["b"]}, y)
    check_decisions(model, [*ELSEWHERE, {"a": size, "b": 0.0}])


@pytest.mark.parametrize("small", [1, *further(3, 20)])
def test_what_lies_far_from_everything_is_unknown(small):
    rng, model = np.random.default_rng(small), OpenSetRecognizer()
    learn_all(model, [(x, "large") for x in around((0.0, 0.0, 0.0), 100, rng, "abc")])
    learn_all(model, [(x, "small") for x in around((10.0, 0.0, 0.0), small, rng, "abc")])
    model.freeze()
    for exponent in (3, 5, 8):
        for x in around((0.0, 0.0, 0.0), 10, rng, "abc"):
            far = {name: 10.0**exponent * value for name, value in x.items()}
            assert model.predict_proba_one(far)["unknown"] > 0.8, far


@pytest.mark.parametrize("n", [10, *further(40)])
def test_what_lies_far_is_unknown_where_new_classes_are_expected_near(n):
    rng, model = np.random.default_rng(1), OpenSetRecognizer(seed=1)
    centres = rng.uniform(-8, 8, size=(6, 2))  # so evenly that their location has light tails
    model.learn_many(rng.normal(np.tile(centres, (n, 1))), np.tile(np.arange(6), n))
    model.freeze()
    assert max(known.location.freedom for known in model.trained.draws) >= 15
    for radius in (1e3, 1e6):
        assert (model.predict_proba_many(radius * rng.normal(size=(10, 2)))[:, -1] > 0.99).all()


# Order of events


def test_unlabelled_instance_before_any_label():
    model = OpenSetRecognizer()
    message = "an unlabelled instance came before any labelled one. Learn labelled instances first"
    for x in ({"a": 1.0}, {}):
        with refused(model, NotTrained, message):
            model.learn_one(x)
    with refused(model, NotTrained, f"row 0: {message}"):
        model.learn_many([{"a": 1.0}, {"a": 2.0}], [None, "left"])


def test_stray_unlabelled_instance_ends_no_training_that_is_ended_by_hand():
    model = in_training(freezing="manual", batch_size=1)
    message = r"an unlabelled instance came before freeze\(\), and freezing='manual'. Call freeze\(\) first"
    with refused(model, NotTrained, message):
        model.learn_one(ZERO)
    with refused(model, NotTrained, f"row 1: {message}"):
        model.learn_many([ZERO, {"a": 1.0, "b": 1.0}], ["left", None])
    model.freeze()
    model.learn_one(ZERO)
    assert next(model.drain()).nearest_class == "left"


def test_training_that_cannot_begin_learns_nothing():
    model, rows = OpenSetRecognizer(model=ModelOptions(nu=2)), np.random.default_rng(0).normal(size=(4, 4))
    part = [dict(zip("abcd", row.tolist(), strict=True)) for row in rows]
    learn_all(model, [(x, "left") for x in part])
    message = "nu is 2, but 3 whitened features need nu > 2. Leave nu=None or raise it"
    for call in (model.freeze, lambda: model.learn_one(part[3]), lambda: model.predict_one(part[3])):
        with refused(model, InvalidParameter, message):
            call()
    assert len(model.value.training) == 4
    model = in_training(pca_components=5)
    with refused(model, InvalidParameter, "pca is 5"):  # in the middle of a table
        model.learn_many([{"a": i % 7.0, "b": i % 5.0} for i in range(30)], ["left"] * 20 + [None] * 10)


def test_epsilon_that_leaves_nothing_known():
    model = OpenSetRecognizer(model=ModelOptions(epsilon=0.9))
    part = [({"a": 1000.0 * (i % 4) + i % 3, "b": float(i % 5)}, "left") for i in range(40)]
    learn_all(model, part)
    with pytest.raises(InvalidParameter, match=r"epsilon is 0\.9, and every subclass has a smaller share .* Lower"):
        model.freeze()


# Times and keys

NO_TIMES = (
    ("noon", r"t is 'noon' \(str\): expected a finite number such as seconds .*timestamp\(\)"),
    (datetime.datetime(2026, 1, 2), r"t is datetime\.datetime.*\(datetime\): expected .*timestamp\(\)"),
    (np.datetime64("2026-01-02", "ns"), r"t is np\.datetime64"),
    (math.inf, r"t is inf \(float\): expected a finite number"),
    (10**5000, r"t is an int too large to show \(int\): expected a finite number"),
    (True, r"t is True \(bool\): expected a finite number"),
    ([1.0], r"t is \[1\.0\] \(list\): expected a finite number"),
)
UNHASHABLE = ([1], {"a": 1}, (1, [2]), np.zeros(2))


def test_time_that_is_no_number_and_key_that_cannot_be_hashed_are_refused(trained):
    model = in_stream(trained, max_wait=5.0)
    for t, message in NO_TIMES:
        unchanged_by(model, InvalidInstance, message, *learns(model, ZERO, t=t))
        table = partial(model.learn_many, [ZERO, ZERO], t=[1.0, t])
        unchanged_by(model, InvalidInstance, f"row 1: {message}", table)
    message = "key is .*: expected something hashable, such as a str or an int"
    for key in UNHASHABLE:
        acts = (partial(model.learn_one, ZERO, key=key), partial(model.learn_label, key, "left"))
        unchanged_by(model, InvalidInstance, message, *acts)
        table = partial(model.learn_many, [ZERO], key=[key])
        unchanged_by(model, InvalidInstance, f"row 0: {message}", table)


def test_time_that_is_a_number_is_kept(trained):
    for t in (0, -5, 1.5, np.float32(1.5), np.int64(7), 2**70, None, math.nan):
        model = in_stream(trained, max_wait=5.0)
        model.learn_one(ZERO, t=t)
        model.flush()
        (*_, decision) = model.drain()
        assert decision.t == (t if t is not None and t == t else None), t
        assert type(decision.t) in (int, float, type(None))


# Data frames


def of_each_library() -> Iterable[Callable[..., Any]]:
    """Functions that make a table of dicts: lists, pandas, polars, pyarrow."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    return list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist


def test_bad_row_in_the_middle_changes_nothing(model):
    x = [x for x, _ in stream_part(30)]
    bad = [{**each, "b": math.inf if i == 17 else each["b"]} for i, each in enumerate(x)]
    for make in of_each_library():
        frame = make(bad)
        labels = (["left"] * 30, None, ["left"] * 3 + [None] * 27)
        acts = [partial(model.learn_many, frame, y) for y in labels]
        acts += [partial(ask, frame) for ask in (model.predict_many, model.predict_proba_many)]
        message = r"feature 'b' of row 17 is inf \(float\): expected a finite number"
        unchanged_by(model, InvalidFeature, message, *acts)
        labels = ["left"] * 20 + [5] + ["left"] * 9
        message = r"row 20: label is 5 \(int\), but the known labels are like 'left'"
        unchanged_by(model, InvalidLabel, message, partial(model.learn_many, make(x), labels))


def test_mixed_labels_within_a_first_frame():
    model, rows = OpenSetRecognizer(), [{"a": 1.0}, {"a": 2.0}, {"a": 3.0}]
    with refused(model, InvalidLabel, r"row 2: label is 1 \(int\), but the known labels are like 'x'"):
        model.learn_many(rows, ["x", "y", 1])
    with refused(model, InvalidLabel, r"row 1: label is -1 \(int\)|label -1 is the label of unknown"):
        model.learn_many(rows, [0, -1, 1])


def test_frame_without_rows(trained):
    for make in of_each_library():
        frame = make([ZERO])[:0]
        for model in (OpenSetRecognizer(), in_training(), in_stream(trained)):
            before = pickle.dumps(model)
            model.learn_many(frame)
            model.learn_many(frame, [])
            assert len(model.predict_many(frame)) == 0
            probabilities = model.predict_proba_many(frame)
            assert probabilities.shape[0] == 0
            assert isinstance(probabilities, np.ndarray if make is list else type(frame))
            assert pickle.dumps(model) == before


def test_what_is_no_usable_frame_is_refused(trained):
    import pandas as pd
    import polars as pl

    model = in_stream(trained)
    for frame, message in (
        ([[1.0, 2.0]], r"data frame, a numpy array, or a list of dicts: this is list\. A dict goes to learn_o"),
        (np.zeros((2, 2)), r"features 0 to 1, and training had 'a', 'b'. Give a data frame with these columns"),
        (pd.Series([1.0]), r"this is Series\."),
        (pl.LazyFrame({"a": [1.0]}), r"this is LazyFrame\."),
        (None, r"this is NoneType\."),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "the data frame cannot be used: .*unique .*'a' 2 times"),
    ):
        asks = (model.learn_many, model.predict_many, model.predict_proba_many)
        unchanged_by(model, InvalidInstance, message, *(partial(ask, frame) for ask in asks))


def test_columns_that_do_not_fit_the_frame(trained):
    model = in_stream(trained)
    for values, message in (
        ([1, 2, 3], "has 3 entries for 2 rows. Give one for each row"),
        ("ab", r"is 'ab' \(str\): expected a series, array or list with one entry for each of the 2 rows"),
        (np.array(5), r"is array\(5\) \(ndarray\): expected a series, array or list"),
        ({1: 2, 3: 4}, r"is \{1: 2, 3: 4\} \(dict\): expected a series, array or list"),
        ({1, 2}, r"is \{1, 2\} \(set\): expected a series, array or list"),
    ):
        for name in ("y", "t", "key"):
            learn = partial(model.learn_many, [ZERO, {"a": 1.0, "b": 1.0}], **{name: values})
            unchanged_by(model, InvalidInstance, f"^{name} {message}", learn)


def test_frames_with_missing_values_of_every_kind(trained):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    model, same = (OpenSetRecognizer.from_trained(trained, batch_size=5) for _ in range(2))
    values: list[Any] = [1.0, None, 2.0, math.nan, 3.0]
    frames = [
        pd.DataFrame({"a": pd.array([1, None, 2, None, 3], dtype="Int64"), "b": values}),
        pd.DataFrame({"a": pd.array(values, dtype="float64[pyarrow]"), "b": pd.array(values, dtype="Float64")}),
        pl.DataFrame({"a": [1, None, 2, None, 3], "b": [1.0, math.nan, 2.0, None, 3.0]}),
        pa.table({"a": [1, None, 2, None, 3], "b": [1.0, None, 2.0, math.nan, 3.0]}),
    ]
    for frame in frames:
        model.learn_many(frame)
        for each in values:
            same.learn_one({"a": each, "b": each})
    assert model.counters["missing"] == 16
    assert drained(model) == drained(same)


def test_missing_labels_times_and_keys_of_a_frame():
    import pandas as pd

    model = in_training(batch_size=100)
    rows = pd.DataFrame({"a": [0.0] * 6, "b": [1.0] * 6})
    labels = pd.Series(["left", None, math.nan, pd.NA, pd.NaT, "right"], dtype=object)
    times = [1.0, math.nan, None, 2.0, pd.NA, 3.0]
    model.learn_many(rows, labels, t=times, key=["k", None, math.nan, 5, "k2", "k"])
    assert model.trained.report.instances == {"left": 31, "right": 30}
    model.flush()
    assert [(d.t, d.key) for d in model.drain()] == [(None, None), (None, None), (2.0, 5), (None, "k2")]
    assert model.summary().known[1].size == 31
