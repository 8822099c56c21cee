"""The interfaces, and that every connector that is shipped keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stream_osr_connectors.files as connectors
from stream_osr_connectors.files import (
    BadRecord,
    CheckedSink,
    CsvSink,
    CsvSource,
    JsonLinesSink,
    JsonLinesSource,
    MemorySink,
    MemorySource,
    Record,
    Sink,
    Source,
)

PUBLIC_NAMES = [
    "BadRecord",
    "CheckedSink",
    "CsvSink",
    "CsvSource",
    "FolderSource",
    "Format",
    "JsonLinesSink",
    "JsonLinesSource",
    "LabelType",
    "MemorySink",
    "MemorySource",
    "ParquetSink",
    "ParquetSource",
    "Position",
    "Record",
    "Sink",
    "Source",
    "open_sink",
    "open_source",
]


def test_public_names_change_only_on_purpose() -> None:
    assert connectors.__all__ == PUBLIC_NAMES
    assert all(hasattr(connectors, name) for name in PUBLIC_NAMES)


@pytest.fixture(params=["memory", "csv", "jsonl"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    if request.param == "memory":
        return MemorySource([{"x": 1.0}, {"x": 2.0}, {"x": 3.0}])
    if request.param == "csv":
        (tmp_path / "in.csv").write_text("x\n1\n2\n3\n")
        return CsvSource(tmp_path / "in.csv")
    (tmp_path / "in.jsonl").write_text('{"x": 1.0}\n{"x": 2.0}\n{"x": 3.0}\n')
    return JsonLinesSource(tmp_path / "in.jsonl")


@pytest.fixture(params=["memory", "csv", "jsonl"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    if request.param == "memory":
        return MemorySink()
    return CsvSink(tmp_path / "out.csv") if request.param == "csv" else JsonLinesSink(tmp_path / "out.jsonl")


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


def test_records_become_mappings_for_a_dead_letter_file() -> None:
    sink = MemorySink()
    sink.write(BadRecord({"index": 1}, 1, "raw", "why")._asdict())
    assert sink.records == [{"position": {"index": 1}, "row": 1, "raw": "raw", "reason": "why"}]
