"""One micro-batch at a time, as a value: what goes in stays as it is, what comes out follows from it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from stream_osr import SubclassEmerged, TrainedModel
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import Parameters
from stream_osr.stream import BufferedInstance, Stream, close_batch, open_stream
from stream_osr.stream.batch import BatchOutput
from stream_osr.stream.late_labels import Evidence, learn_evidence
from stream_osr.stream.recent_instances import DecidedBatch, from_batches, recall
from tests.blobs import KNOWN, bits, check_stream, fitted, further, members, stream_part

PARAMETERS = Parameters(batch_size=32, window=40, half_life=80.0, label_horizon=200, seed=5)


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted().trained


def row(trained: TrainedModel, centre: tuple[float, float]) -> np.ndarray:
    return np.asarray(whiten(trained.whitening, np.array([centre]))[0])


def arrivals(trained: TrainedModel, n: int, start: int = 0, seed: int = 0) -> list[BufferedInstance]:
    rows = [row(trained, (x["a"], x["b"])) for x, _ in stream_part(start + n, seed=seed)[start:]]
    return [BufferedInstance(each, float(start + i), f"k{start + i}") for i, each in enumerate(rows)]


def run(trained: TrainedModel, batches: int, **changes: Any) -> tuple[Stream, list[BatchOutput]]:
    stream, out = open_stream(trained, PARAMETERS), []
    parameters = PARAMETERS.model_copy(update=changes)
    for b in range(batches):
        stream, batch = close_batch(trained, stream, arrivals(trained, 32, 32 * b), [], parameters)
        out.append(batch)
    return stream, out


def test_closing_a_batch_changes_nothing_that_went_in(trained):
    stream, _ = run(trained, 4)
    left, batch = row(trained, KNOWN["left"]), arrivals(trained, 32, 128)
    evidence = [Evidence("left", left), Evidence("third", None, "k100"), Evidence("left", None, "k1")]
    before = [pickle.dumps(each) for each in (trained, stream, batch, evidence)]
    following = close_batch(trained, stream, batch, evidence, PARAMETERS)
    assert [pickle.dumps(each) for each in (trained, stream, batch, evidence)] == before
    assert following[0].known is not stream.known
    again = close_batch(trained, stream, batch, evidence, PARAMETERS)  # replayed: the same bits
    assert bits(again) == bits(following)


def test_events_name_batch_position_and_model(trained):
    events = [event for batch in run(trained, 3)[1] for event in batch.events]
    assert any(isinstance(event, SubclassEmerged) for event in events)
    assert {e.batch for e in events} <= {0, 1, 2}
    assert all((e.seq, e.model) == (32 * e.batch + 31, trained.fingerprint) for e in events)


FURTHER = (1, {}), (32, {"half_life": 1.0}), (32, {"window": 0}), (32, {"sweeps": 0})


@pytest.mark.parametrize(("size", "changes"), [(33, {"half_life": float("inf")}), *further(*FURTHER)], ids=str)
def test_counts_agree_after_batches_of_any_size_whatever_the_settings(trained, size, changes):
    stream, arrived = open_stream(trained, PARAMETERS), arrivals(trained, 240 if size < 32 else 192)
    for start in range(0, len(arrived), size):
        batch = arrived[start : start + size]
        stream, _ = close_batch(trained, stream, batch, [], PARAMETERS.model_copy(update=changes))
        check_stream(stream)


def test_members_are_followed_through_the_window(trained):
    # an instance may move while it is in the window; where it sits must be known when its label comes
    for batches in (2, 12):
        stream, _ = run(trained, batches, label_horizon=10_000)
        for number, chain in enumerate(stream.chains):
            count = {key: len(inside) for key, inside in members(stream, number).items()}
            assert count == dict(zip(chain.state.ids.tolist(), chain.state.dishes.size.tolist(), strict=True))


@pytest.mark.thorough
def test_an_identity_means_the_same_subclass_after_a_batch(trained):
    # a subclass without the instances that it had is another subclass
    parameters = PARAMETERS.model_copy(update={"label_horizon": 10_000})
    rng = np.random.default_rng(11)
    stream = open_stream(trained, PARAMETERS)
    for b in range(100):
        angle, known = 2.4 * (b // 8), list(KNOWN.values())
        centres = [*known, ((20 + b) * np.cos(angle), (20 + b) * np.sin(angle))]
        rows = [row(trained, tuple(rng.normal(centres[i % 3]))) for i in range(32)]
        before, held = members(stream), stream.state.franchise.held[len(stream.labels) :] > 0
        may_be_empty = set(stream.state.ids[held].tolist())
        arrived = [BufferedInstance(each, None, None) for each in rows]
        stream, _ = close_batch(trained, stream, arrived, [], parameters)
        for key, inside in members(stream).items():
            if key in before and key not in may_be_empty:
                assert set(inside) & set(before[key]), f"batch {b}: {key} has changed hands"


# Late labels


def test_nothing_to_learn_changes_nothing(trained):
    stream, _ = run(trained, 2)
    assert learn_evidence(stream, [], PARAMETERS) == (stream, [])
    same, missing = learn_evidence(stream, [Evidence("left", None, "no key")], PARAMETERS)
    assert missing == ["no key"]
    assert bits([chain.known for chain in same.chains]) == bits([chain.known for chain in stream.chains])


@pytest.mark.parametrize(("position", "delay"), [("in the window", 40), ("settled", 0), *further(("settled", 40))])
def test_a_late_label_takes_the_seat_away(trained, position, delay):
    stream, _ = run(trained, 6, decision_delay=delay)  # decisions that wait keep all instances in the window
    window = set(stream.state.window_seq.tolist())
    seated = [(key, seq) for key, inside in members(stream).items() for seq in inside if len(inside) > 20]
    home, seq = next((k, s) for k, s in seated[::-1] if (s in window) == (position == "in the window"))
    following, _ = learn_evidence(stream, [Evidence("left", None, f"k{seq}")], PARAMETERS)
    check_stream(following)
    slot, after = (each.state.ids.tolist().index(home) for each in (stream, following))
    seats, left = (each.state.franchise.seated[0, len(each.labels) :] for each in (stream, following))
    weight = 0.5 ** ((stream.state.seen - seq // 32 * 32) / PARAMETERS.half_life)  # seats fade batch by batch
    assert left[after] == pytest.approx(seats[slot] - weight)
    h = np.append(stream.recent.rows[seq - stream.recent.seq], 1.0)
    statistics, upper = following.state.dishes.matrix[after], np.triu_indices(len(h))  # kernels keep one triangle
    expected = (stream.state.dishes.matrix[slot] - np.outer(h, h))[upper]
    assert np.allclose(statistics[upper], expected) or np.allclose(statistics.T[upper], expected)
    assert following.state.window_seq.tolist() == [s for s in stream.state.window_seq.tolist() if s != seq]
    assert following.state.seen == stream.state.seen


# What is remembered of the past


def chunk(seq: int, *keys: Any) -> DecidedBatch:
    n = len(keys)
    return DecidedBatch(np.full((n, 2), float(seq)), keys, (None,) * n, seq, np.full((1, n), -1), np.zeros(n))


def test_the_latest_instance_of_a_key_is_recalled():
    past = from_batches((chunk(0, "a", "b", "a", ("a", "b")), chunk(4, "c", None, "b", 7)), 1, 2)
    assert [recall(past, key) for key in ("a", "b", ("a", "b"), 7, 7.0, "d", None)] == [2, 6, 3, 7, 7, -1, -1]
    assert recall(from_batches((), 1, 2), "a") == -1
