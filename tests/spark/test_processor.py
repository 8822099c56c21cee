"""The stateful processor in pyspark's tester, without Java: every key against a plain loop, bit for bit."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="needs pyspark: make spark", exc_type=ImportError)

import pandas
from pyspark.sql.streaming.tws_tester import TwsTester

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidParameter, PersistenceError
from stream_osr_connectors.files.json_lines import as_text
from stream_osr_connectors.spark import COLUMNS, KeyProcessor
from tests.spark.streams import ARGUMENTS, decided, expected, loop, rows_of, saved_model

pytestmark = pytest.mark.needs("pyspark")
Rows = list[dict[str, Any]]
KEYS = ("pump 1", "pump 22", "pump 333")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def trained(path: Path) -> Any:
    return OpenSetRecognizer.load(path).trained


def processor(path: Path, trained: Any, timed: bool = True, **arguments: Any) -> KeyProcessor:
    return KeyProcessor(str(path), trained.fingerprint, arguments or ARGUMENTS, timed=timed)


def frame(rows: Sequence[dict[str, Any]]) -> pandas.DataFrame:
    """Make the frame that Spark makes of rows: the order is text, and an integral category, too."""
    columns = {
        "order": [None if row["order"] is None else str(row["order"]) for row in rows],
        "time": [row["time"] for row in rows],
        **{f"f{n}": [row[name] for row in rows] for n, name in enumerate(("a", "b"))},
        "f2": [str(row["colour"]) for row in rows],
    }
    return pandas.DataFrame(columns)


def called(tester: TwsTester, key: Any, rows: Sequence[dict[str, Any]]) -> Rows:
    return found(tester.testInPandas(key, frame(rows)))


def found(out: pandas.DataFrame) -> Rows:
    assert not len(out) or tuple(out.columns) == COLUMNS
    return out.to_dict("records")


def events(rows: Rows) -> list[str]:
    return [row["content"] for row in rows if row["kind"] == "event"]


def reasons(rows: Rows) -> list[str]:
    return [row["reason"] for row in rows if row["kind"] == "rejected"]


def cut(rows: Rows, seed: int) -> list[Rows]:
    """Cut rows into calls of various sizes and shuffle each, as Spark does."""
    rng, out, at = random.Random(seed), [], 0
    while at < len(rows):
        size = rng.randint(1, 40)
        out.append(rng.sample(rows[at : at + size], len(rows[at : at + size])))
        at += size
    return out


def test_each_key_is_bit_equal_to_a_loop(path: Path, trained: Any) -> None:
    """Rows are unsorted within a call, and the state is saved and restored at every call."""
    tester, out = TwsTester(processor(path, trained)), defaultdict[str, Rows](list)
    rows = {key: rows_of(key, 300) for key in KEYS}
    calls = [(key, call) for number, key in enumerate(KEYS) for call in cut(rows[key], number)]
    for key, call in sorted(calls, key=lambda each: each[1][0]["order"] // 400):
        out[key] += called(tester, key, call)
    for key in KEYS:
        decisions, emitted = loop(trained, rows[key])
        assert decided(out[key]) == expected(decisions)
        assert events(out[key]) == [as_text(event.as_dict()) for event in emitted]
        assert len(decisions) > 250 and reasons(out[key]) == []  # noqa: PT018
        assert any(row["label"] == "unknown" for row in out[key])
        assert {each["key"] for each in out[key]} == {key}
    assert any("SubclassEmerged" in each for key in KEYS for each in events(out[key]))


def test_late_and_repeated_rows_are_rejected(path: Path, trained: Any) -> None:
    rows = rows_of("pump 1", 120)
    tester = TwsTester(processor(path, trained))
    late = rows.pop(30)
    out = called(tester, "pump 1", rows[:60]) + called(tester, "pump 1", [late, *rows[50:], rows[80]])
    assert decided(out) == expected(loop(trained, rows)[0])
    assert [row["order"] for row in out if row["kind"] == "rejected"] == [late["order"], *range(510, 601, 10), 810]
    assert all("late or repeated" in each for each in reasons(out))
    assert reasons(out)[0].startswith("column 'order' is 300: expected more than 600")


def test_a_repeated_order_does_not_depend_on_the_order_of_arrival(path: Path, trained: Any) -> None:
    one, two = ({**rows_of("pump 1", 1)[0], "b": b} for b in (1.0, 2.0))
    outs = [called(TwsTester(processor(path, trained)), "k", rows) for rows in ([one, two], [two, one])]
    assert outs[0] == outs[1]


def test_rows_that_cannot_be_used_are_rejected(path: Path, trained: Any) -> None:
    rows = rows_of("pump 1", 50)
    wrong = ({"a": "high"}, {"time": None}, {"time": "yesterday"}, {"b": float("inf")}, {"order": None})
    bad = [{**rows[3], "order": 31 + n, **fields} for n, fields in enumerate(wrong)]
    tester = TwsTester(processor(path, trained))
    out = called(tester, "pump 1", [*rows[:20], *bad, *rows[20:]]) + called(tester, None, rows[:1])
    assert decided(out) == expected(loop(trained, rows)[0])
    rejected = reasons(out)
    parts = (
        *("feature 'a' is 'high'", "feature 'b' is inf", "column 'time' is null", "column 'time' holds 'yesterday'"),
        *("column 'order' is null", "the column of the key is null"),
    )
    assert len(rejected) == len(parts)
    for part in parts:
        assert any(part in each for each in rejected), part
    raw = [json.loads(row["content"]) for row in out if row["kind"] == "rejected" and row["order"] == 31]
    features = {"a": "high", "b": rows[3]["b"], "colour": "3"}
    assert raw == [{"order": "31", "time": rows[3]["time"], "features": features}]
    assert tester.peekValueState("recognizer", None) is None


def test_a_timer_closes_the_micro_batch_of_a_quiet_key(path: Path, trained: Any) -> None:
    arguments = {**ARGUMENTS, "max_wait": 60.0}
    tester = TwsTester(processor(path, trained, **arguments), timeMode="ProcessingTime")
    rows = rows_of("pump 1", 40)  # 13 s of event time
    assert not len(tester.setProcessingTime(1000))
    out = called(tester, "pump 1", rows[:20])  # 16 are decided, 4 wait until 61 s
    tester.setProcessingTime(30_000)
    out += called(tester, "pump 1", rows[20:22])  # the timer stays
    assert not len(tester.setProcessingTime(60_999))
    out += found(tester.setProcessingTime(61_000))
    assert not list(tester.handle.listTimers())
    out += called(tester, "pump 1", rows[22:])  # 18: two wait until 121 s
    assert not len(tester.setProcessingTime(120_999))
    out += found(tester.setProcessingTime(121_000))
    decisions, emitted = loop(trained, [*rows[:22], None, *rows[22:], None], **arguments)
    assert [d.batch for d in decisions] != [d.batch for d in loop(trained, rows, **arguments)[0]][: len(decisions)]
    assert decided(out) == expected(decisions)
    assert events(out) == [as_text(event.as_dict()) for event in emitted]


def test_a_full_micro_batch_moves_the_timer(path: Path, trained: Any) -> None:
    tester = TwsTester(processor(path, trained, **{**ARGUMENTS, "max_wait": 60.0}), timeMode="ProcessingTime")
    rows = rows_of("pump 1", 32)
    for now, some, timers in ((1000, rows[:10], [61_000]), (2000, rows[10:17], [62_000]), (2001, rows[17:], [])):
        tester.setProcessingTime(now)
        called(tester, "pump 1", some)
        tester.handle.setGroupingKey("pump 1")
        assert list(tester.handle.listTimers()) == timers


def test_another_model_and_an_invalid_argument_are_refused(path: Path, trained: Any) -> None:
    with pytest.raises(PersistenceError, match="expected 0000, with which the query started"):
        KeyProcessor(str(path), "0000", {}, timed=False)
    with pytest.raises(InvalidParameter, match="batch_size"):
        processor(path, trained, batch_size=0)


def test_a_job_without_a_time_needs_none(path: Path, trained: Any) -> None:
    rows = [{**row, "time": None} for row in rows_of("pump 1", 40)]
    out = called(TwsTester(processor(path, trained, timed=False)), "pump 1", rows)
    assert decided(out) == expected(loop(trained, rows)[0])
