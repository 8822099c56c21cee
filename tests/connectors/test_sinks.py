"""Writing files: durable at a flush, cut back exactly, never silently incomplete."""

from __future__ import annotations

import contextlib
import csv
import errno
import gzip
import io
import math
import os
import stat
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import CsvSink, JsonLinesSink, Record, Sink, open_sink, open_source

NAMES = ["out.csv", "out.csv.gz", "out.jsonl", "out.jsonl.gz"]


def content(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.name.endswith(".gz") else data).decode()


def expected(name: str, *values: int) -> str:
    if "csv" in name:
        return "".join(["n,s\n" if values else "", *(f"{value},x\n" for value in values)])
    return "".join(f'{{"n":{value},"s":"x"}}\n' for value in values)


def write(sink: Sink, *values: int) -> None:
    for value in values:
        sink.write({"n": value, "s": "x"})


@pytest.mark.parametrize("name", NAMES)
def test_flush_is_enough_for_another_reader(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with open_sink(path) as sink:
        for value in (1, 2, 3):
            write(sink, value)
            sink.flush()
            sink.flush()
            assert content(path) == expected(name, *range(1, value + 1))
            assert sink.position()["offset"] == path.stat().st_size
    assert path.read_bytes().count(b"\x1f\x8b\x08") == (3 if path.suffix == ".gz" else 0), "a member for each flush"


@pytest.mark.parametrize("name", NAMES)
def test_opening_replaces_a_file_only_once_something_is_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("old")
    open_sink(path).close()
    assert path.read_text() == "old"
    with pytest.raises(RuntimeError), open_sink(path):
        raise RuntimeError
    assert path.read_text() == "old", "before the sink could resume"
    with open_sink(path):
        pass  # a run that had nothing to write
    assert path.read_bytes() == b""


@pytest.mark.parametrize("name", NAMES)
def test_positions_of_something_else_are_refused(tmp_path: Path, name: str) -> None:
    with open_sink(tmp_path / name) as sink:
        for position in ({}, {"offset": -1}, {"offset": "1"}, {"offset": True}, {"index": 0}):
            with pytest.raises(ConnectorError, match="is not a position of"):
                sink.truncate({"fields": ["n"], **position})
        for fields in (None, "ns", [1]) if "csv" in name else ():
            with pytest.raises(ConnectorError, match="'fields' should be the names in its header"):
                sink.truncate({"offset": 4, "fields": fields})


@pytest.mark.parametrize("name", NAMES)
def test_a_closed_sink_takes_nothing(tmp_path: Path, name: str) -> None:
    sink = open_sink(tmp_path / name)
    sink.close()
    for action in (lambda: write(sink, 1), sink.flush, lambda: sink.truncate(None)):
        with pytest.raises(ConnectorError, match="is closed"):
            action()


def test_the_name_of_a_file_is_on_the_disk_before_its_position_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    with open_sink(tmp_path / "out.jsonl") as sink:
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(stat.S_ISDIR(os.fstat(file).st_mode)))
        write(sink, 1)
        sink.flush()
        assert synced[-1] is True
        synced.clear()
        write(sink, 2)
        sink.flush()
        assert synced == [False], "once is enough"


@pytest.mark.parametrize(("private", "rights"), [(True, ["0o600", "0o700"]), (False, ["0o644", "0o755"])])
def test_rights_of_a_file_that_is_made_and_of_one_that_is_there(tmp_path: Path, private: bool, rights: Any) -> None:
    (tmp_path / "there.jsonl").touch()
    (tmp_path / "there.jsonl").chmod(0o640)
    before = os.umask(0o022)
    try:
        for name in ("made.jsonl", "there.jsonl", "made.parquet"):
            with open_sink(tmp_path / name, private=private) as sink:
                write(sink, 1)
    finally:
        os.umask(before)
    found = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.rglob("*")}
    assert found.pop("there.jsonl") == "0o640"
    assert found == {"made.jsonl": rights[0], "made.parquet": rights[1], "part-00000000.parquet": rights[0]}


# --- full disks -------------------------------------------------------------------------------------

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")


