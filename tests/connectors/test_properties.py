"""Properties of any content: nothing is lost or doubled, at any place of a crash."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stream_osr_connectors.files import BadRecord, Record, Sink, open_sink, open_source
from tests.tiers import examples

NAMES = ["data.csv", "data.csv.gz", "data.jsonl", "data.jsonl.gz"]

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
some_text = text.filter(bool)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.none()


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Hundreds of files are written here, and none has to outlive the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


@contextmanager
def file(name: str, content: bytes = b"") -> Iterator[Path]:
    """Make a file in a folder of its own: hypothesis runs many examples in one call of a test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        yield path


@st.composite
def rows(draw: st.DrawFn) -> list[Record]:
    names = draw(st.lists(some_text.filter(lambda name: name[0] == name.strip()[:1]), max_size=3, unique=True))
    values = st.lists(numbers, min_size=len(names), max_size=len(names))
    labels = some_text.filter(str.strip) | st.none()
    keys = some_text.filter(lambda key: key[0] != "\ufeff")  # dropped at the beginning of a line
    drawn = draw(st.lists(st.tuples(values, keys, numbers, labels), max_size=6))
    # a name of its own for each feature, different from those of the other columns
    features = [f"{name}_" for name in names]
    return [Record(dict(zip(features, row, strict=True)), key, time, label) for row, key, time, label in drawn]


@pytest.mark.parametrize("name", NAMES)
@examples(60)
@given(rows())
def test_what_is_written_is_read(name: str, rows: list[Record]) -> None:
    with file(name) as path:
        with open_sink(path) as sink:
            for row in rows:
                common: dict[str, object] = {"key": row.key, "time": row.time, "label": row.label}
                sink.write({**common, **row.features} if "csv" in name else {**common, "features": row.features})
        if not rows:
            assert path.stat().st_size == 0
            return
        with open_source(path, key="key", time="time", label="label", label_type="str", csv_safe=True) as source:
            assert [record[:4] for record in source] == [row[:4] for row in rows]


def broken(*pieces: bytes) -> st.SearchStrategy[bytes]:
    """Content made of good and of bad lines, of halves of them, and of anything at all."""
    return st.lists(st.sampled_from(pieces) | st.binary(max_size=6), max_size=12).map(b"".join)


CSV = broken(
    *(b"1,2\n", b"3,4\r\n", b"\n", b"1,\n", b"1\n", b"x,1\n"),
    *(b'"', b'"5",6\n', b'"a\nb",1\n', b"\xff,1\n", b"9" * 50),
)
JSONL = broken(
    *(b'{"a":1}\n', b'{"a":2,"b":3}\r\n', b"\n", b"{\n", b"[]\n", b'{"a":NaN}'),
    *(b'"', b"\xff\n", b'{"a":Infinity}\n', b"9" * 50),
)


@st.composite
def contents(draw: st.DrawFn, name: str) -> bytes:
    """Content that is not refused as a whole: no file of another kind, no JSON on several lines."""
    content = b"a,b\n" + draw(CSV) if "csv" in name else draw(JSONL)
    assume(not content.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04", b"PAR1")))
    assume(not content.lstrip().startswith(b"[") or content.startswith(b"[]"))
    assume(content.lstrip().partition(b"\n")[0].strip() != b"{")
    return content


@pytest.mark.parametrize("name", NAMES)
@examples(60)
@given(st.data())
def test_resuming_anywhere_gives_exactly_the_rest_and_every_byte_is_accounted_for(
    name: str, data: st.DataObject
) -> None:
    content = data.draw(contents(name))
    with file(name, content) as path:
        with open_source(path, max_record_bytes=40) as source:
            records = list(source)
        with open_source(path, max_record_bytes=40) as source:
            for i, record in enumerate(records):
                source.seek(json.loads(json.dumps(record.position)))
                assert list(source) == records[i + 1 :]
            source.seek(None)
            assert list(source) == records
    end = 4 if "csv" in name else 3 if content.startswith(b"\xef\xbb\xbf") else 0
    for record in records:
        offset: Any = (record.position or {})["offset"]
        piece = content[end:offset]
        if isinstance(record, BadRecord):
            assert record.raw.encode("utf-8", "surrogateescape") in piece
            assert record.row > content[:end].count(b"\n")
        assert piece
        end = offset
    rest = re.sub(rb"(?m)^\xef\xbb\xbf", b"", content[end:])  # each file that was appended may begin with a mark
    assert not rest.strip(b"\r\n\t\v\f ")


batches = st.lists(st.lists(st.tuples(text, numbers), max_size=4), min_size=1, max_size=5)


def write(sink: Sink, batches: list[list[Any]]) -> None:
    for batch in batches:
        for word, value in batch:
            sink.write({"word": word, "value": value})
        sink.flush()


@pytest.mark.parametrize("name", NAMES)
@examples(60)
@given(batches, st.data())
def test_going_on_after_a_crash_equals_no_crash(name: str, batches: list[list[Any]], data: st.DataObject) -> None:
    """Some of the batches that follow were written between the checkpoint and the crash."""
    crash = data.draw(st.integers(0, len(batches)))
    end = data.draw(st.integers(crash, len(batches)))
    with file(name) as path, file(name) as interrupted:
        with open_sink(path) as sink:
            write(sink, batches)
        with open_sink(interrupted) as sink:
            write(sink, batches[:crash])
            checkpoint = json.loads(json.dumps(sink.position()))
            write(sink, batches[crash:end])
        with open_sink(interrupted) as sink:
            sink.truncate(checkpoint)
            write(sink, batches[crash:])
        assert interrupted.read_bytes() == path.read_bytes()
