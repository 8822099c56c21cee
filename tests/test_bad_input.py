"""What people hand over by mistake: a clear refusal that changes nothing, or a documented way to go on."""

from __future__ import annotations

import copy
import datetime
import decimal
import fractions
import math
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stream_osr import ModelOptions, OpenSetRecognizer, RowsRepeated, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import (
    InvalidFeature,
    InvalidInstance,
    InvalidLabel,
    InvalidParameter,
    NotTrained,
    StreamOSRError,
)
from stream_osr.printable_text import typed
from tests.blobs import (
    around,
    check_stream,
    ended,
    fitted,
    learn_all,
    play,
    refused,
    stream_part,
    told,
    training_part,
)


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted().trained


def in_training(**arguments: Any) -> OpenSetRecognizer:
    """A recognizer that has yet to train, and does so in a moment: bad rows come before its chains and sweeps."""
    return learn_all(
        OpenSetRecognizer(**grouped(**{"chains": 1, "training_sweeps": 4, **arguments})), training_part(30)
    )


def in_stream(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return play(OpenSetRecognizer.from_trained(trained, **grouped(**{"batch_size": 8, **arguments})), stream_part(12))


def both(trained: TrainedModel, phase: str) -> OpenSetRecognizer:
    return in_training() if phase == "training" else in_stream(trained)


def trained_on(instances: Iterable[tuple[dict[str, Any], Any]]) -> OpenSetRecognizer:
    """A recognizer of small batches whose training has yet to end."""
    return learn_all(OpenSetRecognizer(batch_size=4), instances)


def unchanged_by(model: OpenSetRecognizer, act: Any, error: type[StreamOSRError], match: str) -> int:
    """Check that the model refuses, is the same afterwards, and goes on working.

    Returns how many rows it has counted as bad: nothing else of it may change.
    """
    counted = model.counters.pop("bad_rows", 0)
    same = copy.deepcopy(model)
    before = pickle.dumps(model)
    with pytest.raises(error, match=match):
        act()
    more = model.counters.pop("bad_rows", 0)
    assert pickle.dumps(model) == before
    later = copy.deepcopy(model)
    for each in (later, same):
        each.learn_one({"a": 0.5, "b": 0.5}, "left")
        each.learn_one({"a": 0.5, "b": 0.5})
    decisions = ended(later)
    assert decisions[-1].nearest_class == "left"
    assert decisions == ended(same)
    model.counters["bad_rows"] = counted + more
    return more


def alike(model: OpenSetRecognizer, same: OpenSetRecognizer) -> None:
    """Check that two have decided alike."""
    model.flush()
    same.flush()
    assert told(model) == told(same)


# Values of features


NO_USABLE_NUMBERS = [
    (
        "high",
        r"feature 'a' is 'high' \(str\): expected a finite number \(None or NaN if missing\); the feature is num",
    ),
    ("1,234", r"feature 'a' is '1,234' \(str\): it may be 1\.234 or 1234; write it without commas"),
    (b"1", r"feature 'a' is b'1' \(bytes\): expected a finite number"),
    (np.complex128(1), r"feature 'a' is .* \(complex\): expected a finite number"),
    (np.array([1.0]), r"feature 'a' is array\(\[1\.\]\) \(ndarray\): expected a finite number"),
    (np.timedelta64(1, "s"), r"feature 'a' is np\.timedelta64.* \(timedelta64\): expected a finite number"),
    ([1.0], r"feature 'a' is \[1\.0\] \(list\): expected a finite number"),
    (datetime.datetime(2026, 1, 2), r"feature 'a' is datetime\.datetime.* \(datetime\): expected a finite number"),
    (np.datetime64("2026-01-02", "ns"), r"feature 'a' is np\.datetime64.* \(datetime64\): expected a finite number"),
    (decimal.Decimal("sNaN"), r"feature 'a' is Decimal\('sNaN'\) \(Decimal\): expected a finite number"),
    (-math.inf, r"feature 'a' is -inf \(float\): expected a finite number .* of magnitude at most 1e\+100; scale"),
    (-1e101, r"feature 'a' is -1e\+101 \(float\): expected a finite number .* of magnitude at most 1e\+100; scale"),
    (10**400, r"feature 'a' is 1000.*\.\.\.0* \(int\): expected a finite number"),
    (10**5000, r"feature 'a' is an int too large to show \(int\): expected a finite number"),
    (decimal.Decimal("1e200"), r"feature 'a' is Decimal\('1E\+200'\) \(Decimal\)"),
]


@pytest.mark.parametrize(("value", "message"), NO_USABLE_NUMBERS, ids=[f"{n}" for n in range(len(NO_USABLE_NUMBERS))])
@pytest.mark.parametrize("phase", ["training", "stream"])
def test_value_that_is_no_usable_number_is_refused(trained, phase, value, message):
    model = both(trained, phase)
    x = {"a": value, "b": 1.0}
    assert unchanged_by(model, lambda: model.learn_one(x, "left"), InvalidFeature, message) == 1
    assert unchanged_by(model, lambda: model.learn_one(x), InvalidFeature, message) == 1
    assert unchanged_by(model, lambda: model.predict_one(x), InvalidFeature, message) == 0
    assert unchanged_by(model, lambda: model.predict_proba_one(x), InvalidFeature, message) == 0
    assert model.signals.data_quality == 2


def test_refusal_can_be_taken_apart():
    with pytest.raises(InvalidFeature) as caught:
        in_training().learn_one({"a": 1.0, "b": "x"}, "left")
    assert (caught.value.feature, caught.value.found, caught.value.row) == ("b", "x", None)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "value",
    [
        *(True, np.int8(3), np.float32(3), np.bool_(True), np.array(3.0), decimal.Decimal(3)),
        *(fractions.Fraction(6, 2), 2**64, -(10**99), -0.0, 5e-324),
    ],
    ids=typed,
)
def test_value_that_is_a_number_is_taken(trained, value):
    model, same = (in_stream(trained) for _ in range(2))
    model.learn_one({"a": value, "b": 1})
    same.learn_one({"a": float(value), "b": 1.0})
    alike(model, same)
    assert model.counters["missing"] == 0


