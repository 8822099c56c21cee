"""Known classes that move, and new ones that do not look like it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import ClassDrifted, ColumnFailed, FrameMoved, OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped
from stream_osr.discovery import drift as detection
from tests.blobs import KNOWN, around, instances
from tests.oracles import drift as oracle
from tests.tiers import examples

INTERVAL = 1e6


def feed(
    rank: np.ndarray,
    nearest: np.ndarray,
    accepted: np.ndarray,
    size: int = 64,
    n_classes: int = 2,
    drift: detection.Drift | None = None,
    rows: np.ndarray | None = None,
    new: np.ndarray | None = None,
    interval: float = INTERVAL,
    independent: float = 1.0,
) -> tuple[detection.Drift, list[detection.Alarm]]:
    """Take in a stream, in batches of a size."""
    rows = np.zeros((len(rank), 1)) if rows is None else rows
    drift = detection.start_drift(n_classes, rows.shape[1]) if drift is None else drift
    alarms: list[detection.Alarm] = []
    for begin, end in pairwise([*range(0, len(rank), size), len(rank)]):
        part = slice(begin, end)
        batch = nearest[part], rank[part], accepted[part], rows[part]
        settings = interval, None if new is None else new[part], independent
        drift, found = detection.follow(drift, *batch, begin, n_classes, *settings)
        alarms += found
    return drift, alarms


def known(ranks: Sequence[np.ndarray]) -> tuple[detection.Drift, list[detection.Alarm]]:
    """Take in a stream of accepted instances, the classes in turns."""
    rank = np.stack(ranks, axis=1).ravel()
    return feed(rank, np.arange(len(rank)) % len(ranks), np.ones(len(rank), bool), n_classes=len(ranks))


@pytest.mark.parametrize(
    ("level", "soon", "direction"), [(0.15, 56, "sparser"), (0.3, 160, "sparser"), (0.75, 120, "denser")]
)
def test_a_change_is_announced_soon_once_and_dated(level, soon, direction):
    for seed in range(5):
        rng = np.random.default_rng([seed, 2])
        changed = rng.beta(4 * level, 4 * (1 - level), 3000)
        _, (alarm,) = known([rng.random(6000), np.concatenate([rng.random(3000), changed])])
        assert (alarm.j, alarm.direction) == (1, direction)
        assert alarm.size <= soon
        assert abs(alarm.since - 6000) <= 2 * soon
        assert alarm.rank_now == pytest.approx(level, abs=0.1)


def moving(*levels: float, seed: int = 3, n: int = 1000) -> list[detection.Alarm]:
    """Alarms for a class alone, whose mean rank is at each of these levels for n instances."""
    rng = np.random.default_rng(seed)
    return known([np.concatenate([rng.beta(6 * level, 6 * (1 - level), n) for level in levels])])[1]


@pytest.mark.parametrize(
    ("levels", "reported"),
    [
        ((0.5, 0.15, 0.15, 0.15), [1]),
        ((0.5, 0.35, 0.1, 0.1), [1, 2]),  # as far again
        ((0.5, 0.15, 0.5, 0.15), [1, 3]),  # back, and away again
        ((0.5, 0.15, 0.28, 0.15), [1]),  # not as far as back
        ((0.5, 0.15, 0.85, 0.85), [1, 2]),  # as far on the other side
        ((0.5, 0.15, 0.5, 0.5), [1]),
    ],
    ids=["stays", "as far again", "back and away", "not back", "other side", "back"],
)
def test_a_change_is_reported_again_when_the_class_has_come_back_or_moved_as_far_again(levels, reported):
    for seed in range(5):
        alarms = moving(*levels, seed=seed)
        assert [round(alarm.since / 1000) for alarm in alarms] == reported
        assert [alarm.direction for alarm in alarms] == [
            "sparser" if levels[at] < 0.5 else "denser" for at in reported
        ]


def test_fewer_than_20_instances_are_no_change():
    nearest = np.repeat([0, 1, 0], [200, 200, 24])
    rank = np.where(np.arange(424) < 400, np.random.default_rng(3).random(424), 0.0)
    for n, reported in ((19, []), (24, [24])):  # the interval is the shortest that is allowed
        part = slice(0, 400 + n)
        _, alarms = feed(rank[part], nearest[part], np.ones(400 + n, bool), interval=1e3)
        assert [alarm.size for alarm in alarms] == reported


def test_dependent_instances_count_as_those_that_are_independent():
    rng = np.random.default_rng(5)
    rank = np.repeat(np.concatenate([rng.random(2000), rng.beta(1, 6, 100)]), 10)  # each comes ten times
    one_class = np.zeros(len(rank), int), np.ones(len(rank), bool)
    assert len(feed(rank, *one_class, n_classes=1)[1]) > 5
    (alarm,) = feed(rank, *one_class, n_classes=1, independent=0.1)[1]
    assert abs(alarm.since - 20_000) < 200
    assert 200 <= alarm.size < 1000


def test_one_far_instance_and_outliers_at_a_steady_rate_are_no_change():
    rng = np.random.default_rng(4)
    rank = rng.random(3000)
    rank[1500:1510] = 0.0
    assert known([rank, rng.random(3000)])[1] == []
    rng = np.random.default_rng(6)
    rank, accepted = rng.random(20_000), rng.random(20_000) > 0.05
    rank[~accepted] = 0.0
    assert feed(rank, rng.integers(4, size=len(rank)), accepted, n_classes=4)[1] == []


# What counts: all accepted instances, and unknown ones that replace them


@pytest.mark.parametrize(("instead", "n_classes"), [(False, 1), (False, 5), (True, 1), (True, 2), (True, 5)])
def test_a_new_class_is_drift_where_it_is_instead_of_a_known_one_and_not_beside_it(instead, n_classes):
    """From position 4000 on half of the stream is unknown and nearest to class 0: on top of it, or in its place."""
    rng = np.random.default_rng(5)
    n = 8000
    rank, nearest, accepted = rng.random(n), rng.integers(n_classes, size=n), np.ones(n, bool)
    late = np.arange(n) >= n // 2
    new = late & (nearest == 0) if instead else late & (rng.random(n) < 0.5)
    nearest[new], rank[new], accepted[new] = 0, 0.0, False
    _, alarms = feed(rank, nearest, accepted, n_classes=n_classes)
    assert [(alarm.j, alarm.direction) for alarm in alarms] == [(0, "sparser")] * instead
    for alarm in alarms:
        assert alarm.rank_now < 0.15
        assert abs(alarm.since - 4000) < 200


def beside_new(n: int, n_classes: int, seed: int, gone_from: int, new_is_marked: bool) -> list[detection.Alarm]:
    """Alarms where a new class is nearest to class 0, which may be gone from a position on."""
    rng = np.random.default_rng([7, seed])
    source = rng.integers(n_classes + 1, size=n)
    new, gone = source == n_classes, (source == 0) & (np.arange(n) >= gone_from)
    rank = np.where(new | gone, 0.0, rng.random(n))
    batches = source % n_classes, ~(new | gone), 250, n_classes
    return feed(rank, *batches, new=new if new_is_marked else None)[1]


def test_a_new_class_that_is_marked_neither_fills_chance_gaps_nor_hides_a_class_that_goes():
    assert beside_new(200_000, 4, 1, 200_000, new_is_marked=True) == []
    assert len(beside_new(200_000, 4, 1, 200_000, new_is_marked=False)) > 5
    (alarm,) = beside_new(12_000, 2, 2, 10_000, new_is_marked=True)
    assert (alarm.j, alarm.direction) == (0, "sparser")
    assert abs(alarm.since - 10_000) < 500


def test_classes_may_come_and_go():
    rng = np.random.default_rng(7)

    def watch(drift: detection.Drift | None, n_classes: int) -> detection.Drift:
        rank, rows = rng.random(640), rng.normal(size=(640, 3))
        drift, alarms = feed(rank, np.arange(640) % n_classes, np.ones(640, bool), 64, n_classes, drift, rows)
        assert alarms == []
        assert {len(part) for part in drift if isinstance(part, np.ndarray)} == {n_classes}
        return drift

    two = watch(None, 2)
    again = watch(watch(two, 4), 2)
    assert again.detectors[0, 0] > two.detectors[0, 0] > detection.PRIOR_BLOCKS


def test_the_state_before_stays_as_it_was():
    drift, _ = known(list(np.random.default_rng(8).random((2, 500))))
    before = pickle.dumps(drift)
    _, alarms = feed(np.zeros(400), np.arange(400) % 2, np.ones(400, bool), drift=drift, rows=np.ones((400, 1)))
    assert alarms
    assert pickle.dumps(drift) == before


# Streams


def drifted(events: Iterable[Any]) -> list[ClassDrifted]:
    return [event for event in events if isinstance(event, ClassDrifted)]


def blobs(**arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(
        **grouped(**{"batch_size": 64, "chains": 1, "window": 64, "training_sweeps": 5, **arguments})
    )
    rng = np.random.default_rng(9)
    for x, y in zip(around(KNOWN["left"], 400, rng), around(KNOWN["right"], 400, rng), strict=True):
        model.learn_one(x, "left")
        model.learn_one(y, "right")
    model.freeze()
    return model


@pytest.fixture(scope="module")
def settled() -> OpenSetRecognizer:
    """A recognizer after 2048 instances of the classes that it knows. Tests stream to copies of it."""
    model = blobs()
    assert drifted(stream(model, mixed([*KNOWN.values()], 2048, 1))) == []
    return model


def mixed(centres: Sequence[tuple[float, float]], n: int, seed: int) -> list[dict[str, float]]:
    return list(instances(n, np.random.default_rng([seed, 10]), centres))


def stream(model: OpenSetRecognizer, rows: Iterable[dict]) -> list[Any]:
    for x in rows:
        model.learn_one(x)
    return list(model.drain_events())


@pytest.mark.parametrize("away", [(2.0, 0.0), (-3.0, 0.0), (-9.0, -9.0)], ids=["near", "off", "far"])
def test_a_class_that_moves_is_announced_with_its_movement(settled, away):
    model = copy(settled)
    events = stream(model, mixed([away, KNOWN["right"]], 1024, 2))
    (event,) = drifted(events)
    assert (event.label, event.direction) == ("left", "sparser")
    assert event.rank_now < 0.3 < 0.4 < event.rank_before
    assert abs(event.since - 2048) < 64
    assert event.seq - 2048 < 256
    assert 16 <= event.size < 130
    movement = event.movement
    assert movement.trained["a"] == pytest.approx(0, abs=0.2)
    # the latest mean: the class has not yet moved all the way
    assert [movement.mean["a"], movement.mean["b"]] == pytest.approx(away, abs=0.8, rel=0.25)
    assert [movement.shift["a"], movement.shift["b"]] == pytest.approx(away, abs=0.8, rel=0.25)
    assert model.signals.drift == 1
    json.dumps(event.as_dict(), allow_nan=False)
    if away == (-9.0, -9.0):  # nothing of it is accepted
        assert any(isinstance(other, SubclassEmerged) for other in events)
        decisions = [d for d in model.drain() if d.seq >= 2048 and d.nearest_class == "left"]
        assert all(d.label == "unknown" for d in decisions)


def test_a_class_that_narrows_is_announced_as_denser(settled):
    rng = np.random.default_rng(11)
    narrow = rng.normal([*KNOWN.values()], [[0.4], [1.0]], size=(600, 2, 2)).reshape(-1, 2)
    (event,) = drifted(stream(copy(settled), [dict(zip("ab", row, strict=True)) for row in narrow.tolist()]))
    assert (event.label, event.direction) == ("left", "denser")
    assert max(abs(shift) for shift in event.movement.shift.values()) < 0.4


@pytest.mark.parametrize("moves", [False, True])
def test_a_class_that_wanders_as_in_training_is_reported_once_and_again_when_it_moves(moves):
    """Classes come in runs of 16, each near its instance before."""
    rng, place, rows = np.random.default_rng(2), np.zeros((2, 2)), []
    for i in range(4600):
        j = i // 16 % 2
        place[j] = 0.9 * place[j] + 0.19**0.5 * rng.normal(size=2)
        rows.append(
            dict(zip("ab", (place[j] + [4.0 * (moves and i >= 3600 and not j), 12.0 * j]).tolist(), strict=True))
        )
    model = OpenSetRecognizer(**grouped(batch_size=64, chains=1, window=64, training_sweeps=5))
    for i, x in enumerate(rows[:1600]):
        model.learn_one(x, ("left", "right")[i // 16 % 2])
    events = drifted(stream(model, rows[1600:]))
    assert [e.label for e in events if e.seq < 2000] == ["left", "right"], "the spread within a run is narrow"
    assert [(e.label, e.direction) for e in events if e.seq >= 2000] == [("left", "sparser")] * moves
    assert all(event.size >= 100 for event in events)


def test_without_an_interval_there_are_no_detectors():
    model = blobs(drift_interval=None)
    stream(model, mixed([*KNOWN.values()], 512, 1))
    assert drifted(stream(model, mixed([(-9.0, -9.0), KNOWN["right"]], 1024, 2))) == []
    assert not model.value.stream.drift.arrived.any()


def test_a_class_that_a_label_opened_is_watched_too(settled):
    model = copy(settled)
    for x in around((0.0, 20.0), 100, np.random.default_rng(12)):
        model.learn_one(x, "above")
    stream(model, mixed([*KNOWN.values(), (0.0, 20.0)], 1024, 6))
    assert len(model.value.stream.drift.arrived) == 3
    assert model.value.stream.drift.arrived[2] > 200


@pytest.mark.parametrize("sudden", [False, True])
def test_a_column_that_moves_in_all_classes_is_drift_of_each_or_a_fault_of_the_column(settled, sudden):
    """Over 128 instances; or at once, as by an offset of a sensor."""
    rows = mixed([*KNOWN.values()], 1024, 2)
    for i, x in enumerate(rows):
        x["b"] -= 20.0 if sudden else 20.0 * min(1.0, i / 128)
    events = stream(copy(settled), rows)
    faults = [(e.column, e.kind, e.since) for e in events if isinstance(e, ColumnFailed)]
    assert faults == [("b", "shifted", 2048)] * sudden
    frames = [event for event in events if isinstance(event, FrameMoved)]
    assert [event.columns for event in frames] == [("b",)] * (not sudden), "all classes move together"
    moved = set() if sudden else {("left", "sparser"), ("right", "sparser")}
    assert {(event.label, event.direction) for event in drifted(events)} <= moved
    assert all(event.movement.shift["b"] < 0 for event in drifted(events))


@examples(100)
@given(
    st.integers(0, 10_000), st.integers(1, 12), st.lists(st.integers(0, 200), min_size=1, max_size=8), st.booleans()
)
def test_detectors_take_in_a_batch_as_the_oracle_does(seed, n_classes, sizes, shifted):
    rng = np.random.default_rng(seed)
    drift, first, count = detection.start_drift(n_classes, 3), 0, 0
    for size in sizes:
        nearest, accepted = rng.integers(n_classes, size=size), rng.random(size) < 0.7
        rank, rows = rng.random(size) ** (6 if shifted else 1), rng.normal(size=(size, 3))
        usual = None if rng.random() < 0.3 else rng.random(size) < 0.2
        batch = nearest, rank, accepted, rows
        share = rng.choice([1.0, 0.3])
        expected, alarms = oracle.follow(drift, *batch, first, 100.0, usual, share)
        drift, found = detection.follow(drift, *batch, first, n_classes, 100.0, usual, share)
        for one, other in zip(drift, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        for one, other in zip(found, alarms, strict=True):
            assert one[:4] == other[:4]
            np.testing.assert_allclose(np.hstack(one[4:]), np.hstack(other[4:]), rtol=1e-9, atol=1e-12)
        first, count = first + size, count + len(found)
    assert not shifted or count or sum(sizes) < 400 * n_classes
