"""Records that a CSV source reads at once: they equal those of its iterator, and a run has the same outputs."""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.errors import ConnectorError
from stream_osr.parameters import Input
from stream_osr_connectors.files import BadRecord, CsvSource, JsonLinesSink, MemorySink, Record
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.file_run import FileRun, Sinks
from tests.blobs import around
from tests.connectors.models import NAMES, streaming
from tests.file_runs import run
from tests.tiers import examples

PLAIN = [b"k%d,1.5,-2,3e1,%d\n" % (i, i) for i in range(6)] + [b"k,+1,.5,2.,7.5\r\n", b",1,2,3,1970-01-01\n"]
OTHER = [
    *(b"\n", b"  \n", b"k,1,,3,4\n", b"k,NA,2,3,4\n", b"k,1_0,2,3,4\n", b"k, 1,2,3,4\n", b"k,1,2,3\n"),
    *(b"k,1,2,3,4,\n", b"k,1,2,3,4,5\n", b'"k",1,2,3,4\n', b'"k\nl",1,2,3,4\n', b'k",1,2,3,4\n', b"'=k,1,2,3,4\n"),
    *(b"k,1,2,3,later\n", b"k,inf,2,3,4\n", b"k,1e999,2,3,4\n", b"k,1e200,2,3,4\n", b"k,1,2\r,3,4\n"),
    *(b"k\0,1,2,3,4\n", b"\xff,1,2,3,4\n", b"\xef\xbb\xbfk,1,2,3,4\n", b"key,a,b,c,t\n", b"key,1,2,3,4\n"),
    *(b"k" * 60 + b",1,2,3,4\n", b"k,true,2,3,4\n", b"k\x0b,1,2,3,4\n", "k\u2028,1,2,3,4\n".encode(), b"k,1,2,3,4"),
]


def comparable(records: Iterator[Record | BadRecord]) -> list[Any]:
    """Records without the values that only an iterator has."""
    return [
        each if isinstance(each, BadRecord) else (each.features, each.key, each.time, dict(each.position or {}))
        for each in records
    ]


def mixed(source: CsvSource, sizes: list[int]) -> Iterator[Record | BadRecord]:
    """Read rows at once where the source can, and single records elsewhere."""
    for size in sizes * 100:
        rows = source.take_rows(NAMES, size)
        if rows is None:
            record = next(source, None)
            if record is None:
                return
            yield record
        else:
            assert 1 <= len(rows.lines) <= size
            for at, line in enumerate(rows.lines):
                values = dict(zip(NAMES, rows.values[at].tolist(), strict=True))
                position = {**rows.position, "row": line.row, "offset": line.end}
                key, time = (None if column is None else column[at] for column in (rows.keys, rows.times))
                yield Record(values, key, time, position=position)
            assert dict(position) == dict(rows.position)


OPTIONS: list[dict[str, Any]] = [{}, {"safe": True}, {"key": None, "time": None, "features": ["c", "b", "a"]}]


