"""Files that are replaced: whole or not at all, private from the first byte on, with the rights of the one before."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from stream_osr.atomic import write_whole


def rights(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def content(file: BinaryIO) -> None:
    file.write(b"new")


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_new_file_is_its_owners_alone_even_while_it_is_written(tmp_path: Path, umask: int) -> None:
    seen = []
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "model", lambda file: seen.extend(map(rights, tmp_path.iterdir())))
    finally:
        os.umask(before)
    assert [*seen, rights(tmp_path / "model")] == ["0o600", "0o600"]


@pytest.mark.parametrize("mode", [0o644, 0o400, 0o666])
def test_the_rights_of_a_file_that_is_replaced_are_kept(tmp_path: Path, mode: int) -> None:
    path, seen = tmp_path / "model", []
    path.touch()
    path.chmod(mode)
    write_whole(path, lambda file: seen.extend(map(rights, tmp_path.glob(".model.*"))))
    assert seen == ["0o600"], "only the whole file has them"
    assert rights(path) == oct(mode)


def test_a_folder_that_people_share_by_a_group(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    before = os.umask(0o027)
    try:
        write_whole(shared / "model", content)
    finally:
        os.umask(before)
    assert rights(shared / "model") == "0o640"


def test_owner_and_group_are_kept_by_root(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root may give a file away")
    path = tmp_path / "model"
    path.touch()
    os.chown(path, 65534, 1)
    path.chmod(0o640)
    write_whole(path, content)
    assert (path.stat().st_uid, path.stat().st_gid, rights(path)) == (65534, 1, "0o640")


def test_another_group_gets_no_rights(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can be two users")
    folder = Path("/tmp") / f"stream-osr-{os.getpid()}"
    folder.mkdir()
    try:
        folder.chmod(0o777)
        (folder / "model").touch()
        (folder / "model").chmod(0o664)
        os.setegid(65534)
        os.seteuid(65534)
        try:
            write_whole(folder / "model", content)
        finally:
            os.seteuid(0)
            os.setegid(0)
        assert rights(folder / "model") == "0o604"
    finally:
        (folder / "model").unlink()
        folder.rmdir()


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "third").write_text("old")
    (tmp_path / "current").symlink_to(Path("models", "third"))
    write_whole(tmp_path / "current", content)
    assert (tmp_path / "current").is_symlink()
    assert (tmp_path / "models" / "third").read_text() == "new"
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["third"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_failing_leaves_what_was_there_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "model"
    path.write_text("old")

    def write(file: BinaryIO) -> None:
        content(file)
        raise error

    with pytest.raises(type(error)):
        write_whole(path, write)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_the_folder_is_on_the_disk_after_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def note(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), (tmp_path / "model").exists()))

    monkeypatch.setattr(os, "fsync", note)
    write_whole(tmp_path / "model", content)
    assert synced == [(False, False), (True, True)]


def test_killed_while_it_writes(tmp_path: Path) -> None:
    """What is left is private, and does not have the name."""
    program = (
        "import os, sys\nfrom stream_osr.atomic import write_whole\n"
        "write_whole(sys.argv[1], lambda file: os.kill(os.getpid(), 9))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "model")], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".model.")
    assert rights(left) == "0o600"
