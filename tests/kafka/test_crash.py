"""SIGKILL at any moment, of workers and of the broker: every instance is decided once, in order, in the same bits."""

from __future__ import annotations

import itertools
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr_connectors.kafka import exits
from tests.kafka.brokers import Broker
from tests.kafka.commands import done
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, small_model
from tests.kafka.test_by_key import check_each_key
from tests.kafka.test_by_key import instances as keyed_instances

pytestmark = [pytest.mark.needs("broker"), pytest.mark.timeout(3600)]

PARTITIONS = 4
INSIDE = 0.45
"""Least share of kills inside an open transaction: on a busy machine a worker may die before it has begun one."""
KEYS = [f"pump {n}" for n in range(60)]
BY_KEY = {"by": "key", "key_memory": 1_000_000, "batch_size": 150}
"""Most keys are bytes at any time."""


@pytest.mark.parametrize(
    ("kills", "size", "separate", "by_key"),
    [
        pytest.param(11, 6_000, False, {}, id="one folder"),
        pytest.param(22, 12_000, False, {}, id="one folder, more kills", marks=pytest.mark.long),
        pytest.param(22, 200_000, True, {}, id="separate disks", marks=pytest.mark.long),
        pytest.param(22, 12_000, True, BY_KEY, id="by key", marks=pytest.mark.long),
    ],
)
def test_kills_leave_no_trace(
    broker: Broker, tmp_path: Path, kills: int, size: int, separate: bool, by_key: dict[str, Any]
) -> None:
    """A stream is fed in portions, and something is killed in the middle of each. Some disks are lost."""
    seed, least = 1, round(INSIDE * kills)
    rng = np.random.default_rng(seed)
    often = {"commit_batches": 4, "snapshot_interval": 3.0, "transaction_deadline": 5.0}
    stream = Stream(broker.address, tmp_path, PARTITIONS, small_model(), **often, **by_key)
    if separate:
        stream.settings["state_topic"] = f"{stream.topic}.state"
        done("topics", "--create", "--config", stream.config())
    portion = size // kills

    def start(name: str) -> Worker:
        disk = {"STREAM_OSR_STATE": str(tmp_path / f"state-{name}")} if separate else {}
        return Worker(stream, name, **disk)

    workers = {name: start(name) for name in ("one", "two")}
    inside, dead = [], 0
    for number in itertools.count():
        if number >= kills and (sum(inside) >= least or number >= 3 * kills):
            break
        begin = number * portion
        if by_key:
            stream.send(keyed_instances(portion, begin, KEYS, PARTITIONS))
        else:
            stream.send(instances(portion, PARTITIONS, seed + number, begin))
        for name, worker in workers.items():
            if worker.process.poll() is not None:  # it found no broker when it started, say
                assert worker.process.returncode == exits.NO_BROKER, "\n".join(worker.lines()[-30:])
                workers[name] = start(name)
        if number % 5 == 4:
            time.sleep(rng.uniform(0, 2))
            broker.kill()
            time.sleep(rng.uniform(0, 1))
            broker.start()
            dead += 1
            continue
        name = str(rng.choice(list(workers)))
        worker = workers[name]
        if rng.random() < 0.8:
            worker.await_transaction(30)
            time.sleep(rng.uniform(0, 0.01))
        else:
            time.sleep(rng.uniform(0, 3))
        worker.kill()
        inside.append(worker.in_transaction())
        if separate and number % 4 == 3:
            shutil.rmtree(tmp_path / f"state-{name}", ignore_errors=True)
        workers[name] = start(name)
    print(f"{len(inside)} kills of workers, {sum(inside)} of them inside a transaction, {dead} of the broker")

    def is_committed() -> bool:
        for name, worker in workers.items():
            if worker.process.poll() is not None:  # a supervisor would start it again
                workers[name] = start(name)
        return stream.committed() == [len(sent) for sent in stream.sent]

    stream.wait(is_committed, 60 + size / 200)
    for worker in workers.values():
        assert worker.stop() == 0
    assert sum(inside) >= least
    assert len(inside) + dead >= kills
    assert sum(map(len, stream.sent)) >= portion * kills
    if by_key:
        check_each_key(stream, [set()] * PARTITIONS)
    else:
        check_exactly_once(stream)
    assert separate != (tmp_path / "state").exists(), "no machine used another folder"
