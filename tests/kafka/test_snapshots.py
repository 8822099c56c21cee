"""Snapshots on a bad disk: whole or not there, and damaged ones are left aside; files without use are removed."""

from __future__ import annotations

import logging
import os
import random
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_osr.archive.files import Surroundings, kind_over, read_archive, write_archive
from stream_osr.errors import PersistenceError
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import Committed
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import orphans
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.models import Journal, ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.wire.boundaries import Boundary, History, Progress
from tests.blobs import fitted_once
from tests.kafka.test_partition import PLACE, advance, records


@pytest.fixture(scope="module")
def state(tmp_path_factory: Any) -> Partition:
    path = tmp_path_factory.mktemp("model") / "model.osr"
    fitted_once(chains=1, decision_delay=20, seed=5).save(path)
    model = ModelFile.load(ServiceSettings(model=path, brokers="b", input="in"))
    return advance(begin(model.recognizer(PLACE), Boundary(0)), [records(100)])[0]


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    states = FolderStates(tmp_path / "state").open()
    assert not list(states.folder.iterdir()), "trying the folder leaves nothing"
    return Snapshots(states, keep=2)


def written(snapshots: Snapshots, partition: Partition) -> Path:
    return Path(snapshots.states.where, snapshots.write(PLACE, partition))


def test_damage_of_any_kind_is_a_line(state: Partition, snapshots: Snapshots, caplog: Any) -> None:
    path = written(snapshots, state)
    whole, trained = path.read_bytes(), state.model.trained
    rng = random.Random(5)
    places = [at for at in range(len(whole) - 2) if at < 80]  # the header carries no checksum
    refused = 0
    for number in range(600):
        content = bytearray(whole)
        if number % 3 == 0:
            del content[rng.randrange(len(content)) :]
        elif number % 3 == 1:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        else:
            content[min(rng.choice(places) + rng.randrange(46), len(content) - 1)] = rng.randrange(256)
        path.write_bytes(content)
        try:
            read_archive(path, kind_over(trained), around=Surroundings.of(trained))
        except PersistenceError:
            refused += 1
            if number % 20 == 0:
                caplog.clear()
                assert snapshots.read(PLACE, state.lineage, state.history.last, trained) is None
                (record,) = caplog.records
                assert record.getMessage().startswith("snapshot left aside: ")
                assert record.exc_info is None
    assert refused > 300


def test_what_is_whole_and_no_snapshot_is_a_line(state: Partition, snapshots: Snapshots, caplog: Any) -> None:
    trained = state.model.trained
    path = written(snapshots, state)
    for content in ({}, {"version": 1}, {"version": 1, "model": 3, "waiting": 7}, [1], None):
        caplog.clear()
        write_archive(path, kind_over(trained), content, Surroundings.of(trained))
        assert snapshots.read(PLACE, state.lineage, state.history.last, trained) is None, content
        assert "snapshot left aside: " in caplog.text, content


def test_without_room_there_is_no_half_file(state: Partition, snapshots: Snapshots) -> None:
    size, folder = written(snapshots, state).stat().st_size, Path(snapshots.states.where)
    before = set(folder.iterdir())
    later, _ = advance(state, [records(20, begin=100)])
    for room in (0, 1, 100, size // 2, size - 1000):
        with room_for(room), pytest.raises(PersistenceError, match=r"File too large. Check that .* has room"):
            snapshots.write(PLACE, later)
        assert set(folder.iterdir()) == before
    assert snapshots.read(PLACE, state.lineage, state.history.last, state.model.trained) is not None


def test_snapshots_hold_rows_and_are_their_owners_alone(state: Partition, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        states = FolderStates(tmp_path / "group").open()
        snapshots = Snapshots(states, keep=2)
        first = written(snapshots, state)
        rights = (oct(states.folder.stat().st_mode & 0o7777), oct(first.stat().st_mode & 0o777))
        states.folder.chmod(0o2770)  # for workers of several users
        os.umask(0o007)
        states.open()
        second = written(snapshots, advance(state, [records(20, begin=100)])[0])
    finally:
        os.umask(before)
    assert rights == ("0o700", "0o600")
    assert oct(states.folder.stat().st_mode & 0o7777) == "0o2770"
    assert oct(second.stat().st_mode & 0o777) == "0o660"


@contextmanager
def room_for(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# Files that nothing refers to

OURS, EARLIER, GIVEN, OLD = ("0" * 15 + last for last in "abcd")
BEGUN = History(Boundary(0), True)
COMMITTED = {
    Place("in", 0): Committed(0, Progress(OURS, "aa00", BEGUN).text(), 0, 0),
    Place("in", 1): Committed(0, Progress(EARLIER, "aa11", BEGUN).text(), 0, 0),
    Place("in", 2): Committed(None, "", 0, 0),
}
AT = "00000000000000000256-0"
STAYS = {f"in-0-{AT}-aa00.osr", f"in-1-{AT}-aa11.osr", "models", "README", "notes.osr"}
STAYS |= {f"{name}.model" for name in (OURS, EARLIER, GIVEN)}
GOES = {f"in-0-{AT}-bb00.osr", f"in-7-{AT}-aa99.osr", f"{OLD}.model", ".writable"}
GOES |= {f".{OLD}.model.0123456789abcdef", f".in-0-{AT}-aa00.osr.0123456789abcdef"}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    for name in (STAYS | GOES) - {"models"}:
        (tmp_path / name).touch()
    for name in (OLD, GIVEN):
        Journal(FolderStates(tmp_path)).append(name)
    age(tmp_path, 2 * orphans.OLD_SECONDS)
    return tmp_path


def age(kept: Path, seconds: float) -> None:
    for path in kept.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def names(kept: Path) -> set[str]:
    return {path.name for path in kept.iterdir()}


def remove(kept: Path, third: str | None = None) -> int:
    """Remove the files; the third partition has this text committed, or nothing."""
    committed = COMMITTED if third is None else {**COMMITTED, Place("in", 2): Committed(0, third, 0, 0)}
    return orphans.remove_orphans(FolderStates(kept), ["in"], OURS, committed)


def test_what_nothing_refers_to_goes_with_a_line(kept: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    assert remove(kept) == len(GOES)
    assert names(kept) == STAYS
    assert "2 snapshots, 1 models, 3 leftovers" in caplog.text
    caplog.clear()
    assert remove(kept) == 0
    assert not caplog.text
    assert remove(kept / "none") == 0
    assert "No such file" in caplog.text


def test_what_is_young_stays_and_all_does_while_a_progress_cannot_be_read(kept: Path) -> None:
    for text in ("", "of something else", "9 a b 0+0f 1"):
        assert remove(kept, text) == 0, text
    age(kept, orphans.OLD_SECONDS - 60)
    assert remove(kept) == 0
    assert names(kept) == STAYS | GOES
    assert sum(map(len, orphans.find_orphans(FolderStates(kept), ["in"], OURS, COMMITTED, time.time() + 120))) == len(
        GOES
    )


def test_models_stay_while_another_service_or_a_partition_without_a_commit_may_need_them(kept: Path) -> None:
    """Offsets expire, or are deleted: the next start has to see it."""
    for name in (f"other-0-{AT}-cc00.osr", f"in-2-{AT}-bb22.osr"):
        (kept / name).touch()
        age(kept, 2 * orphans.OLD_SECONDS)
        remove(kept)
        assert names(kept) == STAYS | {name, f"{OLD}.model"}
        (kept / name).unlink()
    remove(kept)
    assert names(kept) == STAYS
