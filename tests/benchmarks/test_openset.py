"""``python -m benchmarks.openset``: what is measured once is kept, what fails is told, what is drawn is there."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.openset import methods, results, tables
from benchmarks.openset.__main__ import _chosen, app
from benchmarks.openset.cells import Cell, answers, measure, plan, units
from benchmarks.openset.methods import comparators, stream
from benchmarks.openset.sets import FIVE, SETTINGS, problem
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


def test_training_that_fails_fails_its_cells_only(tiny_data, monkeypatch):
    monkeypatch.setattr(stream.Stream, "fit", lambda *arguments: 1 / 0)
    records = list(measure(plan(["PENDIGITS"], ["closed", "high"], [methods.OURS], [64], [0])))
    assert [record["status"] for record in records] == ["failed", "failed"]
    assert records[0]["error"].startswith("ZeroDivisionError")


def test_a_data_set_that_is_not_there_is_said_before_anything_is_measured(tiny_data):
    output, records = measured(tiny_data, "--datasets", "PENDIGITS,USPS", code=1)
    assert "USPS not found" in output
    assert not records


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


def test_cells_that_share_a_training_are_one_unit():
    cells = plan(["PENDIGITS"], ["closed", "high"], [methods.OURS, "W-SVM", "P_I-SVM"], [64, "full"], [0, 1])
    assert sorted(len(unit) for unit in units(cells)) == [4, 4, 4, 4]
    assert sorted(cell for unit in units(cells) for cell in map(repr, unit)) == sorted(map(repr, cells))


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


def test_curves_have_six_levels_and_the_papers_three_are_among_them():
    for name in FIVE:
        curve, named = SETTINGS[name].curve, set(SETTINGS[name].n_unknown.values())
        assert len(curve) == len(set(curve)) == 6
        assert named <= set(curve)


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--datasets", "IRIS"], "'iris' is none of LETTER"),
        (["--methods", "magic"], "'magic' is none of"),
        (["--seeds", "one"], "'one' is no int"),
        (["--batch-size", "big"], "'big' is no int"),
    ],
)
def test_what_cannot_be_asked_for_is_said(tmp_path, arguments, message):
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "r.jsonl")], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def record_of(method=methods.OURS, size=64, n_unknown=5, seed=0, f=0.9, epsilon=None, name="PENDIGITS", **more):
    cell = Cell(name, n_unknown, method, size, seed, epsilon=epsilon)
    return {**cell.as_record(), "status": "done", "micro_f": f, "us_per_instance": 5.0, "train_seconds": 1.0, **more}


def small_results():
    curve = {"size": [5, 5], "predicted": [0.1, 0.9], "observed": [0.0, 1.0]}
    discovery = {
        "known": [{"label": 4, "size": 60, "subclasses": [[0, 0.75], [2, 0.25]]}],
        "emerging": [[7, 30, True], [8, 2, False]],
        "delta": 1,
        "unknown_share": 0.25,
        "made_of": {"7": [9, 0.5]},
    }
    records = []
    for seed, n_unknown in ((s, n) for s in (0, 1) for n in (0, 3, 5)):
        f = 0.9 + 0.02 * seed
        for size in (16, 64, "full"):
            told = {"ece": 0.1, "reliability": curve, "discovery": discovery, "n_test": 100}
            records.append(record_of(size=size, n_unknown=n_unknown, seed=seed, f=f, **told))
        records.append(record_of("OSNN", None, n_unknown, seed, f - 0.3))
        records.append(record_of("CD-OSR", "full", n_unknown, seed, f - 0.1))
        for epsilon in (0.0, 0.1):
            records.append(record_of(n_unknown=n_unknown, seed=seed, f=f - epsilon, epsilon=epsilon))
    return records


def test_tables_hold_mean_and_deviation_with_ours_first():
    text = tables.markdown(small_results())
    micro_f = text[text.index("## Micro-F") :].splitlines()
    assert micro_f[2] == "| method | PENDIGITS closed | PENDIGITS medium | PENDIGITS high |"
    assert micro_f[4] == "| **stream-osr, batch 16** | .910 ± .014 | .910 ± .014 | .910 ± .014 |"
    assert [line.split("|")[1].strip() for line in micro_f[5:9]] == [
        "**stream-osr, batch 64**", "**stream-osr, full batch**", "CD-OSR", "OSNN",
    ]  # fmt: skip
    assert "epsilon 0.1" not in text
    one_short = [r for r in small_results() if (r["method"], r["seed"]) != ("OSNN", 1)]
    assert "| OSNN | .600 (n = 1) |" in tables.markdown(one_short)


def test_the_discovery_table_names_groups_numbers_and_shares():
    text = tables.discovery_table(small_results()[0])
    assert [line.split() for line in text.splitlines()[2:6]] == [
        ["class", "4", "2", "S0", "75.00", "S2", "25.00"],
        ["test", "part", "3"],
        ["known", "2", "75.00"],
        ["new", "1", "25.00"],
    ]
    assert "S7 30.00 (9 50 %)" in text
    assert "1 more subclasses without support; the paper's Delta: 1" in text


@pytest.mark.parametrize("width", [60, 80, 300])
def test_tables_are_printed_whatever_the_width(width):
    console = Console(width=width, record=True, file=StringIO())
    tables.show(small_results(), console)
    assert ".910" in console.export_text()


def test_figures_are_written(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.openset.figures import draw_all

    paths = draw_all(small_results(), tmp_path / "figures")
    assert {path.name for path in paths} == {"openness_PENDIGITS.png", "reliability.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_labels_are_moved_apart_and_stay_in_order():
    pytest.importorskip("matplotlib")
    from benchmarks.openset.figures import _apart

    places = _apart(np.array([0.5, 0.5, 0.5, 0.9, 0.99]), 0.1, 0.0, 1.0)
    assert (np.diff(places) >= 0.1 - 1e-12).all()
    assert places[-1] <= 1.0 + 1e-12
    assert places[1] == pytest.approx(0.5)


def test_the_known_classes_of_shuttle_are_its_most_frequent_ones():
    labels, counts = np.unique(need_data("SHUTTLE").y, return_counts=True)
    assert set(SETTINGS["SHUTTLE"].known) == set(labels[np.argsort(-counts)[:3]].tolist())


def test_the_name_of_a_file_stands_for_all_of_its_methods():
    names = tuple(methods.ENTRIES)
    chosen = _chosen("ECSMiner,CD-OSR, full grid,MINAS", names, "--methods", methods.GROUPS)
    assert chosen == ["ECSMiner", "ECSMiner with feedback", "CD-OSR, full grid", "MINAS"]
