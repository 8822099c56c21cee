"""What `stream-osr run` and `fit` do to files: one writer, nothing half, nothing readable that holds rows."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.blobs import around
from tests.connectors.models import NAMES
from tests.processes import COMMAND
from tests.test_cli import call

RUN = ("run", "-m", "model.osr", "-i", "stream.jsonl", "--key", "id")


@pytest.fixture
def work(made: bytes, tmp_path: Path) -> Path:
    """A folder with a model and a stream of 100, one of which is no record."""
    (tmp_path / "model.osr").write_bytes(made)
    rng = np.random.default_rng(4)
    lines = [json.dumps({**x, "id": f"=k{n}"}) for n, x in enumerate(around([0.0] * 3, 99, rng, NAMES))]
    (tmp_path / "stream.jsonl").write_text("\n".join([*lines[:50], "secret, and no record", *lines[50:]]) + "\n")
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def lines_of(work: Path) -> list[str]:
    return (work / "stream.jsonl").read_text().splitlines(keepends=True)


@contextmanager
def running(work: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Have a run that has read and saved what came, and waits for more from a pipe."""
    os.mkfifo(work / "pipe.jsonl")
    command = [sys.executable, *COMMAND, "run", "-m", "model.osr", "-i", "pipe.jsonl", "--key", "id"]
    command += ["--checkpoint-every", "10", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, cwd=work, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            with (work / "pipe.jsonl").open("w") as pipe:
                pipe.writelines(lines_of(work)[:40])
                pipe.flush()
                before: dict[str, bytes] = {}
                until = time.monotonic() + 60
                while not any(work.glob("*.checkpoint")) or before != files(work):
                    assert process.poll() is None, process.communicate()[1]
                    assert time.monotonic() < until
                    before = files(work)
                    time.sleep(1.0)
                yield process, pipe
        finally:
            process.kill()


def finish(work: Path, process: subprocess.Popen[str], pipe: Any) -> None:
    """Write the rest of the stream, and let the run end."""
    pipe.writelines(lines_of(work)[40:])
    pipe.close()
    assert process.wait(60) == 0
    assert len((work / "out.jsonl").read_text().splitlines()) == 99


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of error of a command that has failed."""
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_second_run_is_refused_before_anything_is_touched(work: Path) -> None:
    with running(work, "-o", "out.jsonl", "-e", "events.jsonl", "--checkpoint", "c.checkpoint") as (first, pipe):
        (work / "hard.jsonl").hardlink_to(work / "out.jsonl")
        (work / "link.jsonl").symlink_to("out.jsonl")
        (work / "mine.jsonl").write_text("of an earlier run\n")
        for name in ("out.jsonl", "events.jsonl"):
            (work / f"copy-{name}").write_bytes((work / name).read_bytes())
        before = files(work)
        copies = ["-o", "copy-out.jsonl", "-e", "copy-events.jsonl"]
        for output, of_it in [
            ([*copies, "--checkpoint", "c.checkpoint", "--resume"], "c.checkpoint"),
            (["-o", "out.jsonl", "--checkpoint", "c.checkpoint", "-e", "events.jsonl", "--resume"], "out.jsonl"),
            (["-o", "hard.jsonl"], "hard.jsonl"),
            (["-o", "mine.jsonl", "-e", "link.jsonl"], "link.jsonl"),
            (["-o", "mine.jsonl", "--checkpoint", "c.checkpoint"], "c.checkpoint"),
        ]:
            said = refused(call(*RUN, *output, cwd=work))
            assert f"{of_it} is being written " in said
            assert f"by process {first.pid} on " in said
            assert "-i pipe.jsonl" in said, "its command"
            assert ("under another name" in said) == (of_it == "hard.jsonl")
            # the system knows the process of a lock, and not since when
            assert of_it == "hard.jsonl" or re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*: ", said)
            assert "Wait until it has ended, or stop it (in one program: close what has it open)" in said
            assert files(work) == before
        finish(work, first, pipe)
    assert not list(work.glob(".*")), "nothing is left"


def test_fit_does_not_replace_an_open_output_and_may_replace_a_model_that_a_run_has_read(work: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [f"{x['a']},{x['b']},{y}" for y in ("up", "down") for x in around([0.0] * 3, 30, rng, NAMES)]
    (work / "train.csv").write_text("a,b,y\n" + "\n".join(rows) + "\n")
    with running(work, "-o", "out.jsonl") as (first, pipe):
        before = files(work)
        for taken in ("out.jsonl", "out.jsonl.checkpoint"):
            said = refused(call("fit", "train.csv", "-l", "y", "-o", taken, cwd=work))
            assert f"{taken} is being written by process {first.pid}" in said
        assert files(work) == before
        done = call("fit", "train.csv", "-l", "y", "-o", "model.osr", cwd=work)  # read whole when the run began
        assert done.returncode == 0, done.stderr
        finish(work, first, pipe)
    (work / "pipe.jsonl").unlink()
    said = refused(call(*RUN, "-o", "out.jsonl", "--resume", cwd=work))
    assert "model.osr is not the model of the checkpoint" in said


@pytest.mark.parametrize(
    ("name", "option"),
    [("stream.jsonl", "-o"), ("model.osr", "-o"), ("out.jsonl", "-e"), ("model.osr", "--checkpoint")],
)
def test_one_file_under_two_names_is_refused(work: Path, name: str, option: str) -> None:
    (work / "out.jsonl").write_text("of an earlier run\n")
    (work / "alias.jsonl").hardlink_to(work / name)
    before = files(work)
    said = refused(call(*RUN, "-o", "out.jsonl", option, "alias.jsonl", cwd=work))
    assert "are the same file, alias.jsonl. Give each its own" in said
    assert files(work) == before


@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("-e", "folder.jsonl", "cannot open folder.jsonl for writing: Is a directory. Check the path"),
        ("-e", "missing/e.jsonl", "cannot open missing/e.jsonl for writing: No such file or directory. Check the"),
        ("--checkpoint", "missing/c", "cannot write missing/c: No such file or directory. Check that its folder"),
        ("--checkpoint", "folder.jsonl", "folder.jsonl is a folder. Give the name of a file in it"),
        ("--checkpoint", "null", "null is a device or a pipe, which cannot be replaced"),
    ],
)
def test_an_output_that_cannot_be_opened_costs_no_other(work: Path, option: str, name: str, says: str) -> None:
    (work / "folder.jsonl").mkdir()
    (work / "null").symlink_to("/dev/null")
    (work / "out.jsonl").write_text("of an earlier run\n")
    before = files(work)
    assert says in refused(call(*RUN, "-o", "out.jsonl", option, name, cwd=work))
    assert files(work) == before


def test_a_disk_that_is_full_at_the_checkpoint_leaves_the_one_before(work: Path) -> None:
    with running(work, "-o", "out.csv") as (first, pipe):
        kept = (work / "out.csv.checkpoint").read_bytes()
        resource.prlimit(first.pid, resource.RLIMIT_FSIZE, (len(kept) - 1000, len(kept) - 1000))
        pipe.writelines(lines_of(work)[40:])
        pipe.close()
        said = first.communicate(timeout=60)[1]
    assert first.returncode == 1
    assert said.splitlines()[-1].startswith("error: cannot write out.csv.checkpoint: File too large. Check that")
    assert "Traceback" not in said
    assert (work / "out.csv.checkpoint").read_bytes() == kept
    assert not list(work.glob(".*"))


def test_what_holds_rows_is_its_owners_alone(work: Path) -> None:
    before = os.umask(0o022)
    try:
        done = call(*RUN, "-o", "out.csv", "-e", "events.jsonl", "--errors", "bad.jsonl", cwd=work)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    rights = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in work.iterdir()}
    own = {"out.csv.checkpoint": "0o600", "bad.jsonl": "0o600"}
    assert {name: mode for name, mode in rights.items() if mode != "0o644"} == own


@pytest.mark.parametrize(("option", "first"), [((), "'=k0,"), (("--csv-safe",), "'=k0,"), (("--csv-raw",), "=k0,")])
def test_keys_that_a_spreadsheet_would_run(work: Path, option: tuple[str, ...], first: str) -> None:
    done = call(*RUN, "-o", "out.csv", "--errors", "bad.csv", *option, cwd=work)
    assert done.returncode == 0, done.stderr
    assert (work / "out.csv").read_text().splitlines()[1].startswith(first)
