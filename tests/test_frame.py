"""All known classes move together: one event says so, decisions stay right, and announcements wait for a verdict."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from benchmarks.order import processes
from stream_osr import ActionUndone, Event, FrameMoved, Limits, OpenSetRecognizer, SubclassEmerged
from stream_osr.errors import NothingToJudge
from stream_osr.stream import batch

CENTRES = np.array(
    [[0, 0, 0, 0, 0, 0], [6, 0, 6, 0, 6, 0], [0, 6, 0, 6, 0, 6], [-6, -6, 0, 0, -6, -6], [6, -6, 3, 6, -6, 0]]
)
NAMES = np.array(["a", "b", "c", "d", "new"])
DEVIATION, BY = 2.0, 20.0
"""Standard deviation within a class, and the offset of the moved column ``x2``, in the caller's units."""


class Part(NamedTuple):
    """A part of a stream: true labels, decided labels, probabilities of unknown, and events."""

    truth: np.ndarray
    labels: np.ndarray
    p_unknown: np.ndarray
    events: list[Event]

    @property
    def is_new(self) -> np.ndarray:
        return self.truth == "new"

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def right(self, start: int = 0) -> float:
        """Share of the known instances from ``start`` with their own label."""
        return float((self.labels == self.truth)[start:][~self.is_new[start:]].mean())