def check_mixed(lines: list[bytes], sizes: list[int], options: dict[str, Any]) -> None:
    """Check that rows and records are those of the iterator alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stream.csv")
        path.write_bytes(b"key,a,b,c,t\n" + b"".join(lines))
        reading: Any = {"key": "key", "time": "t", "max_record_bytes": 40, **options}
        with CsvSource(path, **reading) as alone, CsvSource(path, **reading) as source:
            assert comparable(mixed(source, sizes)) == comparable(alone)


@pytest.mark.parametrize("options", OPTIONS)
@examples(60)
@given(st.lists(st.sampled_from(PLAIN * 4 + OTHER), max_size=20), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_rows_are_those_of_the_iterator(options: dict[str, Any], lines: list[bytes], sizes: list[int]) -> None:
    check_mixed(lines, sizes, options)


@pytest.mark.parametrize("options", OPTIONS)
def test_rows_beside_any_other_line_are_those_of_the_iterator(options: dict[str, Any]) -> None:
    for line in OTHER:
        check_mixed([PLAIN[0], line, PLAIN[1], PLAIN[2]], [3], options)
        check_mixed([PLAIN[0], line], [2], options)


def test_rows_do_not_hide_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "stream.csv"
    for text, reason in (
        ("0,1,note\n5,6,n\n0,1,note\n7,8,n\n", "the row repeats the header"),
        (f"0,1,note\n5,6,n\n5,6,{'n' * 140_000}\n7,8,n\n", "not CSV: field larger than field limit"),
    ):
        path.write_text(text)
        with CsvSource(path, features=["0", "1"]) as source:
            assert source.take_rows(["0", "1"], 3) is None
            _, bad, _ = source
            assert isinstance(bad, BadRecord)
            assert bad.reason.startswith(reason)


def test_an_unreadable_rest_is_reported_after_the_rows_before_it(tmp_path: Path) -> None:
    path = tmp_path / "stream.csv.gz"
    whole = gzip.compress(b"a,b,c\n" + b"".join(b"%d,2,3\n" % i for i in range(20000)))
    path.write_bytes(whole[: len(whole) // 2])
    alone: list[Record | BadRecord] = []
    with CsvSource(path) as source, pytest.raises(ConnectorError, match="reading stopped") as one_by_one:
        alone.extend(source)
    with CsvSource(path) as source:
        at_once = 0
        while (rows := source.take_rows(NAMES, 700)) is not None:
            at_once += len(rows.lines)
        for _ in range(2):
            with pytest.raises(ConnectorError, match=f"^{re.escape(str(one_by_one.value))}$"):
                next(source)
    assert at_once == len(alone) > 700


def stream(path: Path, *, faults: bool) -> Path:
    rng = np.random.default_rng(8)
    rows = rng.normal(rng.choice([0, 9, 30], (90, 1)), 1, (90, 3))
    lines = [f"k{i},{a},{b},{c},{i}" for i, (a, b, c) in enumerate(rows)]
    if faults:
        lines[17], lines[40], lines[41] = "k17,hot,1,1,17", "k40,1,,3,40", '"k41",1,2,3,41'
        lines[70] = "k70,1e200,2,3,70"
    path.write_text("\n".join(["key,a,b,c,t", *lines]) + "\n")
    return path


class Counting(CsvSource):
    """A source that counts the records that it reads at once."""

    at_once = 0

    def take_rows(self, features: Sequence[Any], most: int) -> Any:
        """Read rows."""
        rows = super().take_rows(features, most)
        self.at_once += 0 if rows is None else len(rows.lines)
        return rows


class OneByOne(Counting):
    """A source that reads no records at once."""

    def take_rows(self, features: Sequence[Any], most: int) -> None:
        """Return nothing."""


@pytest.mark.parametrize(
    ("faults", "arguments"), [(False, {}), (True, {"max_wait": 5.0}), (True, {"decision_delay": 3})], ids=str
)
def test_a_run_by_rows_has_the_outputs_of_a_run_by_records(
    trained: TrainedModel, tmp_path: Path, faults: bool, arguments: dict[str, Any]
) -> None:
    path, found, at_once = stream(tmp_path / "stream.csv", faults=faults), [], []
    for kind in (Counting, OneByOne):
        outputs = [tmp_path / f"{kind.__name__}.{name}" for name in Sinks._fields]
        options: dict[str, Any] = {"checkpoint": tmp_path / kind.__name__, "checkpoint_every": 7}
        for until in (37, None):
            with kind(path, key="key", time="t") as source, ExitStack() as stack:
                sinks = Sinks(*(stack.enter_context(JsonLinesSink(output)) for output in outputs))
                if until is None:
                    totals = FileRun.go_on(load_checkpoint(options["checkpoint"]), source, sinks, **options).run()
                else:
                    run(streaming(trained, batch_size=8, **arguments), source, sinks, until=until, **options)
                at_once.append(source.at_once)
        found.append((totals, [output.read_text() for output in outputs]))
    assert found[0] == found[1]
    refused = 2 if faults else 0
    assert (totals["read"], totals["decided"], totals["set_aside"]) == (90, 90 - refused, refused)
    assert at_once[2:] == [0, 0]
    assert sum(at_once) > 50


def test_a_marker_of_a_missing_value_is_no_number(tmp_path: Path) -> None:
    """And a run may begin with training."""
    known = around([0.0] * 3, 40, np.random.default_rng(3), NAMES)
    labelled = [",".join([*map(str, x.values()), "left"]) for x in known]
    model, out = OpenSetRecognizer(chains=1, batch_size=4, input=Input(missing=["-999"])), MemorySink()
    path = tmp_path / "stream.csv"
    path.write_text("\n".join(["a,b,c,y", *labelled, *["0,0,0,", "0,-999,0,"] * 4]) + "\n")
    with CsvSource(path, label="y") as source:
        totals = run(model, source, Sinks(out))
    assert (totals["labelled"], totals["decided"], model.counters["missing"]) == (40, 8, 4)
    assert [each["label"] for each in out.records] == ["left"] * 8
    rows = np.array([[0.0, 0.0, 0.0], [0.0, -999.0, 0.0]])
    with pytest.raises(ValueError, match=r"feature 'b' of row 1 is -999.0 \(float\): it is missing. Use learn_one"):
        model.learn_rows(rows)
    model.learn_rows(rows[:1])
