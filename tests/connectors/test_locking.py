"""One writer a file: an error names the first writer to the second one, and nothing is left after a crash."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import locking as module
from stream_osr_connectors.files import open_sink
from stream_osr_connectors.files.locking import Lock, sole_writer


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_free_when_its_sink_is_closed(tmp_path: Path) -> None:
    sink: Any = open_sink(tmp_path / "out.jsonl")
    with pytest.raises(ConnectorError):
        sink.truncate({"offset": 100})
    of_a_child = os.dup(sink._file.fileno())  # which still has it open
    for _ in range(2):
        sink.close()
    open_sink(tmp_path / "out.jsonl").close()
    os.close(of_a_child)
    assert names(tmp_path) == ["out.jsonl"]


def test_devices_and_pipes_are_not_locked(tmp_path: Path) -> None:
    for name in ("/dev/null", "-"):
        with open_sink(name, format="jsonl"), open_sink(name, format="jsonl"):
            pass
    os.mkfifo(tmp_path / "pipe.jsonl")
    reader = os.open(tmp_path / "pipe.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    with open_sink(tmp_path / "pipe.jsonl") as one, open_sink(tmp_path / "pipe.jsonl") as two:
        for number, sink in enumerate((one, two)):
            sink.write({"n": number})
            sink.flush()
        assert os.read(reader, 100) == b'{"n":0}\n{"n":1}\n'
    os.close(reader)
    assert names(tmp_path) == ["pipe.jsonl"]
    assert not Path("/dev/.null.lock").exists()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_a_folder_that_takes_no_note(shared: Path) -> None:
    """The file itself is locked all the same; one that would have to be replaced there is refused at once."""
    (shared / "out.jsonl").touch()
    (shared / "out.jsonl").chmod(0o666)
    shared.chmod(0o555)
    with another_user():
        with open_sink(shared / "out.jsonl") as sink:
            sink.write({"n": 1})
            with pytest.raises(ConnectorError, match=rf"is being written by process {os.getpid()} on"):
                open_sink(shared / "out.jsonl")
        with pytest.raises(ConnectorError, match=r"cannot write .*model: Permission denied. Check that its fold"):
            Lock(shared / "model").take_name()
    assert names(shared) == ["out.jsonl"]


@pytest.mark.skipif(bool(os.geteuid()), reason="only root can be two users")
def test_a_note_of_another_user_is_honoured_and_taken_over(shared: Path) -> None:
    note, lock = shared / ".model.lock", Lock(shared / "model")
    lock.take_name()
    note.chmod(0o644)
    with another_user(), pytest.raises(ConnectorError, match=f"is being written by process {os.getpid()}"):
        Lock(shared / "model").take_name()
    os.close(lock._descriptors.pop())  # as a crash leaves it
    assert note.exists()
    with another_user(), sole_writer(shared / "model"):
        assert "process" in note.read_text()
    assert names(shared) == []


@contextmanager
def another_user() -> Iterator[None]:
    """Have the rights of a user who is not root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_nothing_can_be_locked_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """As on some network drives, of which there is none here."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(module, "_without", set())
    half = tmp_path / ".checkpoint.0123456789abcdef"  # another process may be writing it
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
