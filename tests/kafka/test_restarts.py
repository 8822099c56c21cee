"""The places of workers whose processes die early or cannot be started: no broker takes part."""

from __future__ import annotations

import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import ServiceSettings, exits
from stream_osr_connectors.kafka.ops.metrics import Overview
from stream_osr_connectors.kafka.ops.workers import StartOrder, Work, Workers
from stream_osr_connectors.kafka.run.models import CurrentModel
from stream_osr_connectors.kafka.stats import ServiceStats
from tests.blobs import fitted_once

LONGEST = 60.0
AGO = 3600.0
FILES = Path("/proc/self/fd")


def workers_of(folder: Path, work: Work, number: int) -> Workers:
    fitted_once().save(folder / "m.osr")
    kept = folder / "s" / "g"
    kept.mkdir(parents=True)
    settings = ServiceSettings(
        model=folder / "m.osr",
        brokers="127.0.0.1:1",
        input="in",
        group="g",
        state=folder / "s",
        instance="osr",
        workers=number,
        stop_timeout=5.0,
    )
    return Workers(settings, CurrentModel(settings, kept), work)


def until(done: Callable[[], bool], seconds: float = 60.0) -> Callable[[], bool]:
    """Make what tells the parent to stop."""
    ends = time.monotonic() + seconds

    def stop() -> bool:
        assert time.monotonic() < ends, "it did not come to pass"
        return done()

    return stop


def opened_and_ended(order: StartOrder, pipe: Connection) -> None:
    """Tell of a loop that turned an hour ago, and end, each time with another code that may be waited for."""
    count = order.settings.model.with_name("tries")  # of the processes before this one
    tries = int(count.read_text()) if count.exists() else 0
    count.write_text(str(tries + 1))
    if tries == 0:
        pipe.send(ServiceStats(loop=time.monotonic() - AGO, opened_at=True))
    sys.exit(exits.MAY_COME_BACK[tries % len(exits.MAY_COME_BACK)])


def test_a_place_that_waits_for_something_is_not_a_loop_that_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may die, be tried again and wait for longer than `watchdog`; its siblings must live on."""
    monkeypatch.setattr("stream_osr_connectors.kafka.ops.workers.FIRST_DELAY", 0.1)
    workers = workers_of(tmp_path, opened_and_ended, 1)
    overview = Overview(workers.stats, LONGEST, workers.restarts)
    (slot,) = workers._slots

    def done() -> bool:
        if slot.restarts:
            assert overview.healthy().well, overview.healthy().message
            assert not overview.ready().well
        if slot.process is None:
            slot.stats.loop -= AGO  # as if it had waited for an hour
        elif slot.restarts:
            assert slot.stats.loop <= slot.started, "the new one has not turned yet"
        return slot.restarts == len(exits.MAY_COME_BACK)

    workers.run(until(done), lambda: False)
    assert slot.restarts == len(exits.MAY_COME_BACK), "each of them is tried again"


@pytest.fixture
def limit() -> Iterator[Callable[[int | None], None]]:
    """Let this process open so many more files; None: as before."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    filling: list[int] = []

    def allow(more: int | None) -> None:
        if more is None:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            return
        highest = max(int(file.name) for file in FILES.iterdir())
        while not filling or filling[-1] < highest:
            filling.append(os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (filling[-1] + 1 + more, before[1]))

    yield allow
    allow(None)
    for file in filling:
        os.close(file)


def wait_to_be_stopped(order: StartOrder, pipe: Connection) -> None:
    pipe.send(ServiceStats(opened_at=True))
    time.sleep(120)


@pytest.mark.parametrize("more", [1, 3], ids=["no pipe", "a pipe and no process"])
def test_a_process_that_cannot_be_started_is_tried_again(
    tmp_path: Path, limit: Callable[[int | None], None], caplog: pytest.LogCaptureFixture, more: int
) -> None:
    caplog.set_level(logging.INFO, "stream_osr.kafka")
    resource_tracker.ensure_running()
    workers = workers_of(tmp_path, wait_to_be_stopped, 2)
    limit(more)
    opened = len(list(FILES.iterdir()))

    def done() -> bool:
        if [slot.failures for slot in workers._slots] == [1, 1] and not any(s.process for s in workers._slots):
            limit(None)
            assert len(list(FILES.iterdir())) == opened, "no end of a pipe is left"
        return all(figures.opened_at for figures in workers.stats().values())

    workers.run(until(done), lambda: False)
    said = [record.getMessage() for record in caplog.records]
    for name in ("osr-0", "osr-1"):
        (line,) = [each for each in said if each.startswith(f"{name} cannot be started")]
        assert "Too many open files, started again in 1 s" in line
        assert f"{name} stopped" in said
