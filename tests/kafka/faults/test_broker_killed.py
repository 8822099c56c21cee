"""The broker goes away in the middle of a transaction and comes back: the service goes on by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from stream_osr_connectors.kafka import Service, load_settings
from stream_osr_connectors.kafka.clients import transactional_producer
from stream_osr_connectors.kafka.settings import ServiceSettings
from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, check_exactly_once, instances, small_model

TIMES = 3
AWAY_SECONDS = 5.0


class Outages:
    """Kills the broker in a transaction whenever it is armed, and starts it again after some seconds."""

    def __init__(self, broker: Broker, stage: str) -> None:
        self.broker = broker
        self.stage = stage
        self.armed = False
        self.count = 0
        self.back = threading.Event()

    def reached(self, stage: str) -> None:
        """A transaction has got so far."""
        if self.armed and stage == self.stage:
            self.armed = False
            self.count += 1
            self.broker.kill()
            threading.Timer(AWAY_SECONDS, self._return).start()

    def _return(self) -> None:
        self.broker.start()
        self.back.set()

    def producer(self, settings: ServiceSettings) -> KafkaProducer:
        """The service's own producer, watched."""
        producer = transactional_producer(settings)
        begin, offsets, commit = (
            producer.begin_transaction,
            producer.send_offsets_to_transaction,
            producer.commit_transaction,
        )

        def begun() -> None:
            begin()
            self.reached("before the sends")

        def sent(*arguments: Any) -> None:
            producer.flush(5)
            self.reached("after the sends")
            offsets(*arguments)

        def ended() -> None:
            self.reached("after the offsets")
            commit()

        producer.begin_transaction, producer.send_offsets_to_transaction = begun, sent
        producer.commit_transaction = ended
        return producer


@contextmanager
def running(stream: Stream, **makers: Any) -> Iterator[Service]:
    """A service in a thread of this process, stopped cleanly in the end."""
    service = Service(load_settings(stream.config()), **makers)
    told = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            service.run(told.is_set)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield service
    finally:
        told.set()
        thread.join(60)
    assert not thread.is_alive()
    assert not failed, failed


@pytest.mark.parametrize("stage", ["before the sends", "after the sends", "after the offsets"])
def test_outages_inside_a_transaction(broker: Broker, tmp_path: Path, stage: str) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(), transaction_deadline=3.0)
    outages = Outages(broker, stage)
    with running(stream, make_producer=outages.producer) as service:
        for number in range(TIMES):
            stream.send(instances(500, 2, number, begin=500 * number))
            stream.wait()
            outages.back.clear()
            outages.armed = True
            stream.send(instances(500, 2, 100 + number, begin=10_000 + 500 * number))
            assert outages.back.wait(60)
            begun = time.monotonic()
            stream.wait()
            print(f"{stage}: went on {time.monotonic() - begun:.1f} s after the broker was back")
        stream.send(instances(500, 2, 1000, begin=20_000))
        stream.wait()
    assert outages.count == TIMES
    assert service.figures.counts["failed", -1] >= 1
    check_exactly_once(stream)
    names = [thread.name for thread in threading.enumerate()]
    print(f"{len(names)} threads are left: {sorted(set(names))}")
