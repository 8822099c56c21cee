"""Known classes that follow slow movement, if asked, and what they do not follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from stream_osr import ClassDrifted, OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped
from stream_osr.model.known import densities, log_densities
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import homogeneous
from stream_osr.model.transfer import moved
from stream_osr.stream import class_shift
from stream_osr.stream.class_shift import _weigh, class_shifts
from stream_osr.stream.state import ClassShift
from tests.blobs import KNOWN, NAMES, around, check_stream, fitted, learn_all, stream_part

CENTRES = {"left": np.array([0.0, 0.0]), "right": np.array([10.0, 0.0])}
Where = Callable[[str, float], np.ndarray]


def trained(n: int = 200, **arguments: Any) -> OpenSetRecognizer:
    model, rng = OpenSetRecognizer(**grouped(**arguments)), np.random.default_rng(1)
    learn_all(model, [(x, label) for label, at in CENTRES.items() for x in around(at, n, rng)])
    model.freeze()
    return model


def run(model: OpenSetRecognizer, n: int, where: Where, seed: int = 0, new: float = 0.0) -> tuple[np.ndarray, list]:
    """Stream Gaussians whose means depend on the time from 0 to 1; true and told labels, shape (2, n), and events."""
    rng = np.random.default_rng([seed, 14])
    truth = rng.choice([*CENTRES, "unknown"], size=n, p=[(1 - new) / 2, (1 - new) / 2, new]).astype(object)
    for i, label in enumerate(truth):
        x = rng.normal(where(label, i / n))
        model.learn_one(dict(zip(NAMES, x.tolist(), strict=True)))
    model.flush()
    return np.array([truth, [d.label for d in model.drain()]]), list(model.drain_events())


def upwards(by: float, beside: float = 5.0) -> Where:
    """Both classes go up; what is new stays below."""

    def where(label: str, at: float) -> np.ndarray:
        return np.array([0.0, -beside]) if label == "unknown" else CENTRES[label] + [0.0, by * at]

    return where


def right(labels: np.ndarray, part: slice = slice(None), *, new: bool = False) -> float:
    truth, told = labels[:, part]
    chosen = (truth == "unknown") == new
    return float(np.mean(truth[chosen] == told[chosen]))


LATE = slice(-2500, None)


@pytest.mark.parametrize("arguments", [{}, {"chains": 1, "batch_size": 16}], ids=repr)
def test_classes_that_move_slowly_stay_known(arguments):
    model = trained(follow_drift=True, **arguments)
    labels, events = run(model, 20_000, upwards(4.0))
    assert right(labels) > 0.97
    assert right(labels, LATE) > 0.95
    shifts = class_shifts(model.value.stream) @ model.trained.whitening.backward
    np.testing.assert_allclose(shifts, [[0, 4], [0, 4]], atol=0.35)
    assert not any(isinstance(event, ClassDrifted) for event in events)
    check_stream(model.value.stream)


def test_without_being_asked_they_turn_unknown():
    model = trained(chains=1, order="shuffled")
    labels, _ = run(model, 20_000, upwards(4.0))
    assert right(labels, LATE) < 0.05
    assert not class_shifts(model.value.stream).any()


def test_classes_that_stay_are_not_harmed():
    labels = []
    for follow in (False, True):
        model = trained(follow_drift=follow)
        labels.append(run(model, 10_000, upwards(0.0))[0])
    assert right(labels[1]) > right(labels[0]) - 0.005
    assert np.abs(class_shifts(model.value.stream)).max() < 0.4


@pytest.mark.parametrize("beside", [3.5, 5.0])
def test_a_new_class_beside_a_known_one_is_found_and_does_not_drag_it(beside):
    told = []
    for follow in (False, True):
        model = trained(follow_drift=follow)
        run(model, 2000, upwards(0.0))
        labels, events = run(model, 6000, upwards(0.0, beside), seed=1, new=0.3)
        assert any(isinstance(event, SubclassEmerged) for event in events)
        told.append((right(labels), right(labels, LATE, new=True)))
    assert told[1][0] > told[0][0] - 0.02
    assert told[1][1] > told[0][1] - 0.02
    assert np.linalg.norm(class_shifts(model.value.stream), axis=1).max() < 0.6


@pytest.mark.parametrize(
    ("n", "by", "new"), [(12_000, 3.0, 0.2), pytest.param(100_000, 20.0, 0.0, marks=pytest.mark.long)]
)
def test_known_ones_stay_known_and_new_ones_are_found_while_they_move(n, by, new):
    labels, _ = run(trained(follow_drift=True), n, upwards(by), new=new)
    assert right(labels, LATE) > 0.95
    assert not new or right(labels, LATE, new=True) > 0.95


# What is moved


def test_moved_classes_have_their_densities_elsewhere():
    model = fitted()
    rng = np.random.default_rng(2)
    for chain in model.value.stream.chains:
        known, move = chain.known, rng.normal(size=(2, 2)) * 3
        after = moved(known, move)
        rows = rng.normal(size=(50, 2)) * 4
        before = log_densities(known, chain.frozen, homogeneous(rows))[0]
        for j in range(2):
            now = log_densities(after, densities(after), homogeneous(rows + move[j]))[0]
            np.testing.assert_allclose(now[:, j], before[:, j], atol=1e-8)
        means, scales = means_and_scales(after.dishes, after.prior)
        was, of = means_and_scales(known.dishes, known.prior)
        np.testing.assert_allclose(scales, of, atol=1e-9)
        np.testing.assert_allclose(means, was + (known.seated / known.seated.sum(axis=0)).T @ move, atol=1e-9)
        np.testing.assert_array_equal(after.dishes.size, known.dishes.size)
        np.testing.assert_array_equal(log_densities(known, densities(known), homogeneous(rows))[0], before)


def test_ways_of_the_class_s_own_instances_cancel():
    model, rng = trained(), np.random.default_rng(3)
    chain = model.value.stream.chains[0]
    means, _ = means_and_scales(chain.known.dishes, chain.known.prior)
    rows = means[0] + rng.normal(size=(4000, 2))
    j = int(chain.known.seated[:, 0].argmax())
    near = np.eye(2)[np.full(4000, j)]
    ways = class_shift.measure_ways(chain.known, chain.frozen, rows + np.array([0.5, 0.0]), near)
    np.testing.assert_allclose(ways.sums[j] / ways.weight[j], [0.5, 0.0], atol=0.1)
    assert ways.weight[1 - j] == 0
    assert not ways.sums[1 - j].any()


def weigh(off: Sequence[float], batches: int, per_batch: float = 10.0) -> tuple[ClassShift, np.ndarray, list[float]]:
    """Let a class that lies elsewhere follow; how far each step went."""
    following = ClassShift(np.zeros((1, 2)), np.zeros(1), np.zeros((1, 2)), np.zeros(1))
    place, steps = np.zeros(2), []
    for _ in range(batches):
        way = per_batch * (np.array(off) - place)
        following, move = _weigh(
            following, class_shift.ClassDistances(np.array([per_batch]), way[None], np.ones((1, 2)))
        )
        place = place + move[0]
        steps.append(float(np.linalg.norm(move)))
    return following, place, steps


def test_a_class_goes_where_its_instances_are_and_not_faster_than_its_pace():
    off = (3.0, 4.0)
    following, place, steps = weigh(off, 400)
    np.testing.assert_allclose(place, off, atol=2 * class_shift.STEP)
    assert (np.cumsum(steps) <= class_shift.PACE * 10 * np.arange(1, 401) + 1e-9).all()
    assert following.weight[0] == pytest.approx(class_shift.SHIFT_HALF_LIFE / np.log(2), rel=0.1), (
        "what has faded counts no more"
    )
    assert not any(weigh((0.5 * class_shift.STEP, 0.0), 200)[2]), "a class that is hardly off stays"


# In the recognizer


def test_saved_on_the_way_and_gone_on(tmp_path):
    model = trained(follow_drift=True, chains=2)
    run(model, 3000, upwards(2.0))
    assert class_shifts(model.value.stream).any()
    model.save(tmp_path / "model.osr")
    other = OpenSetRecognizer.load(tmp_path / "model.osr")
    (labels, _), (again, _) = (run(each, 2000, upwards(3.0), 5) for each in (model, other))
    np.testing.assert_array_equal(again, labels)
    np.testing.assert_array_equal(class_shifts(other.value.stream), class_shifts(model.value.stream))


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


def test_a_class_that_is_closed_is_forgotten():
    following = ClassShift(np.eye(3), np.arange(3.0), np.eye(3), np.arange(3.0))
    np.testing.assert_array_equal(class_shift.without_class(following, 1).weight, [0, 2])
    assert class_shift.without_class(following, 3) is following


def test_a_model_that_was_trained_anew_begins_anew():
    earlier = trained(follow_drift=True, chains=1)
    run(earlier, 3000, upwards(2.0))
    assert class_shifts(earlier.value.stream).any()
    model = trained(follow_drift=True, chains=1)
    model.carry_over(earlier)
    assert not class_shifts(model.value.stream).any()
