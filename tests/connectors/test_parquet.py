"""Parquet in and out: rows as the file has them, positions, and a folder of parts that is cut back exactly."""

from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stream_osr import Decision
from stream_osr.errors import ConnectorError, MissingExtra
from stream_osr_connectors.files import BadRecord, ParquetSink, Record, open_sink, open_source
from stream_osr_connectors.files.output_columns import columns_of, columns_of_events
from tests.connectors.parquet import read_parquet, write_parquet


def save(path: Path, rows: int, **options: Any) -> Path:
    return write_parquet(path, {"id": list(range(rows)), "a": [i * 0.5 for i in range(rows)]}, **options)


def read(path: Path, **reading: Any) -> list[Record | BadRecord]:
    with open_source(path, **reading) as source:
        return list(source)


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Reading


def test_values_of_every_type(tmp_path: Path) -> None:
    import pyarrow as pa

    moment = datetime.datetime(2026, 3, 2, 12, tzinfo=datetime.UTC)
    table = {
        "whole": pa.array([1, None], pa.int16()),
        "real": [0.5, float("nan")],
        "exact": [Decimal("1.25"), None],
        "half": pa.array([0.5, 1.5], pa.float16()),
        "text": ["hot", ""],
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "flag": [True, False],
        "list": pa.array([[1.5, None], None], pa.list_(pa.float16())),
        "texts": [["a"], ["b"]],
        "at": pa.array([moment, None], pa.timestamp("ns", tz="UTC")),
        "day": [datetime.date(1970, 1, 2), None],
        "bytes": [b"a", b"b"],
    }
    path = write_parquet(tmp_path / "in.parquet", table)
    first, second = read(path, time="at")
    assert first[2] == moment.timestamp()
    assert first[0] == {
        "whole": 1, "real": 0.5, "exact": 1.25, "half": 0.5, "text": "hot", "kind": "x", "flag": True,
        "list": [1.5, None],
    }  # fmt: skip
    assert set(second[0]) == {"real", "half", "text", "kind", "flag"}, "what is empty is missing"
    assert read(path, time="day")[0][2] == 86_400.0


def test_a_column_of_named_fields_holds_the_features(tmp_path: Path) -> None:
    table = {"id": [1], "features": [{"a": 1.0, "b": "x"}], "c": [3.0]}
    path = write_parquet(tmp_path / "in.parquet", table)
    assert read(path, key="id")[0][:2] == ({"a": 1.0, "b": "x"}, 1)
    assert read(path, features=["b"])[0][0] == {"b": "x"}


def test_a_row_that_cannot_be_used_is_set_aside_with_its_content(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "in.parquet", {"id": ["k", "l"], "a": [1.0, float("inf")], "y": [0.5, None]})
    bad, worse = read(path, key="id", label="y")
    assert isinstance(bad, BadRecord)
    assert isinstance(worse, BadRecord)
    assert (bad.row, worse.row) == (1, 2)
    assert json.loads(bad.raw) == {"id": "k", "a": 1.0, "y": 0.5}
    assert "'y' holds 0.5: a label is text" in bad.reason
    assert "'a' is infinite" in worse.reason


@pytest.mark.parametrize("groups", [7, 100, 5000])
def test_resume_in_a_newly_opened_source(tmp_path: Path, groups: int) -> None:
    path = save(tmp_path / "in.parquet", 3000, row_group_size=groups)
    records = read(path, key="id")
    assert [record[1] for record in records] == list(range(3000))
    for at in (0, 6, 1023, 1024, 2999):
        with open_source(path, key="id") as source:
            source.seek(json.loads(json.dumps(records[at].position)))
            assert list(source) == records[at + 1 :]


def test_another_file_is_refused(tmp_path: Path) -> None:
    position = read(save(tmp_path / "in.parquet", 10))[4].position
    save(tmp_path / "in.parquet", 11)
    with open_source(tmp_path / "in.parquet") as source:
        with pytest.raises(ConnectorError, match="this is not the file that was being read"):
            source.seek(position)
        with pytest.raises(ConnectorError, match="is not a position in a Parquet file"):
            source.seek({"offset": 3, "row": 1})
        assert len(list(source)) == 11, "a refused position changes nothing"