@pytest.mark.parametrize(
    "value",
    [None, math.nan, np.float32("nan"), np.nan, pd.NA, pd.NaT, decimal.Decimal("NaN"), np.array(math.nan)],
    ids=typed,
)
@pytest.mark.parametrize("phase", ["training", "stream"])
def test_missing_values_are_left_out_of_account_and_counted(trained, phase, value):
    model = both(trained, phase)
    model.learn_one({"a": value, "b": 0.0}, "left")
    model.learn_one({"a": value, "b": 0.0})
    assert model.counters["missing"] == 2
    model.flush()
    found = model.predict_proba_one({"a": value, "b": 0.0})
    assert found == model.predict_proba_one({"b": 0.0})
    assert found["unknown"] < 0.1, "nothing of what is there is unusual"
    assert min(found["left"], found["right"]) > 0.2, "and it does not tell the classes apart"
    assert model.counters["missing"] == 2
    assert model.counters["bad_rows"] == model.signals.data_quality == 2


def test_missing_values_are_an_error_when_asked_to_be():
    model = in_training(on_missing="error")
    message = r"feature 'b' is None \(NoneType\): it is missing; give a number, or set on_missing='impute' or 'skip'"
    for y in ("left", None):
        unchanged_by(model, lambda y=y: model.learn_one({"a": 1.0}, y), InvalidFeature, message)
        unchanged_by(model, lambda y=y: model.learn_one({"a": 1.0, "b": None}, y), InvalidFeature, message)
    unchanged_by(model, lambda: model.predict_one({"a": 1.0}), InvalidFeature, message)
    unchanged_by(
        model, lambda: model.predict_many(pd.DataFrame({"a": [1.0]})), InvalidFeature, "feature 'b' of row 0"
    )
    assert model.counters["missing"] == 0
    assert model.counters["bad_rows"] == 4


