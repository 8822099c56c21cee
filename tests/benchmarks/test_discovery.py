from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from benchmarks.discovery import drift, grouping, streamndr
from benchmarks.discovery.__main__ import main
from stream_osr import Decision, OpenSetRecognizer
from tests.data import need_data
from tests.doors.model import whiten


def test_stream_is_that_of_the_read_me():
    training, stream = streamndr.parts()
    assert Counter(y for _, y in training) == {1: 682, 0: 318}
    # the row sums of the confusion matrices that streamndr's read-me prints
    assert Counter(y for _, y in stream) == {0: 1150, 1: 2532, 2: 724, 3: 594}


def test_figures_are_printed_and_written(tmp_path, capsys):
    main(["streamndr", "--seeds", "1", "--json", str(tmp_path / "figures.json")])
    (run,) = json.loads((tmp_path / "figures.json").read_text())["streamndr"]
    printed = capsys.readouterr().out
    assert f"{100 * run['final Err']:.2f}" in printed
    assert "22.74" in printed
    # MNew, FNew and what is left, confusion of the known, make up Err
    least = (run["final MNew"] * 1318 + run["final FNew"] * 3682) / 5000
    assert least <= run["final Err"] <= least + 0.1


def decision(label: int) -> Decision:
    blank = dict.fromkeys(Decision._fields)
    return Decision(**{**blank, "label": label})


def test_instances_taken_for_known_are_a_cluster_for_each_class():
    decided = [decision(label) for label in (-1, -1, 0, 1, -1, 0)]
    cluster = grouping.clusters(decided, [7, 8, 7, 7, -1, -1], (0, 1))
    assert cluster.tolist() == [7, 8, -2, -3, -1, -2]
    named = grouping.regroup(cluster, {7: 0, 8: 0})
    assert named[0] == named[1]
    assert named[2] == named[5]
    assert len(set(named)) == 4


def test_grouping_of_a_real_set(tmp_path, capsys):
    need_data("COIL20")
    path = tmp_path / "figures.json"
    main(["grouping", "--seeds", "1", "--first-seed", "100", "--datasets", "COIL20", "--json", str(path)])
    runs = json.loads(path.read_text())["grouping"]
    assert [(run["dataset"], run["n_unknown"], run["seed"]) for run in runs] == [
        ("COIL20", 6, 100),
        ("COIL20", 10, 100),
    ]
    for run in runs:
        assert run["gathered NMI"] > 0.7
        assert run["majority ARI"] >= run["gathered ARI"] - 0.02
        assert run["error"] == pytest.approx(abs(run["number"] - run["n_unknown"]) / run["n_unknown"])
        assert run["error"] <= run["width"] or not run["covered"]
    mean = sum(run["gathered NMI"] for run in runs) / 2
    assert f"{mean:.3f}" in capsys.readouterr().out.splitlines()[-2]


def test_drift_of_a_real_set(monkeypatch):
    need_data("PENDIGITS")
    monkeypatch.setattr(drift, "MOVING", 1)
    figures = list(drift.measure([100], ["PENDIGITS", "COIL20"]))
    assert [run["stream"] for run in figures] == ["closed", "open", "switched on", *map(str, drift.CHANGES)]
    assert all(run["dataset"] == "PENDIGITS" and run["seed"] == 100 for run in figures)
    told = {run["stream"]: run for run in figures}
    assert told["closed"]["false"] == 0
    assert told["open"]["instances"] > 2 * told["closed"]["instances"]
    for name in ("shift 3", "spread 2"):
        assert 8 <= told[name]["delay"] < 120
    table = drift.table(figures).splitlines()
    assert len(table) == 2 + len(figures)
    assert "1 of 1" in next(line for line in table if line.startswith("shift 3 "))


def test_only_the_rows_of_a_class_change_and_only_late():
    rng = np.random.default_rng(0)
    X, moves = rng.normal(size=(100, 3)), np.arange(100) % 2 == 0
    model = OpenSetRecognizer(chains=1)
    for x in X.tolist():
        model.learn_one(dict(enumerate(x)), 0)
    model.freeze()
    late = moves & (np.arange(100) >= 50)
    for change in drift.CHANGES:
        out = drift.changed(X, moves, change, model.trained, rng)
        np.testing.assert_array_equal(out[~late], X[~late])
        went = whiten(model.trained.whitening, out[late]) - whiten(model.trained.whitening, X[late])
        length = np.linalg.norm(went, axis=1)
        assert length[-1] > 0.1
        if change.kind == "shift":
            assert length[-1] == pytest.approx(change.size)
            assert length[0] == pytest.approx(0.0 if change.gradual else change.size, abs=1e-12)
        else:
            middle = X[moves].mean(axis=0)
            np.testing.assert_allclose(out[late] - middle, change.size * (X[late] - middle))
