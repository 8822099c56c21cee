from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from benchmarks.discovery import grouping, streamndr
from benchmarks.discovery.__main__ import main
from stream_osr import Decision
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


def test_unknown_setting_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["minas"])
    assert "expected some of streamndr" in capsys.readouterr().err


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


def test_majorities_are_of_subclasses_alone():
    cluster, truth = np.array([7, 7, 7, 8, -2, -1]), np.array([3, 3, 4, 4, 4, 4])
    assert grouping.majorities(cluster, truth) == {7: 3, 8: 4}


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
    mean = sum(run["gathered NMI"] for run in runs) / 2
    assert f"{mean:.3f}" in capsys.readouterr().out.splitlines()[-2]


def test_unknown_data_set_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["grouping", "--datasets", "IRIS"])
    assert "expected some of LETTER" in capsys.readouterr().err
