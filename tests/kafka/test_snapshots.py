"""Snapshots on a bad disk: whole or not there, and what is damaged is left aside in a line."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_osr.archive.files import Surroundings, kind_over, read_archive
from stream_osr.errors import PersistenceError
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.run import snapshots as module
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.wire.boundaries import Boundary
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
    folder = Snapshots(tmp_path / "state", keep=2)
    folder.open()
    assert not list(folder.folder.iterdir()), "trying the folder leaves nothing"
    return folder


def test_damage_of_any_kind_is_a_line(state: Partition, snapshots: Snapshots, caplog: Any) -> None:
    path = snapshots.write(PLACE, state)
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


@pytest.mark.parametrize("content", [{}, {"version": 1}, {"version": 1, "model": 3, "waiting": 7}, [1], None])
def test_what_is_whole_and_no_snapshot_is_a_line(
    state: Partition, snapshots: Snapshots, caplog: Any, content: Any
) -> None:
    trained = state.model.trained
    path = snapshots.write(PLACE, state)
    module.write_archive(path, kind_over(trained), content, Surroundings.of(trained))
    assert snapshots.read(PLACE, state.lineage, state.history.last, trained) is None
    assert "snapshot left aside: " in caplog.text


def test_without_room_there_is_no_half_file(state: Partition, snapshots: Snapshots) -> None:
    size = snapshots.write(PLACE, state).stat().st_size
    before = set(snapshots.folder.iterdir())
    later, _ = advance(state, [records(20, begin=100)])
    for room in (0, 1, 100, size // 2, size - 1000):
        with room_for(room), pytest.raises(PersistenceError, match=r"File too large. Check that .* has room"):
            snapshots.write(PLACE, later)
        assert set(snapshots.folder.iterdir()) == before
    assert snapshots.read(PLACE, state.lineage, state.history.last, state.model.trained) is not None


def test_snapshots_hold_rows_and_are_their_owners_alone(state: Partition, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        snapshots = Snapshots(tmp_path / "group", keep=2)
        snapshots.open()
        first = snapshots.write(PLACE, state)
        rights = (oct(snapshots.folder.stat().st_mode & 0o7777), oct(first.stat().st_mode & 0o777))
        snapshots.folder.chmod(0o2770)  # for workers of several users
        os.umask(0o007)
        snapshots.open()
        second = snapshots.write(PLACE, advance(state, [records(20, begin=100)])[0])
    finally:
        os.umask(before)
    assert rights == ("0o700", "0o600")
    assert oct(snapshots.folder.stat().st_mode & 0o7777) == "0o2770"
    assert oct(second.stat().st_mode & 0o777) == "0o660"


@contextmanager
def room_for(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
