"""The interfaces, and that every connector that is shipped keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors import files
from stream_osr_connectors.files import BadRecord, MemorySink, MemorySource, Record, open_sink, open_source

PUBLIC_NAMES = """BadRecord CheckedSink CsvSink CsvSource FolderSource Format FrameSource JsonLinesSink
JsonLinesSource LabelType MemorySink MemorySource ParquetSink ParquetSource Position Record Sink
Source open_sink open_source"""


def test_public_names_change_only_on_purpose() -> None:
    assert files.__all__ == PUBLIC_NAMES.split()
    assert all(hasattr(files, name) for name in PUBLIC_NAMES.split())


@pytest.mark.parametrize(
    ("format", "text"), [("", ""), ("csv", "x\n1\n2\n3\n"), ("jsonl", '{"x": 1.0}\n{"x": 2.0}\n{"x": 3.0}\n')]
)
def test_every_source_keeps_the_contract(format: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(text)
    memory = MemorySource([{"x": 1.0}, {"x": 2.0}, {"x": 3.0}])
    source = open_source(tmp_path / "in", format=format) if format else memory
    assert isinstance(source, files.Source)
    with source:
        first = next(iter(source))
        rest = list(source)  # a second loop goes on where the first one stopped
        assert [record.features["x"] for record in [first, *rest] if isinstance(record, Record)] == [1.0, 2.0, 3.0]
        for position in [first.position, json.loads(json.dumps(first.position))]:
            source.seek(position)
            assert list(source) == rest
        source.seek(None)
        assert list(source) == [first, *rest]
    source.close()  # a second time


@pytest.mark.parametrize("format", ["", "csv", "jsonl"])
def test_every_sink_keeps_the_contract(format: Any, tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "out", format=format) if format else MemorySink()
    assert isinstance(sink, files.Sink)
    assert isinstance(sink, files.CheckedSink)
    with sink:
        start = sink.position()
        sink.write({"x": 1.0})
        sink.flush()
        assert sink.position() != start
        checkpoint = json.loads(json.dumps(sink.position()))
        sink.write({"x": 2.0})
        assert sink.position() == checkpoint  # what is not flushed does not count
        sink.flush()
        before = sink.position()
        assert before != checkpoint
        for position in (checkpoint, None):
            sink.check(position)
            assert sink.position() == before
        for position, found in ((checkpoint, checkpoint), (None, start)):
            sink.truncate(position)
            assert sink.position() == found
    sink.close()  # a second time


def test_a_source_takes_records_bad_records_and_mappings_from_any_iterable_and_copies_them() -> None:
    bad, row = BadRecord(None, 2, "?", "no number"), {"x": 1.0}
    records: list[Record | BadRecord | dict[str, float]] = [row, bad, Record({"x": 2.0}, "k", 5.0, "a")]
    source = MemorySource(iter(records))
    row["x"] = 2.0
    assert list(source) == [
        Record({"x": 1.0}, position={"index": 1}),
        bad._replace(position={"index": 2}),
        Record({"x": 2.0}, "k", 5.0, "a", {"index": 3}),
    ]
    assert next(source, None) is None


@pytest.mark.parametrize("position", [{"index": 3}, {"index": -1}, {"index": True}, {"offset": 0}, {}])
def test_positions_of_something_else_are_refused_in_memory(position: dict[str, object]) -> None:
    sink, row = MemorySink(), {"x": 1.0}
    for _ in range(2):
        sink.write(row)
    row["x"] = 2.0
    for refusing in (MemorySource([row, row]).seek, sink.truncate):
        with pytest.raises(ConnectorError, match="there are 2 records"):
            refusing(position)
    assert sink.records == [{"x": 1.0}] * 2