def test_a_row_is_bad_once_however_many_values_it_lacks():
    model = in_training()
    model.learn_one({"a": None, "b": math.nan}, "left")
    model.learn_one({}, "left")
    model.learn_one({"a": 1.0, "b": 0.0, "c": 5.0}, "left")
    assert (model.counters["missing"], model.counters["bad_rows"]) == (4, 2)


def test_instances_with_missing_values_are_skipped_when_asked_to_be():
    model = in_training(on_missing="skip", batch_size=1)
    rows, seen = len(model.value.training), model.value.training.seen
    model.learn_one({"a": 1.0}, "left")
    model.learn_one({"a": math.nan, "b": 1.0})  # which does not end training either
    assert len(model.value.training) == rows
    assert model.value.training.seen == seen
    model.freeze()
    model.learn_one({"a": 1.0})
    model.learn_one({"a": 1.0, "b": 2.0})
    assert len(list(model.drain())) == 1
    assert model.counters["skipped"] == model.counters["bad_rows"] == 3
    assert model.counters["missing"] == 0
    assert model.predict_one({"a": 1.0}) in {"left", "unknown"}  # a question has to be answered


# Features that come and go


def test_features_are_the_union_of_those_seen_in_training():
    model = OpenSetRecognizer()
    for i in range(30):
        model.learn_one({"b": float(i % 5), "a": 1.0 * (i % 3)}, "left")
        model.learn_one({"c": float(i % 4), "a": 20 + 1.0 * (i % 3)}, "right")
    assert model.freeze().missing_values == 60
    assert model.trained.names == ("a", "b", "c")
    assert model.predict_one({"a": 1.0, "b": 2.0, "c": 1.5}) == "left"


def test_features_first_seen_after_training_are_ignored_and_counted(trained):
    model, same = in_stream(trained), in_stream(trained)
    model.learn_one({"a": 1.0, "b": 2.0, "new": 5.0, "newer" * 200_000: "not even a number"})
    model.learn_one({"a": 1.0, "b": 2.0, "new": 5.0}, "left")
    same.learn_one({"a": 1.0, "b": 2.0})
    same.learn_one({"a": 1.0, "b": 2.0}, "left")
    assert model.counters["extra"] == 3
    assert model.predict_proba_one({"a": 1.0, "b": 2.0, "new": 5.0}) == same.predict_proba_one({"a": 1.0, "b": 2.0})
    assert model.counters["extra"] == 3
    alike(model, same)


def test_instance_without_features(trained):
    fresh = OpenSetRecognizer()
    with refused(fresh, NotTrained, "an unlabelled instance came before any labelled one"):
        fresh.learn_one({})
    fresh.learn_one({}, "left")  # its values may all be missing: those of later instances have names
    fresh.learn_many(pd.DataFrame(index=[0, 1]), ["left", "right"])
    with pytest.raises(InvalidInstance, match="the training instances have no feature; give one"):
        fresh.freeze()
    assert fresh.predict_one({}) is None
    for model in (in_training(), in_stream(trained)):  # later it is one whose values are all missing
        model.learn_one({}, "left")
        model.learn_one({})
        model.flush()
        assert model.counters["missing"] == 4
        assert model.predict_proba_one({}) == pytest.approx(model.predict_proba_one({"a": None, "b": None}))
        (*_, decision) = model.drain()
        assert math.isfinite(decision.distance)


@pytest.mark.parametrize("x", [[1.0, 2.0], np.zeros(2), "a=1", None, 5, pd.Series({"a": 1.0, "b": 2.0}), {"a", "b"}])
def test_instance_that_is_no_mapping(trained, x):
    message = f"an instance is a dict of feature names and numbers; this is {type(x).__name__}. .* learn_many"
    for model in (in_training(), in_stream(trained)):
        unchanged_by(model, lambda model=model: model.learn_one(x, "left"), InvalidInstance, message)
        unchanged_by(model, lambda model=model: model.learn_one(x), InvalidInstance, message)
        unchanged_by(model, lambda model=model: model.predict_one(x), InvalidInstance, message)


