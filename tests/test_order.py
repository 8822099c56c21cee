"""Streams have an order: known classes stay known where neighbouring instances resemble each other.

The streams are beginnings of the made-up processes of ``benchmarks.order``: 8 features, 5 classes, 500 training
instances. With ``order="shuffled"`` the library does not look at the order.
"""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from benchmarks.order import processes, tables
from benchmarks.order.case import Case
from benchmarks.order.running import announcements
from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.stream import batch
from tests.blobs import ended, refused

pytestmark = pytest.mark.thorough

UNKNOWN = "unknown"


class Run(NamedTuple):
    """What became of a stream: labels, probabilities of unknown, announced subclasses, and the model at the end."""

    labels: np.ndarray
    p_unknown: np.ndarray
    right: float
    """Share of the known instances of the last fifth that are decided rightly."""
    frozen_right: float
    """Of the same instances, by the model as it was trained."""
    found: float
    """Share of the new class that is called unknown."""
    live_off: float
    """Distance of the live estimate of recall from the recall of the last fifth."""
    announced: int
    standing: int
    model: OpenSetRecognizer


def beginning(name: str, seed: int, n: int) -> Case:
    """The first instances of a made-up stream."""
    whole = processes.case(name, seed)
    return whole._replace(X=whole.X[:n], y=whole.y[:n])


def trained(case: Case, **arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(unknown=UNKNOWN, **arguments))
    model.learn_many(pd.DataFrame(case.X_train), case.y_train.tolist())
    model.freeze()
    return model


def stream(case: Case, **arguments: Any) -> Run:
    model = trained(case, **arguments)
    X = pd.DataFrame(case.X)
    frozen = np.asarray(model.predict_many(X), dtype=str)
    model.learn_many(X)
    decisions = sorted(ended(model), key=lambda decision: decision.seq)
    labels = np.array([decision.label for decision in decisions], dtype=str)
    last = (np.arange(len(labels)) >= 0.8 * len(labels)) & ~case.new
    right, frozen_right = (float((own == case.y)[last].mean()) for own in (labels, frozen))
    found = (labels[case.new] == UNKNOWN).sum() / max(case.new.sum(), 1)
    live_off = abs(model.expected_recall.recall - right)
    events = announcements(list(model.drain_events()))
    p_unknown = np.array([decision.p_unknown for decision in decisions])
    return Run(labels, p_unknown, right, frozen_right, found, live_off, *events, model)


@cache
def of(name: str, seed: int, n: int, order: str = "arrival", batch_size: int = 256) -> Run:
    return stream(beginning(name, seed, n), seed=seed, order=order, batch_size=batch_size)


def narrow(seed: int = 0, n: int = 2000) -> Case:
    """Independent instances, all from a small part of each class, well within it."""
    rng = np.random.default_rng(seed)
    at, y = processes.centres(rng), rng.integers(processes.CLASSES, size=500 + n)
    X = processes.around(rng, at, y)
    way = rng.normal(size=(processes.CLASSES, processes.FEATURES))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    centre = processes.LEVEL + at[: processes.CLASSES, 0] + way
    X[500:] = centre[y[500:]] + 0.3 * rng.normal(size=(n, processes.FEATURES))
    return Case(X[:500], y[:500].astype(str), X[500:], y[500:].astype(str))


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("process", ["autoregressive", "noisy", "offsets"])
def test_dependent_known_classes_stay_known(process, seed):
    run = of(f"{process}/closed", seed, 3000)
    assert run.right >= run.frozen_right - 0.05
    assert run.announced <= 2
    assert run.live_off <= 0.1


@pytest.mark.parametrize("seed", [4, pytest.param(1, marks=pytest.mark.long)])
def test_statistics_count_independent_instances_where_blocks_of_arrival_support_it(seed):
    """Training shows one or two episodes of each class: the frozen model knows how little that is."""
    case = beginning("autoregressive/closed", seed, 4000)
    run = of("autoregressive/closed", seed, 4000)
    known = run.model.trained.known
    assert run.model.trained.references.tempered
    assert known.dishes.size.sum() < 0.3 * known.seated.sum()
    plain = trained(case, seed=seed, order="shuffled")
    assert not plain.trained.references.tempered
    own, other = (np.asarray(model.predict_many(pd.DataFrame(case.X)), str) for model in (run.model, plain))
    assert np.mean(own == case.y) > np.mean(other == case.y)
    assert run.right >= run.frozen_right - 0.05