def drawn(n: int, seed: int, by: float = 0.0, new: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw instances whose column ``x2`` is moved by an offset, with a share of the new class."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < new, 4, rng.integers(4, size=n))
    X = 100.0 + DEVIATION * (CENTRES[y] + rng.normal(size=(n, 6)))
    X[:, 2] += by
    return pd.DataFrame(X).add_prefix("x"), NAMES[y]


@cache
def pickled(*moves: tuple[float, float]) -> bytes:
    """A trained model that has seen 256 instances for each offset and share of the new class."""
    model = OpenSetRecognizer(chains=1, seed=1, batch_size=64)
    model.learn_many(*drawn(400, 0))
    model.freeze()
    for number, (by, new) in enumerate(moves):
        stream(model, 256, 1 + number, by, new)
    return pickle.dumps(model)


def after(*moves: tuple[float, float]) -> OpenSetRecognizer:
    return pickle.loads(pickled(*moves))


def stream(model: OpenSetRecognizer, n: int, seed: int, by: float = 0.0, new: float = 0.0) -> Part:
    X, truth = drawn(n, seed, by, new)
    model.learn_many(X, key=[f"{seed}:{i}" for i in range(n)])
    decisions = list(model.drain())
    labels = np.array([each.label for each in decisions], dtype=object)
    p_unknown = np.array([each.p_unknown for each in decisions])
    return Part(truth, labels, p_unknown, list(model.drain_events()))


MOVED = (BY, 0.0)


def test_one_event_names_the_moved_column_and_known_classes_stay_right() -> None:
    model = after()
    part = stream(model, 512, 1, BY)
    (event,) = part.of(FrameMoved)
    assert isinstance(event, FrameMoved)
    assert event.columns == ("x2",)
    assert event.offset == pytest.approx({"x2": BY}, abs=0.1 * BY)
    deviation = drawn(400, 0)[0]["x2"].std()
    assert event.shift == pytest.approx({"x2": BY / deviation}, abs=0.2)
    assert event.since == 0
    assert event.seq <= 256
    assert event.share > 0.8
    assert part.right(64) > 0.97
    assert part.right() > 0.9, "the batch that shows the move is judged again"
    assert not part.of(SubclassEmerged)
    assert model.signals.frame.startswith("the stream differs from training in x2 by +")
    assert model.signals.frame.endswith("in all classes since instance 0")
    X, _ = drawn(256, 2, BY)
    immediate = np.array(model.predict_many(X))
    assert (immediate == stream(model, 256, 2, BY).labels).mean() > 0.99
    assert model.predict_one(X.iloc[0].to_dict()) == immediate[0]


def test_a_move_in_the_middle_and_back() -> None:
    model = after((0.0, 0.0), MOVED)
    back = stream(model, 256, 3)
    (event,) = back.of(FrameMoved)
    assert isinstance(event, FrameMoved)
    assert (event.columns, event.offset, event.shift) == ((), {}, {})
    assert event.since == 512
    assert back.right() > 0.97
    assert model.signals.frame == ""
    with pytest.raises(NothingToJudge, match="not moved"):
        model.accept_frame()


def test_instances_of_a_micro_batch_from_before_the_move_are_judged_at_their_place() -> None:
    model = OpenSetRecognizer(chains=1, seed=1, batch_size=256)
    model.learn_many(*drawn(400, 0))
    model.freeze()
    (before, y_before), (moved, y_moved) = drawn(128, 1), drawn(384, 2, BY)
    truth = np.concatenate([y_before, y_moved])
    model.learn_many(pd.concat([before, moved]))
    labels = np.array([each.label for each in model.drain()], dtype=object)
    (event,) = [event for event in model.drain_events() if isinstance(event, FrameMoved)]
    assert event.since == pytest.approx(128, abs=2)
    for part in (slice(128), slice(128, 256), slice(256, 512)):
        assert (labels == truth)[part].mean() > 0.97


def test_late_labels_of_moved_instances_open_a_class_at_its_training_place() -> None:
    model = after(MOVED)
    part = stream(model, 256, 2, BY, 0.3)
    assert (part.labels[part.is_new] == "unknown").mean() > 0.9
    for at in np.flatnonzero(part.is_new)[:12].tolist():
        model.learn_label(f"2:{at}", "late")
    stream(model, 256, 3, BY, 0.3)
    for seed, by in enumerate((BY, 0.0)):
        later = stream(model, 256, 4 + seed, by, 0.3)
        assert (later.labels[later.is_new] == "late").mean() > 0.9, by
        assert later.right() > 0.9


def test_announcements_wait_until_the_place_is_accepted() -> None:
    model = after(MOVED, (BY, 0.3), (BY, 0.3))
    waiting = stream(model, 256, 4, BY, 0.3)
    assert (waiting.labels[waiting.is_new] == "unknown").mean() > 0.95
    assert waiting.right() > 0.95
    assert not waiting.of(SubclassEmerged)
    assert not model.new_classes().candidates
    model.accept_frame()
    assert model.signals.frame == ""
    accepted = stream(model, 256, 5, BY, 0.3)
    assert accepted.of(SubclassEmerged)
    assert not accepted.of(FrameMoved)
    assert accepted.right() > 0.95
    with pytest.raises(NothingToJudge):
        model.reject_frame()


def test_rejected_instances_are_unknown_and_announced() -> None:
    model = after(MOVED)
    model.reject_frame()
    assert model.signals.frame == ""
    rejected = stream(model, 256, 2, BY)
    assert (rejected.labels == "unknown").mean() > 0.95
    assert rejected.of(SubclassEmerged)
    assert not rejected.of(FrameMoved)
    assert stream(model, 256, 3).right() > 0.95, "at the training place"


@pytest.mark.parametrize("accept", [True, False])
def test_undo_takes_a_verdict_back(accept: bool) -> None:
    model, twin = after(MOVED), after(MOVED)
    (model.accept_frame if accept else model.reject_frame)()
    model.undo()
    (event,) = model.drain_events()
    assert isinstance(event, ActionUndone)
    assert event.action == "frame"
    assert model.signals.frame == twin.signals.frame != ""
    one, other = (stream(each, 256, 2, BY) for each in (model, twin))
    np.testing.assert_array_equal(one.p_unknown, other.p_unknown)
    assert one.right() > 0.97


@pytest.mark.parametrize("verdict", ["", "accept_frame", "reject_frame"])
def test_a_saved_stream_continues_bit_for_bit(verdict: str, tmp_path: Path) -> None:
    model = after(MOVED)
    if verdict:
        getattr(model, verdict)()
    model.learn_many(drawn(30, 9, BY)[0], key=range(30))
    model.save(tmp_path / "moved.osr")
    again = OpenSetRecognizer.load(tmp_path / "moved.osr")
    assert again.signals.frame == model.signals.frame
    assert bool(again.signals.frame) == (not verdict)
    if verdict:
        for each in (model, again):
            each.undo()
    for by in (BY, 0.0):
        one, other = (stream(each, 256, 2, by, 0.3) for each in (model, again))
        assert one.labels.tolist() == other.labels.tolist()
        np.testing.assert_array_equal(one.p_unknown, other.p_unknown)
        assert [str(event) for event in one.events] == [str(event) for event in other.events]


@pytest.mark.parametrize("new", [0.0, 0.3, 0.9])
def test_a_stream_that_has_not_moved_is_decided_as_without_a_frame(
    new: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new class that moves nothing is no move, whatever its share."""
    one = stream(after(), 512, 6, 0.0, new)
    monkeypatch.setattr(batch, "start_frame", lambda trained: None)
    other = stream(after(), 512, 6, 0.0, new)
    assert one.labels.tolist() == other.labels.tolist()
    np.testing.assert_array_equal(one.p_unknown, other.p_unknown)
    assert [str(event) for event in one.events] == [str(event) for event in other.events]
    assert not one.of(FrameMoved)
    assert one.right() > 0.95
    assert (len(one.of(SubclassEmerged)) > 0) == (new > 0.0)
    assert (one.labels[one.is_new] == "unknown").sum() >= 0.97 * one.is_new.sum()


def test_a_model_without_references_judges_no_frame() -> None:
    model = OpenSetRecognizer(chains=1, seed=1, limits=Limits(references=0))
    model.learn_many(*drawn(80, 0))
    model.freeze()
    stream(model, 256, 1, BY)
    with pytest.raises(NothingToJudge, match="no references"):
        model.accept_frame()


@pytest.mark.thorough
def test_classes_that_wander_each_alone_are_no_moved_frame() -> None:
    """Each class of the process wanders about its own place, and two of them go the same way now and then."""
    case = processes.case("noisy/open", 1)
    model = OpenSetRecognizer(seed=1)
    model.learn_many(pd.DataFrame(case.X_train), case.y_train.tolist())
    model.freeze()
    model.learn_many(pd.DataFrame(case.X))
    model.flush()
    assert not [event for event in model.drain_events() if isinstance(event, FrameMoved)]
    labels = np.array([decision.label for decision in model.drain()])
    assert np.mean((labels == case.y)[~case.new]) > 0.98