# Labels


@pytest.mark.parametrize(
    ("known", "unknown", "label", "refuses"),
    [
        (["x", "y"], "z", "unknown", False),
        ([0, 1], None, np.int64(-1), True),
        ([2, 3], True, 1, True),  # True == 1: they would be one key of the probabilities
        ([2, 3], 0, True, False),
        (["x", "y"], 1, True, True),
    ],
)
def test_label_of_unknown_instances_names_no_class(known, unknown, label, refuses):
    model = OpenSetRecognizer(unknown=unknown)
    for i in range(20):
        for position, y in enumerate(known):
            model.learn_one({"a": 30.0 * position + i % 7, "b": float(i % 5)}, y)
    x = {"a": 0.0, "b": 90.0}
    if not refuses:
        model.learn_one(x, label)
        assert label in model.predict_proba_one(x)
        return
    for phase in ("training", "stream"):
        with refused(model, InvalidLabel):
            model.learn_one(x, label)
        with refused(model, InvalidLabel, r"^row 0: label"):
            model.learn_many(pd.DataFrame([x]), [label])
        if phase == "training":
            model.freeze()
    with refused(model, InvalidLabel):
        model.learn_label("key", label)
    with pytest.raises(InvalidLabel, match="is the label of unknown instances; rename the class, or pass another"):
        OpenSetRecognizer.from_trained(model.trained, unknown=known[0])


@pytest.mark.parametrize(
    ("known", "label", "message"),
    [
        ("x", True, r"label is True \(bool\), but the known labels are like 'x'; use labels of one type"),
        (1, "x", r"label is 'x' \(str\), but the known labels are like 1; use labels of one type"),
        ("x", 2.5, r"label is 2\.5 \(float\); expected str, int or bool, or None for an instance without a label"),
        ("x", pd.NA, r"label is <NA> \(NAType\); expected str, int or bool, or None"),
        ("x", pd.Series(["x"]), r"(?s)label is 0 .*\(Series\); expected str, int or bool"),
        ("x", datetime.date(2026, 1, 2), r"label is datetime\.date.*\(date\); expected str, int or bool"),
    ],
)
def test_label_of_another_kind(known, label, message):
    model = trained_on(({"a": float(i % 7), "b": float(i % 5)}, known) for i in range(20))
    for phase in ("training", "stream"):
        with refused(model, InvalidLabel, message):
            model.learn_one({"a": 0.0, "b": 0.0}, label)
        if phase == "training":
            model.freeze()
    with refused(model, InvalidLabel, message):
        model.learn_label(3, label)


# Few, equal, extreme


def decided(model: OpenSetRecognizer, instances: list[dict[str, Any]]) -> None:
    """Everything can be asked of the model, and the answers are probabilities."""
    model.freeze()
    for i, x in enumerate(instances):
        probabilities = model.predict_proba_one(x)
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-9)
        model.learn_one(x, key=i)
        model.learn_one(x, model.trained.labels[i % len(model.trained.labels)])
    model.flush()
    model.learn_label(0, model.trained.labels[0])
    model.flush()
    decisions, events = told(model)
    assert len(decisions) == len(instances)
    for d in decisions:
        assert sum(d.probabilities.values()) == pytest.approx(1, abs=1e-9)
        assert all(0 <= p <= 1 for p in d.probabilities.values())
        assert math.isfinite(d.distance)
    for event in events:
        for text in (repr(event), repr(event.as_dict())):
            assert "nan" not in text
            assert "inf" not in text
    assert str(model.summary())
    check_stream(model.value.stream)


ELSEWHERE = [{"a": 0.0, "b": 0.0}, {"a": 1e3, "b": -1e3}, {"a": None, "b": 1e99}, {"a": -1e99, "b": 1e99}] * 3


