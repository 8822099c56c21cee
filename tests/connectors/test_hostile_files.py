"""Files of anything, from end to end: each record is decided, evidence or set aside, and the outputs can be read."""

from __future__ import annotations

import csv
import functools
import io
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import MemorySink, MemorySource, open_sink, open_source
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.file_run import Sinks
from tests.connectors.test_properties import no_waiting_for_the_disk
from tests.file_runs import run
from tests.hostile import NAMES, check_alive, documents, fresh, numbers, objects, texts
from tests.tiers import examples

__all__ = ["no_waiting_for_the_disk"]  # a fixture


line_ends = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b""])
json_lines = st.lists(st.tuples(documents, line_ends).map(b"".join), max_size=16).map(b"".join)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A header that may be in order, and rows that may be."""
    header = draw(st.just([*NAMES[:5]]) | st.lists(st.sampled_from(NAMES) | texts, max_size=6))
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])))
    writer.writerow(header)
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 9))
        if kind < 6:
            values = draw(objects())
            row = [_cell(values.get(name, "")) for name in header]
        else:
            row = [_cell(value) for value in draw(st.lists(texts | numbers, max_size=7))]
            row = ["" if cell in ("left", "right", "unknown") else cell for cell in row]
        if kind == 9:
            out.write(draw(texts))
        writer.writerow(row)
    return out.getvalue().encode("utf-8", draw(st.sampled_from(["surrogatepass", "replace", "xmlcharrefreplace"])))


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def check_file(name: str, content: bytes, suffix: str, *, all_fields: bool) -> None:
    """Run it, and count; what is a file of another kind by its first bytes is refused as a whole."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04", b"PAR1")):
        return
    if "json" in name and content.lstrip().startswith(b"["):
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = {what: Path(folder, what + suffix) for what in ("decisions", "errors")}
        paths |= {"input": Path(folder, name), "events": Path(folder, "events.jsonl")}
        paths["input"].write_bytes(content)
        model = fresh()
        fields: dict[str, Any] = {"key": "id", "time": "t", "label": "y"}
        try:
            source = open_source(paths["input"], **fields, features=None if all_fields else ["a", "b"])
        except ConnectorError:
            assert name == "data.csv"
            assert sorted(path.name for path in Path(folder).iterdir()) == [name]
            return
        complaints: list[str] = []
        with (
            source,
            open_sink(paths["decisions"]) as decisions,
            open_sink(paths["events"]) as events,
            open_sink(paths["errors"], private=True) as errors,
        ):
            checkpoint = Path(folder, "checkpoint.osr")
            options: Any = {"checkpoint": checkpoint, "checkpoint_every": 3}
            options |= {"complain": lambda row, reason: complaints.append(reason)}
            totals = run(model, source, Sinks(decisions, events, errors), **options)
        assert totals["read"] == totals["decided"] + totals["labelled"] + totals["set_aside"]
        assert model.pending == 0
        assert model.counters["refused"] == totals["set_aside"] == len(complaints)
        found = {what: rows_of(paths[what]) for what in ("decisions", "events", "errors")}
        expected = {"decisions": totals["decided"], "events": totals["events"], "errors": totals["set_aside"]}
        assert {what: len(rows) for what, rows in found.items()} == expected
        assert all(reason.strip() for reason in complaints)
        if totals["read"]:
            loaded = load_checkpoint(checkpoint)
            assert loaded.totals == totals
            check_alive(loaded.model)
        check_alive(model)


def rows_of(path: Path) -> list[Any]:
    """Read an output by the standard library."""
    text = path.read_bytes().decode()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    header, *rows = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    assert {len(row) for row in rows} <= {len(header)}, Counter(map(len, rows))
    return rows


files = st.tuples(st.just("data.jsonl"), json_lines) | st.tuples(st.just("data.csv"), tables())
suffixes, whichever = st.sampled_from([".csv", ".jsonl"]), st.booleans()


def test_values_that_python_does_not_write_out() -> None:
    """They come from sources that are no files, such as a topic."""
    for value in (functools.reduce(lambda inner, _: [inner], range(1024), 1), 10**5000):
        model, errors = fresh(), MemorySink()
        source = MemorySource([{"a": value, "b": 1.0}, {"a": 1.0, "b": value}, {"a": 1.0, "b": 2.0}])
        assert run(model, source, Sinks(MemorySink(), errors=errors)) == {"read": 3, "set_aside": 2, "decided": 1}
        assert [record["raw"] for record in errors.records if "..." in record["raw"] or "too large" in record["raw"]]
        assert all("to show" in record["reason"] or "[...]" in record["reason"] for record in errors.records)


@pytest.mark.thorough
@examples(120)
@given(files, suffixes, whichever)
def test_files_of_anything(file: tuple[str, bytes], suffix: str, all_fields: bool) -> None:
    check_file(*file, suffix, all_fields=all_fields)
