"""A folder of files as one input: in the order of their names, of one kind, and gone on with across files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import BadRecord, Record, open_source
from stream_osr_connectors.files.key_check import find_key, key_among
from stream_osr_connectors.files.survey import survey
from tests.connectors.parquet import write_parquet

SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".parquet")


def save(path: Path, numbers: range, **more: Any) -> None:
    rows = [{"id": f"k{n}", "a": n / 2, **more} for n in numbers]
    if path.suffix == ".parquet":
        write_parquet(path, rows)
        return
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if ".csv" in path.name:
        text = ",".join(rows[0]) + "\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture(params=SUFFIXES)
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Three files, of 5, 1 and 4 records."""
    for name, numbers in (("b", range(5, 6)), ("a", range(5)), ("c", range(6, 10))):
        save(tmp_path / f"{name}{request.param}", numbers)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.csv").touch()
    return tmp_path


def read(path: Path) -> list[Record | BadRecord]:
    with open_source(path, key="id") as source:
        return list(source)


def test_files_come_in_the_order_of_their_names_and_are_resumed(folder: Path) -> None:
    records = read(folder)
    assert [record[1] for record in records] == [f"k{n}" for n in range(10)]
    assert [Path(str((record.position or {})["file"])).name[0] for record in records] == [*"aaaaabcccc"]
    for at, record in enumerate(records):
        with open_source(folder, key="id") as source:
            source.seek(json.loads(json.dumps(record.position)))
            assert list(source) == records[at + 1 :]


def test_a_file_that_comes_later_is_read_on_resuming(folder: Path) -> None:
    position, suffix = read(folder)[-1].position, "".join(next(folder.glob("a.*")).suffixes)
    save(folder / f"d{suffix}", range(10, 12))
    with open_source(folder, key="id") as source:
        source.seek(position)
        assert [record[1] for record in source] == ["k10", "k11"]
    save(folder / f"aa{suffix}", range(12, 13))
    with (
        open_source(folder, key="id") as source,
        pytest.raises(ConnectorError, match=r"the files before 'c.* are not those that were read"),
    ):
        source.seek(position)


def test_another_folder_is_refused(folder: Path) -> None:
    position = read(folder)[7].position
    save(next(folder.glob("a.*")), range(6))
    with open_source(folder, key="id") as source:
        with pytest.raises(ConnectorError, match=r"a file before 'c.* is not the one that was read .*Give the files"):
            source.seek(position)
        with pytest.raises(ConnectorError, match="is not a position in a folder"):
            source.seek({"offset": 0, "row": 0})
    next(folder.glob("c.*")).unlink()
    with open_source(folder, key="id") as source, pytest.raises(ConnectorError, match="has no file 'c"):
        source.seek(position)


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    def refused(why: str, **options: Any) -> None:
        with pytest.raises(ConnectorError, match=why):
            open_source(tmp_path, **options)

    refused("is a folder without files")
    refused(r"only a file can be followed\. .*--resume", follow=True)
    save(tmp_path / "a.csv", range(3))
    save(tmp_path / "b.jsonl", range(3))
    refused(r"holds 'a\.csv' \(csv\) and 'b\.jsonl' \(jsonl\)")
    (tmp_path / "b.jsonl").unlink()
    save(tmp_path / "b.csv", range(3), b=1)
    refused(r"'b\.csv' has a column 'b' and 'a\.csv' has none")
    open_source(tmp_path, features=["a"]).close()  # is in both
    (tmp_path / "c").mkdir()
    refused("holds the folder 'c'")
    (tmp_path / "c").rmdir()
    (tmp_path / "a.txt").touch()
    refused(r"cannot tell the format of .*a\.txt")


def test_the_kind_of_a_column_depends_on_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 30)
    (tmp_path / "b.csv").write_text("a,b\n" + "1,hot\n" * 30 + "2,2\n")
    with open_source(tmp_path) as source:
        survey(source)
        records = list(source)
    assert records[0][0] == {"a": 1.0, "b": "2"}, "the first file alone would have it a number"
    assert records[-2][0] == {"a": 1.0, "b": "hot"}


def test_a_record_that_cannot_be_used_has_the_name_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,a\nk,1\n")
    (tmp_path / "b.csv").write_text("id,a\nk,1\nk,hot\n")
    bad = read(tmp_path)[-1]
    assert isinstance(bad, BadRecord)
    assert (bad.row, (bad.position or {})["file"]) == (3, "b.csv")


# Columns that look like keys


@pytest.mark.parametrize(
    ("values", "name", "found"),
    [
        ([f"n{i}" for i in range(30)], "sensor", "--key"),
        ([f"n{i % 29}" for i in range(30)], "sensor", None),
        ([f"2026-03-{i + 1:02d}" for i in range(30)], "day", "--time"),
        ([str(i) for i in range(7, 37)], "x", "--key"),
        (list(range(30)), "t", "--time"),
        (list(range(30, 0, -1)), "x", "--key"),
        (list(range(19)), "id", None),
        ([i * 0.37 for i in range(30)], "id", None),
        ([*range(29), None], "id", None),
        *(([3 * i % 301 for i in range(30)], name, "--key") for name in ("Item_ID", "customerId", "account_number")),
        *(([3 * i % 301 for i in range(30)], name, None) for name in ("x", "humid", "paid")),
        ([f"n{min(i, 298)}" for i in range(300)], "sensor", "--key"),
        ([*(f"n{i}" for i in range(299)), None], "sensor", "--key"),
        ([f"n{i % 290}" for i in range(300)], "sensor", None),
        ([1_700_000_000 + i * i for i in range(30)], "ts", "--time"),
        ([(7 * i) % 30 for i in range(30)], "time", None),
    ],
)
def test_columns_that_look_like_keys(values: list[Any], name: str, found: str | None) -> None:
    likely = key_among({"a": i % 5, name: value} for i, value in enumerate(values))
    assert (None if likely is None else likely.option) == found
    assert likely is None or likely.name == name


def test_a_key_is_found_in_a_file_and_in_a_folder(tmp_path: Path) -> None:
    save(tmp_path / "a.csv", range(25))
    for path in (tmp_path / "a.csv", tmp_path):
        found = find_key(path)
        assert found is not None
        assert found.name == "id"
    assert find_key(tmp_path, but=["id"]) is None, "halves that differ are measurements"
