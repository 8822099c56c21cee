"""Candidate new classes of the recognizer."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from stream_osr import NewClasses, OpenSetRecognizer
from stream_osr.discovery.new_classes import CandidateClass
from stream_osr.errors import NotTrained
from tests.blobs import KNOWN, fitted, fitted_once, learn_all, play

FIRST, SECOND = [(-20.0, 20.0), (-20.0, 23.0)], [(40.0, 0.0)]
"""One new class of two bumps, and one of a single bump."""


def stream(n: int, seed: int = 3) -> Iterator[tuple[dict[str, float], str]]:
    rng = np.random.default_rng(seed)
    where = {**{name: [centre] for name, centre in KNOWN.items()}, "first": FIRST, "second": SECOND}
    for _ in range(n):
        label = str(rng.choice(list(where)))
        a, b = rng.normal(where[label][rng.integers(len(where[label]))])
        yield {"a": float(a), "b": float(b)}, label


def keys_of(candidates: Iterable[CandidateClass]) -> list[int]:
    """Ids of the subclasses of candidates."""
    return [key for one in candidates for key in one.subclasses]


@pytest.fixture(scope="module")
def found() -> tuple[OpenSetRecognizer, NewClasses, list[str]]:
    model, rows = fitted(batch_size=32, training_sweeps=0, seed=2), list(stream(640))  # one Gaussian a known class
    play(model, rows)
    return model, model.new_classes(), [label for _, label in rows]


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


def test_candidates_are_made_of_the_subclasses_of_the_summary(found):
    model, classes, truth = found
    summary = model.summary()
    size = {key: n for key, n, _ in summary.emerging}
    emerged = {key for key, _, announced in summary.emerging if announced}
    keys = keys_of(classes.candidates)
    assert len(keys) == len(set(keys))
    assert emerged <= set(keys) <= set(size)
    for one in classes.candidates:
        assert emerged & set(one.subclasses), "a candidate without a subclass that has emerged"
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
    left = keys_of(muted.new_classes().candidates)
    assert first.subclasses[0] not in left
    assert set(keys_of(others)) <= set(left)
    muted.mute([key for key in left if key in muted.value.stream.life.subclasses])
    assert muted.new_classes() == NewClasses((), 0, 0)
    assert str(muted.summary().new_classes) == "0"


def test_exemplars_begin_with_the_latest_of_each_subclass_and_are_of_one_class(found):
    model, classes, truth = found
    lives = model.value.stream.life.subclasses
    for one in classes.candidates:
        recent = [lives[key].recent for key in one.subclasses if key in lives]
        latest = [members[-1].moment.key for members in recent][:5]
        assert list(one.exemplars[: len(latest)]) == latest
        assert len(one.exemplars) == min(5, sum(map(len, recent)))
    for one in classes.candidates[:2]:
        (label,) = {truth[key] for key in one.exemplars}
        assert one.nearest_class == {"first": "left", "second": "right"}[label]


def test_a_call_changes_neither_the_model_nor_later_results():
    rows = list(stream(320))
    model, without_calls = (fitted_once(batch_size=32, seed=5) for _ in range(2))
    play(without_calls, rows)
    for begin in range(0, 320, 40):
        play(model, rows[begin : begin + 40], begin)
        before = pickle.dumps(model)
        assert model.new_classes() == model.new_classes()
        assert pickle.dumps(model) == before
    assert list(model.drain()) == list(without_calls.drain())
    # the distances that it remembers from call to call make no difference
    assert model.new_classes() == without_calls.new_classes()
    assert len(model.new_classes().candidates) >= 2


def test_late_labels_change_the_learnt_thresholds():
    model = fitted_once(batch_size=32)
    assert model.new_classes().candidates == ()
    learn_all(model, [(x, None) for x, _ in stream(400)]).flush()
    assert model.new_classes().candidates
    before = [one.threshold for one in model._measured]
    learn_all(model, [(x, label) for x, label in stream(400) if label in ("left", "first")]).flush()
    model.new_classes()
    remembered = [one.threshold for one in model._measured]
    model._measured = None
    model.new_classes()
    assert remembered == [one.threshold for one in model._measured] != before


def test_instances_beyond_the_horizon_are_not_needed():
    model = play(fitted_once(batch_size=32, label_horizon=1), stream(640))
    assert len(model.value.stream.recent.keys) < 64
    assert sum(one.size > 100 for one in model.new_classes().candidates) == 2


def test_without_training_there_is_no_result():
    with pytest.raises(NotTrained, match="before anything was learnt"):
        OpenSetRecognizer().new_classes()
