"""One writer a file: whoever comes second is told who was first, and nothing is left after a crash."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import MemorySource, open_sink
from stream_osr_connectors.files import locking as module
from stream_osr_connectors.files.file_run import Sinks
from stream_osr_connectors.files.locking import Lock, sole_writer
from tests.connectors.models import streaming
from tests.file_runs import run

HOLDER = """
import sys
from stream_osr_connectors.files import open_sink
sink = open_sink(sys.argv[1])
sink.write({"n": 1})
sink.flush()
print("ready", flush=True)
sys.stdin.read()
sink.close()
"""


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another process have a file open."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=path.parent
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_itself(path: Path, folder: Path) -> Path:
    return path


def make_symbolic(path: Path, folder: Path) -> Path:
    (folder / "link.jsonl").symlink_to(path)
    return folder / "link.jsonl"


def make_hard(path: Path, folder: Path) -> Path:
    (folder / "hard.jsonl").hardlink_to(path)
    return folder / "hard.jsonl"


def make_round(path: Path, folder: Path) -> Path:
    (path.parent / "linked").symlink_to(path.parent)
    return Path(os.path.relpath(path.parent / "linked" / folder.name / ".." / path.name))


@pytest.mark.parametrize("make", [make_itself, make_symbolic, make_hard, make_round])
def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path, make: Callable[[Path, Path], Path]) -> None:
    path, folder = tmp_path / "out.jsonl", tmp_path / "folder"
    path.touch()
    folder.mkdir()
    name, hard = make(path, folder), make is make_hard
    with held(path) as holder:
        before = path.read_bytes()
        with pytest.raises(ConnectorError) as caught:
            open_sink(name)
        said = str(caught.value)
        assert f"{name} is being written " in said
        assert f"by process {holder.pid} on {platform.node()}" in said
        assert str(path) in said.partition(": ")[2], "its command"
        assert ("under another name" in said) == hard
        # the system knows the process of a lock, and not since when
        assert hard or re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*: ", said)
        assert "Wait until it has ended, or stop it (in one program: close what has it open)" in said
        assert "\n" not in said
        assert path.read_bytes() == before
    with open_sink(name):
        pass


def test_the_file_is_free_when_its_sink_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink: Any = open_sink(path)
    with pytest.raises(ConnectorError):
        sink.truncate({"offset": 100})
    of_a_child = os.dup(sink._file.fileno())  # which still has it open
    for _ in range(2):
        sink.close()
    open_sink(path).close()
    os.close(of_a_child)
    assert names(tmp_path) == ["out.jsonl"]


def test_what_cannot_be_opened_leaves_no_note(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "b.jsonl")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name, says in (("folder", "Is a directory"), ("a", "Too many levels of symbolic links")):
        with pytest.raises(ConnectorError, match=f"cannot open .*{says}"):
            open_sink(tmp_path / f"{name}.jsonl")
    assert names(tmp_path) == ["a.jsonl", "b.jsonl", "folder.jsonl"]


def test_two_runs_do_not_write_one_checkpoint(trained: Any, tmp_path: Path) -> None:
    """The second is refused before its output is touched."""
    checkpoint, second = tmp_path / "checkpoint", tmp_path / "second.jsonl"
    second.write_text("of an earlier run\n")

    def go(name: str, progress: Callable[[int], None]) -> None:
        with open_sink(tmp_path / name) as sink:
            source = MemorySource([dict.fromkeys("abc", 1.0)] * 2)
            run(streaming(trained), source, Sinks(sink), checkpoint=checkpoint, progress=progress)

    def try_another(read: int) -> None:
        with pytest.raises(ConnectorError, match=f"checkpoint is being written by process {os.getpid()}"):
            go(second.name, lambda read: None)
        assert second.read_text() == "of an earlier run\n"

    go("first.jsonl", try_another)
    go(second.name, lambda read: None)
    assert names(tmp_path) == ["checkpoint", "first.jsonl", "second.jsonl"]


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="there is no null device")
def test_devices_and_pipes_are_not_locked(tmp_path: Path) -> None:
    for name in ("/dev/null", "-"):
        with open_sink(name, format="jsonl"), open_sink(name, format="jsonl"):
            pass
    os.mkfifo(tmp_path / "pipe.jsonl")
    reader = os.open(tmp_path / "pipe.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    with open_sink(tmp_path / "pipe.jsonl") as one, open_sink(tmp_path / "pipe.jsonl") as two:
        one.write({"n": 1})
        one.flush()
        two.write({"n": 2})
        two.flush()
        assert os.read(reader, 100) == b'{"n":1}\n{"n":2}\n'
    os.close(reader)
    assert names(tmp_path) == ["pipe.jsonl"]
    assert not Path("/dev/.null.lock").exists()


def test_what_died_while_it_wrote_a_checkpoint_is_cleared_away(tmp_path: Path) -> None:
    half, others = ".a[1].osr.0123456789abcdef", [".a[1].osr.backup", ".b.osr.0123456789abcdef", "a[1].osr"]
    for name in (half, *others):
        (tmp_path / name).touch()
    with sole_writer(tmp_path / "a[1].osr"):
        assert names(tmp_path) == sorted([*others, ".a[1].osr.lock"])
    assert names(tmp_path) == sorted(others)


def test_a_folder_that_takes_no_note(tmp_path: Path) -> None:
    """The file itself is locked all the same; one that would have to be replaced there is refused at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out.jsonl").touch()
        (folder / "out.jsonl").chmod(0o666)
        folder.chmod(0o555)
        with nobody():
            with open_sink(folder / "out.jsonl") as sink:
                sink.write({"n": 1})
                with pytest.raises(ConnectorError, match=rf"is being written by process {os.getpid()} on"):
                    open_sink(folder / "out.jsonl")
            with pytest.raises(ConnectorError, match=r"cannot write .*model: Permission denied. Check that its fold"):
                Lock(folder / "model").take_name()
        assert names(folder) == ["out.jsonl"]


