"""Workers and services without a broker: processes that die, cannot be started, or are stopped early."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import subprocess
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
from tests.processes import run

LONGEST = 60.0
AGO = 3600.0
FILES = Path("/proc/self/fd")


def workers_of(folder: Path, work: Work, number: int) -> Workers:
    fitted_once().save(folder / "m.osr")
    names = {"brokers": "127.0.0.1:1", "input": "in", "group": "g", "instance": "osr"}
    settings = ServiceSettings(model=folder / "m.osr", state=folder / "s", workers=number, stop_timeout=5.0, **names)
    return Workers(settings, CurrentModel(settings), work)


def until(done: Callable[[], bool], seconds: float = 60.0) -> Callable[[], bool]:
    """The condition on which the parent stops."""
    ends = time.monotonic() + seconds

    def stop() -> bool:
        assert time.monotonic() < ends, "it did not come to pass"
        return done()

    return stop


def opened_and_ended(order: StartOrder, pipe: Connection) -> None:
    """Report a loop that turned an hour ago, and end, each time with another code that may be waited for."""
    count = order.settings.model.with_name("tries")  # of the processes before this one
    tries = int(count.read_text()) if count.exists() else 0
    count.write_text(str(tries + 1))
    if tries == 0:
        pipe.send(ServiceStats(loop=time.monotonic() - AGO, opened_at=True))
    sys.exit(exits.MAY_COME_BACK[tries % len(exits.MAY_COME_BACK)])


@pytest.mark.thorough  # it starts a process for each exit code
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


@pytest.mark.thorough
@pytest.mark.parametrize("more", [pytest.param(1, marks=pytest.mark.thorough), 3])  # a pipe needs two files
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


# Whole services without a broker

START = ["-W", "ignore", "-m", "stream_osr_connectors"]


def nowhere(folder: Path, **settings: object) -> list[str]:
    """Flags of a service whose brokers do not answer."""
    fitted_once().save(folder / "m.osr")
    given = {"model": folder / "m.osr", "brokers": "127.0.0.1:1", "input": "in", "state": folder / "s", **settings}
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.thorough  # the two processes of the workers take seconds
@pytest.mark.parametrize("form", ["text", "json"])
def test_without_a_broker_at_the_start_the_service_ends_with_its_code(tmp_path: Path, form: str) -> None:
    """And logs one line about a variable that is no setting."""
    environment = {**os.environ, "STREAM_OSR_GRUOP": "g"}
    flags = nowhere(tmp_path, workers=2, log_format=form, instance="osr")
    ended = run(*START, "serve", *flags, timeout=90, env=environment)
    assert ended.returncode == exits.NO_BROKER
    assert "Traceback" not in ended.stderr
    lines = ended.stderr.splitlines()
    assert "osr-" in lines[-1]
    assert "cannot go on (exit code 69): its last line says why" in lines[-1]
    assert any("no broker answered as PLAINTEXT" in line for line in lines)
    (variable,) = [line for line in lines if "STREAM_OSR_GRUOP" in line]
    assert "did you mean STREAM_OSR_GROUP?" in variable
    if form == "json":
        assert [json.loads(line)["level"] for line in (variable, lines[-1])] == ["warning", "critical"]


def test_reconcile_ends_with_the_same_codes(tmp_path: Path) -> None:
    ended = run(*START, "reconcile", *nowhere(tmp_path, subclasses="s"), timeout=90)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (exits.NO_BROKER, 1)


LATER = [(0.5, 1), (1.0, 2), (2.0, 1), (3.5, 2), (5.0, 1)]


@pytest.mark.parametrize(
    ("after", "workers"), [(0.0, 1), (0.0, 2), *(pytest.param(*each, marks=pytest.mark.thorough) for each in LATER)]
)
def test_a_service_that_is_stopped_in_its_first_seconds_ends_well(tmp_path: Path, after: float, workers: int) -> None:
    """With SIGTERM, or by a terminal, which signals all workers, too; as soon as Python itself is there."""
    command = [sys.executable, *START, "serve", *nowhere(tmp_path, workers=workers)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    begun = time.monotonic()
    while not hears(process.pid, signal.SIGTERM) and time.monotonic() < begun + 10:
        time.sleep(0.005)
    assert not any("numba" in line for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines())
    time.sleep(after)
    if workers == 1:
        process.terminate()
    else:
        os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    assert said.splitlines()[-1].endswith("stopped")
    assert "Traceback" not in said


def hears(process: int, number: int) -> bool:
    """Say whether a process has a handler of its own for a signal."""
    found = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{process}/status").read_text())
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)
