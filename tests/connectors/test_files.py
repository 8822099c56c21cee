"""Which connector a file name means."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import CsvSink, CsvSource, JsonLinesSink, JsonLinesSource, open_sink, open_source

SUFFIXES = [
    *((suffix, CsvSource, CsvSink) for suffix in (".csv", ".CSV", ".csv.gz", ".tsv", ".tsv.gz")),
    *((end, JsonLinesSource, JsonLinesSink) for end in (".jsonl", ".ndjson", ".json", ".json.gz", ".jsonl.GZ")),
]


@pytest.mark.parametrize(("suffix", "source_type", "sink_type"), SUFFIXES)
def test_suffixes(tmp_path: Path, suffix: str, source_type: type, sink_type: type) -> None:
    for path in (tmp_path / f"some.data{suffix}", str(tmp_path / f"other.data{suffix}")):
        with open_sink(path) as sink:
            assert type(sink) is sink_type
            sink.write({"k": "x", "a": 1.5})
        with open_source(path, key="k", label_type="str", max_record_bytes=1000) as source:
            assert type(source) is source_type
            assert [record[:2] for record in source] == [({"a": 1.5}, "x")]
        packed = Path(path).read_bytes().startswith(b"\x1f\x8b")
        assert packed == suffix.lower().endswith(".gz")


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


def test_standard_streams_without_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for open_it, stream in ((open_source, "in"), (open_sink, "out")):
        monkeypatch.setattr(f"sys.std{stream}", io.StringIO())
        with pytest.raises(ConnectorError, match=rf"standard {stream}put does not exist here"):
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
