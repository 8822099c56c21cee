"""Phases, purity, buffering, and labels that come late."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest

from stream_osr import Limits, ModelOptions, OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import NotTrained
from tests.blobs import (
    KNOWN,
    NEW,
    around,
    check_stream,
    drained,
    ended,
    fitted,
    learn_all,
    members,
    play,
    refused,
    stream_part,
    training_part,
)


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
    assert drained(model) == ([], [])
    model.flush()
    arguments = {"learn_label": ("key", "left"), "promote": ([1], "x"), "mute": ([1],)}
    for name in ("summary", "freeze", "undo", "accept_frame", "trained", *arguments):
        with pytest.raises(NotTrained):
            getattr(model, name)(*arguments.get(name, ()))
    with pytest.raises(NotTrained):
        _ = model.value.menu


def test_provisional_predictions_are_good_between_retrainings():
    model = learn_all(OpenSetRecognizer(), training_part(47))  # 94 instances, trained anew at 64
    model.learn_one({"a": -40.0, "b": 60.0}, "far")
    for label, (a, b) in {**KNOWN, "far": (-40.0, 60.0), "unknown": (40.0, 60.0)}.items():
        assert model.predict_one({"a": a, "b": b}) == label
    probabilities = model.predict_proba_one({"a": 0.0, "b": 0.0})
    assert list(probabilities) == ["left", "right", "far", "unknown"]
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("batch_size", [1, 5, 1000])
def test_provisional_model_counts_each_instance_once(batch_size):
    model = OpenSetRecognizer(batch_size=batch_size)
    for n, (x, y) in enumerate(training_part(), start=1):
        model.learn_one(x, y)
        model.flush()
        assert sum(group.size for group in model.summary().known) == n
        assert model.summary().stream_size == 0


def test_first_unlabelled_instance_ends_training(trained, instances):
    model = learn_all(OpenSetRecognizer(), training_part())
    model.learn_one(instances[0])
    assert model.pending == 1
    assert model.trained.fingerprint == trained.fingerprint


def test_freezing_that_is_interrupted_changes_nothing_and_freezing_again_reports_the_same():
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    model = learn_all(OpenSetRecognizer(model=ModelOptions(training_sweeps=7)), training_part())
    with refused(model, KeyboardInterrupt):
        model.freeze(progress=interrupt)
    sweeps: list[int] = []
    report = model.freeze(progress=sweeps.append)
    assert sweeps == [1, 2, 3, 4, 5, 6, 7]
    assert model.freeze() is report
    assert report.instances == {"left": 40, "right": 40}
    assert report.known_recall > 0.9
    assert model.predict_proba_one({"a": 0.0, "b": 0.0})["right"] < 0.01


def test_training_set_is_bounded():
    model = OpenSetRecognizer(limits=Limits(max_training=50), model=ModelOptions(training_sweeps=0))
    report = learn_all(model, training_part(1000)).freeze()
    assert report.instances == {"left": 50, "right": 50}


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


# Predictions are pure


def check_questions(model: OpenSetRecognizer) -> None:
    """Call every method that predicts; neither the model nor the rows change."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rows = [{"a": 0.3, "b": -1.0}, {"a": 4.0, "b": 14.0}, {"b": 2.0}, {"a": None, "b": 1e50, "c": 7.0}]
    copies = [dict(x) for x in rows]
    before = pickle.dumps(model)
    for x in rows:
        model.predict_one(x)
        model.predict_proba_one(x, anything="goes")
    for make in (pd.DataFrame, pl.DataFrame, pa.Table.from_pylist):
        model.predict_many(make(rows[:2]))
        model.predict_proba_many(make(rows[:2]))
    assert pickle.dumps(model) == before
    assert rows == copies