def test_statistics_count_all_instances_where_blocks_of_arrival_do_not_support_less():
    for name in ("offsets/closed", "independent/closed"):
        model = trained(beginning(name, 0, 1), seed=0)
        assert not model.trained.references.tempered
        assert model.trained.known.dishes.size.sum() == model.trained.known.seated.sum()


def test_the_batch_that_shows_that_classes_have_moved_announces_none():
    run = of("offsets/closed", 18, 1500)
    assert not run.model.trained.is_dependent
    assert run.model.value.stream.frame.has_moved
    assert run.right >= run.frozen_right - 0.05
    assert run.announced == 0
    assert run.live_off <= 0.1


def test_training_says_whether_neighbours_are_dependent_and_the_stream_finds_out_otherwise():
    assert of("noisy/closed", 0, 3000).model.value.stream.arrival.since == 0
    later = of("offsets/closed", 2, 3000).model
    assert not later.trained.is_dependent
    assert 0 < later.value.stream.arrival.since <= 1024
    assert of("noisy/closed", 0, 3000, "shuffled").model.value.stream.arrival is None


@pytest.mark.parametrize(("process", "n"), [("noisy", 3000), ("offsets", 4000), ("drift", 8000)])
def test_a_new_class_is_found_beside_dependent_ones(process, n):
    run = of(f"{process}/open", 0, n)
    assert run.right >= run.frozen_right - 0.05
    assert run.found >= 0.9
    assert run.announced <= 3
    assert run.live_off <= 0.1


def test_the_collective_step_yields_where_typical_instances_are_called_unknown():
    run = stream(narrow(), seed=0)
    arrival = run.model.value.stream.arrival
    assert arrival.process is None, "neighbours are independent: this is another reason"
    assert arrival.departed >= 0
    assert run.right >= run.frozen_right - 0.05
    assert run.standing == 0, "what was announced before is refuted"
    assert run.live_off <= 0.1
    before = stream(narrow(), seed=0, order="shuffled")
    assert before.right < 0.1
    assert before.standing > 2


def test_an_independent_stream_keeps_every_bit():
    for case in (beginning("independent/open", 0, 1500), tables.shuffled(beginning("noisy/open", 0, 2500))):
        one, other = (stream(case, seed=0, order=order) for order in ("arrival", "shuffled"))
        assert case.new.any()
        assert one.model.value.stream.arrival is not None
        assert not one.model.value.stream.arrival.counts_typicality
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_array_equal(one.p_unknown, other.p_unknown)


@pytest.mark.parametrize("stage", ["decide", "follow", "wait"])
def test_a_batch_that_fails_leaves_nothing_behind(stage, monkeypatch):
    """By then the known classes have followed the batch; a pickle goes on as the stream would have."""
    X, calls, original = pd.DataFrame(beginning("noisy/open", 0, 320).X), [], getattr(batch, stage)
    model, twin = (trained(beginning("noisy/open", 0, 320), seed=0, batch_size=64) for _ in range(2))
    model.learn_many(X[:70])

    def fail_at_third(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise MemoryError
        return original(*arguments)

    with monkeypatch.context() as patch, refused(model, MemoryError):
        patch.setattr(batch, stage, fail_at_third)
        model.learn_many(X[70:])
    tracked = model.value.stream.arrival.tracked
    again = pickle.loads(pickle.dumps(model))
    twin.learn_many(X)
    expected = [each.p_unknown for each in twin.drain()]
    for each in (model, again):
        each.learn_many(X[70:])
        assert np.abs(each.value.stream.arrival.tracked.mean - tracked.mean).max() > 0.1
        assert [decision.p_unknown for decision in each.drain()] == expected
