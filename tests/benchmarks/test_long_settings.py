"""The settings on long streams: their streams and their figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.discovery import closed20k, gaussians, million, recurrence
from benchmarks.discovery.__main__ import main
from benchmarks.discovery.streams import listen
from stream_osr import SubclassEmerged
from tests.data import need_data


@pytest.mark.needs("data")
def test_long_closed_streams_print_and_write_figures(tmp_path, capsys, monkeypatch):
    need_data("COIL20")
    monkeypatch.setattr(closed20k, "INSTANCES", 500)
    path = tmp_path / "figures.json"
    main(["closed20k", "--seeds", "1", "--first-seed", "4", "--datasets", "COIL20", "--json", str(path)])
    runs = json.loads(path.read_text())["closed20k"]
    assert [(run["training"], run["seed"], run["instances"]) for run in runs] == [(0, 4, 500)]
    assert "| COIL20 | 1 |" in capsys.readouterr().out


@pytest.mark.needs("data")
def test_switched_on_prints_and_writes_figures(tmp_path, capsys):
    need_data("SATIMAGE")
    path = tmp_path / "figures.json"
    main(["switched", "--seeds", "1", "--datasets", "SATIMAGE", "--json", str(path)])
    (run,) = json.loads(path.read_text())["switched"]
    assert sorted(run["begins"].values()) == list(run["begins"].values())
    for label, late in run["late in the class"].items():
        assert (late is None) == (run["late in the stream"][label] is None)
        assert late is None or late <= run["late in the stream"][label]
    assert f"{run['purity']:.3f}" in capsys.readouterr().out


def test_recurrence_is_counted(monkeypatch):
    monkeypatch.setattr(recurrence, "GONE_FOR", 1500)
    monkeypatch.setattr(recurrence, "PRESENT", 768)
    stream = recurrence.made_up(1)
    heard = listen(recurrence.OpenSetRecognizer.from_trained(stream.trained), stream.X, stream.y)
    found = recurrence.figures_of(stream, heard)
    old = {e.subclass_id for e in heard.emerged if e.seq < stream.gone}
    back = [d for d in heard.decisions if d.seq >= stream.back and stream.y[d.seq] == gaussians.KNOWN]
    assert found["old"] == len(old) >= 1
    assert found["returning"] == len(back) == 77
    assert found["under old"] == pytest.approx(np.mean([d.subclass_id in old for d in back]))
    assert found["under old"] > 0.5
    assert found["under own"] <= found["under old"]
    assert found["called known"] == pytest.approx(np.mean([d.label in range(5) for d in back]))
    assert found["emerged while gone"] + found["emerged on return"] + len(old) == len(heard.emerged)
    # had the first stretch ended before the announcement, it would be no old one
    early = recurrence.figures_of(stream._replace(gone=100), heard)
    assert early["old"] == early["under old"] == 0
    assert early["emerged while gone"] >= 1


def test_figures_of_each_class_are_those_of_the_decisions():
    classes, plan = gaussians.make(2, 3), million.Plan(instances=8000, classes=2, between=1000, stay=1000, gone=3000)
    y = million.truth(plan, np.random.default_rng(1))
    passed = million.run(classes, y, seed=0, chunk=2000)
    assert passed.seen == [2000, 4000, 6000, 8000]
    assert min(passed.megabytes) > 50
    model = million.OpenSetRecognizer.from_trained(classes.trained, seed=0)
    begins = range(0, 8000, 2000)
    X = np.concatenate([classes.draw(y[at : at + 2000], np.random.default_rng([0, at])) for at in begins])
    heard = listen(model, X, y)  # the same stream, all at once
    assert [e.seq for e in passed.events if isinstance(e, SubclassEmerged)] == [e.seq for e in heard.emerged]
    for one in million.fares(plan, passed, y):
        label, back = gaussians.KNOWN + one["class"], plan.visits(one["class"])[1]
        own = {key for key, of in heard.times.classes.items() if of == label}
        decisions = [d for d in heard.decisions if y[d.seq] == label]
        inside = [d for d in heard.decisions if d.subclass_id in own]
        assert own
        assert one["late"] == heard.times.detections[label].instances
        assert one["recall"] == pytest.approx(np.mean([d.label == -1 for d in decisions]))
        assert one["purity"] == pytest.approx(np.mean([y[d.seq] == label for d in inside]))
        old = {e.subclass_id for e in heard.emerged if e.subclass_id in own and e.seq < back}
        returned = [d.subclass_id in old for d in decisions if d.seq >= back]
        assert one["under old"] == pytest.approx(np.mean(returned))
    assert million.false_alarms(passed, y) == len(heard.times.false_alarms)