def test_questions_change_nothing_in_any_phase():
    model = OpenSetRecognizer(batch_size=16)
    check_questions(model)
    for training in (training_part(9), training_part(31, seed=1)):  # trained anew at 16 and at 64: some wait
        check_questions(learn_all(model, training))
    model.freeze()
    check_questions(model)
    play(model, stream_part(75))
    model.learn_label(70, "left")
    model.learn_label(3, "other")
    model.learn_one({"a": 0.0, "b": 1.0}, "left")
    assert model.pending == 11
    check_questions(model)
    before = pickle.dumps(model)
    for answer in (model.summary(), model, model.trained.fingerprint, model.pending, model.clone()):
        assert str(answer)
    assert pickle.dumps(model) == before


# Data frames


def test_frame_keeps_its_index_and_names_its_columns_by_label():
    import pandas as pd

    model = OpenSetRecognizer()
    frame = pd.DataFrame({"a": [0.0, 0.1, 9.0, 9.2] * 5, "b": [1.0, 0.0, 0.0, 1.0] * 5})
    model.learn_many(frame, pd.Series([0, 0, 1, 1] * 5))
    rows = pd.DataFrame({"a": [0.0, 9.0], "b": [0.5, 0.5]}, index=["first", "second"])
    assert model.predict_many(rows).to_dict() == {"first": 0, "second": 1}
    assert list(model.predict_proba_many(rows).columns) == [0, 1, -1]


# Buffering


@pytest.mark.parametrize(
    ("wait", "times", "batches"),
    [
        (10, [0, 3, 9.9, 10, 11, 19.99, 25, 1e9], [0, 0, 0, 1, 1, 1, 2, 3]),
        (None, [0, 1e6, 2e6], [0, 0, 0]),  # time closes a batch only with max_wait
        (10, [None, 100, 200, 300], [0, 0, 0, 0]),  # it is unknown when the batch began
        (10, [0, None, 5, None, 30], [0, 0, 0, 0, 1]),  # an instance without a time closes nothing
        (10, [50, 40, 30, 20, 59, 60], [0, 0, 0, 0, 0, 1]),  # nor does time that goes back
        (10, [float("nan"), 0, 50], [0, 0, 0]),
    ],
)
def test_batches_close_by_the_time_of_the_caller(trained, instances, wait, times, batches):
    model = OpenSetRecognizer.from_trained(trained, batch_size=100, max_wait=wait)
    for x, t in zip(instances, times, strict=False):
        model.learn_one(x, t=t)
    decisions = ended(model)
    assert [d.batch for d in decisions] == batches
    assert [d.t for d in decisions] == [t if t == t else None for t in times]


def test_labelled_instances_take_no_place_in_a_batch(trained, instances):
    model = OpenSetRecognizer.from_trained(trained, batch_size=4, max_wait=10)
    for i, x in enumerate(instances[:4]):
        model.learn_one({"a": 0.0, "b": 0.0}, "left", t=1000.0)
        assert model.pending == i
        model.learn_one(x, t=float(i))
    assert [d.seq for d in model.drain()] == [0, 1, 2, 3]