@pytest.mark.parametrize(
    "instances",
    [
        [(x, "only") for x, _ in training_part(40)[::2]],
        [({"a": 3.0, "b": 4.0}, "only")],
        [({"a": float(i), "b": float(i * i % 7)}, f"class {i}") for i in range(12)],
        [*training_part(30), ({"a": 1e99, "b": -1e99}, "left")],
        [({"a": 5.0, "b": 0.0}, label) for label in ("left", "right") * 20],
    ],
    ids=["one-class", "one-instance", "classes-of-one-instance", "an-absurd-value", "all-equal"],
)
def test_few_equal_and_extreme_instances(instances):
    model = trained_on(instances)
    assert model.predict_one({"a": -50.0, "b": 50.0}) in {"unknown", instances[0][1]}
    decided(model, ELSEWHERE)


def test_class_of_one_instance():
    model = trained_on([*training_part(), ({"a": -40.0, "b": 40.0}, "rare")])
    report = model.freeze()
    assert report.small_classes == ("rare",)
    assert "fewer instances than dimensions: 'rare' (1); more instances, or a PCA, would help" in str(report)
    assert model.predict_proba_one({"a": -40.0, "b": 40.0})["rare"] > 0.5
    decided(model, ELSEWHERE)


def test_fewer_instances_than_dimensions():
    rng = np.random.default_rng(0)

    def instance(centre: float) -> dict[int, float]:
        return dict(enumerate(rng.normal(centre, size=30).tolist()))

    model = trained_on((instance(centre), label) for centre, label in ((0, "left"), (20, "right")) * 6)
    assert model.freeze().small_classes == ("left", "right")
    assert model.predict_one(instance(0)) == "left"
    assert model.predict_one(instance(20)) == "right"
    decided(model, [instance(centre) for centre in (0, 20, 100)])


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_constant_features_whatever_the_units_of_the_others(unit):
    model = trained_on(({"a": unit * x["a"], "b": unit * x["b"], "c": 7.0, "d": 0.0}, y) for x, y in training_part())
    report = model.freeze()
    assert report.constant_features == ("c", "d")
    assert "constant in training: 'c', 'd'" in str(report)
    usual = {"a": 0.0, "b": 0.0, "c": 7.0, "d": 0.0}
    assert model.predict_one({**usual, "c": 7.0 + 1e-9}) == "left"  # rounding does not show
    assert model.predict_one({**usual, "c": 70.0}) == "unknown"  # a deviation of its own order does
    decided(model, [usual, {**usual, "c": -7.0}, {**usual, "d": 1e6}])


@pytest.mark.parametrize("size", [1e99, 1e-50, 1e-160, 5e-324], ids=str)
def test_values_of_any_size(size):
    instances = [({"a": max(min(x["a"] / 20, 1), -1) * size, "b": x["b"]}, y) for x, y in training_part()]
    decided(trained_on(instances), [*ELSEWHERE, {"a": size, "b": 0.0}])


def test_stream_of_absurd_values(trained):
    model = in_stream(trained)
    for sign in (1, -1):
        for exponent in range(0, 100, 9):
            x = {"a": sign * 10.0**exponent, "b": 10.0 ** (99 - exponent)}
            model.learn_one(x)
            assert model.predict_one(x) == "unknown"
    model.flush()
    assert all(sum(d.probabilities.values()) == pytest.approx(1) for d in model.drain())
    check_stream(model.value.stream)
    assert model.predict_one({"a": 0.0, "b": 0.0}) == "left"


@pytest.mark.parametrize("small", [1, 3, 20])
def test_what_lies_far_from_everything_is_unknown(small):
    rng = np.random.default_rng(small)
    model = OpenSetRecognizer()
    for label, a, n in (("large", 0.0, 100), ("small", 10.0, small)):
        learn_all(model, [(x, label) for x in around((a, 0.0, 0.0), n, rng, "abc")])
    model.freeze()
    for exponent in (3, 5, 8):
        for direction in rng.normal(size=(10, 3)):
            x = dict(zip("abc", (10.0**exponent * direction).tolist(), strict=True))
            assert model.predict_proba_one(x)["unknown"] > 0.8, x


