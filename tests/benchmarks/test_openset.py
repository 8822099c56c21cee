"""``python -m benchmarks.openset``: what is measured once is kept, what fails is told, what is drawn is there."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.openset import methods, results
from benchmarks.openset.__main__ import app
from benchmarks.openset.cells import Cell, answers, plan
from benchmarks.openset.methods import comparators, stream
from benchmarks.openset.sets import SETTINGS, problem
from tests.data import need_data


def measured(tmp_path, *arguments, code=0):
    """Run the command line; return its output and the records by cell."""
    path = tmp_path / "out" / "results.jsonl"
    base = ["--datasets", "PENDIGITS", "--seeds", "0", "--json", str(path)]
    result = CliRunner().invoke(app, [*base, *arguments])
    assert result.exit_code == code, result.output
    return result.output, results.read(path)


def test_a_cell_has_everything_that_is_reported(tiny_data):
    _, records = measured(tiny_data, "--openness", "closed,high")
    assert [(cell.n_unknown, cell.level) for cell in records] == [(0, "closed"), (5, "high")]
    closed, high = records.values()
    assert high["status"] == "done"
    assert high["micro_f"] > 0.9
    assert high["unknown_recall"] > 0.9
    assert high["auroc"] > 0.95
    assert 0 <= high["ece"] < 0.2
    assert sum(high["reliability"]["size"]) == high["n_test"] == 5 * 8 + 5 * 20
    assert high["train_seconds"] > 0
    assert high["us_per_instance"] > 0
    assert high["versions"].keys() >= {"python", "numpy", "stream-osr"}
    assert high["discovery"]["known"][0]["size"] == 12
    assert (closed["unknown_recall"], closed["auroc"]) == (None, None)


def test_what_is_in_the_file_is_not_measured_again(tiny_data, monkeypatch):
    _, first = measured(tiny_data, "--openness", "high")
    lines = (tiny_data / "out" / "results.jsonl").read_bytes()
    asked = []
    monkeypatch.setattr(stream.Stream, "decide", lambda self, X, size, delay: asked.append(size))
    output, _ = measured(tiny_data, "--openness", "high")
    assert not asked
    assert "1 cells, 1 of them" in output
    assert (tiny_data / "out" / "results.jsonl").read_bytes() == lines
    measured(tiny_data, "--openness", "high", "--batch-size", "64,32", code=1)  # the stand-in gives no outcome
    assert asked == [32]
    assert len(first) == 1


def test_a_failed_cell_is_recorded_and_the_others_go_on(tiny_data, monkeypatch):
    decide = stream.Stream.decide

    def fails_at_32(self, X, size, delay):
        if size == 32:
            raise ValueError("no such luck")
        return decide(self, X, size, delay)

    monkeypatch.setattr(stream.Stream, "decide", fails_at_32)
    arguments = ("--openness", "high", "--batch-size", "32,64")
    output, records = measured(tiny_data, *arguments, code=1)
    assert {cell.batch_size: record["status"] for cell, record in records.items()} == {32: "failed", 64: "done"}
    failed = next(record for record in records.values() if record["status"] == "failed")
    assert failed["error"] == "ValueError: no such luck"
    assert "no such luck" in " ".join(output.split())
    monkeypatch.undo()
    monkeypatch.setenv("STREAM_OSR_DATA", str(tiny_data))
    _, records = measured(tiny_data, *arguments, code=1)  # left alone, and told
    assert len(results.done(records.values())) == 1
    _, records = measured(tiny_data, *arguments, "--retry")
    assert len(results.done(records.values())) == 2


def test_a_torn_line_is_measured_again_and_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "results.jsonl"
    one, two = (Cell("PENDIGITS", 5, methods.OURS, 64, seed) for seed in (0, 1))
    results.append(path, {**one.as_record(), "status": "done", "micro_f": float("nan")})
    with path.open("ab") as file:
        file.write(b'{"dataset": "PENDIG')
    assert list(results.read(path)) == [one]
    results.append(path, {**two.as_record(), "status": "done"})
    found = results.read(path)
    assert list(found) == [one, two]
    assert found[one]["micro_f"] is None


def test_the_plan_leaves_out_what_a_method_has_no_use_for():
    names = [methods.OURS, "CD-OSR", "OSNN"]
    cells = plan(["PENDIGITS", "SHUTTLE"], ["medium", "high"], names, [64, "full"], [0], [0, 9])
    assert len(cells) == len(set(cells)) == 3 * (2 * 2 + 1 + 1)
    assert {c.batch_size for c in cells if c.method == "CD-OSR"} == {"full"}
    assert {(c.batch_size, c.decision_delay) for c in cells if c.method == "OSNN"} == {(None, 0)}
    assert {c.n_unknown for c in cells if c.dataset == "SHUTTLE"} == {4}
    assert all(Cell.from_record(json.loads(json.dumps(c.as_record()))) == c for c in cells)


def test_every_openness_has_the_same_training_part(tiny_data):
    closed, high = problem("PENDIGITS", 0, 3), problem("PENDIGITS", 5, 3)
    np.testing.assert_array_equal(closed.X_train, high.X_train)
    assert (high.truth == methods.UNKNOWN).sum() == 100
    assert all((label in high.known) == (truth >= 0) for label, truth in zip(high.labels, high.truth, strict=True))


@pytest.mark.parametrize("method", ["CD-OSR", "CD-OSR class-wise"])
def test_the_papers_algorithm_decides_the_whole_test_part(tiny_data, method):
    _, records = measured(tiny_data, "--openness", "high", "--methods", method)
    ((cell, record),) = records.items()
    assert (cell.batch_size, record["auroc"], record["chosen"]["points"]) == ("full", None, 35)
    assert record["by_epsilon"]["0.01"] == record["micro_f"]
    assert record["accuracy"] > 0.8


def test_epsilon_reaches_the_training_and_the_default_is_untouched(tiny_data, monkeypatch):
    train, seen = stream.train_model, []

    def spy(features, X, group, labels, parameters, **more):
        seen.append(parameters.model_dump(exclude_defaults=True))
        return train(features, X, group, labels, parameters, **more)

    stream.compile_kernels()
    monkeypatch.setattr(stream, "train_model", spy)
    _, records = measured(tiny_data, "--openness", "high", "--epsilon", "default,0.2")
    assert seen == [{"n_jobs": 1}, {"n_jobs": 1, "epsilon": 0.2}]
    assert [cell.epsilon for cell in records] == [None, 0.2]


def test_comparators_are_selected_together_and_one_that_fails_alone_spoils_nothing(tiny_data, monkeypatch):
    calls = []

    class Nearest:
        def __init__(self, X, y):
            self.centres = np.stack([X[y == j].mean(axis=0) for j in range(y.max() + 1)])

        def decide(self, X):
            distances = np.linalg.norm(X[:, None] - self.centres, axis=2)
            return distances.argmin(axis=1), distances.min(axis=1)

        def cut(self):
            return 6.0

        def get_params(self):
            return {"centres": len(self.centres)}

    def select(name, X, y, seed):
        calls.append(name)
        if name == "W-SVM":
            raise RuntimeError("no model")
        return Nearest(X, y)

    def select_family(names, X, y, seed):
        return {name: select(name, X, y, seed) for name in names}

    monkeypatch.setattr(comparators, "select", select)
    monkeypatch.setattr(comparators, "select_family", select_family)
    _, records = measured(tiny_data, "--openness", "closed,high", "--methods", "P_I-SVM,W-OSVM")
    assert sorted(calls) == ["P_I-SVM", "W-OSVM"]
    assert {cell.batch_size for cell in records} == {None}
    assert all(r["ece"] is None and r["train_seconds"] is None for r in records.values())
    assert all(r["chosen"] == {"centres": 5} for r in records.values())
    assert min(r["auroc"] for r in records.values() if r["n_unknown"]) > 0.8
    _, records = measured(tiny_data, "--openness", "high", "--methods", "W-SVM,P_I-SVM", "--seeds", "1", code=1)
    status = {(cell.method, cell.seed): record["status"] for cell, record in records.items()}
    assert (status["W-SVM", 1], status["P_I-SVM", 1]) == ("failed", "done")


def test_what_decides_each_instance_by_itself_decides_once_for_every_openness(tiny_data, monkeypatch):
    sizes, decide = [], comparators.Comparator.decide

    def counted(self, X, size, delay):
        sizes.append(len(X))
        return decide(self, X, size, delay)

    monkeypatch.setattr(comparators.Comparator, "decide", counted)
    _, records = measured(tiny_data, "--openness", "curve", "--methods", "OSNN")
    assert sizes == [5 * 8 + 5 * 20]
    assert [(cell.n_unknown, record["n_test"]) for cell, record in records.items()] == [
        (n, 5 * 8 + n * 20) for n in SETTINGS["PENDIGITS"].curve
    ]
    alone = problem("PENDIGITS", 2, 0)
    method = methods.ENTRIES["OSNN"].make(methods.Setup(None, 0, None, {"names": ("OSNN",)}))
    method.fit(alone.X_train, alone.group, alone.known)
    found = (method.decide(alone.X_test, None, 0).predicted == alone.truth).mean()
    assert found == next(r["accuracy"] for cell, r in records.items() if cell.n_unknown == 2)


def test_a_share_of_the_test_part_is_a_part_of_it_in_its_order():
    need_data("COIL20")
    whole, some = problem("COIL20", 6, 0), problem("COIL20", 6, 0, 0.4)
    assert len(some.X_test) == round(0.4 * len(whole.X_test))
    rest = iter(map(tuple, whole.X_test))
    assert all(tuple(row) in rest for row in some.X_test)
    cells = plan(
        ["COIL20", "SATIMAGE"], ["closed", "medium", "high"], [methods.OURS, "OSNN"], [64], [0], shares=[0.4]
    )
    assert [(cell.dataset, cell.n_unknown, cell.method) for cell in cells] == [("COIL20", 6, methods.OURS)]


def test_answers_number_the_unknown_classes_beyond_the_known(tiny_data):
    tested = problem("PENDIGITS", 3, 0)
    numbers = answers(tested)
    assert set(numbers.tolist()) == set(range(8))
    assert ((numbers < 5) == (tested.truth != methods.UNKNOWN)).all()
    assert (numbers[numbers < 5] == tested.truth[numbers < 5]).all()


@pytest.mark.parametrize("name", ["always unknown", "always known", "closed set"])
def test_baselines_do_what_they_are_called(tiny_data, name):
    _, records = measured(tiny_data, "--openness", "high", "--methods", name)
    (record,) = records.values()
    assert record["unknown_recall"] == (name == "always unknown")
    assert record["known_recall"] > {"always unknown": -1, "always known": 0.15, "closed set": 0.9}[name]
