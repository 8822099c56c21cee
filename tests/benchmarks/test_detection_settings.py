"""The settings on false alarms and detection: what their streams are made of, and what is counted."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest

from benchmarks.discovery import closed, opened
from benchmarks.discovery.__main__ import main
from benchmarks.discovery.streams import Problem, listen, prepare, recognizer
from stream_osr import SubclassEmerged, SubclassSplit
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


def test_detection_is_counted_in_instances_of_the_class(coil):
    X, y = opened.stream(coil, 2)
    heard = listen(recognizer(coil, 2, batch_size=closed.BATCH), X, y)
    late = {}
    emerged = set()
    for event in heard.events:
        if isinstance(event, SubclassEmerged):
            key, size = event.subclass_id, event.size
        elif isinstance(event, SubclassSplit):
            key, size = event.new_id, event.sizes[1]
        else:
            continue
        members = [y[d.seq] for d in heard.decisions if d.subclass_id == key and d.seq <= event.seq]
        if 2 * len(members) < size:  # most bore another number until then
            members = [y[d.seq] for d in heard.decisions if d.subclass_id == key]
        if not members:
            continue  # a part to which nothing has come
        if isinstance(event, SubclassEmerged):
            emerged.add(Counter(members).most_common(1)[0][0])
        label = Counter(members).most_common(1)[0][0]
        late.setdefault(label, int((y[: event.seq + 1] == label).sum()))
    found = {label: one.instances for label, one in heard.times.detections.items()}
    assert len(late) >= 5
    assert found == {label: late.get(label, math.inf) for label in coil.unknown}
    alarms = closed.alarms(heard)
    assert [a["seq"] for a in alarms] == [e.seq for e in heard.emerged]
    assert {a["class"] for a in alarms} == emerged


@pytest.mark.needs("data")
def test_settings_print_and_write_figures(tmp_path, capsys, monkeypatch):
    need_data("COIL20")
    monkeypatch.setattr(closed, "ORDERS", 2)
    monkeypatch.setattr(opened, "ORDERS", 2)
    path = tmp_path / "figures.json"
    main(["closed", "open", "--seeds", "1", "--first-seed", "100", "--datasets", "COIL20", "--json", str(path)])
    figures = json.loads(path.read_text())
    printed = capsys.readouterr().out
    assert [run["order"] for run in figures["closed"]] == [0, 1]
    assert {run["instances"] for run in figures["closed"]} == {290}
    assert all(run["false"] == len(run["alarms"]) for run in figures["closed"])
    assert [run["order"] for run in figures["open"]] == [0, 1]
    for run in figures["open"]:
        assert len(run["late"]) == 10
        assert all(n is None or 1 <= n <= 72 for n in run["late"].values())
    assert "closed, seeds 100 to 100" in printed
    assert "open, seeds 100 to 100" in printed