@pytest.mark.parametrize("n", [10, 40])
def test_what_lies_far_is_unknown_where_new_classes_are_expected_near(n):
    rng = np.random.default_rng(1)
    centres = rng.uniform(-8, 8, size=(6, 2))  # so evenly that their location has light tails
    model = OpenSetRecognizer(seed=1)
    learn_all(model, [(around(centres[i % 6], 1, rng)[0], i % 6) for i in range(6 * n)]).freeze()
    assert max(known.location.freedom for known in model.trained.draws) >= 15
    for radius in (1e3, 1e6):
        for direction in rng.normal(size=(10, 2)):
            x = dict(zip("ab", (radius * direction).tolist(), strict=True))
            assert model.predict_proba_one(x)[-1] > 0.99, x


def test_stream_of_one_point_for_ever(trained):
    model = OpenSetRecognizer.from_trained(trained, batch_size=64)
    learn_all(model, [({"a": 55.5 + 1e-9 * i, "b": -55.5}, None) for i in range(2000)])
    assert {d.label for d in model.drain()} == {"unknown"}
    assert max(size for _, size, _ in model.summary().emerging) >= 1900
    check_stream(model.value.stream)


def test_stream_of_one_row_for_ever_counts_once(trained):
    model = OpenSetRecognizer.from_trained(trained, batch_size=64)
    learn_all(model, [({"a": 55.5, "b": -55.5}, None)] * 2000)
    assert [d.label for d in ended(model)] == ["unknown"] * 2000
    assert [type(event) for event in model.drain_events()] == [RowsRepeated]
    assert [(size, announced) for _, size, announced in model.summary().emerging] == [(1, False)]
    check_stream(model.value.stream)


# Order of events


def test_unlabelled_instance_before_any_label():
    model = OpenSetRecognizer()
    message = "an unlabelled instance came before any labelled one; learn labelled instances first"
    with refused(model, NotTrained, message):
        model.learn_one({"a": 1.0})
    with refused(model, NotTrained, f"row 0: {message}"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), [None, "left"])
    model.learn_one({"a": 1.0}, "left")
    assert model.predict_one({"a": 1.0}) is not None


def test_stray_unlabelled_instance_ends_no_training_that_is_ended_by_hand():
    model = in_training(freezing="manual", batch_size=1)
    message = r"an unlabelled instance came before freeze\(\), and freezing='manual'; call freeze\(\) first"
    with refused(model, NotTrained, message):
        model.learn_one({"a": 0.0, "b": 0.0})
    with refused(model, NotTrained, f"row 1: {message}"):
        model.learn_many(pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]}), ["left", None])
    model.freeze()
    model.learn_one({"a": 0.0, "b": 0.0})
    assert next(model.drain()).nearest_class == "left"


def test_training_that_cannot_begin_takes_nothing_in():
    rows = [dict(enumerate(row)) for row in np.random.default_rng(0).normal(size=(4, 4)).tolist()]
    model = learn_all(OpenSetRecognizer(model=ModelOptions(nu=2)), [(x, "left") for x in rows[:3]])
    for _ in range(3):  # with the fourth there are three directions
        with refused(model, InvalidParameter, "nu is 2, but 3 whitened features need nu > 2; leave nu=None or raise"):
            model.learn_one(rows[3], "left")


def test_epsilon_that_leaves_nothing_known():
    model = OpenSetRecognizer(model=ModelOptions(epsilon=0.9))
    instances = [({"a": 1000.0 * (i % 4) + i % 3, "b": float(i % 5)}, "left") for i in range(40)]
    with pytest.raises(InvalidParameter, match=r"epsilon is 0\.9, and every subclass holds a smaller .* lower it"):
        learn_all(model, instances)


# Times and keys


