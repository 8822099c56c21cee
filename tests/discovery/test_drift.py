"""Known classes that move, and new ones that do not look like it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river.drift import PageHinkley

from stream_osr import ClassDrifted, ColumnFailed, OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped, parameters
from stream_osr.discovery import drift as law
from stream_osr.features import Features
from stream_osr.model.whitening import whiten
from stream_osr.stream import BufferedInstance, close_batch, open_stream
from stream_osr.trained import train_model
from tests.blobs import around, instances
from tests.oracles import drift as oracle

INTERVAL = 1e6


def feed(
    rank: np.ndarray,
    nearest: np.ndarray,
    accepted: np.ndarray,
    rows: np.ndarray,
    cuts: Iterable[int],
    n_classes: int = 2,
    drift: law.Drift | None = None,
) -> tuple[law.Drift, list[law.Alarm]]:
    """Take in a stream, cut into batches."""
    drift = law.start_drift(n_classes, rows.shape[1]) if drift is None else drift
    alarms: list[law.Alarm] = []
    edges = [0, *cuts, len(rank)]
    for begin, end in pairwise(edges):
        part = slice(begin, end)
        batch = nearest[part], rank[part], accepted[part], rows[part]
        drift, told = law.follow(drift, *batch, begin, n_classes, INTERVAL)
        alarms += told
    return drift, alarms


def every(n: int, size: int = 64) -> range:
    return range(size, n, size)


def known(ranks: Sequence[np.ndarray]) -> tuple[law.Drift, list[law.Alarm]]:
    """Take in a stream of accepted instances, the classes in turns."""
    rank = np.stack(ranks, axis=1).ravel()
    nearest = np.arange(len(rank)) % len(ranks)
    return feed(rank, nearest, np.ones(len(rank), bool), np.zeros((len(rank), 1)), every(len(rank)), len(ranks))


# What is compiled is the oracle's


@given(
    st.integers(0, 10_000), st.integers(1, 12), st.lists(st.integers(0, 200), min_size=1, max_size=8), st.booleans()
)
def test_detectors_take_in_a_batch_as_the_oracle_does(seed, n_classes, sizes, shifted):
    rng = np.random.default_rng(seed)
    drift, first, told = law.start_drift(n_classes, 3), 0, 0
    for size in sizes:
        nearest, accepted = rng.integers(n_classes, size=size), rng.random(size) < 0.7
        rank, rows = rng.random(size) ** (6 if shifted else 1), rng.normal(size=(size, 3))
        usual = None if rng.random() < 0.3 else rng.random(size) < 0.2
        batch = nearest, rank, accepted, rows
        expected, alarms = oracle.follow(drift, *batch, first, 100.0, usual)
        drift, found = law.follow(drift, *batch, first, n_classes, 100.0, usual)
        for one, other in zip(drift, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        assert [one[:4] for one in found] == [one[:4] for one in alarms]
        for one, other in zip(found, alarms, strict=True):
            np.testing.assert_allclose(np.hstack(one[4:]), np.hstack(other[4:]), rtol=1e-9, atol=1e-12)
        first, told = first + size, told + len(found)
    assert not shifted or told or sum(sizes) < 400 * n_classes


# A detector is river's


@pytest.mark.parametrize("level", [0.1, 0.3, 0.42, 0.6, 0.9])
def test_alarms_are_those_of_river(level):
    rng = np.random.default_rng(1)
    rank = np.concatenate([rng.random(2000), np.clip(rng.normal(level, 0.2, 800), 0, 1)])
    threshold = law.threshold_for(INTERVAL) / law.BLOCK
    river = PageHinkley(min_instances=1, delta=law.TOLERANCE, threshold=threshold, alpha=1.0)
    for _ in range(law.PRIOR_BLOCKS):
        river.update(0.5)
    theirs = None
    for number, mean in enumerate(rank.reshape(-1, law.BLOCK).mean(axis=1).tolist()):
        river.update(mean)
        if river.drift_detected:
            theirs = number
            break
    everybody, nobody = np.ones(len(rank), bool), np.zeros(len(rank), int)
    for size in (1, 5, 64, 3000):
        _, (alarm, *_) = feed(rank, nobody, everybody, np.zeros((len(rank), 1)), every(len(rank), size))
        assert alarm.since + alarm.size == law.BLOCK * (theirs + 1)
        assert alarm.direction == ("sparser" if level < 0.5 else "denser")
        assert alarm.rank_now == pytest.approx(level, abs=0.12)
        assert alarm.rank_before == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("level", "soon", "direction"), [(0.15, 56, "sparser"), (0.3, 160, "sparser"), (0.75, 120, "denser")]
)
def test_a_change_is_told_soon_once_and_dated(level, soon, direction):
    for seed in range(5):
        rng = np.random.default_rng([seed, 2])
        changed = rng.beta(4 * level, 4 * (1 - level), 3000)
        _, alarms = known([rng.random(6000), np.concatenate([rng.random(3000), changed])])
        assert [(alarm.j, alarm.direction) for alarm in alarms] == [(1, direction)]
        (alarm,) = alarms
        assert alarm.size <= soon
        assert abs(alarm.since - 6000) <= 2 * soon
        assert alarm.rank_now == pytest.approx(level, abs=0.1)


def test_the_way_back_is_another_change():
    rng = np.random.default_rng(3)
    there, back = rng.beta(1, 6, 1000), rng.random(1000)
    _, alarms = known([rng.random(4000), np.concatenate([rng.random(2000), there, back])])
    assert [(alarm.j, alarm.direction) for alarm in alarms] == [(1, "sparser"), (1, "denser")]


def test_one_far_instance_is_no_change():
    rng = np.random.default_rng(4)
    rank = rng.random(3000)
    rank[1500:1510] = 0.0
    assert known([rank, rng.random(3000)])[1] == []


# What counts: all accepted instances, and unknown ones that replace them


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("instead", [False, True], ids=["beside", "instead"])
def test_a_new_class_is_drift_where_it_is_instead_of_a_known_one_and_not_beside_it(instead, n_classes):
    """From position 4000 on half of the stream is unknown and nearest to class 0: on top of it, or in its place."""
    rng = np.random.default_rng(5)
    n = 8000
    rank, nearest, accepted = rng.random(n), rng.integers(n_classes, size=n), np.ones(n, bool)
    late = np.arange(n) >= n // 2
    new = late & (nearest == 0) if instead else late & (rng.random(n) < 0.5)
    nearest[new], rank[new], accepted[new] = 0, 0.0, False
    _, alarms = feed(rank, nearest, accepted, np.zeros((n, 1)), every(n), n_classes)
    assert [(alarm.j, alarm.direction) for alarm in alarms] == [(0, "sparser")] * instead
    for alarm in alarms:
        assert alarm.rank_now < 0.15
        assert abs(alarm.since - 4000) < 200


def test_outliers_at_a_steady_rate_are_no_drift():
    rng = np.random.default_rng(6)
    n = 20_000
    rank, accepted = rng.random(n), rng.random(n) > 0.05
    rank[~accepted] = 0.0
    assert feed(rank, rng.integers(4, size=n), accepted, np.zeros((n, 1)), every(n), 4)[1] == []


def beside_new(n: int, n_classes: int, seed: int, gone_from: int, told_of_new: bool) -> list[law.Alarm]:
    """Alarms where a new class is nearest to class 0, which may be gone from a position on."""
    rng = np.random.default_rng([7, seed])
    drift, told = law.start_drift(n_classes, 1), []
    source = rng.integers(n_classes + 1, size=n)
    new, gone = source == n_classes, (source == 0) & (np.arange(n) >= gone_from)
    rank = np.where(new | gone, 0.0, rng.random(n))
    for begin in range(0, n, 250):
        part = slice(begin, begin + 250)
        accepted, rows = ~(new | gone)[part], np.zeros((250, 1))
        batch = source[part] % n_classes, rank[part], accepted, rows
        drift, alarms = law.follow(drift, *batch, begin, n_classes, INTERVAL, new[part] if told_of_new else None)
        told += alarms
    return told


def test_chance_gaps_are_not_filled_by_what_comes_anyway():
    assert beside_new(200_000, 4, 1, 200_000, told_of_new=True) == []
    assert len(beside_new(200_000, 4, 1, 200_000, told_of_new=False)) > 5


def test_a_class_that_goes_is_missed_beside_what_comes_anyway():
    told = beside_new(12_000, 2, 2, 10_000, told_of_new=True)
    assert [(alarm.j, alarm.direction) for alarm in told] == [(0, "sparser")]
    assert abs(told[0].since - 10_000) < 500


def test_classes_may_come_and_go():
    rng = np.random.default_rng(7)

    def watch(drift: law.Drift | None, n_classes: int) -> law.Drift:
        n = 640
        rank, everybody, rows = rng.random(n), np.ones(n, bool), rng.normal(size=(n, 3))
        drift, alarms = feed(rank, np.arange(n) % n_classes, everybody, rows, every(n), n_classes, drift)
        assert alarms == []
        assert {len(part) for part in drift if isinstance(part, np.ndarray)} == {n_classes}
        return drift

    two = watch(None, 2)
    again = watch(watch(two, 4), 2)
    assert again.detectors[0, 0] > two.detectors[0, 0] > law.PRIOR_BLOCKS


def test_what_is_taken_in_changes_nothing_that_was():
    rng = np.random.default_rng(8)
    drift, _ = known(list(rng.random((2, 500))))
    before = pickle.dumps(drift)
    rank = np.zeros(400)
    _, alarms = feed(rank, np.arange(400) % 2, np.ones(400, bool), np.ones((400, 1)), every(400), 2, drift)
    assert alarms
    assert pickle.dumps(drift) == before


# Streams


def drifted(events: Iterable[Any]) -> list[ClassDrifted]:
    return [event for event in events if isinstance(event, ClassDrifted)]


CENTRES = {"left": (0.0, 0.0), "right": (10.0, 0.0)}


def blobs(**arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(
        **grouped(**{"batch_size": 64, "chains": 1, "window": 64, "training_sweeps": 5, **arguments})
    )
    rng = np.random.default_rng(9)
    for x, y in zip(around(CENTRES["left"], 400, rng), around(CENTRES["right"], 400, rng), strict=True):
        model.learn_one(x, "left")
        model.learn_one(y, "right")
    model.freeze()
    return model


def mixed(centres: Sequence[tuple[float, float]], n: int, seed: int) -> list[dict[str, float]]:
    return list(instances(n, np.random.default_rng([seed, 10]), centres))


def stream(model: OpenSetRecognizer, rows: Iterable[dict]) -> list[Any]:
    for x in rows:
        model.learn_one(x)
    return list(model.drain_events())


@pytest.mark.parametrize("seed", range(2))
def test_nothing_drifts_in_a_long_quiet_stream(seed):
    model = blobs(seed=seed, window=0)
    assert drifted(stream(model, mixed([*CENTRES.values()], 20_000, seed))) == []
    assert model.signals.drift == 0


@pytest.mark.parametrize("away", [(2.0, 0.0), (-3.0, 0.0), (-9.0, -9.0)], ids=["near", "off", "far"])
def test_a_class_that_moves_is_told_with_its_way(away):
    model = blobs()
    assert drifted(stream(model, mixed([*CENTRES.values()], 2048, 1))) == []
    moved = [(CENTRES["left"][0] + away[0], CENTRES["left"][1] + away[1]), CENTRES["right"]]
    events = stream(model, mixed(moved, 1024, 2))
    (event, *more) = drifted(events)
    assert more == []
    assert (event.label, event.direction) == ("left", "sparser")
    assert event.rank_now < 0.3 < 0.4 < event.rank_before
    assert abs(event.since - 2048) < 64
    assert event.seq - 2048 < 256
    assert 16 <= event.size < 130
    way = event.movement
    assert way.trained["a"] == pytest.approx(0, abs=0.2)
    # what it has been like lately: the way is not wholly gone
    assert [way.mean["a"], way.mean["b"]] == pytest.approx(moved[0], abs=0.8, rel=0.25)
    assert [way.shift["a"], way.shift["b"]] == pytest.approx(away, abs=0.8, rel=0.25)
    assert model.signals.drift == 1
    json.dumps(event.as_dict(), allow_nan=False)
    if away == (-9.0, -9.0):  # nothing of it is accepted
        assert any(isinstance(other, SubclassEmerged) for other in events)
        decisions = [d for d in model.drain() if d.seq >= 2048 and d.nearest_class == "left"]
        assert all(d.label == "unknown" for d in decisions)


def test_a_class_that_narrows_is_told_as_denser():
    model, rng = blobs(), np.random.default_rng(11)
    assert drifted(stream(model, mixed([*CENTRES.values()], 2048, 3))) == []
    narrow = rng.normal([CENTRES["left"], CENTRES["right"]], [[0.4], [1.0]], size=(600, 2, 2)).reshape(-1, 2)
    (event,) = drifted(stream(model, [dict(zip("ab", row, strict=True)) for row in narrow.tolist()]))
    assert (event.label, event.direction) == ("left", "denser")
    assert max(abs(shift) for shift in event.movement.shift.values()) < 0.4


FOUR = np.array([[0, 0, 0, 0], [12, 0, 0, 0], [0, 12, 0, 0], [0, 0, 12, 0]], dtype=float)
NEARBY = np.array([0, 0, 0, 7.0])


@pytest.mark.parametrize(("n", "seed"), [(60_000, 0), pytest.param(1_000_000, 1, marks=pytest.mark.long)])
def test_a_new_class_that_stays_is_no_drift_of_its_neighbour(n, seed):
    """Beside one of four known Gaussians."""
    rng = np.random.default_rng([seed, 13])
    chosen = parameters(seed=seed, chains=1, unknown=4)
    rows, group = np.repeat(FOUR, 200, axis=0), np.repeat(np.arange(4), 200)
    trained = train_model(Features(range(4)), rng.normal(rows), group, tuple(range(4)), chosen)
    running, told, right = open_stream(trained, chosen), 0, 0
    for _ in range(n // 256):
        truth = rng.integers(5, size=256)
        whitened = whiten(trained.whitening, rng.normal(np.vstack([FOUR, NEARBY])[truth]))
        arrived = [BufferedInstance(row, None, None) for row in whitened]
        running, batch = close_batch(trained, running, arrived, [], chosen)
        told += len(drifted(batch.events))
        right += sum(d.label == y for d, y in zip(batch.decisions, truth, strict=True))
    assert told <= 1
    assert right / (n // 256 * 256) > 0.997


def test_no_detectors_when_not_asked():
    model = blobs(drift_interval=None)
    stream(model, mixed([*CENTRES.values()], 512, 1))
    assert drifted(stream(model, mixed([(-9.0, -9.0), CENTRES["right"]], 1024, 2))) == []
    assert not model.value.stream.drift.arrived.any()


def test_a_class_that_a_label_opened_is_watched_too():
    model = blobs()
    rng = np.random.default_rng(12)
    for x in around((0.0, 20.0), 100, rng):
        model.learn_one(x, "above")
    stream(model, mixed([*CENTRES.values(), (0.0, 20.0)], 1024, 6))
    assert len(model.value.stream.drift.arrived) == 3
    assert model.value.stream.drift.arrived[2] > 200


@pytest.mark.parametrize("sudden", [False, True])
def test_a_column_that_moves_in_all_classes_is_drift_of_each_or_a_fault_of_the_column(sudden):
    """Over 128 instances; or at once, as by an offset of a sensor."""
    model = blobs()
    assert drifted(stream(model, mixed([*CENTRES.values()], 2048, 1))) == []
    rows = mixed([*CENTRES.values()], 1024, 2)
    for i, x in enumerate(rows):
        x["b"] -= 20.0 if sudden else 20.0 * min(1.0, i / 128)
    events = stream(model, rows)
    faults = [(e.column, e.kind, e.since) for e in events if isinstance(e, ColumnFailed)]
    assert faults == [("b", "shifted", 2048)] * sudden
    moved = {} if sudden else {("left", "sparser"), ("right", "sparser")}
    assert {(event.label, event.direction) for event in drifted(events)} == set(moved)
    assert all(event.movement.shift["b"] < -5 for event in drifted(events))
