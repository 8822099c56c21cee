"""The broker goes away in the middle of a transaction and comes back: the service goes on by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import Offset
from stream_osr_connectors.kafka.client.producer import TransactionalProducer
from stream_osr_connectors.kafka.places import Place
from tests.kafka.brokers import Broker
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.trials import Site, running
from tests.kafka.streams import Stream, check_exactly_once, instances, small_model

STAGES = ("before the sends", "after the sends", "after the offsets")
AWAY_SECONDS = 5.0
DEADLINE = 3.0


class Outages:
    """Kills the broker when a service at each stage has got there in a transaction, and starts it again."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.armed: set[str] = set()
        self.count = 0
        self.back = threading.Event()
        self._all = threading.Barrier(len(STAGES), action=self._kill)

    def reached(self, stage: str) -> None:
        """A transaction has got so far; it waits for the others, for as long as it may."""
        if stage in self.armed:
            self.armed.discard(stage)
            self._all.wait(DEADLINE)

    def _kill(self) -> None:
        self.count += 1
        self.broker.kill()
        threading.Timer(AWAY_SECONDS, self._return).start()

    def _return(self) -> None:
        self.broker.start()
        self.back.set()

    def producer(self, settings: ServiceSettings, stage: str) -> TransactionalProducer:
        """The service's own producer, watched."""
        outages = self

        class Watched(TransactionalProducer):
            def begin(self) -> None:
                super().begin()
                self._reached("before the sends")

            def send_offsets(self, offsets: Mapping[Place, Offset], membership: Any) -> None:
                self._reached("after the sends")
                super().send_offsets(offsets, membership)

            def commit(self) -> None:
                self._reached("after the offsets")
                super().commit()

            def _reached(self, here: str) -> None:
                if here == stage:
                    outages.reached(stage)

        return Watched(settings)


@pytest.mark.alone
@pytest.mark.fault("the broker is killed in the middle of a transaction")
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
def test_outages_inside_a_transaction(site: Site, times: int) -> None:
    """At each of its three places, by three services at once."""
    outages = Outages(site.broker)
    streams = {}
    for stage in STAGES:
        (folder := site.folder / stage.replace(" ", "-")).mkdir()
        streams[stage] = Stream(site.broker.address, folder, 2, small_model(), transaction_deadline=DEADLINE)

    def all_send(seed: int) -> None:
        for stream in streams.values():
            stream.send(instances(300, 2, seed, begin=1000 * seed))

    def all_wait() -> None:
        for stream in streams.values():
            stream.wait()

    with ExitStack() as stack:
        services = [
            stack.enter_context(
                running(stream, make_producer=lambda settings, stage=stage: outages.producer(settings, stage))
            )
            for stage, stream in streams.items()
        ]
        for number in range(times):
            all_send(2 * number)
            all_wait()
            outages.back.clear()
            outages.armed = set(STAGES)
            all_send(2 * number + 1)
            assert outages.back.wait(60)
            begun = time.monotonic()
            all_wait()
            print(f"went on {time.monotonic() - begun:.1f} s after the broker was back")
        all_send(2 * times)
        all_wait()
    assert outages.count == times
    for service, stream in zip(services, streams.values(), strict=True):
        assert sum(service.stats.counts[f"transactions_{what}", None] for what in ("failed", "retried")) >= 1
        audit(stream)
        check_exactly_once(stream)
