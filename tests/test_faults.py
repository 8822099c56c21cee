"""Data faults: columns that fail are named and missing while they do, and rows that repeat count once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from stream_osr import ColumnFailed, Decision, Event, OpenSetRecognizer, RowsRepeated, SubclassEmerged
from stream_osr.discovery import data_quality, repeated_rows
from tests.blobs import ended, further, learn_all

NAMES = tuple(f"x{at}" for at in range(6))
TRAINING, BATCH = 400, 32


def usual(X: np.ndarray, group: np.ndarray | None = None) -> data_quality.UsualColumns:
    group = np.zeros(len(X), np.int64) if group is None else group
    return data_quality.usual_columns(X, group, np.ones(X.shape[1], bool))


def followed(
    of: data_quality.UsualColumns, X: np.ndarray, size: int = BATCH
) -> tuple[data_quality.ColumnStates, np.ndarray, list[tuple[int, str, int]]]:
    """Follow rows in batches: the columns then, what was hidden, and column, kind and beginning of each fault."""
    columns, hidden, faults = data_quality.start_columns(X.shape[1]), list[np.ndarray](), list[tuple[int, str, int]]()
    for at in range(0, len(X), size):
        columns, missing, begun = data_quality.follow_columns(of, columns, X[at : at + size], at)
        hidden.append(missing)
        faults += [(fault.column, fault.kind, fault.since) for fault in begun]
    return columns, np.vstack(hidden), faults


def runs_of(x: np.ndarray) -> list[int]:
    """The length of the run of one value that each of some values ends: the slow twin."""
    out: list[int] = []
    for i, value in enumerate(x):
        out.append(out[-1] + 1 if i and value == x[i - 1] else 1)
    return out


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(5)


def test_a_column_is_stuck_after_sixteen_equal_values_and_in_its_batch_from_the_first(rng: Generator) -> None:
    of, X = usual(rng.normal(size=(TRAINING, 4))), rng.normal(size=(200, 4))
    X[70:120, 2] = 0.25
    for size, hidden_from in ((1, 85), (64, 70)):
        columns, hidden, faults = followed(of, X, size=size)
        assert faults == [(2, "stuck", 70)]
        assert np.flatnonzero(hidden[:, 2]).tolist() == list(range(hidden_from, 120))
        assert not np.delete(hidden, 2, axis=1).any()
        assert not columns.kind.any()


@pytest.mark.parametrize("size", [1, 7, 64])
def test_runs_go_on_from_batch_to_batch_and_missing_values_do_not_end_them(rng: Generator, size: int) -> None:
    of, X = usual(rng.normal(size=(TRAINING, 3))), rng.normal(size=(150, 3))
    X[:, 1] = rng.integers(2, size=150)
    columns, _, _ = followed(of, X, size)
    assert columns.run.tolist() == [runs_of(x)[-1] for x in X.T]
    X[40:60, 0], X[43:57, 0] = 0.5, np.nan
    assert not followed(of, X, size)[2]
    X[43:57, 0] = 0.5
    assert followed(of, X, size)[2] == [(0, "stuck", 40)]


def test_longer_runs_in_training_make_longer_runs_usual(rng: Generator) -> None:
    X = rng.normal(size=(TRAINING, 2))
    X[100:130, 0] = 1.5
    of, stream = usual(X), rng.normal(size=(200, 2))
    assert of.longest.tolist() == [30, 1]
    stream[50:105, 0] = 1.0
    assert not followed(of, stream)[2]
    stream[50:115, 0] = 1.0
    assert followed(of, stream)[2] == [(0, "stuck", 50)]


@pytest.mark.thorough
def test_columns_of_few_values_do_not_fail_by_chance(rng: Generator) -> None:
    shares = [0.5, 0.8, 0.97, 0.999]
    X = np.column_stack([(rng.random(60_000) < share).astype(float) for share in shares] + [rng.normal(size=60_000)])
    of = usual(X[:TRAINING])
    assert (of.stuck[:2] > 0).all()
    assert not followed(of, X[TRAINING:], size=1000)[2]


def test_a_constant_column_is_not_watched(rng: Generator) -> None:
    X = rng.normal(size=(3000, 3))
    X[:, 1] = 4.0
    assert not followed(usual(X[:TRAINING]), X[TRAINING:])[2]
    assert not followed(usual(X[:TRAINING]), np.where(np.arange(3) == 1, 1e6, X[TRAINING:]))[2]


def test_a_column_that_steps_on_its_own_stops_being_reported(rng: Generator) -> None:
    """Training was shuffled and has lost the runs that are usual: the stream shows them."""
    days = np.repeat(rng.normal(size=200), 40)
    X = np.column_stack([days, rng.normal(size=8000)])
    faults = followed(usual(X[rng.permutation(8000)[:TRAINING]]), X)[2]
    assert 1 <= len(faults) <= 2


def test_the_end_of_the_range_is_reached_for_longer(rng: Generator) -> None:
    """A valve that is fully open stays at 100 for a while."""
    X = np.minimum(rng.normal(95.0, 3.0, size=(2 * TRAINING, 2)), 100.0)
    of, stream = usual(X[:TRAINING]), X[TRAINING:]
    stream[50:110, 0] = 100.0
    assert not followed(of, stream)[2]
    stream[50:110, 0] = 97.5
    assert followed(of, stream)[2] == [(0, "stuck", 50)]


def two_classes(rng: Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    group = rng.integers(2, size=n)
    return rng.normal(size=(n, 4)) + 6.0 * group[:, None], group


def test_another_unit_is_out_of_scale_and_missing(rng: Generator) -> None:
    (X, group), (stream, _) = two_classes(rng, TRAINING), two_classes(rng, 300)
    stream[100:250, 3] *= 1000.0
    columns, hidden, faults = followed(usual(X, group), stream)
    ((column, kind, since),) = faults
    assert (column, kind) == (3, "out of scale")
    assert 96 <= since <= 104
    assert hidden[140:250, 3].all()
    assert not hidden[:95].any()
    assert not hidden[:, :3].any()
    assert not columns.kind.any()
    assert not hidden[270:].any()


def test_a_column_that_jumps_is_shifted_and_one_that_drifts_is_not(rng: Generator) -> None:
    (X, group), (jumped, _) = two_classes(rng, TRAINING), two_classes(rng, 600)
    of, drifting = usual(X, group), jumped.copy()
    jumped[200:, 1] += 40.0
    drifting[:, 1] += 40.0 * np.clip((np.arange(600) - 100) / 300, 0, 1)
    ((column, kind, since),) = followed(of, jumped)[2]
    assert (column, kind) == (1, "shifted")
    assert 196 <= since <= 204
    assert not followed(of, drifting)[2]


def test_a_new_class_that_lies_out_of_range_is_no_fault(rng: Generator) -> None:
    """Mixed with the known ones it is not all that comes; alone it is one kind of instance in its other columns."""
    (X, group), (stream, _) = two_classes(rng, TRAINING), two_classes(rng, 600)
    of, new = usual(X, group), rng.normal([0.0, 0.0, 0.0, 40.0], size=(600, 4))
    mixed, alone = stream.copy(), stream.copy()
    at = rng.random(600) < 0.5
    mixed[at], alone[200:400] = new[at], new[200:400]
    for rows in (mixed, alone):
        _, hidden, faults = followed(of, rows)
        assert not hidden.any()
        assert not faults
    alone[200:400, 3] *= 100.0
    _, hidden, faults = followed(of, alone)
    assert [kind for _, kind, _ in faults] == ["out of scale"]
    assert not hidden.any()


@pytest.mark.parametrize("failing", [2, 3])
def test_when_most_columns_fail_none_is_missing(rng: Generator, failing: int) -> None:
    of, stream = usual(rng.normal(size=(TRAINING, 4))), rng.normal(size=(200, 4))
    stream[50:100, :failing] = 0.5
    _, hidden, faults = followed(of, stream)
    assert len(faults) == failing
    assert hidden[70:100, :failing].all() == hidden.any() == (failing == 2)


def test_rows_that_repeat_wholly_and_single_ones_far_off_are_no_fault_of_columns(rng: Generator) -> None:
    of, stream = usual(rng.normal(size=(TRAINING, 4))), rng.normal(size=(4000, 4))
    stream[rng.random(4000) < 0.2, 0] *= 1e5
    stream[50:150] = stream[50]
    assert not followed(of, stream)[2]


def test_in_a_table_whose_rows_repeat_all_count(rng: Generator) -> None:
    group = rng.integers(2, size=TRAINING)
    assert repeated_rows.usual_copies(rng.normal(size=(TRAINING, 4)), group)[1:] == (4, 13)
    assert repeated_rows.usual_copies(rng.integers(2, size=(TRAINING, 2)).astype(float), group)[1:] == (0, 0)
    ordered = rng.normal(size=(TRAINING, 4))
    ordered[100:120] = ordered[100]
    assert repeated_rows.usual_copies(ordered, group).once == 41


# The recognizer: three classes of six features.


def problem(seed: int, n: int, new: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(1).normal(scale=4.0, size=(4, 6))
    y = rng.integers(3 + new, size=n)
    return 20.0 + centre[y] + rng.normal(size=(n, 6)), y


@pytest.fixture(scope="module")
def trained() -> Any:
    X, y = problem(0, TRAINING)
    model = OpenSetRecognizer(batch_size=BATCH, chains=2, seed=3)
    learn_all(model, zip(instances(X), (f"class {label}" for label in y), strict=True)).freeze()
    return model.trained


def instances(X: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]


def decided(
    trained: Any, X: np.ndarray, teach: Callable[[OpenSetRecognizer, int], object] | None = None
) -> tuple[OpenSetRecognizer, list[Decision]]:
    """Stream rows; ``teach`` is called before each."""
    model = OpenSetRecognizer.from_trained(trained, batch_size=BATCH, chains=2, seed=3)
    for key, x in enumerate(instances(X)):
        if teach:
            teach(model, key)
        model.learn_one(x, key=key)
    return model, ended(model)


def streamed(trained: Any, X: np.ndarray) -> tuple[OpenSetRecognizer, np.ndarray, list[Event]]:
    model, decisions = decided(trained, X)
    return model, np.array([decision.label for decision in decisions]), list(model.drain_events())


def of_kind(events: list[Event], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def right(labels: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(labels == np.char.add("class ", y.astype(str))))


@pytest.mark.parametrize(
    ("factor", "more", "kind"), [(0.0, 21.0, "stuck"), *further((0.0, 0.0, "stuck"), (1000.0, 0.0, "out of scale"))]
)
def test_a_column_that_fails_is_named_and_makes_no_class(trained: Any, factor: float, more: float, kind: str) -> None:
    X, y = problem(1, 1200)
    X[384:, 4] = factor * X[384:, 4] + more
    model, labels, events = streamed(trained, X)
    (failed,) = of_kind(events, ColumnFailed)
    assert (failed.column, failed.kind) == ("x4", kind)
    assert 380 <= failed.since <= 386
    assert failed.seq == 384 + BATCH - 1
    assert failed.low < 20.0 < failed.high
    assert not of_kind(events, SubclassEmerged)
    assert right(labels[480:], y[480:]) > 0.97
    assert model.signals.faulty_columns == ("x4",)
    assert model.signals.data_faults == 1
    assert "data faults 1; columns that fail: x4" in str(model.signals)


def test_predictions_between_batches_leave_out_what_a_column_says_that_fails(trained: Any) -> None:
    X, y = problem(1, 640)
    X[400:, 4] = 0.0
    model = streamed(trained, X)[0]
    before = model.value.stream
    row = dict(zip(NAMES, X[-1].tolist(), strict=True))
    assert model.predict_one(row) == f"class {y[-1]}"
    assert model.predict_proba_one(row) == model.predict_proba_one({**row, "x4": None})
    assert model.predict_proba_one({**row, "x4": 20.0}) != model.predict_proba_one({**row, "x4": None})
    assert model.value.stream is before


def test_a_new_class_with_a_constant_column_is_not_hidden(trained: Any) -> None:
    """It comes for sixty instances at a time: its column repeats one value, and the others show it."""
    X, y = problem(3, 1200)
    rng = np.random.default_rng(6)
    at = (np.arange(1200) >= 300) & (np.arange(1200) // 60 % 3 == 0)
    X[at] = 20.0 + rng.normal(scale=4.0, size=6) + rng.normal(size=(at.sum(), 6))
    X[at, 2] = 21.0
    _, labels, events = streamed(trained, X)
    assert np.mean(labels[at][60:] == "unknown") > 0.95
    assert of_kind(events, SubclassEmerged)
    assert right(labels[~at], y[~at]) > 0.97


@pytest.mark.parametrize(("every", "is_known"), [(1, False), *further((1, True), (2, True))])
def test_a_row_sent_again_and_again_stays_what_it_is_and_makes_no_class(
    trained: Any, every: int, is_known: bool
) -> None:
    X, y = problem(1, 1500)
    at = np.arange(405, 405 + 500 * every, every)
    X[at] = X[405] if is_known else 60.0 + np.arange(6.0)
    model, labels, events = streamed(trained, X)
    assert set(labels[at]) == {f"class {y[405]}" if is_known else "unknown"}
    assert not of_kind(events, SubclassEmerged)
    (repeated,) = of_kind(events, RowsRepeated)
    assert repeated.first.key in range(405, 405 + 20)
    assert repeated.usual == 1
    assert model.signals.data_faults == 1


def test_copies_have_the_reasons_of_the_first(trained: Any) -> None:
    X, _ = problem(1, 640)
    X[410:500] = X[410]
    decisions = decided(trained, X)[1]
    first, copy = decisions[410], decisions[499]
    assert (copy.label, copy.distance, copy.density_rank) == (first.label, first.distance, first.density_rank)
    assert (copy.key, copy.seq) == (499, 499)


def test_a_row_repeats_while_a_label_opens_a_class(trained: Any) -> None:
    X, _ = problem(1, 4 * BATCH)
    X[BATCH // 2 :] = X[BATCH // 2]

    def teach(model: OpenSetRecognizer, key: int) -> None:
        if key == 3 * BATCH - 1:
            model.learn_one(dict.fromkeys(NAMES, 60.0), "opened")

    decisions = decided(trained, X, teach)[1]
    assert len(decisions) == 4 * BATCH
    assert {decision.label for decision in decisions[BATCH:]} == {decisions[BATCH].label}
    assert decisions[-1].probabilities["opened"] < 0.01


def test_a_saved_stream_goes_on_with_its_faults(trained: Any, tmp_path: Path) -> None:
    X, _ = problem(1, 900)
    X[450:520], X[300:, 4] = X[450], 21.0
    model = streamed(trained, X[:470])[0]
    model.save(tmp_path / "model.osr")
    again = OpenSetRecognizer.load(tmp_path / "model.osr")
    assert again.signals.faulty_columns == ("x4",)
    for one in (model, again):
        one.learn_many(instances(X[470:]))
    assert list(model.drain()) == list(again.drain())
    assert list(model.drain_events()) == list(again.drain_events())


def test_the_window_is_bounded(trained: Any) -> None:
    X, _ = problem(1, 640)
    X[::2] = X[0]
    stream = streamed(trained, X)[0].value.stream
    assert len(stream.faults.rows) == repeated_rows.WINDOW
    assert len(stream.faults.copies) == 1