def test_each_decision_is_drained_once_in_order_of_arrival_and_draining_changes_nothing(trained, instances):
    model, twin = (OpenSetRecognizer.from_trained(trained, batch_size=16) for _ in range(2))
    decisions, events = [], []
    for i, x in enumerate(instances[:200]):
        model.learn_one(x, t=float(i), key=f"k{i}")
        twin.learn_one(x, t=float(i), key=f"k{i}")
        assert model.pending == (i + 1) % 16
        if i % 37 == 0:
            decisions += list(model.drain())
            events += list(model.drain_events())
    half = model.drain()
    decisions += [next(half), next(half)]  # a drain that is left off goes on later
    model.flush()
    twin.flush()
    assert model.pending == 0
    before = pickle.dumps(model)
    model.flush()  # of nothing
    assert pickle.dumps(model) == before
    last = drained(model)
    assert (decisions + last[0], events + last[1]) == drained(twin)
    assert drained(model) == ([], [])
    expected = [(i, f"k{i}", float(i), i // 16) for i in range(200)]
    assert [(d.seq, d.key, d.t, d.batch) for d in decisions + last[0]] == expected


def test_decisions_are_coherent_and_right_where_the_classes_are_apart():
    part = stream_part(300)
    model = play(fitted(batch_size=32), part)
    decisions = ended(model)
    own = {group.name: {key for key, _ in group.subclasses} for group in model.summary().known}
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
            assert d.subclass_id in own[d.label]
        else:
            assert d.subclass_id not in own["left"] | own["right"]
    confusion = Counter((y, d.label) for d, (_, y) in zip(decisions, part, strict=True))
    for label, said in (("left", "left"), ("right", "right"), ("new", "unknown")):
        assert confusion[label, said] > 0.9 * sum(n for (y, _), n in confusion.items() if y == label)


def test_why_a_decision_was_made():
    model = fitted(200, nu=3.0, scale=1.0, training_sweeps=0, batch_size=1)  # one Gaussian for each class
    learn_all(model, [({"a": a, "b": b}, None) for a, b in ((0.1, 0.0), (13.0, 0.0), (10.0, 30.0))])
    typical, odd, far = model.drain()
    assert (typical.nearest_class, odd.nearest_class, far.nearest_class) == ("left", "right", "right")
    assert typical.density_rank > 0.5 > 0.1 > odd.density_rank
    assert far.density_rank == 0
    assert typical.distance == pytest.approx(0.1, abs=0.2)  # unit variance: in standard deviations
    assert odd.distance == pytest.approx(3.0, rel=0.15)
    assert far.distance == pytest.approx(30.0, rel=0.15)


# Labels that come late


@pytest.fixture
def discovered(trained) -> OpenSetRecognizer:
    """A stream of 80 instances, every fourth new, keyed by position."""
    rng, centres = np.random.default_rng(3), [*KNOWN.values(), KNOWN["left"], NEW]
    model = OpenSetRecognizer.from_trained(trained, batch_size=16)
    return play(model, [(around(centres[i % 4], 1, rng)[0], None) for i in range(80)])


def sizes(model: OpenSetRecognizer) -> dict[int, int]:
    """Sizes of the emerging subclasses, once the counts are checked."""
    check_stream(model.value.stream)
    return {key: size for key, size, _ in model.summary().emerging}


def known_sizes(model: OpenSetRecognizer) -> dict[str, int]:
    return {group.name: group.size for group in model.summary().known}


def test_the_last_instance_of_a_subclass_takes_it_along(discovered):
    unknown = [key for inside in members(discovered.value.stream).values() for key in inside]
    for key in unknown:
        discovered.learn_label(key, "new")
    discovered.flush()
    assert sizes(discovered) == {}
    assert list(known_sizes(discovered).items())[-1] == ("new", len(unknown))
    discovered.learn_one(dict(zip("ab", NEW, strict=True)), key="again")
    decision = ended(discovered)[-1]
    assert decision.label == "new"
    assert list(decision.probabilities) == ["left", "right", "new", "unknown"]
    check_stream(discovered.value.stream)


def test_a_label_counts_once_and_of_unknown_keys_not_at_all(discovered):
    before = sizes(discovered)
    for key in ("never seen", None, ("a", "tuple"), -1):
        discovered.learn_label(key, "left")
    discovered.flush()
    assert sizes(discovered) == before
    for label in ("left", "left", "right"):
        discovered.learn_label(3, label)
    discovered.flush()
    assert known_sizes(discovered) == {"left": 41, "right": 40}
    assert discovered.counters["unknown_keys"] == 6


def test_a_label_for_a_buffered_instance_waits_for_its_batch(discovered):
    rows = around(NEW, 16, np.random.default_rng(4))
    play(discovered, [(x, None) for x in rows[:10]], 80)
    discovered.learn_label(80, "left")
    discovered.learn_label(3, "left")
    discovered.learn_one({"a": 0.0, "b": 0.0}, "left")  # a row and a key with one label side by side
    play(discovered, [(x, None) for x in rows[10:]], 90)
    assert discovered.pending == 0
    assert known_sizes(discovered)["left"] == 42  # the row and the instance decided long ago
    held = sum(sizes(discovered).values())
    discovered.flush()
    assert known_sizes(discovered)["left"] == 43
    assert sum(sizes(discovered).values()) == held - 1
    assert discovered.counters["unknown_keys"] == 0
    discovered.learn_one({"a": NEW[0], "b": NEW[1]}, key="buffered")
    discovered.learn_label("buffered", "left")
    decision = ended(discovered)[-1]  # flushing decides the buffer and then applies its labels
    assert (decision.key, decision.label) == ("buffered", "unknown")
    assert known_sizes(discovered)["left"] == 44
    assert discovered.value.evidence == []


def test_keys_are_remembered_as_far_as_the_horizon(trained):
    for horizon, found in ((0, 0), (1, 16), (16, 16), (17, 32), (10_000, 80)):  # whole batches are remembered
        model = OpenSetRecognizer.from_trained(trained, batch_size=16, limits=Limits(label_horizon=horizon))
        play(model, stream_part(80))
        for i in range(80):
            model.learn_label(i, "left")
        model.flush()
        assert model.counters["unknown_keys"] == 80 - found, horizon
        check_stream(model.value.stream)


def test_labelled_instances_count_from_the_next_batch_on_and_open_classes(trained):
    model = OpenSetRecognizer.from_trained(trained, batch_size=4)
    shared = pickle.dumps(trained), trained.fingerprint
    odd = {"a": -6.0, "b": -6.0}
    learn_all(model, [(odd, "left")] * 30)
    learn_all(model, [({"a": 4 + 0.1 * i, "b": 14.0 - 0.05 * i}, "new") for i in range(20)])
    assert model.predict_one(odd) == "unknown"
    assert list(model.predict_proba_one(odd)) == ["left", "right", "unknown"]
    model.learn_one({"a": 5.0, "b": 13.5})
    (decision,) = ended(model)
    assert decision.label == "new"
    assert model.predict_one(odd) == "left"
    assert list(model.predict_proba_one(odd)) == ["left", "right", "new", "unknown"]
    assert known_sizes(model) == {"left": 70, "right": 40, "new": 20}
    assert (pickle.dumps(trained), trained.fingerprint) == shared
    assert trained.labels == ("left", "right")
    assert OpenSetRecognizer.from_trained(trained).predict_one(odd) == "unknown"
    check_stream(model.value.stream)


# Monitoring


def test_the_menu_counts_what_the_summary_lists(trained):
    model = OpenSetRecognizer.from_trained(trained, batch_size=100, seed=3)
    assert model.value.menu[:3] == (
        len({key for group in model.summary().known for key, _ in group.subclasses}),
        0,
        0,
    )
    before = model.value.menu.alpha0
    play(model, stream_part(400))
    summary = model.summary()
    assert model.value.menu.emerging == len(summary.emerging)
    assert model.value.menu.active == sum(emerged for _, _, emerged in summary.emerging) == 1
    assert model.value.menu.alpha0 not in (0, before)
    assert model.value.menu.gamma > 0


def test_the_report_counts_the_subclasses_that_the_summary_lists() -> None:
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(seed=3)
    for number in range(300):  # classes of several scattered centres: chains differ in how they part them
        for label in ("a", "b"):
            centre = 6.0 * (number % 5) * np.array([1.0, label == "a"])
            row = [*(centre + rng.standard_t(3, size=2)).tolist(), rng.normal()]
            model.learn_one(dict(zip("xyz", row, strict=True)), label)
    report = model.freeze()
    assert len({tuple((known.seated > 0).sum(axis=1)) for known in model.trained.draws}) > 1
    assert report.subclasses == {group.name: len(group.subclasses) for group in model.summary().known}


@pytest.mark.parametrize("arguments", [{}, {"chains": 1}, {"ensemble": "drawn"}])
def test_looking_before_training_has_ended_leaves_nothing_behind(arguments) -> None:
    model = learn_all(OpenSetRecognizer(**grouped(batch_size=32, seed=1, **arguments)), training_part(60))
    model.summary()
    model.new_classes()
    model.freeze()
    learn_all(model, [(x, None) for x in around(NEW, 64, np.random.default_rng(0))])
    assert model.new_classes().number == 1
    assert len(model.summary().emerging) >= 1
