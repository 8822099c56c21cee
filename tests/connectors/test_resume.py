"""What all sources of files share: gzip, standard input, positions and memory."""

from __future__ import annotations

import gzip
import io
import os
import threading
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import BadRecord, Record, open_source

NAMES = ["in.csv", "in.csv.gz", "in.jsonl", "in.jsonl.gz"]


def table(name: str, rows: int, start: int = 0) -> bytes:
    """Build rows that do not compress well, so that damage hits some of them and not all."""
    values = [f"{(i * 0.6180339887498949) % 1:.17f}" for i in range(start, start + rows)]
    if "csv" in name:
        return ("" if start else "a\n").encode() + b"".join(f"{value}\n".encode() for value in values)
    return b"".join(f'{{"a":{value}}}\n'.encode() for value in values)


def save(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)


def read(path: Path) -> list[Record | BadRecord]:
    with open_source(path) as source:
        return list(source)


LATER: dict[str, tuple[int, Callable[[str], bytes], str]] = {
    "grown": (3, lambda name: table(name, 3) + table(name, 1000, start=3), ""),
    "another": (10, lambda name: table(name, 20).replace(b"0.6", b"0.7"), "this is not the file that was being read"),
    "shorter": (1000, lambda name: table(name, 300), "cannot go to byte"),
    "shorter than its head": (1000, lambda name: table(name, 3), "this is not the file"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", LATER)
def test_a_position_and_what_became_of_the_file(tmp_path: Path, name: str, how: str) -> None:
    rows, later, says = LATER[how]
    save(tmp_path / name, table(name, rows))
    position = read(tmp_path / name)[-1].position
    save(tmp_path / name, later(name))
    with open_source(tmp_path / name) as source:
        if says:
            first = next(source)
            with pytest.raises(ConnectorError, match=says):
                source.seek(position)
            assert [first, *source] == read(tmp_path / name), "a refused position changes nothing"
        else:
            source.seek(position)
            assert len(list(source)) == 1000


def test_positions_of_something_else_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "in.csv", table("in.csv", 3))
    position = dict(read(tmp_path / "in.csv")[0].position or {})
    changes = ({"offset": -1}, {"offset": "5"}, {"row": None}, {"row": True}, {"hashed": 1.5})
    with open_source(tmp_path / "in.csv") as source:
        for wrong in (*({**position, **change} for change in changes), {"index": 3}):
            with pytest.raises(ConnectorError, match="is not a position in a file"):
                source.seek(wrong)


@pytest.mark.parametrize("name", ["in.csv.gz", "in.jsonl.gz"])
@pytest.mark.parametrize(("rows", "damage"), [(2, "end"), (5000, "end"), (5000, "middle")])
def test_a_broken_gzip_file_delivers_what_it_has(tmp_path: Path, name: str, rows: int, damage: str) -> None:
    path, message = tmp_path / name, r"in\.\w+\.gz: reading stopped at byte \d+, line \d+: .* delivered"
    save(path, table(name, rows))
    data, whole = path.read_bytes(), read(path)
    cut = data[: len(data) // 2] + bytes(100) + data[len(data) // 2 + 100 :]
    path.write_bytes(cut if damage == "middle" else data[: -9 if rows == 2 else -20_000])
    records: list[Record | BadRecord] = []
    with open_source(path) as source, pytest.raises(ConnectorError, match=message):
        records.extend(source)
    sound = len(records) if damage == "end" else 1  # later ones may be wrong
    assert 0 < sound <= len(records) <= len(whole)
    assert [record[:4] for record in records[:sound]] == [record[:4] for record in whole[:sound]]
    path.write_bytes(data)
    with open_source(path) as source:
        source.seek(records[sound - 1].position)
        assert len(list(source)) == rows - sound


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for name in ("missing.csv", "missing.jsonl.gz"):
        with pytest.raises(ConnectorError, match=r"cannot open .*Check the path"):
            open_source(tmp_path / name)
    for name in ("in.csv.gz", "in.jsonl.gz"):
        (tmp_path / name).write_bytes(table(name, 3))
        with pytest.raises(ConnectorError, match=r"cannot read .*Not a gzipped file"):
            open_source(tmp_path / name)
    (tmp_path / "in.jsonl.gz").write_bytes(b"")
    assert read(tmp_path / "in.jsonl.gz") == []


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_standard_input_is_read_but_cannot_resume(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table(name, 3))))
    with open_source("-", format="csv" if "csv" in name else "jsonl") as source:
        source.seek(None)  # nothing is lost yet
        one, two, three = source
        assert one.position == {"offset": len(table(name, 1)), "row": 2 if "csv" in name else 1}
        assert isinstance(two, Record)
        source.seek(three.position)  # where it is
        for position in (None, one.position):
            with pytest.raises(ConnectorError, match=r"standard input cannot resume.*Save the input to a file"):
                source.seek(position)
    with open_source("-", format="jsonl") as source:  # it stays open
        assert list(source) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_named_pipe_is_read_but_cannot_resume(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    writer = threading.Thread(target=save, args=(tmp_path / name, table(name, 3)))
    writer.start()
    with open_source(tmp_path / name) as source:
        one, _, three = source
        assert "sha256" not in (three.position or {})
        with pytest.raises(ConnectorError, match="cannot resume"):
            source.seek(one.position)
    writer.join()


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_file_a_line_or_an_open_quote(tmp_path: Path) -> None:
    for name, content, records, most in (
        ("in.csv", table("in.csv", 50_000), 50_000, 700_000),
        ("in.jsonl.gz", table("in.jsonl.gz", 50_000), 50_000, 700_000),
        ("in.csv.gz", b"a\n1\n" + b"a" * 30_000_000, 2, 8_000_000),
        ("in.csv.gz", b'a\n1\na\n"' + b"1\n" * 2_000_000, 2, 8_000_000),
    ):
        save(tmp_path / name, content)
        tracemalloc.start()
        with open_source(tmp_path / name) as source:
            last = [*islice(source, records - 1, records)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [isinstance(record, BadRecord) for record in last] == [records == 2]
        assert peak < most, (name, records)
