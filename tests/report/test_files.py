"""Which file is which, and what is said of one that is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr_connectors.files.checkpoint import Checkpoint, save_checkpoint
from stream_osr_connectors.page.report.files import read_files, read_truth


def test_files_are_told_by_what_is_in_them(run, files):
    inputs = read_files([files / "events.jsonl", files / "model.osr", files / "decisions.jsonl"])
    assert inputs.model is not None
    assert inputs.model.trained.fingerprint == run.model.trained.fingerprint
    assert list(inputs.decisions or ()) == run.decisions
    assert inputs.events == run.events


def test_a_checkpoint_holds_a_model_and_gzip_is_read(run, files, tmp_path):
    save_checkpoint(tmp_path / "c", Checkpoint(run.model, None, (None, None, None), {}))  # type: ignore[arg-type]
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write((files / "decisions.jsonl").read_text())
    (tmp_path / "none.jsonl").write_text("")
    inputs = read_files([tmp_path / "c", tmp_path / "d.jsonl.gz", tmp_path / "none.jsonl"])
    assert inputs.model is not None
    assert inputs.model.summary() == run.model.summary()
    assert len(list(inputs.decisions or ())) == len(run.decisions)
    assert inputs.events == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1}', "neither a decision nor an event"),
        ("key,label\n1,red\n", "neither a decision nor an event"),
        ("key;label\n1;red\n", "line 1 is not JSON"),
        ("[1, 2]", "line 1 is no JSON object"),
        ("\x93OSR\r\n\x1a\n damaged", "damaged, or not a saved stream-osr model"),
    ],
)
def test_what_is_none_of_them_is_named(tmp_path, text, said):
    path = tmp_path / "x.jsonl"
    path.write_text(text, encoding="latin-1", newline="")
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
    assert by_key.of("nobody", 0) is None
    assert list(by_key.beside(iter(run.decisions[:5]), [])) == run.decisions[:5]
    with pytest.raises(ConnectorError, match="5 decisions and 600 rows"):
        list(in_order.beside(iter(run.decisions[:5]), []))


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (("r0", "r1"), "none of the 3 decisions has a label in truth.csv (keys there 'r0', here 'r1000')"),
        (("r0", "r1001"), "1 of 3 decisions have a label in truth.csv"),
        (("r1000", "r1001", "r1002"), None),
    ],
)
def test_decisions_without_a_true_label_are_told(tmp_path, monkeypatch, ids, said):
    monkeypatch.chdir(tmp_path)
    Path("truth.csv").write_text("".join(f"{line}\n" for line in ("id,y", *(f"{each},a" for each in ids))))
    notes: list[str] = []
    list(read_truth(Path("truth.csv"), "y", "id").beside(({"key": f"r{n}"} for n in range(1000, 1003)), notes))
    assert notes == ([] if said is None else [said])


def test_labels_that_cannot_be_meant_are_refused(tmp_path):
    path = tmp_path / "truth.jsonl"
    path.write_text("".join(json.dumps({"id": 1, "y": y}) + "\n" for y in ("a", "b")))
    with pytest.raises(ConnectorError, match="key 1 has the labels 'a' and 'b'"):
        read_truth(path, "y", "id")
    with pytest.raises(ConnectorError, match="has no label in column 'z'"):
        read_truth(path, "z")
