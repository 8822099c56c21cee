"""What the recognizer tells of candidate new classes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

from stream_osr import NewClasses, OpenSetRecognizer
from stream_osr.errors import NotTrained
from stream_osr_connectors.cli import demo
from tests.blobs import KNOWN, fitted

FIRST, SECOND = [(-20.0, 20.0), (-20.0, 23.0)], [(40.0, 0.0)]
"""One new class of two bumps, and one of a single bump."""


def stream(n: int, seed: int = 3) -> Iterator[tuple[dict[str, float], str]]:
    rng = np.random.default_rng(seed)
    where = {**{name: [centre] for name, centre in KNOWN.items()}, "first": FIRST, "second": SECOND}
    for _ in range(n):
        label = str(rng.choice(list(where)))
        a, b = rng.normal(where[label][rng.integers(len(where[label]))])
        yield {"a": float(a), "b": float(b)}, label


@pytest.fixture(scope="module")
def found() -> tuple[OpenSetRecognizer, NewClasses, list[str]]:
    model = fitted(batch_size=32, training_sweeps=0, seed=2)  # each known class is one Gaussian
    truth = []
    for key, (x, label) in enumerate(stream(640)):
        model.learn_one(x, key=key)
        truth.append(label)
    return model, model.new_classes(), truth


def test_two_new_classes_are_two_candidates(found):
    model, classes, truth = found
    assert classes.number == 2
    assert classes.low <= 2 <= classes.high
    assert classes.estimate == model.summary().new_classes
    large = [one for one in classes.candidates if one.size > 20]
    of = {key: at for at, one in enumerate(large) for key in one.subclasses}
    seated = [(truth[d.key], of[d.subclass_id]) for d in model.drain() if d.subclass_id in of]
    names = {at: {label for label, group in seated if group == at} for at in range(len(large))}
    assert sorted(label for labels in names.values() for label in labels if label not in KNOWN) == ["first", "second"]
    assert classes.delta == model.summary().delta


def test_candidates_are_what_the_summary_counts(found):
    model, classes, truth = found
    summary = model.summary()
    size = {key: n for key, n, _ in summary.emerging}
    emerged = {key for key, _, announced in summary.emerging if announced}
    told = [key for one in classes.candidates for key in one.subclasses]
    assert len(told) == len(set(told))
    assert emerged <= set(told) <= set(size)
    for one in classes.candidates:
        assert emerged & set(one.subclasses), "a candidate of which nothing has emerged"
        sizes = [size[key] for key in one.subclasses]
        assert sizes == sorted(sizes, reverse=True)
        assert one.size == sum(sizes)
        assert one.share == one.size / len(truth)
    sizes = [one.size for one in classes.candidates]
    assert sizes == sorted(sizes, reverse=True)


def test_muted_subclasses_are_in_no_candidate(found):
    model, classes, _ = found
    muted = pickle.loads(pickle.dumps(model))
    first, *others = classes.candidates
    muted.mute(first.subclasses[:1])
    left = muted.new_classes()
    told = {key for one in left.candidates for key in one.subclasses}
    assert first.subclasses[0] not in told
    assert {key for one in others for key in one.subclasses} <= told
    muted.mute([key for key in told if key in muted.value.stream.life.subclasses])
    assert muted.new_classes().candidates == ()
    assert muted.new_classes() == NewClasses((), 0, 0)
    assert str(muted.summary().new_classes) == "0"


def test_exemplars_begin_with_the_latest_of_each_subclass(found):
    model, classes, _ = found
    lives = model.value.stream.life.subclasses
    for one in classes.candidates:
        latest = [lives[key].recent[-1].moment.key for key in one.subclasses if key in lives][:5]
        assert list(one.exemplars[: len(latest)]) == latest
        assert len(one.exemplars) == min(5, sum(len(lives[key].recent) for key in one.subclasses if key in lives))


def test_candidates_say_what_they_are_near_and_show_instances(found):
    _, classes, truth = found
    for one in classes.candidates[:2]:
        labels = {truth[key] for key in one.exemplars}
        assert 1 <= len(one.exemplars) <= 5
        assert len(labels) == 1
        assert one.nearest_class == {"first": "left", "second": "right"}[labels.pop()]


def test_asking_changes_nothing_and_says_the_same_again():
    model, never_asked = fitted(batch_size=32, seed=5), fitted(batch_size=32, seed=5)
    for key, (x, _) in enumerate(stream(320)):
        model.learn_one(x, key=key)
        never_asked.learn_one(x, key=key)
        if key % 40 == 0:
            before = pickle.dumps(model)
            assert model.new_classes() == model.new_classes()
            assert pickle.dumps(model) == before
    assert list(model.drain()) == list(never_asked.drain())
    # what was remembered from call to call makes no difference
    assert model.new_classes() == never_asked.new_classes()
    assert len(model.new_classes().candidates) >= 2


def test_a_quiet_call_measures_no_pair(monkeypatch, found):
    model, classes, _ = found
    model.new_classes()
    measured = []
    solve = np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda *args: measured.append(len(args[0])) or solve(*args))
    assert model.new_classes() == classes
    assert measured == []
    model._measured = None
    assert model.new_classes() == classes
    assert sum(measured) > 0


def test_late_labels_change_what_is_learnt_about_distances():
    model = fitted(batch_size=32)
    assert model.new_classes().candidates == ()
    for x, _ in stream(400):
        model.learn_one(x)
    model.flush()
    assert model.new_classes().candidates
    before = [one.threshold for one in model._measured]
    for x, label in stream(400):
        if label in ("left", "first"):
            model.learn_one(x, label)
    model.flush()
    model.new_classes()
    remembered = model._measured
    model._measured = None
    model.new_classes()
    assert [one.threshold for one in remembered] == [one.threshold for one in model._measured]
    assert [one.threshold for one in remembered] != before


def test_instances_beyond_the_horizon_are_done_without():
    model = fitted(batch_size=32, label_horizon=1)
    for x, _ in stream(640):
        model.learn_one(x)
    assert len(model.value.stream.recent.keys) < 64
    large = [one for one in model.new_classes().candidates if one.size > 100]
    assert len(large) == 2


@pytest.mark.parametrize(
    ("known", "new", "batch_size", "most"),
    [
        (demo.KNOWN, demo.NEW, 64, 3),
        (("brickface", "cement", "grass", "path"), ("sky", "foliage", "window"), 32, 5),  # two that are alike
    ],
)
def test_of_segments_three_classes_are_new_or_a_few_more_whatever_the_seed(known, new, batch_size, most):
    numbers = []
    for seed in range(5):
        training, stream = demo.split(seed, known, new)
        model = demo.make_recognizer(seed=seed, batch_size=batch_size)
        for segment in training:
            model.learn_one(segment.features, segment.label)
        for segment in stream:
            model.learn_one(segment.features)
        model.flush()
        found = model.new_classes()
        assert found.low <= 4
        assert 3 <= found.high <= 6
        numbers.append(found.number)
    assert 3 <= min(numbers) <= max(numbers) <= most


def test_there_is_nothing_to_tell_before_anything_was_learnt():
    with pytest.raises(NotTrained, match="before anything was learnt"):
        OpenSetRecognizer().new_classes()


def test_nothing_is_measured_before_a_subclass_has_emerged(monkeypatch):
    model = fitted(batch_size=32)
    monkeypatch.setattr(np.linalg, "solve", None)
    assert (model.new_classes().candidates, model.new_classes().number) == ((), 0)
    assert not model._measured
