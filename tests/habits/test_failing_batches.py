"""A micro-batch that cannot be closed changes nothing, and is given up when it fails every time."""

from __future__ import annotations

import pickle
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import FailedDecision, OpenSetRecognizer
from stream_osr.archive.recognizers import content_of
from stream_osr.config import grouped
from stream_osr.stream import recognizer_state
from stream_osr_connectors.engine import RecordStream
from stream_osr_connectors.engine.stream import ATTEMPTS
from stream_osr_connectors.files import CsvSource, MemorySink, MemorySource, Record
from stream_osr_connectors.files.file_run import Sinks
from tests.file_runs import run

SIZE = 4


def instances(n: int, seed: int = 0) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    return [{"a": 12.0 * (i % 2) + rng.normal(), "b": rng.normal()} for i in range(n)]


def untrained(**arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(**{"chains": 1, "batch_size": SIZE, **arguments}))
    for i, x in enumerate(instances(60)):
        model.learn_one(x, f"c{i % 2}")
    return model


@pytest.fixture
def model() -> OpenSetRecognizer:
    out = untrained()
    out.freeze()
    return out


class Failing:
    """Closing a batch raises the errors of a list, and an error if it has an instance with one of some keys."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[BaseException] = []
        self.bad: set[Any] = set()
        self.defects: set[Any] = set()
        self._close = recognizer_state.close_arrivals
        monkeypatch.setattr(recognizer_state, "close_arrivals", self)

    def __call__(self, trained: Any, stream: Any, arrived: Any, *others: Any, **named: Any) -> Any:
        out = self._close(trained, stream, arrived, *others, **named)  # it fails late
        if self.errors:
            raise self.errors.pop()
        if self.bad & {*arrived.keys}:
            raise MemoryError(f"no room for {sorted(self.bad & {*arrived.keys})}")
        if self.defects & {*arrived.keys}:
            raise ValueError(f"a defect with {sorted(self.defects & {*arrived.keys})}")
        return out


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


def state(model: OpenSetRecognizer) -> bytes:
    return pickle.dumps(content_of(model, model.value))


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), ValueError("a defect")])
def test_learn_one_leaves_everything_as_it_was(model: OpenSetRecognizer, failing: Failing, error: Any) -> None:
    xs = instances(SIZE, seed=1)
    for key, x in enumerate(xs[:-1]):
        model.learn_one(x, key=key)
    before = state(model)
    failing.errors = [error, error]
    for _ in range(2):
        with pytest.raises(type(error)):
            model.learn_one({**xs[-1], "c": 1.0}, key=SIZE - 1)
        assert state(model) == before
    model.learn_one(xs[-1], key=SIZE - 1)
    assert [decision.key for decision in model.drain()] == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("case", ["by time", "batch of one", "evidence"])
def test_what_cannot_be_learnt_leaves_everything_as_it_was(
    failing: Failing, case: str, error: type[BaseException]
) -> None:
    """An instance whose time closes the batch before it, or that ends training and is a batch; and evidence."""
    model = untrained(**{"by time": {"max_wait": 10.0}, "batch of one": {"batch_size": 1}}.get(case, {}))
    instance: dict[str, Any] = {"x": instances(1)[0]}
    if case == "by time":
        model.freeze()
        model.learn_one(**instance, t=0.0, key="first")
        instance |= {"t": 10.0, "key": "second"}
    elif case == "evidence":
        model.predict_one(instances(1)[0])  # without a provisional model there is nothing to close
        instance = {"x": {"a": 90.0, "b": 0.0}, "y": "another class"}
    before = state(model)
    failing.errors = [error()]
    with pytest.raises(error):
        model.learn_one(**instance)
    assert state(model) == before
    assert "another class" not in model.value.labels


@pytest.mark.parametrize("method", ["flush", "close_batch"])
def test_flushing_changes_nothing_either(model: OpenSetRecognizer, failing: Failing, method: str) -> None:
    model.learn_one(instances(1)[0], key=7)
    model.learn_label(7, "c1")
    before = state(model)
    failing.errors = [MemoryError(), MemoryError()] if method == "close_batch" else [MemoryError()]
    with pytest.raises(MemoryError):
        getattr(model, method)()
    assert state(model) == before


def test_a_batch_that_always_fails_is_given_up(model: OpenSetRecognizer, failing: Failing) -> None:
    failing.bad = {1}
    xs = instances(SIZE, seed=1)
    for key, x in enumerate(xs[:-1]):
        model.learn_one(x, key=key, t=float(key))
    with pytest.raises(MemoryError):
        model.learn_one(xs[-1], key=3)
    failed = model.set_batch_aside("out of memory")
    assert failed == [FailedDecision(k, float(k), xs[k], None, "out of memory") for k in range(3)]
    assert (model.pending, model.counters["failed"]) == (0, 3)
    for key in range(10, 10 + SIZE):
        model.learn_one(xs[0], key=key)
    assert [decision.key for decision in model.drain()] == [10, 11, 12, 13]
    assert model.set_batch_aside("nothing is left") == []


def test_only_the_instances_that_make_a_batch_fail_are_given_up(model: OpenSetRecognizer, failing: Failing) -> None:
    failing.defects = {0, 2}
    xs = instances(SIZE, seed=1)
    for key, x in enumerate(xs[:-1]):
        model.learn_one(x, key=key)
    assert [each.key for each in model.set_batch_aside("a defect")] == [0, 2]
    assert (model.pending, model.counters["failed"]) == (1, 2)
    model.flush()
    assert [decision.key for decision in model.drain()] == [1]


def test_a_label_that_makes_a_batch_fail_is_given_up_alone(model: OpenSetRecognizer, monkeypatch: Any) -> None:
    close = recognizer_state.close_arrivals

    def fail(trained: Any, stream: Any, arrived: Any, evidence: Any, *others: Any, **named: Any) -> Any:
        if any(each.label == "c1" for each in evidence):
            raise ValueError("a defect of a label")
        return close(trained, stream, arrived, evidence, *others, **named)

    monkeypatch.setattr(recognizer_state, "close_arrivals", fail)
    model.learn_one(instances(1)[0], key="first")
    model.learn_label("another", "c1")
    assert [(each.key, each.label) for each in model.set_batch_aside("why")] == [("another", "c1")]
    model.flush()
    assert [decision.key for decision in model.drain()] == ["first"]


def test_labels_go_with_a_batch_only_if_they_fail_alone(model: OpenSetRecognizer, failing: Failing) -> None:
    model.learn_one(instances(1)[0], key="first")
    model.learn_label("first", "c1")
    assert [each.label for each in model.set_batch_aside("why")] == [None]
    model.learn_one(instances(1)[0], key="second")
    failing.errors = [MemoryError(), MemoryError()]
    assert [(each.key, each.label) for each in model.set_batch_aside("why")] == [("second", None), ("first", "c1")]


# The loop over files


LOST = pytest.mark.parametrize(
    ("n", "bad", "lost"),
    [(14, 5, [4, 5, 6]), (9, 3, [3]), (6, 5, [4, 5])],
    ids=["in the middle", "by its last record", "at the end"],
)


DEFECTS = pytest.mark.parametrize(
    ("n", "defects"), [(14, {5}), (14, {3}), (6, {5}), (130, {1, 7, 64, 127})], ids=["inside", "last", "end", "four"]
)
"""Numbers of instances, and those that make the closing of a batch fail."""


def over(model: OpenSetRecognizer, xs: list[dict[str, float]]) -> tuple[Counter[str], list[Any], list[Any]]:
    out, errors = MemorySink(), MemorySink()
    source = MemorySource([Record(x, i) for i, x in enumerate(xs)])
    totals = run(model, source, Sinks(out, errors=errors))
    return totals, [each["key"] for each in out.records], errors.records


def test_the_loop_tries_again(model: OpenSetRecognizer, failing: Failing) -> None:
    failing.errors = [MemoryError()] * (ATTEMPTS - 1)
    totals, keys, errors = over(model, instances(10))
    assert (keys, errors, totals["set_aside"]) == ([*range(10)], [], 0)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("rows", [False, True])
def test_a_failure_that_passes_refuses_nothing(
    model: OpenSetRecognizer, failing: Failing, times: int, rows: bool
) -> None:
    """Of a recognizer that a caller closes, as the Kafka service does."""
    before = RecordStream[int](copy(model), batch_size=SIZE - 1, fatal=(MemoryError,))
    xs = instances(SIZE - 1)
    for number, x in enumerate(xs):
        before.take(number, Record(x, number))
    expected = [each.decision.label for each in before.drain()]
    stream = RecordStream[int](model, batch_size=SIZE - 1, fatal=(MemoryError,))
    failing.errors = [RuntimeError("no thread")] * times
    if rows:
        values = np.array([[*x.values()] for x in xs])
        stream.take_rows(lambda: range(len(xs)), values, [None] * len(xs), range(len(xs)))
    else:
        for number, x in enumerate(xs):
            stream.take(number, Record(x, number))
    assert not failing.errors
    assert not stream.refused
    assert [each.decision.label for each in stream.drain()] == expected


@LOST
def test_the_loop_gives_up_a_batch_with_its_records(
    model: OpenSetRecognizer, failing: Failing, n: int, bad: int, lost: list[int]
) -> None:
    failing.bad = {bad}
    totals, keys, errors = over(model, instances(n))
    assert keys == [key for key in range(n) if key not in lost]
    assert [each["row"] for each in errors] == [key + 1 for key in lost]
    assert all(f"MemoryError: no room for [{bad}]" in each["reason"] for each in errors)
    assert str(lost[0]) in errors[0]["raw"]
    assert (totals["read"], totals["decided"], totals["set_aside"]) == (n, len(keys), len(lost))
    assert model.counters["refused"] == len(lost)


@LOST
def test_rows_of_a_file_are_given_up_with_their_lines(
    model: OpenSetRecognizer, failing: Failing, tmp_path: Path, n: int, bad: int, lost: list[int]
) -> None:
    failing.bad = {str(bad)}
    path, out, errors = tmp_path / "stream.csv", MemorySink(), MemorySink()
    lines = [f"{key},{x['a']},{x['b']}" for key, x in enumerate(instances(n))]
    path.write_text("\n".join(["key,a,b", *lines]))
    with CsvSource(path, key="key") as source:
        run(model, source, Sinks(out, errors=errors))
    assert [each["key"] for each in out.records] == [str(key) for key in range(n) if key not in lost]
    assert [(each["row"], each["raw"]) for each in errors.records] == [(key + 2, lines[key]) for key in lost]


@DEFECTS
@pytest.mark.parametrize("top", [None, 1])
def test_the_loop_gives_up_only_the_records_with_a_defect(
    model: OpenSetRecognizer, failing: Failing, n: int, defects: set[int], top: int | None
) -> None:
    failing.defects = defects
    out, errors = MemorySink(), MemorySink()
    source = MemorySource([Record(x, i) for i, x in enumerate(instances(n))])
    run(model, source, Sinks(out, errors=errors), contributions=top)
    assert [each["key"] for each in out.records] == [key for key in range(n) if key not in defects]
    assert [each["row"] for each in errors.records] == [key + 1 for key in sorted(defects)]
    assert all("ValueError: a defect" in each["reason"] for each in errors.records)


@DEFECTS
def test_only_the_rows_of_a_file_with_a_defect_are_given_up(
    model: OpenSetRecognizer, failing: Failing, tmp_path: Path, n: int, defects: set[int]
) -> None:
    failing.defects = {str(key) for key in defects}
    path, out, errors = tmp_path / "stream.csv", MemorySink(), MemorySink()
    lines = [f"{key},{x['a']},{x['b']}" for key, x in enumerate(instances(n))]
    path.write_text("\n".join(["key,a,b", *lines]))
    with CsvSource(path, key="key") as source:
        run(model, source, Sinks(out, errors=errors))
    assert [each["key"] for each in out.records] == [str(key) for key in range(n) if key not in defects]
    assert [(each["row"], each["raw"]) for each in errors.records] == [
        (key + 2, lines[key]) for key in sorted(defects)
    ]
