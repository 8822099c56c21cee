"""One command, several workers: they share the work and a port, those that die come back, and none is left behind."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import exits
from tests.kafka.brokers import Broker
from tests.kafka.decoders import HANG
from tests.kafka.scraping import metrics, status, total
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model

PARTITIONS = 4


def test_two_workers_share_the_work_and_come_back_when_they_die(broker: Broker, tmp_path: Path) -> None:
    stream = service(broker, tmp_path, workers=2)
    stream.send([*instances(600, PARTITIONS), (1, Sent(b"k", b"{")), (2, Sent(b"k", b'{"a": "no number"}'))])
    parent = Worker(stream, "osr")
    stream.wait()
    stream.wait(lambda: shared(metrics(parent)))
    stream.wait(lambda: total(metrics(parent), "stream_osr_records_total") == 602)
    stream.wait(lambda: status(parent, "/readyz") == 200)  # what has moved may still be replayed
    seen = metrics(parent)
    assert total(seen, "stream_osr_decisions_total") == 600
    assert total(seen, "stream_osr_decisions_total", decided="unknown") > 100
    assert total(seen, "stream_osr_dead_letters_total") == 2
    assert total(seen, "stream_osr_events_total") == sum(map(len, stream.read("events")))
    stream.wait(lambda: total(metrics(parent), "stream_osr_lag_records") == 0)
    assert total(seen, "stream_osr_transaction_seconds_sum") > 0
    assert all(value > 0 for _, value in seen["stream_osr_alpha0"])
    assert status(parent, "/healthz") == 200
    assert status(parent, "/elsewhere") == 404

    os.kill(processes(parent)["osr-0"], signal.SIGKILL)
    stream.send(instances(400, PARTITIONS, seed=1, begin=600))
    stream.wait()
    stream.wait(lambda: status(parent, "/readyz") == 200)
    assert total(metrics(parent), "stream_osr_worker_restarts_total", worker="osr-0") == 1
    assert any("osr-0 ended with signal 9" in line for line in parent.lines())

    begun = time.monotonic()
    assert parent.stop() == 0
    assert time.monotonic() - begun < 30
    assert not any(alive(process) for process in processes(parent).values())
    check_exactly_once(stream)


@pytest.mark.long
def test_a_worker_that_does_not_answer_is_replaced_and_none_outlives_its_parent(
    broker: Broker, tmp_path: Path
) -> None:
    stream = service(broker, tmp_path, workers=2, watchdog=10.0)
    stream.send(instances(200, PARTITIONS))
    parent = Worker(stream, "osr")
    stream.wait()
    stream.wait(lambda: shared(metrics(parent)))
    os.kill(processes(parent)["osr-1"], signal.SIGSTOP)
    parent.await_line("osr-1 has not responded")
    parent.await_line("osr-1 ended with signal 9")
    stream.send(instances(200, PARTITIONS, seed=1, begin=200))
    stream.wait()
    parent.kill()
    stream.wait(lambda: not any(alive(process) for process in processes(parent).values()), seconds=20)
    check_exactly_once(stream)


def test_a_worker_that_hangs_ends_itself_and_says_where(broker: Broker, tmp_path: Path) -> None:
    stream = service(broker, tmp_path, watchdog=8.0, decoder="tests.kafka.decoders:hanging")
    stream.send([(0, Sent(HANG, b"{}"))])
    worker = Worker(stream)
    worker.await_line("the loop has not turned for 8 s")
    assert worker.process.wait(10) == exits.HUNG
    assert "decode_or_hang" in worker.lines()[-1]


def test_stopping_is_bounded(broker: Broker, tmp_path: Path) -> None:
    stream = service(broker, tmp_path, stop_timeout=2.0, decoder="tests.kafka.decoders:hanging")
    stream.send([(0, Sent(HANG, b"{}"))])
    worker = Worker(stream)
    worker.await_line("metrics at")
    stream.wait(lambda: total(metrics(worker), "stream_osr_assigned_partitions") == PARTITIONS)
    time.sleep(1)
    begun = time.monotonic()
    assert worker.stop() == exits.HUNG
    assert time.monotonic() - begun < 10


def test_a_service_that_cannot_begin_says_so_once_and_ends(broker: Broker, tmp_path: Path) -> None:
    stream = service(broker, tmp_path, workers=2, output="no-such-topic")
    parent = Worker(stream, "osr")
    assert parent.process.wait(60) == exits.NO_TOPIC
    assert any("topic no-such-topic does not exist" in line for line in parent.lines())
    assert any(f"cannot go on (exit code {exits.NO_TOPIC})" in line for line in parent.lines())
    assert not any(alive(process) for process in processes(parent).values())


def test_a_port_that_is_taken_is_a_clear_error(broker: Broker, tmp_path: Path) -> None:
    port = int(broker.address.rpartition(":")[2])
    worker = Worker(service(broker, tmp_path, metrics_port=port))
    assert worker.process.wait(60) == 1
    (line,) = worker.lines()
    assert f"metrics_port: cannot listen at 127.0.0.1:{port} (another program listens there)" in line


def service(broker: Broker, folder: Path, **settings: object) -> Stream:
    """A stream of four partitions, and a service with a port."""
    return Stream(broker.address, folder, PARTITIONS, small_model(), **{"metrics_port": 0, **settings})


def shared(samples: dict[str, list[tuple[dict[str, str], float]]]) -> bool:
    """Say whether both workers have their share."""
    shares = {labels["worker"]: value for labels, value in samples.get("stream_osr_assigned_partitions", ())}
    return shares == {"osr-0": PARTITIONS / 2, "osr-1": PARTITIONS / 2}


def processes(parent: Worker) -> dict[str, int]:
    """Process ids of the workers by name, the latest of each."""
    started = (re.search(r"(osr-\d) started, process (\d+)", line) for line in parent.lines())
    return {found[1]: int(found[2]) for found in started if found}


def alive(process: int) -> bool:
    """Say whether a process runs; one that is dead and waits to be asked for its exit code does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