@pytest.mark.parametrize(
    ("content", "reading", "says"),
    [
        (None, {}, "cannot open .*No such file or directory. Check the path"),
        (b"a,b\n1,2\n", {}, "is no Parquet file that can be read"),
        (b"PAR1" + bytes(50), {}, "Check that it is complete"),
        ({"a": [1]}, {"key": "A"}, "has no column 'A'. Its columns are 'a'. Did you mean 'a'"),
        ({"a": [1]}, {"features": ["b"]}, "has no column 'b'"),
        ({"a": [1]}, {"follow": True}, "cannot be followed: Parquet is readable only when it is complete"),
        ({"a": [1]}, {"label": "a", "features": ["a"]}, "both the label and a feature"),
        ({"a": [["x"]], "b": [1]}, {"features": ["a"]}, "column 'a' is of type list.*or lists of numbers"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: Any, reading: dict[str, Any], says: str) -> None:
    path = tmp_path / "in.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        write_parquet(path, content)
    with pytest.raises(ConnectorError, match=says):
        open_source(path, **reading)


def test_streams_and_gzip_are_refused() -> None:
    with pytest.raises(ConnectorError, match="cannot be read from standard input"):
        open_source("-", format="parquet")
    with pytest.raises(ConnectorError, match="cannot go to standard output"):
        open_sink("-", format="parquet")
    with pytest.raises(ConnectorError, match=r"compressed inside. Remove \.gz"):
        open_source("in.parquet.gz")


def test_a_damaged_file_delivers_what_stands_before(tmp_path: Path) -> None:
    path = save(tmp_path / "in.parquet", 20_000, row_group_size=4000, compression="zstd")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2000] = bytes(2000)
    path.write_bytes(data)
    records: list[Any] = []
    with open_source(path) as source, pytest.raises(ConnectorError, match=r"reading stopped at row \d+"):
        records.extend(source)
    assert 0 < len(records) < 20_000


def test_a_file_without_rows(tmp_path: Path) -> None:
    with open_source(save(tmp_path / "in.parquet", 0)) as source:
        assert list(source) == []
        source.seek(None)
        assert list(source) == []


def test_without_pyarrow_it_is_said_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "in.parquet", 3)
    monkeypatch.setitem(sys.modules, "pyarrow.compute", None)
    for open_it in (open_source, open_sink):
        with pytest.raises(MissingExtra, match=r"Parquet needs pyarrow.*pip install 'stream-osr\[parquet\]'"):
            open_it(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.thorough
@pytest.mark.parametrize("groups", [10_000, 1_000_000])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, groups: int) -> None:
    import pyarrow as pa

    from stream_osr_connectors.files.parquet_source import ParquetRows

    def peak(rows: int) -> int:
        reader = ParquetRows(save(tmp_path / f"{rows}.parquet", rows, row_group_size=groups))
        held, most = pa.total_allocated_bytes(), 0
        for number, _ in enumerate(reader.rows(["id", "a"])):
            if number % 1000 == 0:
                most = max(most, pa.total_allocated_bytes() - held)
        reader.close()
        return most

    assert peak(600_000) < 1.3 * peak(200_000)


# Writing


