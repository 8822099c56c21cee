"""Workers come and go under load."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, small_model


def test_a_third_worker_joins_and_one_leaves(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 6, small_model(), commit_batches=2, snapshot_interval=2.0)
    stream.send(instances(600, 6))
    workers = [Worker(stream, name) for name in ("one", "two")]
    ended = threading.Event()
    feeder = threading.Thread(target=feed, args=(stream, ended))
    feeder.start()  # the first worker would be through with it before the second has its partitions
    try:
        for worker in workers:
            worker.await_line("transaction committed")
        workers.append(Worker(stream, "three"))
        workers[2].await_line("messages")  # it has got partitions, and publishes
        assert workers[0].stop() == 0
        before = len(workers[1].lines()) + len(workers[2].lines())
        stream.wait(lambda: len(workers[1].lines()) + len(workers[2].lines()) > before + 200)
    finally:
        ended.set()
        feeder.join()
    stream.wait(seconds=90)
    assert [worker.stop() for worker in workers[1:]] == [0, 0]
    took_over = [line for worker in workers for line in worker.lines() if "another worker's" in line]
    assert took_over, "no partition has moved"
    check_exactly_once(stream)


def feed(stream: Stream, ended: threading.Event) -> None:
    """Send instances all the time."""
    number = 1
    while not ended.wait(0.2):
        stream.send(instances(300, 6, number, begin=1000 * number))
        number += 1
