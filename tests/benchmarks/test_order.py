"""``python -m benchmarks.order``: cases are what they say, figures count what they say, and conditions can fail."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import stream_osr
from benchmarks.order import processes, running, tables
from benchmarks.order.__main__ import main
from benchmarks.order.page import unmet
from stream_osr import SubclassMerged
from tests.data import need_ordered


@pytest.fixture
def ordered(tmp_path, monkeypatch):
    """KEYSTROKE, OUTDOOR and TEP with rows that say where they stood."""
    folder = tmp_path / "ordered"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, n, classes in (("KEYSTROKE", 1600, 4), ("OUTDOOR", 8000, 40)):
        y = np.arange(n) // 10 % classes
        X = np.column_stack([np.arange(n), 9.0 * y + rng.normal(size=n), rng.normal(size=n)])
        np.savez(folder / f"{name}.npz", X=X.astype(np.float32), y=y)
    run = np.repeat([102, 0, 1, 104, 2, 6, 100, 101, 106], 20)
    y = run % 100 * (np.arange(len(run)) % 20 >= 5)
    np.savez(folder / "TEP.npz", X=np.column_stack([np.arange(len(run)), run]).astype(np.float32), y=y, run=run)
    monkeypatch.setenv("STREAM_OSR_DATA", str(tmp_path))
    return tmp_path


def test_a_table_trains_with_its_first_rows_and_streams_the_next_ones_in_the_order_of_the_split(ordered):
    closed, opened = (tables.case(f"KEYSTROKE/{kind}/order") for kind in ("closed", "open"))
    assert closed.X_train[:, 0].tolist() == list(range(400))
    assert closed.X[:, 0].tolist() == opened.X[:, 0].tolist() == list(range(400, 1600))
    assert not closed.new.any()
    assert set(opened.y_train) == {"0", "1", "3"}
    assert set(opened.y[opened.new]) == {"2"}
    closed, opened = (tables.case(f"TEP/{kind}/order") for kind in ("closed", "open"))
    found = [list(dict.fromkeys(X[:, 1])) for X in (closed.X_train, closed.X, opened.X)]
    assert found == [[0, 1, 2, 6], [100, 101, 102, 106], [100, 101, 104, 102]]
    assert set(opened.y[opened.new]) == {"4"}


@pytest.mark.parametrize("name", ["KEYSTROKE/closed", "KEYSTROKE/open", "OUTDOOR/open", "TEP/open"])
def test_the_shuffled_twin_has_the_same_rows_and_sizes(ordered, name):
    in_order, twin = tables.case(f"{name}/order"), tables.case(f"{name}/shuffled")
    rows = [Counter(row.tobytes() for row in np.vstack([case.X_train, case.X])) for case in (in_order, twin)]
    assert rows[0] == rows[1]
    assert len(twin.X_train) == len(in_order.X_train)
    assert set(twin.y[twin.new]) == set(in_order.y[in_order.new])
    for X in (twin.X_train, twin.X):
        assert abs(np.corrcoef(X[:, 0], np.arange(len(X)))[0, 1]) < 0.3


def test_a_process_is_that_of_its_seed_and_open_only_by_its_name():
    for name in processes.NAMES:
        given, again, other = (processes.case(name, seed) for seed in (3, 3, 4))
        assert given.X.shape == (8000, 8)
        assert len(given.X_train) == (525 if name.startswith("imbalanced") else 500)
        assert np.array_equal(given.X, again.X)
        assert not np.array_equal(given.X, other.X)
        assert given.new.any() == name.endswith("open")
        assert not given.new[:1000].any()


def test_faults_begin_in_the_middle_in_one_column():
    for name in ("stuck/open", "zero/closed", "unit/closed"):
        given = processes.case(name, 2)
        own, rest = given.X[:, given.column], np.delete(given.X, given.column, axis=1)
        assert given.fault == 4000
        assert 10 < own[:4000].mean() < 30
        assert 10 < rest[4000:].mean() < 30
        assert own[4000:].max() == own[4000:].min() if name != "unit/closed" else own[4000:].min() > 1000
    stuck = processes.case("stuck/closed", 2)
    assert (stuck.X_train[:, stuck.column] < stuck.X[-1, stuck.column]).mean() == pytest.approx(0.2, abs=0.01)
    assert processes.case("zero/closed", 2).X[-1].min() == 0.0


def event(kind: str, **facts: Any) -> Any:
    """A stand-in for an event of a kind."""
    return type(kind, (), {**facts, "as_dict": lambda self: facts})()


def test_a_subclass_is_counted_once_and_stands_unless_it_is_refuted_in_the_end():
    happened = [("Emerged", 1), ("Emerged", 2), ("Refuted", 1), ("Emerged", 1), ("Refuted", 2)]
    events = [event(f"Subclass{kind}", subclass_id=key) for kind, key in happened]
    assert running.announcements(events) == (2, 1)
    assert running.announcements([*events, event("EventsSummed", emerged=(7, 8))]) == (4, 3)


def test_a_column_is_named_by_an_event_about_columns_and_not_by_an_explanation():
    assert running.names_column(event("Reported", columns=("x03", "x05")), "x05")
    assert not running.names_column(event("Reported", columns=("x03",)), "x05")
    assert not running.names_column(event("Reported", explanation={"x05": 3.0}), "x05")
    merged = SubclassMerged(batch=1, seq=2, model="x05.", subclass_id=1, into=2, size=3)
    assert not running.names_column(merged, "x05")


ABOUT = {"seed": 1, "commit": "abc", "digest": "0", "new": 0, "stream": 8000, "announced": 0}
FROZEN_FIGURES = {"frozen_right": 0.9, "frozen_false_unknown": 0.01, "frozen_micro_f": 0.9}
FIGURES = {"right": 0.88, "last_fifth": 0.86, "false_unknown": 0.04, "micro_f": 0.9, "class_right": {"2": 0.9}}
LIVE = {"live_off": 0.02, "promised": 0.9, "recall_dropped": None, "unknown_recall": None, "auroc": None}
RECORD = ABOUT | FROZEN_FIGURES | FIGURES | LIVE


CONDITIONS = {
    "TEP/closed/order": {"right": 0.86, "false_unknown": 0.05, "announced": 1, "live_off": None},
    "TEP/open/order": {"unknown_recall": 0.5, "auroc": 0.9, "micro_f": 0.88, "right": 0.84},
    "EEGEYE/closed/order": {"recall_dropped": 511},
    "drift/closed": {"last_fifth": 0.84, "announced": 3},
    "drift/open": {"unknown_recall": 0.89},
    "unit/closed": {"column_named": 4101, "recall_dropped": None},
    "imbalanced/closed": {"class_right": {"2": 0.8}},
    "mislabelled/closed": {"promised": 0.8},
    "overlapping/open": {"announced": 0},
    "rare/open": {"unknown_recall": 0.7},
}
"""Figures of a case that fail a condition each."""
CALLED = {
    ("unit/closed", "column_named"): "named_after",
    ("unit/closed", "recall_dropped"): "dropped_after",
    ("imbalanced/closed", "class_right"): "rarest_right",
    ("mislabelled/closed", "promised"): "promised_off",
}
"""Conditions that have another name than the figure."""


@pytest.mark.parametrize("case", CONDITIONS)
def test_each_condition_can_fail(case):
    shuffled = RECORD | {"case": "TEP/open/shuffled", "auroc": 0.99}
    opened = {"new": 1, "unknown_recall": 0.95, "auroc": 0.98} if "open" in case else {}
    happened = {"announced": 1 - ("closed" in case), "recall_dropped": 4050, "column_named": 4050, "fault": 4000}
    if case.startswith("EEGEYE"):
        happened["recall_dropped"] = 300
        assert unmet(RECORD | {"case": case} | happened | {"recall_dropped": None}, shuffled) == ["recall_dropped"]
    good = RECORD | {"case": case} | opened | happened
    assert unmet(good, shuffled) == []
    for name, value in CONDITIONS[case].items():
        assert unmet(good | {name: value}, shuffled) == [CALLED.get((case, name), name)]


def test_the_command_measures_a_table_and_writes_the_page(ordered, tmp_path, capsys):
    results, text = tmp_path / "now.jsonl", tmp_path / "order.md"
    assert main(["--json", str(results), "--cases", "KEYSTROKE/*/order", "--seeds", "1"]) == 0
    closed, opened = map(json.loads, results.read_text().splitlines())
    expected = {"case": "KEYSTROKE/closed/order", "seed": 1, "training": 400, "stream": 1200, "known": 4, "new": 0}
    assert closed.items() >= {**expected, "unknown_recall": None}.items()
    assert (opened["known"], opened["new"]) == (3, 1)
    assert opened["right"] + opened["false_unknown"] <= 1
    assert set(opened["events"]) <= set(stream_osr.__all__)
    assert "KEYSTROKE/open/order" in capsys.readouterr().out
    text.write_text("above\n<!-- order -->\n<!-- end of order -->\nbelow\n")
    assert main(["--page", str(text), str(results), str(results)]) == 0
    written = text.read_text()
    assert "| KEYSTROKE/closed/order |" in written
    assert "bit for bit as before: KEYSTROKE/closed/order, KEYSTROKE/open/order." in written
    assert written.startswith("above")


TEP = pytest.param("TEP/closed", marks=pytest.mark.long)


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", ["KEYSTROKE/closed", "KEYSTROKE/open", TEP])
def test_the_conditions_on_an_ordered_table_are_met(name):
    given = need_ordered(f"{name}/order")
    shuffled = running.measure(tables.case(f"{name}/shuffled"), 0) if name.endswith("open") else None
    assert unmet({"case": f"{name}/order", "seed": 0, **running.measure(given, 0)}, shuffled) == []


@pytest.mark.parametrize("name", ["noisy/closed", "noisy/open", "offsets/closed", "offsets/open", "drift/open"])
def test_the_conditions_on_a_made_up_process_are_met(name):
    assert unmet({"case": name, "seed": 0, **running.measure(processes.case(name, 0), 0)}) == []
