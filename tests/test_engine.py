"""One micro-batch at a time, as a value: what goes in stays as it is, what comes out follows from it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from stream_osr import SubclassEmerged, TrainedModel
from stream_osr.config import Parameters
from stream_osr.model.whitening import whiten
from stream_osr.stream import BufferedInstance, Stream, close_batch, open_stream
from stream_osr.stream.batch import BatchOutput
from stream_osr.stream.late_labels import Evidence, learn_evidence
from stream_osr.stream.recent_instances import DecidedBatch, as_batches, from_batches, recall, remember, unshared
from tests.blobs import KNOWN, bits, check_stream, fitted, members, stream_part

PARAMETERS = Parameters(batch_size=32, window=40, half_life=80.0, label_horizon=200, seed=5)


SETTINGS = (("window", 0), ("sweeps", 0), ("half_life", float("inf")), ("half_life", 1.0))


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


def test_randomness_depends_on_seed_and_number_of_the_batch(trained):
    first, _ = run(trained, 3)
    other_seed, _ = run(trained, 3, seed=6)
    assert bits(first.state) != bits(other_seed.state)
    batch = arrivals(trained, 32, 96)
    later = first._replace(
        chains=tuple(chain._replace(state=chain.state._replace(batches=17)) for chain in first.chains)
    )
    probabilities = [
        [d.probabilities for d in close_batch(trained, stream, batch, [], PARAMETERS)[1].decisions]
        for stream in (first, later)
    ]
    assert probabilities[0] != probabilities[1]


def test_events_name_batch_position_and_model(trained):
    events = [event for batch in run(trained, 3)[1] for event in batch.events]
    assert any(isinstance(event, SubclassEmerged) for event in events)
    assert {e.batch for e in events} <= {0, 1, 2}
    assert all((e.seq, e.model) == (32 * e.batch + 31, trained.fingerprint) for e in events)


@pytest.mark.parametrize(
    ("size", "changes"),
    [(1, {}), (2, {}), (33, {}), *((32, {name: value}) for name, value in SETTINGS)],
    ids=str,
)
def test_books_balance_after_batches_of_any_size_whatever_the_settings(trained, size, changes):
    stream = open_stream(trained, PARAMETERS)
    for start in range(0, 330 if size < 32 else 192, size):
        arrived = arrivals(trained, size, start)
        stream, _ = close_batch(trained, stream, arrived, [], PARAMETERS.model_copy(update=changes))
        check_stream(stream)


def test_members_are_followed_through_the_window(trained):
    # an instance may move while it is in the window; where it sits must be known when its label comes
    for batches in (2, 5, 8, 12):
        stream, _ = run(trained, batches, label_horizon=10_000)
        for number, chain in enumerate(stream.chains):
            count = {key: len(inside) for key, inside in members(stream, number).items()}
            assert count == dict(zip(chain.state.ids.tolist(), chain.state.dishes.size.tolist(), strict=True))


def test_an_identity_means_the_same_subclass_after_a_batch(trained):
    # a subclass that nobody stayed in is another subclass
    parameters = PARAMETERS.model_copy(update={"label_horizon": 10_000})
    rng = np.random.default_rng(11)
    stream = open_stream(trained, PARAMETERS)
    for b in range(100):
        angle, known = 2.4 * (b // 8), list(KNOWN.values())
        centres = [*known, ((20 + b) * np.cos(angle), (20 + b) * np.sin(angle))]
        rows = [row(trained, tuple(rng.normal(centres[i % 3]))) for i in range(32)]
        before, held = members(stream), stream.state.franchise.held[len(stream.labels) :] > 0
        may_be_empty = set(stream.state.ids[held].tolist())
        stream, _ = close_batch(
            trained, stream, [BufferedInstance(each, None, None) for each in rows], [], parameters
        )
        for key, inside in members(stream).items():
            if key in before and key not in may_be_empty:
                assert set(inside) & set(before[key]), f"batch {b}: {key} has changed hands"


# Late labels


def test_labels_without_instances_decide_nothing(trained):
    stream, _ = run(trained, 2)
    following, batch = close_batch(trained, stream, [], [Evidence("left", row(trained, KNOWN["left"]))], PARAMETERS)
    assert batch == BatchOutput([], [], {"unknown_keys": 0})
    assert (following.state.batches, following.state.seen) == (2, 64)
    assert following.known.size.tolist() == [41, 40]
    check_stream(following)


def test_nothing_to_learn_changes_nothing(trained):
    stream, _ = run(trained, 2)
    assert learn_evidence(stream, [], PARAMETERS) == (stream, [])
    same, missing = learn_evidence(stream, [Evidence("left", None, "nobody")], PARAMETERS)
    assert missing == ["nobody"]
    assert bits([chain.known for chain in same.chains]) == bits([chain.known for chain in stream.chains])


def test_labels_open_classes_in_their_order_with_ids_of_their_own(trained):
    stream, _ = run(trained, 6)
    emerging, next_id, far = stream.state.ids.tolist(), stream.state.next_id, row(trained, (100.0, 100.0))
    stream, _ = learn_evidence(stream, [Evidence(label, far) for label in ("x", "left", "y", "x")], PARAMETERS)
    assert stream.labels == ("left", "right", "x", "y")
    assert stream.known.size.tolist() == [41, 40, 2, 1]
    assert len(stream.decided) == 5
    fresh = stream.known.ids.tolist()[len(trained.known.ids) :]
    assert fresh == list(range(next_id, stream.state.next_id))
    assert len(fresh) >= 2
    assert stream.state.ids.tolist() == emerging
    check_stream(stream)


@pytest.mark.parametrize(("position", "delay"), [("in the window", 40), ("settled", 0), ("settled", 40)])
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


def test_batches_wholly_beyond_the_horizon_are_dropped():
    past = from_batches((), 1, 2)
    for b in range(5):
        past = remember(past, chunk(4 * b, *"wxyz"), 8)
        assert past.batches.tolist() == [4 * b - 4, 4 * b][-(b + 1) :]
    assert remember(past, chunk(20, *"wxyz"), 9).batches.tolist() == [12, 16, 20]
    gone = remember(past, chunk(20, *"wxyz"), 0)
    assert (gone.seq, as_batches(gone), gone.rows.shape, gone.subclass.shape) == (24, (), (0, 2), (1, 0))
    assert remember(gone, chunk(24, *"wxyz"), 4).batches.tolist() == [24]


def test_an_older_past_stays_what_it_was_whoever_goes_on_from_it():
    pasts = [from_batches((), 1, 2)]
    for b in range(40):
        pasts.append(remember(pasts[-1], chunk(4 * b, *"wxyz"), 30))
    before = [bits(as_batches(past)) for past in pasts]
    for past in pasts:  # each goes on once more, as after a batch that failed, and another way
        seq = past.seq + len(past.keys)
        again = remember(past, chunk(seq, *"abcd"), 30)
        assert as_batches(again)[-1].keys == tuple("abcd")
        assert bits(as_batches(again)[:-1]) == bits(as_batches(past)[-7:])
        labelled = unshared(again)
        labelled.keys[0], labelled.subclass[:, 0] = None, 7
    assert [bits(as_batches(past)) for past in pasts] == before
    for copied in (copy.deepcopy(pasts[-1]), pickle.loads(pickle.dumps(pasts[-1]))):
        assert bits(as_batches(copied)) == before[-1]
        assert len(copied.room.rows) == len(copied.keys)


def test_rows_take_little_more_room_than_the_horizon_needs(trained):
    stream, _ = run(trained, 20)
    assert stream.recent.batches.tolist() == [416, 448, 480, 512, 544, 576, 608]
    assert len(stream.recent.room.rows) <= 1.25 * (200 + 2 * 32)
