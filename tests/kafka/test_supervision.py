"""Whoever leads the workers: how patient it is, which model it gives them, and how it ends when told to."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.kafka import exits
from tests.blobs import fitted_once
from tests.kafka.brokers import Broker
from tests.kafka.scraping import status
from tests.kafka.streams import Stream, Worker, instances, small_model
from tests.processes import run

START = ["-W", "ignore", "-m", "stream_osr_connectors"]
PARTITIONS = 4


def next_model() -> OpenSetRecognizer:
    """What follows :func:`small_model`."""
    return fitted_once(60, batch_size=32, chains=1, window=32, seed=6)


# Without a broker


def nowhere(folder: Path, **settings: object) -> list[str]:
    """Flags of a service whose brokers do not answer."""
    fitted_once().save(folder / "m.osr")
    given = {"model": folder / "m.osr", "brokers": "127.0.0.1:1", "input": "in", "state": folder / "s", **settings}
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize("form", ["text", "json"])
def test_without_a_broker_at_the_start_the_service_ends_with_its_code(tmp_path: Path, form: str) -> None:
    """And tells once of a variable that is no setting."""
    environment = {**os.environ, "STREAM_OSR_GRUOP": "g"}
    flags = nowhere(tmp_path, workers=2, log_format=form, instance="osr")
    ended = run(*START, "serve", *flags, timeout=90, env=environment)
    assert ended.returncode == exits.NO_BROKER
    assert "Traceback" not in ended.stderr
    lines = ended.stderr.splitlines()
    assert "osr-" in lines[-1]
    assert "cannot go on (exit code 69): its last line says why" in lines[-1]
    assert any("no broker answered as PLAINTEXT" in line for line in lines)
    (told,) = [line for line in lines if "STREAM_OSR_GRUOP" in line]
    assert "did you mean STREAM_OSR_GROUP?" in told
    if form == "json":
        assert [json.loads(line)["level"] for line in (told, lines[-1])] == ["warning", "critical"]


def test_reconcile_ends_with_the_same_codes(tmp_path: Path) -> None:
    ended = run(*START, "reconcile", *nowhere(tmp_path, subclasses="s"), timeout=90)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (exits.NO_BROKER, 1)


def test_a_wrong_model_is_found_before_any_worker_starts(tmp_path: Path) -> None:
    ended = run(*START, "serve", *nowhere(tmp_path, workers=2, model=tmp_path / "none.osr"), timeout=90)
    assert ended.returncode == 1
    assert ended.stderr == f"error: there is no file {tmp_path / 'none.osr'}. Check the path\n"


@pytest.mark.parametrize(("after", "workers"), [(0.0, 1), (0.0, 2), (0.5, 1), (1.0, 2), (2.0, 1), (3.5, 2), (5.0, 1)])
def test_told_to_stop_in_the_first_seconds_it_ends_well(tmp_path: Path, after: float, workers: int) -> None:
    """With SIGTERM, or by a terminal, which tells all workers, too; as soon as Python itself is there."""
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


# Against a broker


def service(broker: Broker, folder: Path, **settings: object) -> Stream:
    given = {"metrics_port": 0, "workers": 2, "on_model_change": "carry", "snapshot_interval": 1.0, **settings}
    return Stream(broker.address, folder, PARTITIONS, small_model(), **given)


def decided(stream: Stream) -> list[list[dict[str, Any]]]:
    return [[json.loads(record.value) for record in part] for part in stream.read("decisions")]


def test_a_worker_of_the_old_model_leaves_a_partition_alone_that_is_the_new_ones(
    broker: Broker, tmp_path: Path
) -> None:
    """Two machines: the second is told later."""
    first, second = small_model(), next_model()
    stream = service(broker, tmp_path, workers=1)
    stream.send(instances(400, PARTITIONS))
    left = Worker(stream, "left")
    stream.wait()
    right = Worker(stream, "right")
    stream.wait(
        lambda: status(right, "/readyz") == 200 and any("another worker's now" in line for line in left.lines())
    )
    second.save(tmp_path / "model.osr")
    left.process.send_signal(signal.SIGHUP)
    left.await_line("goes on under another model")
    stream.send(instances(400, PARTITIONS, seed=1, begin=400))
    stream.wait()
    assert left.stop() == 0
    right.await_line("ran under the newer model")
    stream.send(instances(200, PARTITIONS, seed=2, begin=800))
    time.sleep(3)
    waiting = [number for number, at in enumerate(stream.committed()) if at < len(stream.sent[number])]
    assert waiting
    right.process.send_signal(signal.SIGHUP)
    right.await_line("is loaded: the model")
    stream.send(instances(200, PARTITIONS, seed=3, begin=1000))
    stream.wait()
    assert right.stop() == 0
    for number, values in enumerate(decided(stream)):
        assert [value["offset"] for value in values] == list(range(len(stream.sent[number])))
        runs = [model for model, _ in groupby(value["model"] for value in values)]
        assert runs == [first.trained.fingerprint, second.trained.fingerprint]
    assert "stopped" in right.lines()[-1]