@pytest.mark.parametrize(
    ("t", "message"),
    [
        ("noon", r"t is 'noon' \(str\); expected a finite number such as seconds .*timestamp\(\)"),
        (pd.Timestamp("2026-01-02"), r"t is Timestamp.*; expected .*timestamp\(\)"),
        (np.datetime64("2026-01-02", "ns"), r"t is np\.datetime64"),
        (math.inf, r"t is inf \(float\); expected a finite number"),
        (10**5000, r"t is an int too large to show \(int\); expected a finite number"),
        (True, r"t is True \(bool\); expected a finite number"),
    ],
    ids=["text", "timestamp", "datetime64", "infinite", "large", "boolean"],
)
def test_time_that_is_no_number(trained, t, message):
    model = in_stream(trained, max_wait=5.0)
    x = {"a": 0.0, "b": 0.0}
    unchanged_by(model, lambda: model.learn_one(x, t=t), InvalidInstance, message)
    unchanged_by(model, lambda: model.learn_one(x, "left", t=t), InvalidInstance, message)
    if not isinstance(t, pd.Timestamp):
        rows = pd.DataFrame([x, x])
        unchanged_by(model, lambda: model.learn_many(rows, t=[1.0, t]), InvalidInstance, f"row 1: {message}")


@pytest.mark.parametrize("t", [-5, 1.5, np.float32(1.5), np.int64(7), 2**70, None, math.nan], ids=typed)
def test_time_that_is_a_number(trained, t):
    model = in_stream(trained, max_wait=5.0)
    model.learn_one({"a": 0.0, "b": 0.0}, t=t)
    decision = ended(model)[-1]
    assert decision.t == (t if t is not None and t == t else None)
    assert type(decision.t) in (int, float, type(None))


@pytest.mark.parametrize("key", [[1], {"a": 1}, {1, 2}, (1, [2]), np.zeros(2), bytearray(b"x")], ids=typed)
def test_key_that_cannot_be_hashed(trained, key):
    model = in_stream(trained)
    x = {"a": 0.0, "b": 0.0}
    message = "key is .*; expected something hashable, such as a str or an int"
    unchanged_by(model, lambda: model.learn_one(x, key=key), InvalidInstance, message)
    unchanged_by(model, lambda: model.learn_label(key, "left"), InvalidInstance, message)
    unchanged_by(model, lambda: model.learn_many(pd.DataFrame([x]), key=[key]), InvalidInstance, f"row 0: {message}")


# Data frames


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist], ids=["pandas", "polars", "pyarrow"]
)
@pytest.mark.parametrize("phase", ["training", "stream"])
def test_bad_row_in_the_middle_changes_nothing(trained, phase, make):
    model = both(trained, phase)
    x = [x for x, _ in stream_part(30)]
    frame = make([{**each, "b": math.inf if i == 17 else each["b"]} for i, each in enumerate(x)])
    message = r"feature 'b' of row 17 is inf \(float\): expected a finite number"
    for y in (["left"] * 30, None, ["left"] * 3 + [None] * 27):
        unchanged_by(model, lambda y=y: model.learn_many(frame, y), InvalidFeature, message)
    unchanged_by(model, lambda: model.predict_many(frame), InvalidFeature, message)
    unchanged_by(model, lambda: model.predict_proba_many(frame), InvalidFeature, message)
    labels: list[Any] = ["left"] * 30
    labels[20] = 5
    message = r"row 20: label is 5 \(int\), but the known labels are like 'left'"
    unchanged_by(model, lambda: model.learn_many(make(x), labels), InvalidLabel, message)


def test_mixed_labels_within_a_first_frame():
    model, rows = OpenSetRecognizer(), pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    with refused(model, InvalidLabel, r"row 2: label is 1 \(int\), but the known labels are like 'x'"):
        model.learn_many(rows, ["x", "y", 1])


def test_frame_whose_training_fails_half_way_changes_nothing():
    rows = pd.DataFrame({"a": np.arange(30.0) % 7, "b": np.arange(30.0) % 5})
    model = in_training(pca_components=5)
    assert model.predict_one({"a": 0.0, "b": 0.0}) is None
    with refused(model, InvalidParameter, "pca is 5, but the 60 training instances span only 2"):
        model.learn_one({"a": 0.0, "b": 0.0})
    with refused(model, InvalidParameter, "pca is 5"):
        model.learn_many(rows, ["left"] * 20 + [None] * 10)


