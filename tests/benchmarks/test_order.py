"""``python -m benchmarks.order``: cases are what they say, figures count what they say, and conditions can fail."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import stream_osr
from benchmarks.order import processes, running, tables
from benchmarks.order.__main__ import main
from benchmarks.order.page import unmet
from stream_osr import Input, OpenSetRecognizer, SubclassMerged
from tests.data import need_ordered

FROZEN = {"autoregressive": 0.89, "noisy": 0.89, "offsets": 0.96, "drift": 0.98, "stuck": 0.85, "mislabelled": 0.98}
"""What the frozen model has right, as the processes were tuned for 2c2959a."""


def rows(X: np.ndarray) -> Counter[bytes]:
    return Counter(row.tobytes() for row in X)


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


def test_a_table_trains_with_its_first_rows_and_streams_the_next_ones(ordered):
    closed = tables.case("KEYSTROKE/closed/order")
    assert closed.X_train[:, 0].tolist() == list(range(400))
    assert closed.X[:, 0].tolist() == list(range(400, 1600))
    assert not closed.new.any()
    opened = tables.case("KEYSTROKE/open/order")
    assert set(opened.y_train) == {"0", "1", "3"}
    assert set(opened.y[opened.new]) == {"2"}
    assert opened.X[:, 0].tolist() == list(range(400, 1600))


def test_recordings_stream_in_the_order_of_the_split_and_not_of_the_table(ordered):
    closed, opened = tables.case("TEP/closed/order"), tables.case("TEP/open/order")
    assert list(dict.fromkeys(closed.X_train[:, 1])) == [0, 1, 2, 6]
    assert list(dict.fromkeys(closed.X[:, 1])) == [100, 101, 102, 106]
    assert list(dict.fromkeys(opened.X[:, 1])) == [100, 101, 104, 102]
    assert set(opened.y[opened.new]) == {"4"}


@pytest.mark.parametrize("name", ["KEYSTROKE/closed", "KEYSTROKE/open", "OUTDOOR/open", "TEP/open"])
def test_the_shuffled_twin_has_the_same_rows_and_sizes(ordered, name):
    ordered_case, twin = tables.case(f"{name}/order"), tables.case(f"{name}/shuffled")
    assert rows(twin.X_train) + rows(twin.X) == rows(ordered_case.X_train) + rows(ordered_case.X)
    assert len(twin.X_train) == len(ordered_case.X_train)
    assert set(twin.y[twin.new]) == set(ordered_case.y[ordered_case.new])
    for X in (twin.X_train, twin.X):
        assert abs(np.corrcoef(X[:, 0], np.arange(len(X)))[0, 1]) < 0.3


@pytest.mark.parametrize("name", processes.NAMES)
def test_a_process_is_that_of_its_seed_and_open_only_by_its_name(name):
    given, again, other = processes.case(name, 3), processes.case(name, 3), processes.case(name, 4)
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


@pytest.mark.parametrize("process", FROZEN)
def test_the_frozen_model_is_as_right_as_the_processes_were_tuned_for(process):
    found = []
    for seed in range(5):
        given = processes.case(f"{process}/closed", seed)
        model = OpenSetRecognizer(seed=seed, input=Input(order="shuffled"))  # 2c2959a did not look at the order
        model.learn_many(pd.DataFrame(given.X_train), given.y_train.tolist())
        model.freeze()
        found.append(np.mean(model.predict_many(pd.DataFrame(given.X)) == given.y))
    assert np.mean(found) == pytest.approx(FROZEN[process], abs=0.03)


class SubclassEmerged:
    def __init__(self, subclass_id):
        self.subclass_id = subclass_id


class SubclassRefuted(SubclassEmerged):
    pass


class EventsSummed:
    emerged = (7, 8)


def test_a_subclass_is_announced_once_and_stands_unless_it_is_refuted_at_last():
    told = [SubclassEmerged(1), SubclassEmerged(2), SubclassRefuted(1), SubclassEmerged(1), SubclassRefuted(2)]
    assert running.announcements(told) == (2, 1)
    assert running.announcements([*told, EventsSummed()]) == (4, 3)


class Reported:
    """An event about columns."""

    def __init__(self, **facts):
        self.facts = facts
        vars(self).update(facts)

    def as_dict(self):
        return self.facts


def test_a_column_is_named_by_an_event_that_is_not_about_what_a_subclass_is_like():
    assert running.names_column(Reported(columns=("x03", "x05")), "x05")
    assert not running.names_column(Reported(columns=("x03",)), "x05")
    assert not running.names_column(Reported(explanation={"x05": 3.0}), "x05")
    assert not running.names_column(
        SubclassMerged(batch=1, seq=2, model="x05.", subclass_id=1, into=2, size=3), "x05"
    )


RECORD = {
    "seed": 1,
    "commit": "abc",
    "digest": "0",
    "new": 0,
    "stream": 8000,
    "frozen_right": 0.9,
    "frozen_false_unknown": 0.01,
    "frozen_micro_f": 0.9,
    "right": 0.88,
    "last_fifth": 0.86,
    "false_unknown": 0.04,
    "announced": 0,
    "unknown_recall": None,
    "auroc": None,
    "micro_f": 0.9,
    "live_off": 0.02,
    "promised": 0.9,
    "recall_dropped": None,
    "class_right": {"2": 0.9},
}


@pytest.mark.parametrize(
    ("case", "changed", "figure"),
    [
        ("TEP/closed/order", {"right": 0.86}, "right"),
        ("TEP/closed/order", {"false_unknown": 0.05}, "false_unknown"),
        ("TEP/closed/order", {"announced": 1}, "announced"),
        ("TEP/closed/order", {"live_off": None}, "live_off"),
        ("TEP/open/order", {"unknown_recall": 0.5}, "unknown_recall"),
        ("TEP/open/order", {"auroc": 0.9}, "auroc"),
        ("TEP/open/order", {"micro_f": 0.88}, "micro_f"),
        ("TEP/open/order", {"right": 0.84}, "right"),
        ("EEGEYE/closed/order", {"recall_dropped": None}, "recall_dropped"),
        ("EEGEYE/closed/order", {"recall_dropped": 511}, "recall_dropped"),
        ("drift/closed", {"last_fifth": 0.84}, "last_fifth"),
        ("drift/closed", {"announced": 3}, "announced"),
        ("drift/open", {"unknown_recall": 0.89}, "unknown_recall"),
        ("unit/closed", {"column_named": 4101}, "named_after"),
        ("unit/closed", {"recall_dropped": None}, "dropped_after"),
        ("imbalanced/closed", {"class_right": {"2": 0.8}}, "rarest_right"),
        ("mislabelled/closed", {"promised": 0.8}, "promised_off"),
        ("overlapping/open", {"announced": 0}, "announced"),
        ("rare/open", {"unknown_recall": 0.7}, "unknown_recall"),
    ],
)
def test_each_condition_can_fail(case, changed, figure):
    shuffled = RECORD | {"case": "TEP/open/shuffled", "auroc": 0.99}
    opened = {"new": 1, "unknown_recall": 0.95, "auroc": 0.98} if "open" in case else {}
    happened = {"announced": 1 - ("closed" in case), "recall_dropped": 4050, "column_named": 4050, "fault": 4000}
    if case.startswith("EEGEYE"):
        happened["recall_dropped"] = 300
    good = RECORD | {"case": case} | opened | happened
    assert unmet(good, shuffled) == []
    assert unmet(good | changed, shuffled) == [figure]


def test_the_command_measures_a_table_and_writes_the_page(ordered, tmp_path, capsys):
    results, text = tmp_path / "now.jsonl", tmp_path / "order.md"
    assert main(["--json", str(results), "--cases", "KEYSTROKE/*/order", "--seeds", "1"]) == 0
    closed, opened = map(json.loads, results.read_text().splitlines())
    assert (closed["case"], closed["seed"], closed["training"], closed["stream"]) == (
        "KEYSTROKE/closed/order",
        1,
        400,
        1200,
    )
    assert (closed["known"], closed["new"], opened["known"], opened["new"]) == (4, 0, 3, 1)
    assert closed["unknown_recall"] is None
    assert opened["right"] + opened["false_unknown"] <= 1
    assert set(opened["events"]) <= set(stream_osr.__all__)
    assert "KEYSTROKE/open/order" in capsys.readouterr().out
    text.write_text("above\n<!-- order -->\n<!-- end of order -->\nbelow\n")
    assert main(["--page", str(text), str(results), str(results)]) == 0
    written = text.read_text()
    assert "| KEYSTROKE/closed/order |" in written
    assert "bit for bit as before: KEYSTROKE/closed/order, KEYSTROKE/open/order." in written
    assert written.startswith("above")


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", ["KEYSTROKE/closed", "KEYSTROKE/open", "TEP/closed"])
def test_what_must_hold_of_an_ordered_table_holds(name):
    given = need_ordered(f"{name}/order")
    twin = tables.case(f"{name}/shuffled") if name.endswith("open") else None
    shuffled_record = None if twin is None else running.measure(twin, 0)
    record = {"case": f"{name}/order", "seed": 0, **running.measure(given, 0)}
    assert unmet(record, shuffled_record) == []


@pytest.mark.parametrize("name", ["noisy/closed", "noisy/open", "offsets/closed", "offsets/open", "drift/open"])
def test_what_must_hold_of_a_made_up_process_holds(name):
    record = {"case": name, "seed": 0, **running.measure(processes.case(name, 0), 0)}
    assert unmet(record) == []