@contextmanager
def nobody() -> Iterator[None]:
    """Have the rights of a user who is not root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_note_of_somebody_else_is_honoured_and_taken_over(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can be two users")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        note = folder / ".model.lock"
        lock = Lock(folder / "model")
        lock.take_name()
        note.chmod(0o644)
        with nobody(), pytest.raises(ConnectorError, match=f"is being written by process {os.getpid()}"):
            Lock(folder / "model").take_name()
        os.close(lock._descriptors.pop())  # as a crash leaves it
        assert note.exists()
        with nobody(), sole_writer(folder / "model"):
            assert "process" in note.read_text()
        assert names(folder) == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_nothing_can_be_locked_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """As on some network drives, of which there is none here."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(module, "_without", set())
    half = tmp_path / ".checkpoint.0123456789abcdef"  # somebody may be writing it
    half.touch()
    with caplog.at_level(logging.WARNING, logger="stream_osr"):
        for _ in range(2):
            with open_sink(tmp_path / "out.jsonl") as sink, sole_writer(tmp_path / "checkpoint"):
                sink.write({"n": 1})
    (record,) = caplog.records
    assert re.search(rf"out.jsonl cannot be locked \({os.strerror(number)}\)\. Make sure", record.getMessage())
    assert (tmp_path / "out.jsonl").read_text() == '{"n":1}\n'
    assert names(tmp_path) == [half.name, "out.jsonl"]


def test_a_note_is_one_plain_line_whatever_is_in_it(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "model"):
        (tmp_path / ".model.lock").write_bytes(b"process 7\nerror: \x1b[31mred\xff" + b"x" * 5000)
        with pytest.raises(ConnectorError) as caught:
            Lock(tmp_path / "model").take_name()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 800


def test_a_note_that_is_removed_between_opening_and_locking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock would be one on a file without a name, and the next writer would have one, too."""
    first, second, third = Lock(tmp_path / "model"), Lock(tmp_path / "model"), Lock(tmp_path / "model")
    first.take_name()
    open_note = module._open_note

    def open_and_let_go(path: Path) -> int:
        descriptor = open_note(path)
        first.release()
        return descriptor

    monkeypatch.setattr(module, "_open_note", open_and_let_go)
    second.take_name()
    with pytest.raises(ConnectorError, match="is being written by process"):
        third.take_name()
    second.release()
    assert names(tmp_path) == []


def test_a_link_in_the_place_of_the_note_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("content")
    (tmp_path / ".out.jsonl.lock").symlink_to("precious")
    with open_sink(tmp_path / "out.jsonl") as sink:
        sink.write({"n": 1})
    with pytest.raises(ConnectorError, match="cannot write"), sole_writer(tmp_path / "out.jsonl"):
        pass
    assert (tmp_path / "precious").read_text() == "content"
