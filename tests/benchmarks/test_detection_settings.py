"""The settings on false alarms and detection: their streams and their figures."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from benchmarks.discovery import closed, opened
from benchmarks.discovery.__main__ import main
from benchmarks.discovery.streams import Problem, prepare
from tests.data import need_data


@pytest.fixture(scope="module")
def coil() -> Problem:
    need_data("COIL20")
    return prepare("COIL20", 100)


def test_closed_streams_are_reorderings_of_the_known_test_part(coil):
    streams = [closed.stream(coil, number) for number in range(3)]
    for X, y in streams:
        assert set(y.tolist()) == set(coil.trained.labels)
        assert sorted(map(bytes, X)) == sorted(map(bytes, coil.X[coil.of_known]))
    assert len({X.tobytes() for X, _ in streams}) == 3
    again, _ = closed.stream(coil, 2)
    np.testing.assert_array_equal(again, streams[2][0])
    assert not np.array_equal(closed.stream(coil._replace(seed=101), 2)[0], again)


def test_open_streams_have_every_row_once_and_begin_with_the_protocols_order(coil):
    np.testing.assert_array_equal(opened.stream(coil, 0)[0], coil.X)
    X, y = opened.stream(coil, 1)
    assert sorted(map(bytes, X)) == sorted(map(bytes, coil.X))
    assert Counter(y.tolist()) == Counter(coil.y.tolist())
    assert not np.array_equal(X, coil.X)


@pytest.mark.needs("data")
def test_settings_print_and_write_figures(tmp_path, capsys, monkeypatch):
    need_data("COIL20")
    for setting in (closed, opened):
        monkeypatch.setattr(setting, "ORDERS", 2)
    path = tmp_path / "figures.json"
    main(["closed", "open", "--seeds", "1", "--first-seed", "100", "--datasets", "COIL20", "--json", str(path)])
    figures, printed = json.loads(path.read_text()), capsys.readouterr().out
    for name in ("closed", "open"):
        assert [run["order"] for run in figures[name]] == [0, 1]
        assert f"{name}, seeds 100 to 100" in printed
    for run in figures["closed"]:
        assert run["instances"] == 290
    for run in figures["open"]:
        assert len(run["late"]) == 10
        assert all(n is None or 1 <= n <= 72 for n in run["late"].values())