def test_columns_have_types_that_every_reader_knows(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow.parquet as pq

    path, probabilities = tmp_path / "out.parquet", {"red": 0.75, "unknown": 0.25}
    with open_sink(path, columns=columns_of(Decision)) as sink:
        sink.write({"key": "caf\udce9", "label": "red", "probabilities": probabilities, "distance": 1.5, "seq": 0})
        sink.flush()
        sink.write({"key": 8, "t": 2, "label": 3, "subclass_id": 11, "distance": float("inf")})
    assert sorted(parts(path)) == ["part-00000000.parquet", "part-00000001.parquet"]
    types = {field.name: str(field.type) for field in pq.read_schema(path / "part-00000000.parquet")}
    assert types["probabilities"].startswith("map<string, double")
    assert (types["key"], types["t"], types["subclass_id"], types["seq"]) == ("string", "double", "int64", "int64")
    frame = pd.read_parquet(path)
    assert (frame["key"].tolist(), frame["label"].tolist()) == (["caf\\udce9", "8"], ["red", "3"])
    other = pl.read_parquet(path)
    assert (other["subclass_id"].to_list(), other["distance"].to_list()) == ([None, 11], [1.5, None])


def test_all_events_fit_into_one_table(tmp_path: Path) -> None:
    columns = columns_of_events()
    assert columns["before"] == "number", "a share in one event, a count in another"
    with ParquetSink(tmp_path / "events.parquet", columns=columns) as sink:
        sink.write({"type": "SubclassGrew", "batch": 1, "first_seen": {"seq": 3, "t": None, "key": 7}})
        sink.write({"type": "UnknownRateJumped", "batch": 2, "rate": 0.5, "before": 0.25})
        sink.write({"type": "NewClassesChanged", "batch": 2, "delta": 1, "before": 0, "subclasses": (5, 6)})
    rows = read_parquet(tmp_path / "events.parquet").to_pylist()
    assert [row["before"] for row in rows] == [None, 0.25, 0.0]
    assert json.loads(rows[0]["first_seen"]) == {"seq": 3, "t": None, "key": 7}
    assert json.loads(rows[2]["subclasses"]) == [5, 6]


def test_a_value_that_does_not_fit_is_refused_and_not_written(tmp_path: Path) -> None:
    with ParquetSink(tmp_path / "out.parquet", columns={"key": "whole"}) as sink:
        sink.write({"key": 1})
        with pytest.raises(ConnectorError, match="column 'key' holds whole numbers, and 'a7' is none"):
            sink.write({"key": "a7"})
        with pytest.raises(ConnectorError, match="there is no column 'label'"):
            sink.write({"key": 2, "label": "red"})
        sink.write({"key": 3})
    assert read_parquet(tmp_path / "out.parquet").column("key").to_pylist() == [1, 3]


@pytest.mark.parametrize("again", [False, True])
def test_truncate_in_this_process_and_after_a_crash(tmp_path: Path, again: bool) -> None:
    path = tmp_path / "out.parquet"
    sink = ParquetSink(path)
    for number in range(3):
        sink.write({"n": number})
        sink.flush()
        if number == 1:
            position, before = json.loads(json.dumps(sink.position())), parts(path)
    sink.write({"n": 99})
    if again:
        sink.close()
        (path / ".part-00000009.parquet.writing").write_bytes(b"half")
        sink = ParquetSink(path)
    sink.check(position)
    sink.truncate(position)
    assert parts(path) == before
    sink.write({"n": 2})
    sink.close()
    assert read_parquet(path).column("n").to_pylist() == [0, 1, 2]


def test_opening_replaces_parts_only_once_something_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with ParquetSink(path) as sink:
        sink.write({"n": 1})
    before = parts(path)
    ParquetSink(path).close()
    with pytest.raises(KeyError), ParquetSink(path):
        raise KeyError
    assert parts(path) == before
    with ParquetSink(path) as sink:
        sink.write({"m": "x"})
    assert read_parquet(path).to_pylist() == [{"m": "x"}]


def test_no_record_is_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    for rows in (0, 1):
        with ParquetSink(path, columns={"key": "text"}) as sink:
            sink.truncate(sink.position())
            for _ in range(rows):
                sink.write({"key": "a"})
        found = read_parquet(path)
        assert (found.column_names, len(found)) == (["key"], rows)


def test_another_folder_is_not_cut(tmp_path: Path) -> None:
    positions = []
    for name in ("out", "other"):
        with ParquetSink(tmp_path / f"{name}.parquet") as sink:
            positions.append(sink.position())
            for number in (name, "more"):
                sink.write({"n": number})
                sink.flush()
                positions.append(sink.position())
    empty, of_one, _, _, of_other, _ = positions
    before = parts(tmp_path / "other.parquet")
    sink = ParquetSink(tmp_path / "other.parquet")
    for wrong, says in (
        (of_one, r"another part part-00000000\.parquet"),
        ({**of_other, "parts": 3}, "has 2 parts and cannot be cut to 3"),
        ({**empty, "inode": 1}, "and there was an empty folder"),
        ({"offset": 12}, "is not a position of the Parquet folder"),
    ):
        with pytest.raises(ConnectorError, match=says):
            sink.truncate(wrong)
    sink.close()
    assert parts(tmp_path / "other.parquet") == before


def test_what_is_not_the_sinks_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    (tmp_path / "link").symlink_to("out.parquet")
    save(tmp_path / "in.parquet", 1)
    with ParquetSink(tmp_path / "out.parquet"):
        for name, says in (
            ("photos", r"holds 'cat\.jpg', which no run has written"),
            ("in.parquet", "is a file, and Parquet goes to a folder of parts"),
            ("none/out.parquet", r"cannot open .*Check the path"),
            ("out.parquet", "is being written by process"),
            ("link", "is being written by process"),
        ):
            with pytest.raises(ConnectorError, match=says):
                ParquetSink(tmp_path / name)
    ParquetSink(tmp_path / "out.parquet").close()


def test_a_folder_that_cannot_be_written_is_an_error_and_can_be_continued(tmp_path: Path) -> None:
    path, way = tmp_path / "out.parquet", tmp_path / "out.parquet" / ".part-00000001.parquet.writing"
    sink = ParquetSink(path)
    sink.write({"n": 1})
    sink.flush()
    position = sink.position()
    sink.write({"n": 2})
    way.mkdir()
    for action in (sink.flush, lambda: sink.write({"n": 3})):
        with pytest.raises(ConnectorError, match="resume from the last position"):
            action()
    way.rmdir()
    sink.truncate(position)
    sink.write({"n": 2})
    sink.close()
    assert read_parquet(path).column("n").to_pylist() == [1, 2]


def test_rows_of_a_long_part_do_not_wait_in_memory(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    with ParquetSink(tmp_path / "out.parquet") as sink:
        for number in range(20_000):
            sink.write({"n": number})
        assert len(sink._rows) < 8192
    found = pq.ParquetFile(tmp_path / "out.parquet" / "part-00000000.parquet").metadata
    assert (found.num_row_groups, found.num_rows) == (3, 20_000)
