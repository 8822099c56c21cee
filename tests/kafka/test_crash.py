"""SIGKILL at any moment, of workers and of the broker: every instance is decided once, in order, in the same bits."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np

from stream_osr_connectors.kafka import exits
from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, small_model

PARTITIONS = 4
LEAST_INSIDE = 10
"""Kills inside an open transaction: on a busy machine a worker may die before it has begun one."""


def test_kills_leave_no_trace(broker: Broker, tmp_path: Path) -> None:
    """A stream is fed in portions, and something is killed in the middle of each."""
    size, kills, seed = 12_000, 22, 1
    rng = np.random.default_rng(seed)
    often = {"commit_batches": 4, "snapshot_interval": 3.0, "transaction_deadline": 5.0}
    stream = Stream(broker.address, tmp_path, PARTITIONS, small_model(), **often)
    portion = size // kills
    workers = {name: Worker(stream, name) for name in ("one", "two")}
    inside, dead = [], 0
    for number in itertools.count():
        if number >= kills and (sum(inside) >= LEAST_INSIDE or number >= 3 * kills):
            break
        stream.send(instances(portion, PARTITIONS, seed + number, begin=number * portion))
        for name, worker in workers.items():
            if worker.process.poll() is not None:  # it found no broker when it started, say
                assert worker.process.returncode == exits.NO_BROKER, "\n".join(worker.lines()[-30:])
                workers[name] = Worker(stream, name)
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
            wait_for_transaction(worker, seconds=30)
            time.sleep(rng.uniform(0, 0.01))
        else:
            time.sleep(rng.uniform(0, 3))
        worker.kill()
        inside.append(worker.in_transaction())
        workers[name] = Worker(stream, name)
    print(f"{len(inside)} kills of workers, {sum(inside)} of them inside a transaction, {dead} of the broker")
    stream.wait(lambda: restarted(stream, workers), 60 + size / 200)
    for worker in workers.values():
        assert worker.stop() == 0
    assert sum(inside) >= LEAST_INSIDE
    assert len(inside) + dead >= 20
    assert sum(map(len, stream.sent)) >= portion * kills
    check_exactly_once(stream)


def wait_for_transaction(worker: Worker, seconds: float) -> None:
    """Wait until one is open, or none comes."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and worker.process.poll() is None and not worker.in_transaction():
        time.sleep(0.001)


def restarted(stream: Stream, workers: dict[str, Worker]) -> bool:
    """Start those again that have given up, as a supervisor would, and say whether all is committed."""
    for name, worker in workers.items():
        if worker.process.poll() is not None:
            workers[name] = Worker(stream, name)
    return stream.committed() == [len(sent) for sent in stream.sent]
