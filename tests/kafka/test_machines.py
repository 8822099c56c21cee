"""Machines without a common folder: kills, a machine that is lost with its disk, and one that is added."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from tests.kafka.brokers import Broker
from tests.kafka.faults.trials import Site, Trial, Watch
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, until
from tests.kafka.test_crash import wait_for_transaction

PARTITIONS, RECORDS, KILLS = 4, 200_000, 24


def await_decisions(stream: Stream) -> None:
    """Wait until each partition is decided again, and print how long this took."""
    with Watch(stream) as watch:
        before, begun = watch.committed(), time.monotonic()
        stream.send(instances(400, PARTITIONS, KILLS))
        until(lambda: all(map(int.__gt__, watch.committed(), before)), 120, lambda: f"stopped at {before}")
    print(f"each partition is decided again {time.monotonic() - begun:.1f} s after the loss of a machine")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_machines_with_separate_state(broker: Broker, tmp_path: Path) -> None:
    """Every decision is made once, in order, with the bits of a run without interruption."""
    rng, portion = np.random.default_rng(7), -(-RECORDS // KILLS)
    trial = Trial(Site(broker, tmp_path), PARTITIONS, snapshot_interval=3.0, state_topic="state-of-machines")
    stream, moment = trial.stream, int(rng.integers(KILLS // 3, 2 * KILLS // 3))

    def start(name: str) -> Worker:
        return Worker(stream, name, STREAM_OSR_STATE=str(tmp_path / f"state-{name}"))

    machines = {name: start(name) for name in ("a", "b")}
    for number in range(KILLS):
        stream.send(instances(portion, PARTITIONS, number, begin=number * portion))
        name = str(rng.choice(list(machines)))
        wait_for_transaction(machines[name], seconds=30)
        time.sleep(rng.uniform(0, 3))
        machines[name].kill()
        if number == moment:
            machines.pop(name)
            shutil.rmtree(tmp_path / f"state-{name}")
            machines["c"] = start("c")
            await_decisions(stream)
        else:
            machines[name] = start(name)
    with Watch(stream) as watch:
        until(
            lambda: watch.committed() == [len(sent) for sent in stream.sent],
            60 + RECORDS / 200,
            lambda: f"committed {watch.committed()} of {[len(sent) for sent in stream.sent]}",
        )
    for machine in machines.values():
        assert machine.stop() == 0
    assert sum(map(len, stream.sent)) >= RECORDS
    assert not (tmp_path / "one" / "state").exists(), "no machine used another folder"
    check_exactly_once(stream)
