"""A foreign value that alone carries the difference counts as missing, and its column is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stream_osr import ColumnFailed, Decision, Input, OpenSetRecognizer, SubclassEmerged
from stream_osr.stream.odd_columns import _separates
from stream_osr_connectors.files import open_sink
from stream_osr_connectors.files.output_columns import columns_of
from stream_osr_connectors.kafka.wire.encoding import _with_text_labels
from stream_osr_connectors.summary.input_records import read_records

CENTRES = np.array([[0.0] * 4, [5.0, 0.0, 5.0, 0.0], [0.0, 6.0, 0.0, 6.0], [-6.0, -6.0, 6.0, 6.0]])
NAMES = np.array(["a", "b", "c", "new"])


def drawn(n: int, seed: int, known: int = 3) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw instances of separate classes. Each host has instances of all classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(known, size=n)
    X = pd.DataFrame(CENTRES[y] + rng.normal(size=(n, 4))).add_prefix("x")
    return X.assign(node=[f"n{v}" for v in rng.integers(5, size=n)]), NAMES[y]


def trained(**arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(chains=1, seed=1, batch_size=32, **arguments)
    X, y = drawn(450, 0)
    model.learn_many(X, y)
    model.freeze()
    return model


def decided(model: OpenSetRecognizer, X: pd.DataFrame) -> tuple[np.ndarray, list[Decision]]:
    model.learn_many(X)
    model.flush()
    decisions = list(model.drain())
    return np.array([each.label for each in decisions]), decisions


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_a_new_host_does_not_overrule_the_numbers(share: float) -> None:
    model, (X, y) = trained(), drawn(640, 1)
    X.loc[np.random.default_rng(2).random(len(X)) < share, "node"] = "n99"
    frozen = np.array(model.predict_many(X))
    labels, decisions = decided(model, X)
    assert (frozen == y).mean() > 0.97
    assert (labels == y).mean() >= (frozen == y).mean() - 0.01
    assert not list(model.drain_events())
    odd = np.array([each.odd_columns == ("node",) for each in decisions])
    assert (odd == (X["node"] == "n99")).mean() > 0.99
    assert model.signals.odd_values == odd.sum()
    assert (np.array(model.predict_many(X)) == labels).mean() > 0.99


def test_a_new_class_with_a_new_value_is_found_by_its_other_columns() -> None:
    model, (X, y) = trained(), drawn(640, 1, known=4)
    X.loc[y == "new", "node"] = "n99"
    labels, _ = decided(model, X)
    assert (labels[y == "new"] == "unknown").mean() > 0.97
    assert (labels[y != "new"] == y[y != "new"]).mean() > 0.97


def test_a_new_value_is_evidence_where_each_class_has_its_own_values() -> None:
    model, rng = OpenSetRecognizer(chains=1, seed=1, batch_size=32), np.random.default_rng(0)
    kind = np.arange(400) % 2
    model.learn_many(pd.DataFrame({"x": rng.normal(size=400), "kind": np.array(["k0", "k1"])[kind]}), NAMES[kind])
    there = np.arange(640) % 3
    X = pd.DataFrame({"x": rng.normal(size=640), "kind": np.array(["k0", "k1", "k2"])[there]})
    labels, decisions = decided(model, X)
    assert (labels[there == 2] == "unknown").mean() > 0.9
    assert not any(each.odd_columns for each in decisions)


def test_an_alarm_column_stays_an_alarm() -> None:
    model, (X, _) = trained(input=Input(alarms=["node"])), drawn(96, 1)
    X.loc[::8, "node"] = "n99"
    labels, decisions = decided(model, X)
    assert (labels[::8] == "unknown").all()
    assert not any(each.odd_columns for each in decisions)


def test_columns_separate_classes_by_values_of_their_own() -> None:
    model = trained().trained
    assert model is not None
    known = model.draws[0]._replace(seated=np.eye(2))
    assert _separates(known, np.array([[40.0, 40.0, 0.0, 0.0], [40.0, 0.0, 40.0, 0.0]]))
    assert not _separates(known, np.array([[40.0, 22.0, 18.0, 0.0], [40.0, 18.0, 22.0, 0.0]]))
    assert not _separates(known, np.array([[8.0, *[1.0] * 4, *[0.0] * 4], [8.0, *[0.0] * 4, *[1.0] * 4]])), (
        "by chance"
    )


@pytest.mark.parametrize("code", [-127.0, 85.0])
def test_an_error_code_is_a_fault_of_its_column(code: float, tmp_path: Path) -> None:
    model, (X, y) = trained(), drawn(640, 1)
    X.loc[::12, "x0"] = code
    labels, decisions = decided(model, X)
    events = list(model.drain_events())
    (failed,) = [each for each in events if isinstance(each, ColumnFailed)]
    assert (failed.column, failed.kind, failed.value, failed.since) == ("x0", "error code", code, 0)
    assert not any(isinstance(each, SubclassEmerged) for each in events)
    assert (labels == y)[96:].mean() > 0.97
    assert {each.odd_columns for each in decisions[96::12]} == {("x0",)}
    assert model.signals.error_codes == {"x0": (code,)}
    assert model.signals.faulty_columns == ("x0",)
    assert f"x0 {code:g}" in str(model.signals)
    model.save(tmp_path / "m.osr")
    again = OpenSetRecognizer.load(tmp_path / "m.osr")
    assert again.signals == model.signals
    assert decided(again, X)[1] == decided(model, X)[1]
    assert not [each for each in again.drain_events() if isinstance(each, ColumnFailed)], "reported once"


def test_a_new_class_with_one_constant_far_away_is_no_error_code() -> None:
    model, (X, y) = trained(), drawn(640, 1, known=4)
    X.loc[y == "new", "x0"] = 85.0
    labels, _ = decided(model, X)
    assert (labels[y == "new"] == "unknown").mean() > 0.97
    assert not model.signals.error_codes


def test_many_whole_numbers_far_away_are_no_error_codes() -> None:
    """A counter or a rounded temperature that leaves its range measures something new."""
    model, (X, y) = trained(), drawn(480, 1)
    hot = y == "a"
    X.loc[hot, "x0"] = 200.0 + np.random.default_rng(3).integers(8, size=hot.sum())
    labels, decisions = decided(model, X)
    assert (labels[hot] == "unknown").mean() > 0.9
    assert (labels[~hot] == y[~hot]).mean() > 0.97
    assert not any(each.odd_columns for each in decisions)
    assert not model.signals.error_codes


def test_a_rare_value_in_the_tail_is_no_error_code() -> None:
    model, (X, _) = trained(), drawn(1280, 1)
    X.loc[::250, "x0"] = 85.0
    decided(model, X)
    assert not model.signals.error_codes


def test_sinks_name_the_odd_column(tmp_path: Path) -> None:
    p = {"a": 0.75, "unknown": 0.25}
    plain = Decision("k", None, "a", "a", 0.75, 0.25, p, None, "a", 1.0, 0.5, 0, 0)
    odd = plain._replace(odd_columns=("node",))
    assert "odd_columns" not in plain.as_dict()
    assert [json.loads(_with_text_labels(each)).get("odd_columns") for each in (plain, odd)] == [None, ["node"]]
    for name, columns in (("d.csv", columns_of(Decision)), ("old.csv", dict.fromkeys(Decision._fields[:-1], "text"))):
        with open_sink(tmp_path / name, columns=columns, classes=["a"]) as sink:
            for each in (plain, odd):
                sink.write(each.as_dict())
        read = [each.get("odd_columns") for each in read_records(tmp_path / name, [])]
        assert read == ([None, ["node"]] if name == "d.csv" else [None, None])
