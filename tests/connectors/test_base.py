"""The interfaces, and that every connector that is shipped keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stream_osr_connectors.files as connectors
from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import (
    BadRecord,
    CheckedSink,
    MemorySink,
    MemorySource,
    Record,
    Sink,
    Source,
    open_sink,
    open_source,
)

PUBLIC_NAMES = """BadRecord CheckedSink CsvSink CsvSource FolderSource Format FrameSource JsonLinesSink
JsonLinesSource LabelType MemorySink MemorySource ParquetSink ParquetSource Position Record Sink
Source open_sink open_source"""


def test_public_names_change_only_on_purpose() -> None:
    assert connectors.__all__ == PUBLIC_NAMES.split()
    assert all(hasattr(connectors, name) for name in PUBLIC_NAMES.split())


@pytest.fixture(params=["", "x\n1\n2\n3\n", '{"x": 1.0}\n{"x": 2.0}\n{"x": 3.0}\n'], ids=["memory", "csv", "jsonl"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    (tmp_path / "in").write_text(request.param)
    if not request.param:
        return MemorySource([{"x": 1.0}, {"x": 2.0}, {"x": 3.0}])
    return open_source(tmp_path / "in", format="csv" if request.param[0] == "x" else "jsonl")


@pytest.fixture(params=["memory", "csv", "jsonl"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return MemorySink() if request.param == "memory" else open_sink(tmp_path / "out", format=request.param)


def test_every_source_keeps_the_contract(source: Source) -> None:
    assert isinstance(source, Source)
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


def test_every_sink_keeps_the_contract(sink: Sink) -> None:
    assert isinstance(sink, Sink)
    with sink:
        start = sink.position()
        sink.write({"x": 1.0})
        sink.flush()
        assert sink.position() != start
        checkpoint = json.loads(json.dumps(sink.position()))
        sink.write({"x": 2.0})
        assert sink.position() == checkpoint  # what is not flushed does not count
        sink.flush()
        assert sink.position() != checkpoint
        assert isinstance(sink, CheckedSink)
        before = sink.position()
        sink.check(checkpoint)
        sink.check(None)
        assert sink.position() == before
        sink.truncate(checkpoint)
        assert sink.position() == checkpoint
        sink.truncate(None)
        assert sink.position() == start
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
