"""The source and the sink without files."""

from __future__ import annotations

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import BadRecord, MemorySink, MemorySource, Record


def test_source_takes_records_bad_records_and_mappings_from_any_iterable() -> None:
    bad = BadRecord(None, 2, "?", "no number")
    records: list[Record | BadRecord | dict[str, float]]
    records = [{"x": 1.0}, bad, Record({"x": 2.0}, key="k", time=5.0, label="a")]
    source = MemorySource(iter(records))
    assert list(source) == [
        Record({"x": 1.0}, position={"index": 1}),
        bad._replace(position={"index": 2}),
        Record({"x": 2.0}, "k", 5.0, "a", {"index": 3}),
    ]
    assert next(source, None) is None


def test_source_copies_what_it_is_given() -> None:
    row = {"x": 1.0}
    source = MemorySource([row])
    row["x"] = 2.0
    assert next(source) == Record({"x": 1.0}, position={"index": 1})


@pytest.mark.parametrize("position", [{"index": 3}, {"index": -1}, {"index": True}, {"offset": 0}, {}])
def test_positions_of_something_else_are_refused(position: dict[str, object]) -> None:
    with pytest.raises(ConnectorError, match="there are 2 records"):
        MemorySource([{"x": 1.0}, {"x": 2.0}]).seek(position)
    sink = MemorySink()
    sink.write({"x": 1.0})
    sink.write({"x": 2.0})
    with pytest.raises(ConnectorError, match="there are 2 records"):
        sink.truncate(position)
    assert len(sink.records) == 2


def test_sink_copies_what_it_is_given() -> None:
    sink = MemorySink()
    row = {"x": 1}
    sink.write(row)
    row["x"] = 2
    assert sink.records == [{"x": 1}]
