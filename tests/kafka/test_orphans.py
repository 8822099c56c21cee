"""Files that nothing refers to go, and no others."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stream_osr_connectors.kafka.client.interface import Committed
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import snapshots
from stream_osr_connectors.kafka.run.models import Journal
from stream_osr_connectors.kafka.wire.boundaries import Boundary, History, Progress

OURS, EARLIER, GIVEN, OLD = ("0" * 15 + last for last in "abcd")
COMMITTED = {
    Place("in", 0): Committed(0, Progress(OURS, "aa00", History(Boundary(0), True)).text(), 0, 0),
    Place("in", 1): Committed(0, Progress(EARLIER, "aa11", History(Boundary(0), True)).text(), 0, 0),
    Place("in", 2): Committed(None, "", 0, 0),
}
STAYS = {
    "in-0-00000000000000000256-0-aa00.osr",
    "in-1-00000000000000000256-0-aa11.osr",
    f"{OURS}.model",
    f"{EARLIER}.model",
    f"{GIVEN}.model",
    "models",
    "README",
    "notes.osr",
}
GOES = {
    "in-0-00000000000000000256-0-bb00.osr",
    "in-7-00000000000000000256-0-aa99.osr",
    f"{OLD}.model",
    f".{OLD}.model.0123456789abcdef",
    ".in-0-00000000000000000256-0-aa00.osr.0123456789abcdef",
    ".writable",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (STAYS | GOES) - {"models"}:
        (tmp_path / name).touch()
    Journal(tmp_path).append(OLD)
    Journal(tmp_path).append(GIVEN)
    age(tmp_path, 2 * snapshots.OLD_SECONDS)
    return tmp_path


def age(folder: Path, seconds: float) -> None:
    for path in folder.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_nothing_refers_to_goes_with_a_line(folder: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    assert snapshots.remove_orphans(folder, ["in"], OURS, COMMITTED) == len(GOES)
    assert names(folder) == STAYS
    assert "2 snapshots, 1 models, 3 leftovers" in caplog.text
    caplog.clear()
    assert snapshots.remove_orphans(folder, ["in"], OURS, COMMITTED) == 0
    assert not caplog.text


def test_what_is_young_stays(folder: Path) -> None:
    age(folder, snapshots.OLD_SECONDS - 60)
    assert snapshots.remove_orphans(folder, ["in"], OURS, COMMITTED) == 0
    assert names(folder) == STAYS | GOES
    assert sum(map(len, snapshots.find_orphans(folder, ["in"], OURS, COMMITTED, time.time() + 120))) == len(GOES)


@pytest.mark.parametrize("text", ["", "of something else", "9 a b 0+0f 1"])
def test_what_cannot_be_read_may_refer_to_anything(folder: Path, text: str) -> None:
    assert (
        snapshots.remove_orphans(folder, ["in"], OURS, {**COMMITTED, Place("in", 2): Committed(0, text, 0, 0)}) == 0
    )
    assert names(folder) == STAYS | GOES


def test_the_models_of_another_service_of_the_group_are_its_own(folder: Path) -> None:
    theirs = folder / "other-0-00000000000000000256-0-cc00.osr"
    theirs.touch()
    os.utime(theirs, (0, 0))
    assert snapshots.remove_orphans(folder, ["in"], OURS, COMMITTED) == len(GOES) - 1
    assert names(folder) == STAYS | {theirs.name, f"{OLD}.model"}


def test_where_nothing_is_committed_the_snapshots_tell_that_something_was(folder: Path) -> None:
    """Offsets expire, or are deleted: the next start has to see it."""
    left = folder / "in-2-00000000000000000256-0-bb22.osr"
    left.touch()
    os.utime(left, (0, 0))
    snapshots.remove_orphans(folder, ["in"], OURS, COMMITTED)
    assert left.exists()
    assert (folder / f"{OLD}.model").exists(), "they may have to be read with it"
    left.unlink()
    snapshots.remove_orphans(folder, ["in"], OURS, COMMITTED)
    assert names(folder) == STAYS


def test_a_folder_that_is_not_there(tmp_path: Path, caplog: Any) -> None:
    assert snapshots.remove_orphans(tmp_path / "none", ["in"], OURS, COMMITTED) == 0
    assert "No such file" in caplog.text
