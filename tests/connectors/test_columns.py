"""Training data that are read in blocks give the same result as records that are read one by one."""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.cli.fit import FitOptions, learn_all
from stream_osr_connectors.files import MemorySink, columns, open_source
from stream_osr_connectors.files.account import Account
from stream_osr_connectors.files.survey import survey
from tests.test_training_blocks import learnt
from tests.tiers import examples

CELLS = {
    "number": ["1.5", "2", "-3e2", "0.25"],
    "gaps": ["1.5", "", "NA", "7", " 2.5"],
    "codes": ["007", "12", "0", "-0"],
    "commas": ["1,5", "2,25", "3"],
    "text": ["tcp", "udp", "", "NA", " tcp", "5"],
    "wrong": ["1", "2", "3", "4", "5", "6", "7", "8", "9", "1.5", "2.5", "x"],
    "quoted": ["a,b", 'a "b"', "two\nlines", "c", "d"],
    "truth": ["true", "false", "1"],
    "index": ["0", "1", "2", "3"],
    "marked": ["7", "xx"],
    "units": ["mm", "1", "2"],
}
VALUES = {
    "number": [1.5, 2, -300.0, 0.25],
    "gaps": [1.5, None, 7],
    "texts": ["1.5", 2, "3"],
    "text": ["tcp", "udp", "", None, " tcp"],
    "flag": [True, False],
    "mixed": [True, 1, 0],
    "list": [[1, 2.5], [3, 4]],
    "lists": [[1, 2], [3], None],
    "words": [["a"], ["b"]],
    "object": [{"a": 1}, None],
    "large": [1, 10**400, 1e300],
    "empty": [[]],
    "index": [None, 1, 2, 3],
    "nan": [1.5, float("nan"), -2.0],
    "inf": [1.5, float("inf"), 3.0],
    "gaps and nan": [1.5, None, float("nan")],
}


def trained(path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int] | None, **options: Any) -> Any:
    """Read a table in blocks of some sizes, or record by record. Return all results."""
    with monkeypatch.context() as patch:
        if sizes is None:
            patch.setattr(columns, "ColumnSource", int)  # no source is one
        else:
            patch.setattr(columns, "MOST", sizes[0])
            patch.setattr(columns, "LEAST", sizes[1])
        given_ = FitOptions(file=str(path), label="y", **options)
        model, totals, reasons, labels = given_.recognizer(), Counter[str](), Counter[str](), Counter[Any]()
        errors = MemorySink()
        texts = [] if given_.group is None else [given_.group]
        with open_source(path, label="y", label_type="str", categorical=texts) as source:
            found = survey(source, categorical=texts, missing=model.value.parameters.markers)
            account = Account(model, totals, errors, lambda row, reason: None, reasons)
            try:
                learn_all(source, given_, found, account, labels)
            except Exception as error:
                return repr(error)
    tallies = {name: vars(tally) for name, tally in found.columns.items()}
    return learnt(model), totals, reasons, labels, errors.records, tallies, found._replace(columns={}, known=())


@examples(100)
@given(st.data())
@pytest.mark.parametrize("kind", ["csv", "folder", "jsonl", "parquet"])
def test_blocks_of_any_size_read_like_records(kind: str, data: st.DataObject) -> None:
    draw, n = data.draw, data.draw(st.integers(1, 40))
    its: Any = CELLS if kind in ("csv", "folder") else VALUES
    if kind == "parquet":
        names = ("number", "gaps", "text", "flag", "list", "empty", "index", "nan", "inf", "gaps and nan")
        its = {name: its[name] for name in names}
    names = draw(st.lists(st.sampled_from(sorted(its)), min_size=1, unique=True))
    labels = ["a", "b", "1"] if kind == "parquet" else ["a", "b", "1", ""]
    rows = [[draw(st.sampled_from(its[name])) for name in names] for _ in range(n)]
    table = [{**dict(zip(names, row, strict=True)), "y": draw(st.sampled_from(labels))} for row in rows]
    options = draw(
        st.sampled_from([{}, {"missing": "7"}, {"missing": "xx"}, {"group": names[0]}, {"categorical": names[0]}])
    )
    odd = draw(st.sampled_from(["", "", "broken", "header", "blank", "units"]))
    at = draw(st.integers(0, n))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) if kind == "folder" else Path(folder, f"in.{kind}")
        if kind == "folder":
            write(path / "a.csv", table[: n // 2], [*names, "y"], at, odd)
            write(path / "b.csv", table[n // 2 :], [*names, "y"], 0, "")
        else:
            write(path, table, [*names, "y"], at, odd)
        blocks = trained(path, patch, draw(st.sampled_from([(8, 2), (64, 64), (3, 3)])), **options)
        assert blocks == trained(path, patch, None, **options)


def write(path: Path, table: list[dict[str, Any]], names: list[str], at: int, odd: str) -> None:
    """Write a table with an unusual line."""
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(table), path, row_group_size=7)
        return
    lines = [json.dumps(row) for row in table]
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([row[name] for name in names] for row in table)
        header, *lines = path.read_text().splitlines()
        lines = [header, *lines]
        at += 1
    else:
        header = "[1]"
    lines[at:at] = {
        "": [],
        "broken": ['"'],
        "header": [header],
        "blank": [""],
        "units": ["mm" + ",cm" * (len(names) - 1)],
    }[odd]
    path.write_text("".join(f"{line}\n" for line in lines))


def test_a_block_with_one_wrong_row_is_read_in_smaller_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.csv"
    rows = [f"{n % 7}.5,{n % 5},{'ab'[n % 2]}" for n in range(20_000)]
    rows[5000] = "x,1,a"
    path.write_text("\n".join(["p,q,y", *rows]))
    single: list[object] = []
    original = OpenSetRecognizer.learn_one
    monkeypatch.setattr(OpenSetRecognizer, "learn_one", lambda *a, **k: single.append(a) or original(*a, **k))
    model, totals = OpenSetRecognizer(), Counter[str]()
    account = Account(model, totals, None, lambda row, reason: None, Counter())
    with open_source(path, label="y", label_type="str") as source:
        learn_all(source, FitOptions(file=str(path), label="y"), survey(source), account, Counter())
    assert totals == {"read": 20_000, "labelled": 19_999, "set_aside": 1}
    assert len(single) <= 2 * columns.LEAST


def test_a_row_of_units_after_a_bad_record_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["p,q,y", "p,q,y", "mm,cm,a", *(f"{n}.5,{n % 3},{'ab'[n % 2]}" for n in range(20))]))
    blocks = trained(path, monkeypatch, (64, 64))
    assert blocks == trained(path, monkeypatch, None)
    assert blocks[1] == {"read": 22, "labelled": 20, "set_aside": 2}