@FULL
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_full_disk_is_reported_once_and_plainly(format: Any) -> None:
    sink = open_sink("/dev/full", format=format)
    write(sink, 1)
    for _ in range(2):  # the data are in doubt, so it stays an error
        with pytest.raises(
            ConnectorError, match=r"cannot write to /dev/full: No space left.*free some space"
        ) as caught:
            sink.flush()
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    with pytest.raises(ConnectorError, match="No space left"):
        write(sink, 2)
    sink.close()


@FULL
@pytest.mark.parametrize("rows", [1, 10_000])
def test_a_full_disk_is_reported_when_the_buffer_is_full_or_the_sink_is_closed(rows: int) -> None:
    sink = open_sink("/dev/full", format="jsonl")
    with pytest.raises(ConnectorError, match="No space left"), contextlib.closing(sink):
        write(sink, *range(rows))
    sink.close()


class SmallDisk(io.FileIO):
    """A file on a disk that takes so many bytes and no more."""

    room = 100

    def write(self, data: Any) -> int:
        size = os.fstat(self.fileno()).st_size
        if size >= self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data[: self.room - size]) or 0


@pytest.mark.parametrize("name", NAMES)
def test_going_on_after_a_full_disk_was_cleared(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_osr_connectors.files.byte_sink.open_output", lambda path, **_: SmallDisk(path, "a+b"))
    with open_sink(tmp_path / name) as sink:
        write(sink, 1)
        sink.flush()
        position = sink.position()
        write(sink, *range(2, 1000))
        with pytest.raises(ConnectorError, match="No space left"):
            sink.flush()
        assert (tmp_path / name).stat().st_size == SmallDisk.room  # half a record
        assert sink.position() == position
        sink.truncate(position)
        write(sink, 2)
    assert content(tmp_path / name) == expected(name, 1, 2)


# --- standard output and devices --------------------------------------------------------------------


@pytest.mark.parametrize("format", [None, "csv", "jsonl"])
def test_standard_output(capsysbinary: pytest.CaptureFixture[bytes], format: Any) -> None:
    print("before")  # noqa: T201 - the order of text and bytes is what is tested
    with open_sink("-", format=format) as sink:
        sink.truncate(None)  # nothing is lost yet
        write(sink, 1)
        sink.flush()
        assert capsysbinary.readouterr().out.decode() == "before\n" + expected(format or "jsonl", 1)
        for position in (None, sink.position()):
            with pytest.raises(ConnectorError, match="standard output cannot be cut back"):
                sink.truncate(position)
        write(sink, 2)
    both = expected(format or "jsonl", 1, 2)
    assert capsysbinary.readouterr().out.decode() == both.removeprefix(expected(format or "jsonl", 1))
    print("after")  # noqa: T201 - standard output is still open


def test_standard_output_whose_reader_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    raw = io.FileIO(write_end, "w")
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BufferedWriter(raw)))
    sink = open_sink("-")
    write(sink, 1)
    with pytest.raises(ConnectorError, match="cannot write to standard output: Broken pipe"):
        sink.flush()
    sink.close()
    raw.close()


# --- what is written --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"z": 0.1, "y": [None, True]}, '{"z":0.1,"y":[null,true]}'),
        ([math.inf, {"d": -math.inf}, math.nan, np.float32("nan")], '[null,{"d":null},null,null]'),
        ([np.float64(0.1), np.float32(0.5), np.int64(3), np.bool_(True), np.str_("x")], '[0.1,0.5,3,true,"x"]'),
        (np.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
        ({np.int64(1): np.float64(0.25), 2: 0.75}, '{"1":0.25,"2":0.75}'),
        (OrderedDict(a=(1, 2)), '{"a":[1,2]}'),
        ("é\u2028\udcff\ud800\0", r'"\u00e9\u2028\udcff\ud800\u0000"'),
    ],
    ids=str,
)
def test_json_of_values(tmp_path: Path, value: object, text: str) -> None:
    with JsonLinesSink(tmp_path / "out.jsonl") as sink:
        sink.write({"b": 1, "a": value})
    assert (tmp_path / "out.jsonl").read_text() == f'{{"b":1,"a":{text}}}\n'


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_values_that_have_no_form(tmp_path: Path, name: str) -> None:
    with open_sink(tmp_path / name) as sink:
        write(sink, 1)
        for value in (object(), {1, 2}, b"x", 1j, np.longdouble(1), np.datetime64("2024-01-01"), [10**5000]):
            with pytest.raises(ConnectorError, match=r"cannot write .* as JSON"):
                sink.write({"n": value, "s": "x"})
        write(sink, 2)  # nothing of the refused records is in the file
    assert content(tmp_path / name) == expected(name, 1, 2)


