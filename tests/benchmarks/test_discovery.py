from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.discovery import drift, streamndr
from benchmarks.discovery.__main__ import main
from tests.data import need_data


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


@pytest.mark.needs("data")
def test_grouping_of_a_real_set(tmp_path, capsys):
    need_data("COIL20")
    path = tmp_path / "figures.json"
    main(["grouping", "--seeds", "1", "--first-seed", "100", "--datasets", "COIL20", "--json", str(path)])
    runs = json.loads(path.read_text())["grouping"]
    assert [(run["dataset"], run["n_unknown"], run["seed"]) for run in runs] == [("COIL20", n, 100) for n in (6, 10)]
    for run in runs:
        assert run["gathered NMI"] > 0.7
        assert run["majority ARI"] >= run["gathered ARI"] - 0.02
        assert run["error"] == pytest.approx(abs(run["number"] - run["n_unknown"]) / run["n_unknown"])
        assert run["error"] <= run["width"] or not run["covered"]
    mean = sum(run["gathered NMI"] for run in runs) / 2
    assert f"{mean:.3f}" in capsys.readouterr().out.splitlines()[-2]


@pytest.mark.needs("data")
def test_drift_of_a_real_set(monkeypatch):
    need_data("PENDIGITS")
    monkeypatch.setattr(drift, "MOVING", 1)
    monkeypatch.setattr(drift, "CHANGES", drift.CHANGES[2::3])
    figures = [{"dataset": "PENDIGITS", **run} for run in drift.measure("PENDIGITS", 100)]
    runs = {run["stream"]: run for run in figures}
    assert list(runs) == ["closed", "open", "switched on", *map(str, drift.CHANGES)]
    assert runs["closed"]["false"] == 0
    assert runs["open"]["instances"] > 2 * runs["closed"]["instances"]
    for name in ("shift 3", "spread 2"):
        assert 8 <= runs[name]["delay"] < 120
    table = drift.table(figures).splitlines()
    assert len(table) == 2 + len(figures)
    assert "1 of 1" in next(line for line in table if line.startswith("| shift 3 "))
