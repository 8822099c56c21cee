"""Known classes that follow slow movement, if they are to, and what they do not follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stream_osr import ClassDrifted, OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped
from stream_osr.model.known import densities, log_densities
from stream_osr.model.prior import homogeneous
from stream_osr.model.transfer import moved
from stream_osr.stream import class_shift
from stream_osr.stream.class_shift import class_shifts
from stream_osr.stream.state import ClassShift
from tests.blobs import KNOWN, NAMES, around, check_stream, ended, fitted, learn_all, stream_part

CENTRES = {"left": np.array([0.0, 0.0]), "right": np.array([10.0, 0.0])}
Where = Callable[[str, float], np.ndarray]


def trained(n: int = 200, **arguments: Any) -> OpenSetRecognizer:
    model, rng = OpenSetRecognizer(**grouped(**arguments)), np.random.default_rng(1)
    learn_all(model, [(x, label) for label, at in CENTRES.items() for x in around(at, n, rng)])
    model.freeze()
    return model


def run(model: OpenSetRecognizer, n: int, where: Where, seed: int = 0, new: float = 0.0) -> tuple[np.ndarray, list]:
    """Stream Gaussians whose means depend on the time from 0 to 1; true and decided labels (2, n), and events."""
    rng = np.random.default_rng([seed, 14])
    truth = rng.choice([*CENTRES, "unknown"], size=n, p=[(1 - new) / 2, (1 - new) / 2, new]).astype(object)
    for i, label in enumerate(truth):
        x = rng.normal(where(label, i / n))
        model.learn_one(dict(zip(NAMES, x.tolist(), strict=True)))
    return np.array([truth, [d.label for d in ended(model)]]), list(model.drain_events())


def upwards(by: float, beside: float = 5.0) -> Where:
    """Both classes go up; what is new stays below."""

    def where(label: str, at: float) -> np.ndarray:
        return np.array([0.0, -beside]) if label == "unknown" else CENTRES[label] + [0.0, by * at]

    return where


def right(labels: np.ndarray, part: slice = slice(None), *, new: bool = False) -> float:
    truth, decided = labels[:, part]
    chosen = (truth == "unknown") == new
    return float(np.mean(truth[chosen] == decided[chosen]))


LATE = slice(-2500, None)


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [{}, pytest.param({"chains": 1, "batch_size": 16}, marks=pytest.mark.long)])
def test_classes_that_move_slowly_stay_known(arguments):
    model = trained(follow_drift=True, **arguments)
    labels, events = run(model, 20_000, upwards(4.0))
    assert right(labels) > 0.97
    assert right(labels, LATE) > 0.95
    shifts = class_shifts(model.value.stream) @ model.trained.whitening.backward
    np.testing.assert_allclose(shifts, [[0, 4], [0, 4]], atol=0.35)
    assert not any(isinstance(event, ClassDrifted) for event in events)
    check_stream(model.value.stream)


@pytest.mark.thorough
def test_classes_that_stay_are_not_harmed():
    labels = []
    for follow in (False, True):
        model = trained(follow_drift=follow)
        labels.append(run(model, 10_000, upwards(0.0))[0])
    assert right(labels[1]) > right(labels[0]) - 0.005
    assert np.abs(class_shifts(model.value.stream)).max() < 0.4


@pytest.mark.thorough
@pytest.mark.parametrize("beside", [3.5, 5.0])
def test_a_new_class_beside_a_known_one_is_found_and_does_not_drag_it(beside):
    shares = []
    for follow in (False, True):
        model = trained(follow_drift=follow)
        run(model, 2000, upwards(0.0))
        labels, events = run(model, 6000, upwards(0.0, beside), seed=1, new=0.3)
        assert any(isinstance(event, SubclassEmerged) for event in events)
        shares.append([right(labels), right(labels, LATE, new=True)])
    assert (np.diff(shares, axis=0) > -0.02).all()
    assert np.linalg.norm(class_shifts(model.value.stream), axis=1).max() < 0.6


LONG = pytest.param(100_000, 20.0, 0.0, marks=pytest.mark.long)


@pytest.mark.parametrize(("n", "by", "new"), [pytest.param(12_000, 3.0, 0.2, marks=pytest.mark.thorough), LONG])
def test_known_ones_stay_known_and_new_ones_are_found_while_they_move(n, by, new):
    labels, _ = run(trained(follow_drift=True), n, upwards(by), new=new)
    assert right(labels, LATE) > 0.95
    assert not new or right(labels, LATE, new=True) > 0.95


# In the recognizer


def test_a_class_that_was_promoted_follows_too_and_labels_can_be_taken_back():
    model = fitted(follow_drift=True, chains=2, batch_size=32)
    learn_all(model, [(x, None) for x, _ in stream_part(600)])
    model.flush()
    model.promote(model.value.stream.state.ids.tolist(), "above")
    before, then = [chain.known for chain in model.value.stream.chains], class_shifts(model.value.stream)
    rng = np.random.default_rng(4)
    x = around(KNOWN["left"], 1, rng)[0]
    model.learn_one(x, "left")
    learn_all(model, [(x, None) for x, _ in stream_part(640, seed=1)])
    model.flush()
    shifts = class_shifts(model.value.stream) - then
    assert shifts[0].any()
    model.undo()
    check_stream(model.value.stream)
    for chain, was in zip(model.value.stream.chains, before, strict=True):
        old = moved(was, shifts)  # as if the label had never been
        rows = homogeneous(rng.normal(size=(20, 2)))
        now = log_densities(chain.known, chain.frozen, rows)[0]
        np.testing.assert_allclose(now[:, :2], log_densities(old, densities(old), rows)[0][:, :2], atol=1e-6)
    model.undo()
    check_stream(model.value.stream)


def test_a_new_model_begins_without_a_shift():
    earlier, model = (trained(follow_drift=True, chains=1) for _ in range(2))
    run(earlier, 3000, upwards(2.0))
    assert class_shifts(earlier.value.stream).any()
    model.carry_over(earlier)
    assert not class_shifts(model.value.stream).any()


def test_a_class_that_is_closed_is_forgotten():
    following = ClassShift(np.eye(3), np.arange(3.0), np.eye(3), np.arange(3.0))
    np.testing.assert_array_equal(class_shift.without_class(following, 1).weight, [0, 2])
    assert class_shift.without_class(following, 3) is following