def test_csv_cells(tmp_path: Path) -> None:
    values = [None, math.nan, -math.inf, 0.1, np.float64(0.1), np.float32(0.5), True, 10**20, {"x": [1, "y"]}]
    values += [quoted := 'quote " comma , line\nend\r', "", "\rx", "a\udcffb\ud800"]
    with CsvSink(tmp_path / "out.csv") as sink:
        sink.write({f"c{at}": value for at, value in enumerate(values)})
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        header, row = csv.reader(file)
    assert header == [f"c{at}" for at in range(len(values))]
    texts = ["", "", "", "0.1", "0.1", "0.5", "true", str(10**20), '{"x":[1,"y"]}', quoted, ""]
    assert row == [*texts, "'\rx", "a\\udcffb\\ud800"]


RUN_BY_SPREADSHEETS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "-"]
AS_THEY_ARE = ["-1.5", "+49151", "-1e-3", ".5", "1-2", "a=b", "a@b", "'", "'tis", "", " x", "{}", "é", "red"]


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz"])
def test_csv_cells_that_a_spreadsheet_would_run_become_text(tmp_path: Path, name: str) -> None:
    quoted = [f"'{word}" for word in RUN_BY_SPREADSHEETS]
    with open_sink(tmp_path / name) as sink:
        for word in [*RUN_BY_SPREADSHEETS, *quoted, *AS_THEY_ARE]:
            sink.write({"@key": word, "number": -1.5, "why": {"=a": -1}})

    def keys(name_of_key: str, csv_safe: bool) -> list[object]:
        with open_source(tmp_path / name, key=name_of_key, features=["number"], csv_safe=csv_safe) as source:
            found = [record for record in source if isinstance(record, Record)]
        assert {record.features["number"] for record in found} == {-1.5}
        return [record.key or "" for record in found]

    assert keys("'@key", csv_safe=False) == [*quoted, *(f"'{word}" for word in quoted), *AS_THEY_ARE]
    assert keys("@key", csv_safe=True) == [*RUN_BY_SPREADSHEETS, *quoted, *AS_THEY_ARE]


@pytest.mark.parametrize("safe", [True, False])
def test_csv_goes_on_as_it_was_begun(tmp_path: Path, safe: bool) -> None:
    path = tmp_path / "out.csv"
    with open_sink(path, csv_safe=safe) as sink:
        sink.write({"key": "=1"})
        sink.flush()
        position = dict(sink.position())
    for last in (position, None):  # from the beginning by the option of now
        with open_sink(path, csv_safe=not safe) as sink:
            sink.truncate(position)
            sink.truncate(last)
            sink.write({"key": "=2"})
        found = path.read_text()
        expected = "key\n'=1\n'=2\n" if safe else "key\n=1\n=2\n"
        assert found == (expected if last else "key\n=2\n" if safe else "key\n'=2\n")


def test_csv_fields_are_those_of_the_first_record_or_named(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with CsvSink(path) as sink:
        sink.write({"b": 1, "a": 2})
        sink.write({"a": 3})
        with pytest.raises(ConnectorError, match=r"the header has no 'c'. Name all fields"):
            sink.write({"a": 4, "c": 5})
        sink.write({"a": 6, "b": 7})
    assert path.read_text() == "b,a\n1,2\n,3\n7,6\n"
    with CsvSink(path, fields=["a", "b"], delimiter="\t") as sink:
        sink.flush()
        assert path.read_text() == "a\tb\n"  # a table although there is no row
        for position in (sink.position(), None):
            sink.write({"b": 1})
            sink.truncate(position)
        sink.write({"b": 3})
    assert path.read_text() == "a\tb\n\t3\n"
    with CsvSink(path) as sink:
        sink.write({"a": None})
    assert path.read_text() == 'a\n""\n', "a single empty field is no blank line"
