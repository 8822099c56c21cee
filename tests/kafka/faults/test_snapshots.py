"""Snapshots cannot be written, or are not what was written."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.kafka.faults.trials import FOLDER_ALONE, Site, Trial, until

ROOM = 4096
"""Bytes that a file may have when the disk is full; the log is read before."""


def snapshots(trial: Trial, number: int) -> list[Path]:
    """Snapshots of a partition, the oldest first."""
    folder = Path(trial.stream.settings["state"]) / trial.stream.settings["group"]
    return sorted(folder.glob(f"{trial.stream.topic}-{number}-*.osr"))


def await_newer(trial: Trial) -> None:
    """Wait for a snapshot of each partition as it is: all that was sent is in it."""
    ends = [f"-{len(sent):020}-" for sent in trial.stream.sent]
    until(lambda: all(any(end in s.name for s in snapshots(trial, n)) for n, end in enumerate(ends)), 20, trial.tail)


@pytest.mark.fault("no room for snapshots")
def test_no_room_for_snapshots(site: Site) -> None:
    """It decides on and says what cannot be written; when there is room again there are snapshots again."""
    trial = Trial(site, snapshot_interval=1.0, log_level="info", **FOLDER_ALONE)
    trial.begin(100)
    await_newer(trial)
    process = trial.worker.process.pid
    before = resource.prlimit(process, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    resource.prlimit(process, resource.RLIMIT_FSIZE, (trial.worker.log.stat().st_size + ROOM, before[1]))
    there = [snapshots(trial, number) for number in range(2)]
    assert there[0][0].stat().st_size > trial.worker.log.stat().st_size + ROOM, "it would have room"
    trial.decide(200)
    line = trial.await_line("ERROR", "snapshot", trial.stream.topic)
    assert "too large" in line
    trial.decide(100)
    assert trial.ready()[0] == 200, "decisions reach the broker"
    until(lambda: trial.figure("snapshot_age_seconds") > 2, 10, trial.tail)
    assert [snapshots(trial, number) for number in range(2)] == there, "half of one is none"
    resource.prlimit(process, resource.RLIMIT_FSIZE, before)
    trial.decide(100)
    await_newer(trial)
    trial.worker.kill()
    trial.begin(100)
    trial.end_exactly_once()


@pytest.mark.fault("a snapshot is damaged or cut short")
@pytest.mark.fault("every snapshot is damaged")
def test_snapshots_are_damaged(site: Site) -> None:
    """An older one leads to the same bits, by a longer replay; without any, the service ends with an error."""
    trial = Trial(site, snapshot_interval=1.0, **FOLDER_ALONE)
    trial.begin(200)
    for _ in range(2):
        trial.decide(200)
        await_newer(trial)
    trial.end()
    flipped, cut = snapshots(trial, 0)[-1], snapshots(trial, 1)[-1]
    flip(flipped)
    cut.write_bytes(cut.read_bytes()[:-100])
    trial.begin(100)
    for damaged in (flipped, cut):
        assert trial.lines("WARNING", damaged.name)
    assert trial.lines(f"{trial.stream.topic}/0", "live")
    trial.end_exactly_once()
    for number in range(2):
        for each in snapshots(trial, number):
            each.write_bytes(each.read_bytes()[:-100])
    trial.fails_to_start("no snapshot leads to offset", "on_lost_state")


def flip(path: Path) -> None:
    """Change one bit of a file, in its middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
