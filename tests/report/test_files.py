"""The kind of each file, and the refusal of other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr_connectors.page.report.files import read_files, read_truth


def test_a_file_of_another_kind_is_refused(tmp_path):
    for text, said in (
        ('{"a": 1}', "neither a decision nor an event"),
        ("key,label\n1,red\n", "neither a decision nor an event"),
        ("key;label\n1;red\n", "line 1 is not JSON"),
        ("[1, 2]", "line 1 is no JSON object"),
        ("\x93OSR\r\n\x1a\n damaged", "damaged, or not a saved stream-osr model"),
    ):
        (path := tmp_path / "x.jsonl").write_text(text, encoding="latin-1", newline="")
        with pytest.raises((ConnectorError, PersistenceError), match=said):
            read_files([path])


def test_two_of_a_kind_and_a_missing_file_are_errors(files, tmp_path):
    with pytest.raises(ConnectorError, match="one of each kind"):
        read_files([files / "events.jsonl", files / "events.jsonl"])
    with pytest.raises(ConnectorError, match=r"cannot read .*\. Check the path"):
        read_files([tmp_path / "missing.jsonl"])


def test_true_labels_by_key_and_in_order(run, files):
    by_key = read_truth(files / "truth.jsonl", "species", "id")
    in_order = read_truth(files / "truth.jsonl", "species")
    for number, d in enumerate(run.decisions):
        assert by_key.of(d["key"], 0) == in_order.of(None, number) == run.labels[number]
    assert by_key.of("no key", 0) is None
    assert list(by_key.beside(iter(run.decisions[:5]), [])) == run.decisions[:5]
    with pytest.raises(ConnectorError, match="5 decisions and 600 rows"):
        list(in_order.beside(iter(run.decisions[:5]), []))


def test_decisions_without_a_true_label_are_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    none = "none of the 3 decisions has a label in truth.csv (keys there 'r0', here 'r1000')"
    for ids, expected in (
        (("r0", "r1"), [none]),
        (("r0", "r1001"), ["1 of 3 decisions have a label in truth.csv"]),
        (("r1000", "r1001", "r1002"), []),
    ):
        Path("truth.csv").write_text("".join(f"{line}\n" for line in ("id,y", *(f"{each},a" for each in ids))))
        notes: list[str] = []
        list(read_truth(Path("truth.csv"), "y", "id").beside(({"key": f"r{n}"} for n in range(1000, 1003)), notes))
        assert notes == expected


def test_labels_that_cannot_be_meant_are_refused(tmp_path):
    path = tmp_path / "truth.jsonl"
    path.write_text("".join(json.dumps({"id": 1, "y": y}) + "\n" for y in ("a", "b")))
    with pytest.raises(ConnectorError, match="key 1 has the labels 'a' and 'b'"):
        read_truth(path, "y", "id")
    with pytest.raises(ConnectorError, match="has no label in column 'z'"):
        read_truth(path, "z")
