"""Names that are not UTF-8 or too long, pipes, devices, deep nesting, leftovers, and labels that look the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.archive.records import VERSION
from stream_osr.errors import InvalidInstance, PersistenceError
from stream_osr.support.atomic import remove_unfinished, write_whole
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.locking import sole_writer
from tests import processes
from tests.blobs import fitted_once

LATIN = os.fsdecode(b"caf\xe9")
LONG = "z" * 300 + ".csv"


def cli(*arguments: object, cwd: Path, input: str = "") -> subprocess.CompletedProcess[str]:
    return processes.run(*processes.COMMAND, *arguments, cwd=cwd, input=input)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [f"{12 * (i % 2) + rng.normal():.3f},{rng.normal():.3f},c{i % 2}\n" for i in range(60)]
    path = tmp_path / "labelled.csv"
    path.write_text("flow,heat,state\n" + "".join(rows))
    return path


FIT = ("--label", "state", "-o", "m.osr", "--chains", 1)


def test_names_that_are_not_utf8(table: Path, tmp_path: Path) -> None:
    table.rename(tmp_path / f"{LATIN}.csv")
    for arguments in (
        ("fit", f"{LATIN}.csv", "--label", "state", "-o", f"{LATIN}.osr", "--chains", 1),
        ("run", "-m", f"{LATIN}.osr", "-i", f"{LATIN}.csv", "-o", f"{LATIN}.jsonl"),
        ("run", "-m", f"{LATIN}.osr", "-i", f"{LATIN}.csv", "-o", f"{LATIN}.jsonl", "--resume"),
        ("inspect", f"{LATIN}.osr"),
    ):
        done = cli(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_options_that_are_not_utf8(table: Path, tmp_path: Path) -> None:
    for option in ("--label", "--features", "--key", "--unknown"):
        done = cli("fit", table, *FIT, option, LATIN, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        assert "defect" not in done.stderr


def test_names_that_are_too_long(table: Path, tmp_path: Path) -> None:
    for arguments in (
        ("fit", LONG, *FIT),
        ("fit", "labelled.csv", "--label", "state", "-o", LONG, "--chains", 1),
        ("fit", "labelled.csv", *FIT, "--errors", LONG),
        ("run", "-m", LONG, "-i", "labelled.csv", "-o", "-"),
        ("run", "-m", "m.osr", "-i", "labelled.csv", "-o", "out.csv", "--checkpoint", LONG, "--resume"),
        ("report", LONG),
        ("mute", 3, "--checkpoint", LONG),
        ("inspect", LONG),
    ):
        done = cli(*arguments, cwd=tmp_path)
        assert done.returncode != 0
        assert "too long" in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["pipe", "pipe.csv"])
def test_training_from_a_pipe(table: Path, tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_text(table.read_text()), daemon=True).start()
    done = cli("fit", name, *FIT, *(["--format", "csv"] if name == "pipe" else []), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_training_from_dev_stdin(table: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", processes.COMMAND[1], "fit", "/dev/stdin", "--format", "csv", *map(str, FIT)]
    done = subprocess.run(command, input=table.read_bytes(), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("load", [OpenSetRecognizer.load, load_checkpoint])
def test_a_device_or_a_pipe_is_no_model(tmp_path: Path, load: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", "/dev/null", tmp_path / "pipe"):
        with pytest.raises(PersistenceError, match="is a device or a pipe"):
            load(path)


def nested(levels: int) -> Any:
    key: Any = ("a",)
    for _ in range(levels - 1):
        key = (key,)
    return key


@pytest.mark.parametrize("levels", [17, 1000, 200_000])
def test_a_deeply_nested_key_is_refused(levels: int) -> None:
    model, x = fitted_once(chains=1), {"a": 1.0, "b": 1.0}
    key = nested(levels)
    with pytest.raises(InvalidInstance, match="more than 16 levels"):
        model.learn_one(x, key=key)
    assert model.pending == 0
    while key and isinstance(key, tuple):  # Python frees deep tuples recursively
        key = key[0]
    model.learn_one(x, key=nested(16))


def test_leftovers_of_killed_saves_are_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom stream_osr.support.atomic import write_whole\n"
        "write_whole('m.osr', lambda file: (file.write(b'x'), file.flush(), os.kill(os.getpid(), signal.SIGKILL)))"
    )
    for _ in range(2):
        assert processes.run("-c", program, cwd=tmp_path).returncode == -signal.SIGKILL
    assert len([*tmp_path.iterdir()]) == 2
    OpenSetRecognizer().save(tmp_path / "m.osr")
    assert [path.name for path in tmp_path.iterdir()] == ["m.osr"]


def test_a_file_that_is_being_written_stays(tmp_path: Path) -> None:
    """Files that a process left unfinished are removed, and no others."""

    def write(file: Any) -> None:
        remove_unfinished(tmp_path / "a[1].osr")
        with sole_writer(tmp_path / "a[1].osr"):
            file.write(b"whole")

    others = [".a[1].osr.mine", ".b.osr.0123456789abcdef"]
    for name in (".a[1].osr.0123456789abcdef", *others):
        (tmp_path / name).touch()
    write_whole(tmp_path / "a[1].osr", write)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*others, "a[1].osr"]
    assert (tmp_path / "a[1].osr").read_bytes() == b"whole"


def test_labels_that_look_the_same_are_named_and_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    for other in ("caf\u00e9 ", "cafe\u0301", " caf\u00e9", "caf\u00e9\u00a0"):
        caplog.clear()
        model = OpenSetRecognizer(chains=1)
        for label in ("caf\u00e9", "cat", "Cat", "cats", other, other):
            model.learn_one({"a": 1.0}, label)
        assert [record.args for record in caplog.records] == [(other, "caf\u00e9")]


@pytest.mark.parametrize(
    ("content", "most"),
    [('"' + "x" * 4_000_000 + '"', 1.6), ("[[]" + ",[]" * 130_000 + "]", 10.0)],
    ids=["text", "lists"],
)
def test_a_manifest_takes_no_more_memory_than_the_page_says(tmp_path: Path, content: str, most: float) -> None:
    text = f'{{"format":"stream-osr","version":{VERSION},"kind":"recognizer","content":{content}}}'
    with (tmp_path / "m.osr").open("wb") as file:
        np.savez(file, manifest=np.array(text))
    with suppress(PersistenceError):
        OpenSetRecognizer.load(tmp_path / "m.osr")  # what is imported meanwhile is not counted
    tracemalloc.start()
    try:
        with pytest.raises(PersistenceError):
            OpenSetRecognizer.load(tmp_path / "m.osr")
        assert tracemalloc.get_traced_memory()[1] <= most * (tmp_path / "m.osr").stat().st_size
    finally:
        tracemalloc.stop()
