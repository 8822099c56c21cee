"""``python -m benchmarks.openset``: measured cells are kept, and failures are reported."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from benchmarks.openset import methods
from benchmarks.openset.__main__ import app
from benchmarks.openset.cells import Cell, done, measure, plan, read
from benchmarks.openset.methods import comparators, stream
from benchmarks.openset.sets import SETTINGS, problem
from benchmarks.records import append


def measured(tmp_path, *arguments, code=0):
    """Run the command line; return its output and the records by cell."""
    path = tmp_path / "out" / "results.jsonl"
    base = ["--datasets", "PENDIGITS", "--seeds", "0", "--json", str(path)]
    result = CliRunner().invoke(app, [*base, *arguments])
    assert result.exit_code == code, result.output
    return result.output, read(path)


def test_a_cell_has_everything_that_is_reported(tiny_data):
    _, records = measured(tiny_data, "--openness", "closed,high")
    assert [(cell.n_unknown, cell.level) for cell in records] == [(0, "closed"), (5, "high")]
    closed, high = records.values()
    assert high["status"] == "done"
    assert min(high["micro_f"], high["unknown_recall"]) > 0.9
    assert high["auroc"] > 0.95
    assert 0 <= high["ece"] < 0.2
    assert sum(high["reliability"]["size"]) == high["n_test"] == 5 * 8 + 5 * 20
    assert min(high["train_seconds"], high["us_per_instance"]) > 0
    assert high["versions"].keys() >= {"python", "numpy", "stream-osr"}
    assert high["discovery"]["known"][0]["size"] == 12
    assert (closed["unknown_recall"], closed["auroc"]) == (None, None)


def test_recorded_cells_are_not_measured_again(tiny_data, monkeypatch):
    _, first = measured(tiny_data, "--openness", "high")
    assert len(first) == 1
    lines = (tiny_data / "out" / "results.jsonl").read_bytes()
    sizes = []
    monkeypatch.setattr(stream.Stream, "decide", lambda self, X, size, delay: sizes.append(size))
    output, _ = measured(tiny_data, "--openness", "high")
    assert not sizes
    assert "1 cells, 1 of them" in output
    assert (tiny_data / "out" / "results.jsonl").read_bytes() == lines
    measured(tiny_data, "--openness", "medium,high", code=1)  # the stand-in returns no outcome
    assert sizes == [64]


def test_a_failed_cell_is_recorded_and_the_others_go_on(tiny_data, monkeypatch):
    decide = stream.Stream.decide

    def fails_with_few(self, X, size, delay):
        if len(X) < 100:
            raise ValueError("no such luck")
        return decide(self, X, size, delay)

    arguments = ("--openness", "closed,high")
    with monkeypatch.context() as failing:
        failing.setattr(stream.Stream, "decide", fails_with_few)
        output, records = measured(tiny_data, *arguments, code=1)
    found = {cell.level: (record["status"], record.get("error")) for cell, record in records.items()}
    assert found == {"closed": ("failed", "ValueError: no such luck"), "high": ("done", None)}
    assert "no such luck" in " ".join(output.split())
    _, records = measured(tiny_data, *arguments, code=1)  # not measured again, and reported
    assert len(done(records.values())) == 1
    _, records = measured(tiny_data, *arguments, "--retry")
    assert len(done(records.values())) == 2
    monkeypatch.setattr(stream.Stream, "fit", lambda *arguments: 1 / 0)
    records = list(measure(plan(["PENDIGITS"], ["closed", "high"], [methods.OURS], [0])))
    assert [record["status"] for record in records] == ["failed", "failed"]
    assert records[0]["error"].startswith("ZeroDivisionError")


def test_a_torn_line_is_measured_again_and_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "results.jsonl"
    one, two = (Cell("PENDIGITS", 5, methods.OURS, 64, seed) for seed in (0, 1))
    append(path, {**one.as_record(), "status": "done", "micro_f": float("nan")})
    with path.open("ab") as file:
        file.write(b'{"dataset": "PENDIG')
    assert list(read(path)) == [one]
    append(path, {**two.as_record(), "status": "done"})
    found = read(path)
    assert list(found) == [one, two]
    assert found[one]["micro_f"] is None


def test_the_plan_leaves_out_what_a_method_has_no_use_for():
    names = [methods.OURS, "CD-OSR", "OSNN"]
    cells = plan(["PENDIGITS", "SHUTTLE"], ["medium", "high"], names, [0], [0, 9])
    assert len(cells) == len(set(cells)) == 3 * (2 + 1 + 1)
    assert {c.batch_size for c in cells if c.method == "CD-OSR"} == {"full"}
    assert {(c.batch_size, c.decision_delay) for c in cells if c.method == "OSNN"} == {(None, 0)}
    assert {c.n_unknown for c in cells if c.dataset == "SHUTTLE"} == {4}
    assert all(Cell.from_record(json.loads(json.dumps(c.as_record()))) == c for c in cells)


def test_a_method_without_batches_decides_once_for_every_openness(tiny_data, monkeypatch):
    sizes, decide = [], comparators.Comparator.decide

    def counted(self, X, size, delay):
        sizes.append(len(X))
        return decide(self, X, size, delay)

    monkeypatch.setattr(comparators.Comparator, "decide", counted)
    _, records = measured(tiny_data, "--openness", "curve", "--methods", "OSNN")
    assert sizes == [5 * 8 + 5 * 20]
    n_test = {cell.n_unknown: record["n_test"] for cell, record in records.items()}
    assert n_test == {n: 5 * 8 + n * 20 for n in SETTINGS["PENDIGITS"].curve}
    alone = problem("PENDIGITS", 2, 0)
    method = methods.ENTRIES["OSNN"].make(methods.Setup(None, 0, {"names": ("OSNN",)}))
    method.fit(alone.X_train, alone.group, alone.known)
    found = (method.decide(alone.X_test, None, 0).predicted == alone.truth).mean()
    assert found == next(r["accuracy"] for cell, r in records.items() if cell.n_unknown == 2)


def test_baselines_do_what_they_are_called(tiny_data):
    least = {"always unknown": -1, "always known": 0.15, "closed set": 0.9}
    _, records = measured(tiny_data, "--openness", "high", "--methods", ",".join(least))
    assert len(records) == 3
    for cell, record in records.items():
        assert record["unknown_recall"] == (cell.method == "always unknown")
        assert record["known_recall"] > least[cell.method]
