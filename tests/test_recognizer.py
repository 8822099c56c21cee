"""Phases, purity, buffering, and labels that come late."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_osr import Limits, ModelOptions, OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import InvalidLabel, InvalidParameter, NotTrained
from tests.blobs import KNOWN, NEW, check_stream, fitted, learn_all, members, stream_part, told, training_part

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table.from_pylist}


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted().trained


@pytest.fixture(scope="module")
def instances() -> list[dict[str, float]]:
    return [x for x, _ in stream_part(400)]


# Phases


def test_before_anything_is_learnt_there_is_no_prediction():
    model = OpenSetRecognizer()
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert told(model) == ([], [])
    model.flush()
    for question in (model.summary, model.freeze, lambda: model.trained, lambda: model.learn_label("key", "left")):
        with pytest.raises(NotTrained):
            question()


def test_in_training_every_label_can_be_predicted_at_once():
    model = OpenSetRecognizer(batch_size=1000)  # so that nothing waits for a batch to be full
    rng = np.random.default_rng(0)
    for n in range(70):
        label = f"class {n // 7}"
        model.learn_one({"a": rng.normal(30.0 * (n // 7)), "b": rng.normal()}, label)
        probabilities = model.predict_proba_one({"a": 30.0 * (n // 7), "b": 0.0})
        assert label in probabilities
        assert list(probabilities)[-1] == "unknown"
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-12)


def test_provisional_predictions_are_good_between_retrainings():
    model = learn_all(OpenSetRecognizer(), training_part(47))  # 94 instances, trained anew at 64
    model.learn_one({"a": -40.0, "b": 60.0}, "far")
    for label, (a, b) in KNOWN.items():
        assert model.predict_one({"a": a, "b": b}) == label
    assert model.predict_one({"a": -40.0, "b": 60.0}) == "far"
    assert model.predict_one({"a": 40.0, "b": 60.0}) == "unknown"


@pytest.mark.parametrize("batch_size", [1, 5, 1000])
def test_provisional_model_counts_each_instance_once(batch_size):
    model = OpenSetRecognizer(batch_size=batch_size)
    for n, (x, y) in enumerate(training_part(), start=1):
        model.learn_one(x, y)
        model.flush()
        assert sum(group.size for group in model.summary().known) == n
        assert model.summary().stream_size == 0


def test_first_unlabelled_instance_ends_training(instances):
    by_itself = learn_all(OpenSetRecognizer(), training_part())
    by_hand = learn_all(OpenSetRecognizer(), training_part())
    by_hand.freeze()
    by_itself.learn_one(instances[0])
    assert by_itself.pending == 1
    assert by_itself.trained.fingerprint == by_hand.trained.fingerprint


def test_freezing_again_reports_the_same():
    model = learn_all(OpenSetRecognizer(), training_part())
    report = model.freeze()
    assert model.freeze() is report
    assert report.instances == {"left": 40, "right": 40}
    assert report.known_recall > 0.9
    assert model.predict_proba_one({"a": 0.0, "b": 0.0})["right"] < 0.01


def test_progress_is_told_of_every_sweep():
    sweeps: list[int] = []
    learn_all(OpenSetRecognizer(model=ModelOptions(training_sweeps=7)), training_part()).freeze(
        progress=sweeps.append
    )
    assert sweeps == [1, 2, 3, 4, 5, 6, 7]


def test_freeze_that_is_broken_off_changes_nothing():
    def break_off(_: int) -> None:
        raise KeyboardInterrupt

    model = learn_all(OpenSetRecognizer(), training_part())
    before = pickle.dumps(model)
    with pytest.raises(KeyboardInterrupt):
        model.freeze(progress=break_off)
    assert pickle.dumps(model) == before
    assert model.freeze().instances == {"left": 40, "right": 40}


def test_training_set_is_a_bounded_uniform_sample():
    model = OpenSetRecognizer(limits=Limits(max_training=50), model=ModelOptions(training_sweeps=0))
    for i in range(1000):
        model.learn_one({"a": float(i), "b": float(i % 7)}, "left")
        model.learn_one({"a": -float(i), "b": float(i % 5)}, "right")
    assert model.value.training is not None
    kept = dict(zip(model.value.training.labels, model.value.training.rows, strict=True))
    for label, sign in (("left", 1), ("right", -1)):
        values = [sign * row[0] for row in kept[label]]
        assert len(values) == len(set(values)) == 50
        assert abs(np.mean(values) - 499.5) < 4 * 288.7 / np.sqrt(50)
    report = model.freeze()
    assert report.instances == {"left": 50, "right": 50}


def test_constructor_from_trained_starts_at_the_stream(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=1, model=ModelOptions(freezing="manual"))
    assert model.trained is trained
    model.learn_one(instances[0])
    assert len(list(model.drain())) == 1


@pytest.mark.parametrize("arguments", [{"pca_components": 2}, {"pca_variance": 0.99}], ids=str)
def test_training_through_a_pca(arguments):
    rng = np.random.default_rng(5)
    mixing = rng.normal(size=(2, 6))
    model = OpenSetRecognizer(**grouped(**arguments))

    def seen(a: float, b: float) -> dict[str, float]:
        values = [a, b] @ mixing + rng.normal(scale=0.01, size=6)
        return {f"x{i}": float(v) for i, v in enumerate(values)}

    for x, y in training_part():
        model.learn_one(seen(**x), y)
    report = model.freeze()
    assert 0 < report.variance_left_out < 0.01
    left, right = (model.predict_proba_one(seen(*centre)) for centre in KNOWN.values())
    assert left["left"] > 0.2 > 0.01 > left["right"]
    assert right["right"] > 0.2 > 0.01 > right["left"]
    assert model.predict_proba_one(seen(*NEW))["unknown"] > 0.99


def test_pca_that_the_instances_do_not_span_is_an_error_when_training_ends():
    model = learn_all(OpenSetRecognizer(pca=5), training_part())
    assert model.predict_one({"a": 0.0, "b": 0.0}) is None
    before = pickle.dumps(model)
    with pytest.raises(InvalidParameter, match="pca is 5, but the 80 training instances span only 2"):
        model.learn_one({"a": 0.0, "b": 0.0})
    assert pickle.dumps(model) == before


# Predictions are pure


def fresh() -> OpenSetRecognizer:
    return OpenSetRecognizer(batch_size=16)


def in_training() -> OpenSetRecognizer:
    return learn_all(fresh(), training_part(9))  # trained anew at 16, two instances wait


def between_retrainings() -> OpenSetRecognizer:
    return learn_all(OpenSetRecognizer(batch_size=5), training_part(13))


def frozen() -> OpenSetRecognizer:
    return fitted(batch_size=16)


def streaming() -> OpenSetRecognizer:
    model = frozen()
    for key, (x, _) in enumerate(stream_part(75)):
        model.learn_one(x, key=key)
    model.learn_label(70, "left")
    model.learn_label(3, "other")
    model.learn_one({"a": 0.0, "b": 1.0}, "left")
    assert model.pending == 11
    return model


PHASES = {make.__name__: make for make in (fresh, in_training, between_retrainings, frozen, streaming)}


@pytest.mark.parametrize("phase", PHASES)
def test_predictions_change_nothing(phase):
    model = PHASES[phase]()
    rows = [{"a": 0.3, "b": -1.0}, {"a": 4.0, "b": 14.0}, {"b": 2.0}, {"a": None, "b": 1e50, "c": 7.0}]
    copies = [dict(x) for x in rows]
    before = pickle.dumps(model)
    for x in rows:
        model.predict_one(x)
        model.predict_proba_one(x)
        model.predict_one(x, anything="goes")
        model.predict_proba_one(x, anything="goes")
    for make in FRAMES.values():
        model.predict_many(make(rows[:2]))
        model.predict_proba_many(make(rows[:2]))
    assert pickle.dumps(model) == before
    assert rows == copies


def test_looking_at_the_model_changes_nothing():
    model = streaming()
    before = pickle.dumps(model)
    model.summary()
    str(model.summary())
    repr(model)
    assert model.trained.fingerprint
    assert model.pending
    model.clone()
    assert pickle.dumps(model) == before


def test_predictions_in_between_do_not_change_decisions(trained, instances):
    quiet, asked = (OpenSetRecognizer.from_trained(trained, batch_size=32) for _ in range(2))
    for x in instances[:100]:
        quiet.learn_one(x)
        asked.predict_one(x)
        asked.learn_one(x)
        asked.predict_proba_one(x)
    assert told(quiet) == told(asked)


# Data frames


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_learnt_and_predicted_like_their_rows(kind):
    make = FRAMES[kind]
    training, stream = training_part(), stream_part(60)
    labels = [y for _, y in training]
    one, many = fresh(), fresh()
    learn_all(one, training)
    many.learn_many(make([x for x, _ in training]), make([{"y": y} for y in labels])["y"])
    for i, (x, _) in enumerate(stream):
        one.learn_one(x, t=float(i), key=f"k{i}")
    rows = make([x for x, _ in stream])
    many.learn_many(rows, t=np.arange(60.0), key=[f"k{i}" for i in range(60)])
    assert told(many) == told(one)
    assert many.pending == one.pending == 12
    assert list(many.predict_many(rows[:5])) == [one.predict_one(x) for x, _ in stream[:5]] or kind == "pyarrow"
    probabilities = many.predict_proba_many(rows[:5])
    assert isinstance(probabilities, type(rows))
    for label in ("left", "right", "unknown"):
        expected = [one.predict_proba_one(x)[label] for x, _ in stream[:5]]
        np.testing.assert_allclose(np.asarray(probabilities[label]), expected, atol=1e-12)


def test_frame_keeps_its_index_and_names_its_columns_by_label():
    model = OpenSetRecognizer()
    frame = pd.DataFrame({"a": [0.0, 0.1, 9.0, 9.2] * 5, "b": [1.0, 0.0, 0.0, 1.0] * 5})
    model.learn_many(frame, pd.Series([0, 0, 1, 1] * 5))
    asked = pd.DataFrame({"a": [0.0, 9.0], "b": [0.5, 0.5]}, index=["first", "second"])
    assert model.predict_many(asked).to_dict() == {"first": 0, "second": 1}
    assert list(model.predict_proba_many(asked).columns) == [0, 1, -1]


def test_frame_of_labelled_and_unlabelled_rows_ends_training_where_they_meet():
    training, stream = training_part(), stream_part(10)
    model, same = fresh(), fresh()
    rows = pd.DataFrame([x for x, _ in training + stream])
    model.learn_many(rows, [y for _, y in training] + [None] * 10)
    learn_all(same, training)
    for x, _ in stream:
        same.learn_one(x)
    model.flush()
    same.flush()
    assert told(model) == told(same)


# Buffering


def test_batches_close_by_count(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=10)
    for n, x in enumerate(instances[:35], start=1):
        model.learn_one(x)
        assert model.pending == n % 10
        assert len(model.value.decisions) == n - n % 10
    model.flush()
    assert model.pending == 0
    assert [d.batch for d in model.drain()] == [0] * 10 + [1] * 10 + [2] * 10 + [3] * 5


def test_batch_of_one_is_decided_at_once(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=1)
    for n, x in enumerate(instances[:30]):
        model.learn_one(x)
        (decision,) = model.drain()
        assert (decision.seq, decision.batch) == (n, n)
        assert decision.probability == max(decision.probabilities.values())


def test_flush_of_nothing_does_nothing(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=10)
    for x in instances[:7]:
        model.learn_one(x)
    model.flush()
    before = pickle.dumps(model)
    model.flush()
    assert pickle.dumps(model) == before
    assert len(list(model.drain())) == 7


def test_batches_close_by_the_time_of_the_caller(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=100, max_wait=10)
    times = [0, 3, 9.9, 10, 11, 19.99, 25, 1e9]
    for x, t in zip(instances, times, strict=False):
        model.learn_one(x, t=t)
    model.flush()
    assert [d.batch for d in model.drain()] == [0, 0, 0, 1, 1, 1, 2, 3]


def test_time_alone_closes_no_batch_unless_told_to(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=100)
    for i, x in enumerate(instances[:50]):
        model.learn_one(x, t=1e6 * i)
    assert model.pending == 50


@pytest.mark.parametrize(
    ("times", "batches"),
    [
        ([None, 100, 200, 300], [0, 0, 0, 0]),  # nobody knows when the batch began
        ([0, None, 5, None, 30], [0, 0, 0, 0, 1]),  # one without a time closes nothing
        ([50, 40, 30, 20, 59, 60], [0, 0, 0, 0, 0, 1]),  # time that goes back neither
        ([float("nan"), 0, 50], [0, 0, 0]),
    ],
    ids=["first-missing", "some-missing", "backwards", "not-a-number"],
)
def test_irregular_times(trained, instances, times, batches):
    model = OpenSetRecognizer.from_trained(trained, batch_size=100, max_wait=10)
    for x, t in zip(instances, times, strict=False):
        model.learn_one(x, t=t)
    model.flush()
    decisions = list(model.drain())
    assert [d.batch for d in decisions] == batches
    assert [d.t for d in decisions] == [t if t == t else None for t in times]


def test_labelled_instances_take_no_place_in_a_batch(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=4, max_wait=10)
    for i, x in enumerate(instances[:4]):
        model.learn_one({"a": 0.0, "b": 0.0}, "left", t=1000.0)
        assert model.pending == i
        model.learn_one(x, t=float(i))
    assert [d.seq for d in model.drain()] == [0, 1, 2, 3]


def test_each_decision_is_drained_once_in_order_of_arrival(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=16)
    decisions = []
    for i, x in enumerate(instances[:200]):
        model.learn_one(x, t=float(i), key=f"k{i}")
        if i % 37 == 0:
            decisions += list(model.drain())
    half = model.drain()
    decisions += [next(half), next(half)]  # a drain that is left off goes on later
    model.flush()
    decisions += list(model.drain())
    assert list(model.drain()) == []
    assert [d.seq for d in decisions] == list(range(200))
    assert [d.key for d in decisions] == [f"k{i}" for i in range(200)]
    assert [d.t for d in decisions] == [float(i) for i in range(200)]
    assert [d.batch for d in decisions] == [i // 16 for i in range(200)]


def test_decisions_are_coherent():
    model = fitted(batch_size=32)
    part = stream_part(300)
    for x, _ in part:
        model.learn_one(x)
    model.flush()
    decisions, _ = told(model)
    known_ids = {label: set() for label in KNOWN}
    for group in model.summary().known:
        known_ids[group.name] = {key for key, _ in group.subclasses}
    for d in decisions:
        assert list(d.probabilities) == ["left", "right", "unknown"]
        assert sum(d.probabilities.values()) == pytest.approx(1, abs=1e-9)
        assert all(0 <= p <= 1 for p in d.probabilities.values())
        assert d.probability == d.probabilities[d.label] == max(d.probabilities.values())
        assert d.p_unknown == d.probabilities["unknown"]
        assert d.nearest_class in KNOWN
        assert d.distance >= 0
        assert 0 <= d.density_rank <= 1
        if d.label != "unknown":
            assert d.subclass_id in known_ids[d.label]
        elif d.subclass_id is not None:
            assert d.subclass_id not in known_ids["left"] | known_ids["right"]


def test_decisions_are_right_where_the_classes_are_apart():
    model = fitted(batch_size=32)
    part = stream_part(300)
    for x, _ in part:
        model.learn_one(x)
    model.flush()
    confusion = Counter((y, d.label) for d, (_, y) in zip(model.drain(), part, strict=True))
    for label, said in (("left", "left"), ("right", "right"), ("new", "unknown")):
        assert confusion[label, said] > 0.9 * sum(n for (y, _), n in confusion.items() if y == label)


def test_a_class_between_the_others_is_recognised():
    rng = np.random.default_rng(0)
    centres = {"low": -10.0, "middle": 0.0, "high": 10.0}  # the middle is where the training mean is
    model = OpenSetRecognizer(batch_size=64)
    for _ in range(400):
        for label, a in centres.items():
            model.learn_one({"a": rng.normal(a), "b": rng.normal()}, label)
    assert model.freeze().known_recall > 0.95
    for i in range(600):
        label = list(centres)[i % 3]
        model.learn_one({"a": rng.normal(centres[label]), "b": rng.normal()}, key=label)
    model.flush()
    right = Counter(d.key for d in model.drain() if d.label == d.key)
    assert min(right[label] for label in centres) > 180


def test_why_a_decision_was_made():
    model = fitted(200, nu=3.0, scale=1.0, training_sweeps=0, batch_size=1)  # one Gaussian for each class
    for x in ({"a": 0.1, "b": 0.0}, {"a": 13.0, "b": 0.0}, {"a": 10.0, "b": 30.0}):
        model.learn_one(x)
    typical, odd, far = model.drain()
    assert (typical.nearest_class, odd.nearest_class, far.nearest_class) == ("left", "right", "right")
    assert typical.density_rank > 0.5
    assert odd.density_rank < 0.1
    assert far.density_rank == 0
    assert typical.distance == pytest.approx(0.1, abs=0.2)  # unit variance: in standard deviations
    assert odd.distance == pytest.approx(3.0, rel=0.15)
    assert far.distance == pytest.approx(30.0, rel=0.15)


OPERATIONS = st.lists(
    st.one_of(
        st.integers(1, 20).map(lambda n: ("learn", n)),
        st.sampled_from([("flush", 0), ("drain", 0), ("save and load", 0)]),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(operations=OPERATIONS, batch_size=st.sampled_from([1, 7, 32]))
def test_draining_and_saving_do_not_touch_decisions(trained, instances, tmp_path_factory, operations, batch_size):
    path = tmp_path_factory.mktemp("models") / "model.osr"
    plain, model = (OpenSetRecognizer.from_trained(trained, batch_size=batch_size, max_wait=60) for _ in range(2))
    decisions, events = [], []
    stream = iter(enumerate(instances))
    for operation, n in operations:
        if operation == "learn":
            for _ in range(n):
                i, x = next(stream)
                plain.learn_one(x, t=float(5 * i), key=i)
                model.learn_one(x, t=float(5 * i), key=i)
        elif operation == "flush":
            plain.flush()
            model.flush()
        elif operation == "drain":
            decisions += list(model.drain())
            events += list(model.drain_events())
        else:
            model.save(path)
            model = OpenSetRecognizer.load(path)
        assert model.pending == plain.pending < batch_size
    last, last_events = told(model)
    assert (decisions + last, events + last_events) == told(plain)


# Labels that come late


@pytest.fixture
def discovered(trained) -> OpenSetRecognizer:
    """A stream of 80 instances, every fourth new, keyed by position."""
    model = OpenSetRecognizer.from_trained(trained, batch_size=16)
    rng = np.random.default_rng(3)
    centres = [*KNOWN.values(), KNOWN["left"], NEW]
    for i in range(80):
        a, b = rng.normal(centres[i % 4])
        model.learn_one({"a": a, "b": b}, key=i)
    return model


def sizes(model: OpenSetRecognizer) -> dict[int, int]:
    return {key: size for key, size, _ in model.summary().emerging}


def test_a_late_label_takes_the_instance_out_of_its_emerging_subclass(discovered):
    before, seated = sizes(discovered), members(discovered.value.stream)
    assert sum(before.values()) >= 18
    home, key = next((home, seq) for home, inside in seated.items() for seq in inside if len(inside) > 8)
    trained, fingerprint = pickle.dumps(discovered.trained), discovered.trained.fingerprint
    discovered.learn_label(key, "left")
    assert sizes(discovered) == before
    discovered.flush()
    assert sizes(discovered) == {**before, home: before[home] - 1}
    assert key not in members(discovered.value.stream)[home]
    (left, _) = discovered.summary().known
    assert left.size == 41
    check_stream(discovered.value.stream)
    assert pickle.dumps(discovered.trained) == trained
    assert discovered.trained.fingerprint == fingerprint
    assert told(discovered)[0][-1].seq == 79


def test_the_last_instance_of_a_subclass_takes_it_along(discovered):
    unknown = [key for inside in members(discovered.value.stream).values() for key in inside]
    for key in unknown:
        discovered.learn_label(key, "new")
    discovered.flush()
    assert sizes(discovered) == {}
    check_stream(discovered.value.stream)
    new = discovered.summary().known[-1]
    assert (new.name, new.size) == ("new", len(unknown))
    assert discovered.predict_one(dict(zip("ab", NEW, strict=True))) == "new"
    discovered.learn_one(dict(zip("ab", NEW, strict=True)), key="again")
    discovered.flush()
    decision = list(discovered.drain())[-1]
    assert decision.label == "new"
    assert list(decision.probabilities) == ["left", "right", "new", "unknown"]
    check_stream(discovered.value.stream)


def test_a_label_for_a_known_decision_strengthens_its_class(discovered):
    before = sizes(discovered)
    seated = {key for inside in members(discovered.value.stream).values() for key in inside}
    key = next(key for key in range(0, 80, 2) if key not in seated)
    discovered.learn_label(key, "left")  # it sat there already
    discovered.flush()
    assert sizes(discovered) == before
    assert discovered.summary().known[0].size == 41
    check_stream(discovered.value.stream)


def test_a_label_counts_once(discovered):
    discovered.learn_label(3, "left")
    discovered.learn_label(3, "left")
    discovered.flush()
    discovered.learn_label(3, "right")
    discovered.flush()
    assert [group.size for group in discovered.summary().known] == [41, 40]
    assert discovered.counters["unknown_keys"] == 2


def test_unknown_keys_are_counted(discovered):
    before = sizes(discovered)
    for key in ("never seen", None, ("a", "tuple"), -1):
        discovered.learn_label(key, "left")
    discovered.flush()
    assert discovered.counters["unknown_keys"] == 4
    assert [group.size for group in discovered.summary().known] == [40, 40]
    assert sizes(discovered) == before


def test_a_label_for_a_buffered_instance_waits_for_its_batch(discovered):
    rng = np.random.default_rng(4)
    for i in range(10):
        discovered.learn_one({"a": rng.normal(NEW[0]), "b": rng.normal(NEW[1])}, key=f"buffered {i}")
    discovered.learn_label("buffered 0", "left")
    discovered.learn_label(3, "left")
    discovered.learn_one({"a": 0.0, "b": 0.0}, "left")  # a row and a key with one label side by side
    for i in range(6):
        discovered.learn_one({"a": rng.normal(NEW[0]), "b": rng.normal(NEW[1])}, key=f"filling {i}")
    assert discovered.pending == 0
    assert discovered.counters["unknown_keys"] == 0
    assert discovered.summary().known[0].size == 42  # the row and the instance decided long ago
    held = sum(sizes(discovered).values())
    discovered.flush()
    assert discovered.summary().known[0].size == 43
    assert sum(sizes(discovered).values()) == held - 1
    assert discovered.counters["unknown_keys"] == 0
    check_stream(discovered.value.stream)


def test_flush_decides_the_buffer_and_then_applies_its_labels(discovered):
    discovered.learn_one({"a": NEW[0], "b": NEW[1]}, key="buffered")
    discovered.learn_label("buffered", "left")
    list(discovered.drain())
    discovered.flush()
    (decision,) = discovered.drain()
    assert (decision.key, decision.label) == ("buffered", "unknown")
    assert discovered.summary().known[0].size == 41
    assert discovered.value.evidence == []


def test_the_latest_instance_of_a_key_is_meant(discovered):
    discovered.learn_one({"a": 0.0, "b": 0.0}, key=3)
    discovered.flush()
    seated = members(discovered.value.stream)
    window = discovered.value.stream.state.window_seq.tolist()
    assert {3, 80} <= set(window)
    discovered.learn_label(3, "left")
    discovered.flush()
    left = {key: [seq for seq in inside if seq != 80] for key, inside in seated.items()}
    assert members(discovered.value.stream) == {key: inside for key, inside in left.items() if inside}
    assert discovered.value.stream.state.window_seq.tolist() == [seq for seq in window if seq != 80]


@pytest.mark.parametrize(("horizon", "found"), [(0, 0), (1, 16), (16, 16), (17, 32), (48, 48), (10_000, 80)])
def test_keys_are_remembered_as_far_as_the_horizon(trained, instances, horizon, found):
    model = OpenSetRecognizer.from_trained(trained, batch_size=16, limits=Limits(label_horizon=horizon))
    for i, x in enumerate(instances[:80]):
        model.learn_one(x, key=i)
    for i in range(80):
        model.learn_label(i, "left")
    model.flush()
    assert model.counters["unknown_keys"] == 80 - found  # whole batches are remembered
    check_stream(model.value.stream)


def test_labelled_instances_count_from_the_next_batch_on(trained):
    model = OpenSetRecognizer.from_trained(trained, batch_size=4)
    shared = pickle.dumps(trained), trained.fingerprint
    odd = {"a": -6.0, "b": -6.0}
    assert model.predict_one(odd) == "unknown"
    for _ in range(30):
        model.learn_one(odd, "left")
    assert model.predict_one(odd) == "unknown"
    model.learn_one({"a": 0.0, "b": 0.0})
    model.flush()
    assert model.predict_one(odd) == "left"
    assert (pickle.dumps(trained), trained.fingerprint) == shared
    assert OpenSetRecognizer.from_trained(trained).predict_one(odd) == "unknown"
    check_stream(model.value.stream)


def test_a_new_label_opens_a_class(trained):
    model = OpenSetRecognizer.from_trained(trained, batch_size=4)
    for i in range(20):
        model.learn_one({"a": 4 + 0.1 * i, "b": 14.0 - 0.05 * i}, "new")
    model.learn_one({"a": 5.0, "b": 13.5})
    assert list(model.predict_proba_one({"a": 0.0, "b": 0.0})) == ["left", "right", "unknown"]
    model.flush()
    assert list(model.predict_proba_one({"a": 0.0, "b": 0.0})) == ["left", "right", "new", "unknown"]
    (decision,) = model.drain()
    assert decision.label == "new"
    assert trained.labels == ("left", "right")
    assert [(group.name, group.size) for group in model.summary().known] == [("left", 40), ("right", 40), ("new", 20)]
    check_stream(model.value.stream)


def test_books_balance_under_a_mixture_of_everything(trained):
    model = OpenSetRecognizer.from_trained(
        trained, batch_size=16, half_life=60, limits=Limits(label_horizon=150), model=ModelOptions(window=40)
    )
    rng = np.random.default_rng(11)
    for i, (x, y) in enumerate(stream_part(800, seed=4)):
        model.learn_one(x, key=i)
        if rng.random() < 0.2:
            model.learn_label(int(rng.integers(max(0, i - 200), i + 1)), str(rng.choice(["left", "right", "third"])))
        if rng.random() < 0.05:
            model.learn_one(x, y)
        if rng.random() < 0.02:
            model.flush()
        if not model.pending:
            check_stream(model.value.stream)
    model.flush()
    check_stream(model.value.stream)
    assert {group.name for group in model.summary().known} == {"left", "right", "third", "new"}


def test_labels_are_of_one_kind_whatever_way_they_come(discovered):
    for learn in (lambda y: discovered.learn_label(3, y), lambda y: discovered.learn_one({"a": 0, "b": 0}, y)):
        for wrong in (3, None, "unknown", 2.5):
            if wrong is None and learn.__code__.co_names == ("learn_one",):
                continue
            before = pickle.dumps(discovered)
            with pytest.raises(ValueError, match="label"):
                learn(wrong)
            assert pickle.dumps(discovered) == before


# Monitoring


def test_the_menu_counts_what_the_summary_lists(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=100, seed=3)
    with pytest.raises(NotTrained):
        _ = OpenSetRecognizer().menu
    assert model.menu[:3] == (len({key for group in model.summary().known for key, _ in group.subclasses}), 0, 0)
    before = model.menu.alpha0
    for x in instances:
        model.learn_one(x)
    summary = model.summary()
    assert model.menu.emerging == len(summary.emerging)
    assert model.menu.active == sum(emerged for _, _, emerged in summary.emerging) == 1
    assert model.menu.alpha0 not in (0, before)
    assert model.menu.gamma > 0


def test_the_report_counts_the_subclasses_whose_ids_are_told() -> None:
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(seed=3)
    for number in range(300):  # classes of several scattered centres: chains differ in how they part them
        for label in ("a", "b"):
            centre = 6.0 * (number % 5) * np.array([1.0, label == "a"])
            model.learn_one(
                dict(zip("xyz", [*(centre + rng.standard_t(3, size=2)).tolist(), rng.normal()], strict=True)), label
            )
    report = model.freeze()
    assert len({tuple((known.seated > 0).sum(axis=1)) for known in model.trained.draws}) > 1
    assert report.subclasses == {group.name: len(group.subclasses) for group in model.summary().known}


@pytest.mark.parametrize("arguments", [{}, {"chains": 1}, {"ensemble": "drawn"}])
def test_looking_before_training_has_ended_leaves_nothing_behind(arguments) -> None:
    model = OpenSetRecognizer(**grouped(batch_size=32, seed=1, **arguments))
    rng = np.random.default_rng(0)
    for a, b in rng.normal(size=(60, 2)):
        model.learn_one({"a": a, "b": b}, "left")
        model.learn_one({"a": a + 20, "b": b}, "right")
    model.summary()
    model.new_classes()
    model.freeze()
    for a, b in rng.normal([10, 20], size=(64, 2)):
        model.learn_one({"a": a, "b": b})
    assert model.new_classes().number == 1
    assert len(model.summary().emerging) >= 1


def test_a_label_that_is_blank_is_refused() -> None:
    model = OpenSetRecognizer(batch_size=16)
    for label in ("", "  "):
        with pytest.raises(InvalidLabel, match="blank"):
            model.learn_one({"a": 1.0, "b": 2.0}, label)
    for a in range(40):
        model.learn_one({"a": float(a % 7), "b": float(a % 5)}, "left")
        model.learn_one({"a": 20.0 + a % 7, "b": float(a % 5)}, "right")
    model.freeze()
    with pytest.raises(InvalidLabel, match="blank"):
        model.learn_label("some", " ")
    with pytest.raises(InvalidLabel, match="blank"):
        model.promote([99], "")
