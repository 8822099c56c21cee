"""Which connector a file name means."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import (
    CsvSink,
    CsvSource,
    JsonLinesSink,
    JsonLinesSource,
    Record,
    open_sink,
    open_source,
)

SUFFIXES = [
    *((suffix, CsvSource, CsvSink) for suffix in (".csv", ".CSV", ".csv.gz", ".tsv", ".tsv.gz")),
    *((end, JsonLinesSource, JsonLinesSink) for end in (".jsonl", ".ndjson", ".json", ".json.gz", ".jsonl.GZ")),
]


@pytest.mark.parametrize(("suffix", "source_type", "sink_type"), SUFFIXES)
@pytest.mark.parametrize("kind", [str, Path])
def test_suffixes(tmp_path: Path, suffix: str, source_type: type, sink_type: type, kind: Any) -> None:
    path = kind(tmp_path / f"some.data{suffix}")
    with open_sink(path) as sink:
        assert type(sink) is sink_type
        sink.write({"k": "x", "a": 1.5})
    with open_source(path, key="k", label_type="str", max_record_bytes=1000) as source:
        assert type(source) is source_type
        assert [record[:2] for record in source if isinstance(record, Record)] == [({"a": 1.5}, "x")]
    packed = Path(path).read_bytes().startswith(b"\x1f\x8b")
    assert packed == suffix.lower().endswith(".gz")


def test_the_format_can_be_said(tmp_path: Path) -> None:
    with open_sink(tmp_path / "out.txt", format="csv") as sink:
        sink.write({"a": 1})
    with open_source(tmp_path / "out.txt", format="csv") as source:
        assert [record.features for record in source if isinstance(record, Record)] == [{"a": 1.0}]


@pytest.mark.parametrize("name", ["data.xlsx", "data", "data.gz", ".csv", "csv"])
def test_suffixes_that_mean_nothing(tmp_path: Path, name: str) -> None:
    for open_it in (open_source, open_sink):
        with pytest.raises(ConnectorError, match=r"cannot tell the format of .*csv, tsv, jsonl"):
            open_it(tmp_path / name)
        with pytest.raises(ConnectorError, match="format 'xml' is not known"):
            open_it(tmp_path / name, format="xml")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectorError, match=r"standard input has no suffix\. Give its format"):
        open_source("-")


@pytest.mark.parametrize(("open_it", "stream"), [(open_source, "stdin"), (open_sink, "stdout")])
def test_standard_streams_without_bytes(monkeypatch: pytest.MonkeyPatch, open_it: Any, stream: str) -> None:
    monkeypatch.setattr(f"sys.{stream}", io.StringIO())
    with pytest.raises(ConnectorError, match=r"standard (in|out)put does not exist here"):
        open_it("-", format="csv")


@pytest.mark.parametrize("wrote", [True, False])
def test_a_table_goes_on_under_its_own_header(tmp_path: Path, wrote: bool) -> None:
    """A sink that was given no columns takes them from the first record, and has none before it."""
    path = tmp_path / "events.csv"
    with CsvSink(path) as sink:
        if wrote:
            sink.write({"type": "first", "seq": 1})
        sink.flush()
        position = sink.position()
    with open_sink(path, columns={"type": "text", "batch": "whole", "seq": "whole"}) as sink:
        sink.truncate(position)
        sink.write({"type": "second", "seq": 2})
    rows = ["type,seq", "first,1", "second,2"] if wrote else ["type,batch,seq", "second,,2"]
    assert path.read_text().splitlines() == rows
