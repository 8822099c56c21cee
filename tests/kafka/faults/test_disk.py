"""The disk of the machine is slow or full. Beside a topic or a URL it holds only a copy of the states."""

from __future__ import annotations

import os
import resource
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.faults.trials import FOLDER_ALONE, Site, Trial, until

SLOW = '''
import os, time

_fsync = os.fsync


def fsync(descriptor):
    """Flush a file on a disk that takes as many seconds as the file says, if there is one."""
    try:
        with open({seconds!r}) as file:
            time.sleep(float(file.read()))
    except FileNotFoundError:
        pass
    _fsync(descriptor)


os.fsync = fsync
'''
"""Module that Python imports at its start."""

ROOM = 4096
"""Bytes that a file may have when the disk is full; the log is read before."""

WITHIN = 5.0
"""Seconds within which a disk that hangs is reported, after the three for which it may take its time."""

KINDS = ["folder", "topic", "url"]


class DiskTrial(Trial):
    """A service with its state in a folder alone, in a topic, or below a URL; its disk can become slow."""

    def __init__(self, site: Site, kind: str, **settings: Any) -> None:
        own = dict(FOLDER_ALONE)
        if kind == "topic":
            own["state_topic"] = f"state-{uuid.uuid4().hex[:8]}"
        if kind == "url":
            own["state_url"] = (site.folder / "all").as_uri()
        super().__init__(site, snapshot_interval=1.0, log_level="info", **own, **settings)
        self.copied = kind != "folder"
        self.state = Path(self.stream.settings["state"])
        self.seconds = site.folder / "seconds"
        (folder := site.folder / "python").mkdir()
        (folder / "sitecustomize.py").write_text(SLOW.format(seconds=str(self.seconds)))
        self.environment = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}

    def begin(self, n: int = 120, **environment: str) -> None:
        """Start it on this disk."""
        super().begin(n, **self.environment, **environment)

    def await_trouble(self, *words: str) -> None:
        """Decide on until the trouble of the copy is in the log, in /readyz and in the metrics."""
        begun = time.monotonic()
        while not self.lines("WARNING", "lacks", *words):
            self.decide(20)
            assert time.monotonic() - begun < 3 * WITHIN, self.tail()
        code, text = self.ready()
        assert code == 200
        assert "every worker is ready" in text
        assert "the copy of" in text
        assert all(word in text for word in words)
        assert self.figure("state_copy_behind") >= 1
        assert len(self.lines("WARNING", "lacks")) == 1

    def await_complete(self) -> None:
        """Decide on until the copy has all states again, which is logged."""
        self.decide(100)
        until(lambda: self.figure("state_copy_behind") == 0, 40, self.tail)
        self.await_line("the copy is complete again")
        assert "the copy of" not in self.ready()[1]

    def goes_on_without_the_disk(self, *, kill: bool = True) -> None:
        """Check that snapshots go on. Then kill it: the next start has the bits (:meth:`goes_on`)."""
        for _ in range(3):
            self.decide(100)
            time.sleep(1.1)
        until(lambda: self.figure("snapshot_age_seconds") < 2 * self.stream.partitions + 2, 10, self.tail)
        if kill:
            self.worker.kill()


@pytest.mark.fault("the disk of the machine is slow or hangs")
@pytest.mark.parametrize("kind", KINDS)
def test_the_disk_is_slow(site: Site, kind: str) -> None:
    """The thread writes the copy when it can. With a folder alone the service waits, and reports this meanwhile."""
    trial = DiskTrial(site, kind)
    trial.begin()
    trial.seconds.write_text("25")
    if trial.copied:
        trial.await_trouble("writing", "takes")
        trial.goes_on_without_the_disk()
        trial.begin(100)
        trial.seconds.unlink()
    else:
        trial.feed(100)
        trial.await_not_ready("writing", trial.stream.topic, "takes", seconds=4 * WITHIN)
        assert 3 < trial.figure("state_wait_seconds") < 3 + WITHIN
        trial.await_line("WARNING", "nothing is decided meanwhile", "takes", seconds=WITHIN)
        trial.seconds.unlink()
        trial.feed(100)
        trial.await_line("INFO", "the loop goes on", seconds=60)
        trial.await_ready()
    trial.goes_on()


@contextmanager
def full(trial: DiskTrial) -> Iterator[None]:
    """Let the disk of the copy have no room. The URL has room, though it is on the same disk here."""
    if trial.stream.settings.get("state_url"):
        away = trial.state.with_name("away")
        trial.state.rename(away)
        trial.state.touch()
        yield
        trial.state.unlink()
        away.rename(trial.state)
        return
    process = trial.worker.process.pid
    before = resource.prlimit(process, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    resource.prlimit(process, resource.RLIMIT_FSIZE, (trial.worker.log.stat().st_size + ROOM, before[1]))
    yield
    with suppress(ProcessLookupError):
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)


@pytest.mark.fault("the disk of the machine is full, and the states are elsewhere")
@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_disk_is_full(site: Site, kind: str) -> None:
    """Snapshots go to the topic or URL, and the copy is completed when there is room again."""
    trial = DiskTrial(site, kind)
    trial.begin()
    with full(trial):
        trial.await_trouble("cannot")
        trial.goes_on_without_the_disk(kill=False)
    trial.await_complete()
    with full(trial):
        trial.goes_on_without_the_disk()
    trial.begin(100)
    trial.goes_on()
