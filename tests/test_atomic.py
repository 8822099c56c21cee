"""Files that are replaced: whole or not at all, private from the first byte on, with the rights of the one before."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from stream_osr.support.atomic import write_whole


def rights(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def content(file: BinaryIO) -> None:
    file.write(b"new")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_a_new_file_is_its_owners_alone_even_while_it_is_written(tmp_path: Path) -> None:
    for mask in (0o000, 0o077):
        seen: list[str] = []
        with umask(mask):
            write_whole(tmp_path / "model", lambda file, seen=seen: seen.extend(map(rights, tmp_path.iterdir())))
        assert [*seen, rights(tmp_path / "model")] == ["0o600", "0o600"]
        (tmp_path / "model").unlink()


def test_the_rights_of_a_file_that_is_replaced_are_kept(tmp_path: Path) -> None:
    path, seen = tmp_path / "model", list[str]()
    path.touch()
    for mode in (0o644, 0o400, 0o666):
        path.chmod(mode)
        write_whole(path, lambda file: seen.extend(map(rights, tmp_path.glob(".model.*"))))
        assert rights(path) == oct(mode)
    assert seen == ["0o600"] * 3, "only the whole file has them"


def test_a_folder_that_people_share_by_a_group(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    with umask(0o027):
        write_whole(shared / "model", content)
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


def test_failing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_text("old")

    def write(file: BinaryIO) -> None:
        content(file)
        raise error

    for error in (OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()):
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