@pytest.mark.parametrize("failing", [1, 3])
def test_batch_that_fails_changes_nothing(trained, monkeypatch, failing):
    from tests.doors.stream import recognizer_state

    model, same = (in_stream(trained) for _ in range(2))
    rows = pd.DataFrame([x for x, _ in stream_part(30)])
    for each in (model, same):
        each.learn_label("nobody", "left")
    closed, close_arrivals = [], recognizer_state.close_arrivals

    def fail(*arguments: Any, **options: Any) -> Any:
        closed.append(1)
        if len(closed) == failing:
            raise MemoryError
        return close_arrivals(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(recognizer_state, "close_arrivals", fail)
        with refused(model, MemoryError):
            model.learn_many(rows) if failing > 1 else model.flush()
    assert len(closed) == failing
    for each in (model, same):
        each.learn_many(rows)
    alike(model, same)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_frame_without_rows(trained, make):
    frame = make({"a": np.zeros(0), "b": np.zeros(0)})
    for model in (OpenSetRecognizer(), in_training(), in_stream(trained)):
        before = pickle.dumps(model)
        model.learn_many(frame)
        model.learn_many(frame, [])
        assert len(model.predict_many(frame)) == 0
        probabilities = model.predict_proba_many(frame)
        assert probabilities.shape[0] == 0
        assert isinstance(probabilities, type(frame))
        assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([[1.0]], r"pandas, polars or pyarrow data frame, or a numpy array; this is list\. A dict goes to learn_one"),
        (np.zeros((2, 2)), r"features 0 to 1, and training had 'a', 'b'; give a data frame with these columns"),
        (pl.LazyFrame({"a": [1.0]}), r"this is LazyFrame\."),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "the data frame cannot be used: .*unique .*'a' 2 times"),
    ],
    ids=["list", "array", "lazy", "repeated-column"],
)
def test_what_is_no_usable_frame(trained, frame, message):
    model = in_stream(trained)
    unchanged_by(model, lambda: model.learn_many(frame), InvalidInstance, message)
    unchanged_by(model, lambda: model.predict_many(frame), InvalidInstance, message)
    unchanged_by(model, lambda: model.predict_proba_many(frame), InvalidInstance, message)


@pytest.mark.parametrize("name", ["y", "t", "key"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1], "has 1 entries for 2 rows; give one for each row"),
        ([1, 2, 3], "has 3 entries for 2 rows; give one for each row"),
        ("ab", r"is 'ab' \(str\); expected a series, array or list with one entry for each of the 2 rows"),
        (np.array(5), r"is array\(5\) \(ndarray\); expected a series, array or list"),
        ({1: 2, 3: 4}, r"is \{1: 2, 3: 4\} \(dict\); expected a series, array or list"),
    ],
    ids=["short", "long", "text", "0-d", "dict"],
)
def test_columns_that_do_not_fit_the_frame(trained, name, values, message):
    model = in_stream(trained)
    rows = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    unchanged_by(model, lambda: model.learn_many(rows, **{name: values}), InvalidInstance, f"^{name} {message}")


def test_frames_with_missing_values_of_every_kind(trained):
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
    assert told(model) == told(same)


def test_missing_labels_times_and_keys_of_a_frame():
    model = in_training(batch_size=100)
    rows = pd.DataFrame({"a": [0.0] * 6, "b": [1.0] * 6})
    labels = pd.Series(["left", None, math.nan, pd.NA, pd.NaT, "right"], dtype=object)
    times = [1.0, math.nan, None, 2.0, pd.NA, 3.0]
    model.learn_many(rows, labels, t=times, key=["k", None, math.nan, 5, "k2", "k"])
    assert model.trained.report.instances == {"left": 31, "right": 30}
    model.flush()
    assert [(d.t, d.key) for d in model.drain()] == [(None, None), (None, None), (2.0, 5), (None, "k2")]
    assert model.summary().known[1].size == 31
