"""Each worker has a transactional id of its own; where another producer uses it, one of the two ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from stream_osr_connectors.kafka import Service, ServiceSettings, load_settings
from tests.doors.kafka import TAKEN, TransactionalProducer, exit_code
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.trials import SHORT, Site, Trial, until
from tests.kafka.streams import Stream, check_exactly_once, instances, small_model


class Run:
    """A service in a thread of this process, and how it ended."""

    def __init__(
        self, stream: Stream, make_producer: Callable[[ServiceSettings], TransactionalProducer], instance: str = "w"
    ) -> None:
        self.stream, self.error = stream, None
        self._told = threading.Event()
        settings = load_settings(stream.config(), ["--instance", instance])
        self.service = Service(settings, make_producer=make_producer)
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    error: Exception | None

    def _work(self) -> None:
        try:
            self.service.run(self._told.is_set)
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        """End it as SIGTERM does."""
        self._told.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


def stream_in(site: Site, name: str, **settings: str) -> Stream:
    """A stream with the settings of the matrix."""
    folder: Path = site.folder / name
    folder.mkdir()
    short = {key: value for key, value in SHORT.items() if key != "metrics_port"}
    return Stream(site.broker.address, folder, 2, small_model(), **{**short, "state": str(folder), **settings})


def feed(stream: Stream, number: int) -> None:
    """Put some more into the input."""
    stream.send(instances(4, 2, seed=number, begin=1000 + 10 * number))


@pytest.mark.beside
@pytest.mark.fault("the group and the instance of two services give the same text when a hyphen joins them")
def test_two_services_of_one_joined_name(site: Site) -> None:
    """Group ``g`` with instance ``a-b``, and group ``g-a`` with instance ``b``."""
    group = f"group-{site.folder.name}-{time.time_ns()}"
    trials = {
        "a-b": Trial(site, name="one", group=group),
        "b": Trial(site, name="two", group=f"{group}-a"),
    }
    for instance, trial in trials.items():
        trial.start(instance)
    for _ in range(10):
        for trial in trials.values():
            trial.feed(20)
        time.sleep(0.3)
    for trial in trials.values():
        trial.settle(20)
        trial.await_ready()
        assert trial.figure("transactions_fenced_total") == 0
        trial.end()
        check_exactly_once(trial.stream)


@pytest.mark.beside
@pytest.mark.fault("another service uses the transactional id of a worker")
def test_two_services_of_one_transactional_id(site: Site) -> None:
    """Of two groups, so that no group tells them; the younger one ends and the older one goes on."""
    name = f"shared-{time.time_ns()}"

    class Shared(TransactionalProducer):
        name = staticmethod(lambda settings: shared)

    shared = name
    older_stream, younger_stream = stream_in(site, "older"), stream_in(site, "younger")
    older = Run(older_stream, Shared)
    for number in range(20):
        feed(older_stream, number)
        time.sleep(0.4)
    older_stream.wait(seconds=20)
    younger = Run(younger_stream, Shared)
    begun, number = time.monotonic(), 100

    def over() -> bool:
        nonlocal number
        number += 1
        for stream in (older_stream, younger_stream):
            feed(stream, number)
        time.sleep(0.3)
        return not (older.thread.is_alive() and younger.thread.is_alive())

    try:
        until(over, 60, lambda: "both go on")
        print(f"one of them ended after {time.monotonic() - begun:.1f} s")
        assert not younger.thread.is_alive(), older.error
        assert younger.error is not None
        assert exit_code(younger.error) == TAKEN
        assert "another producer uses the transactional id" in str(younger.error)
        feed(older_stream, 999)
        older_stream.wait(seconds=30)
    finally:
        older.stop()
        younger.stop()
    assert older.error is None
    audit(older_stream)
    check_exactly_once(older_stream)
    audit(younger_stream, below=dict(enumerate(younger_stream.committed())))


@pytest.mark.beside
@pytest.mark.fault("a program that is no service uses the transactional id of a worker for a while")
def test_a_foreign_producer(site: Site) -> None:
    """The worker says which id it is, and goes on."""
    trial = Trial(site)
    trial.begin()
    group, address = trial.stream.settings["group"], site.broker.address
    said = f"another producer uses the transactional id {group}-:w"
    ends = time.monotonic() + 60
    fenced = 0

    def goes_on() -> bool:
        return time.monotonic() < ends and not (fenced > 1 and trial.lines(said))

    while goes_on():
        foreign = KafkaProducer(bootstrap_servers=address, transactional_id=f"{group}-:w", max_block_ms=5000)
        try:
            foreign.init_transactions()
            while goes_on():
                trial.feed(4)
                time.sleep(0.4)
                foreign.begin_transaction()
                foreign.send(f"{trial.stream.topic}.decisions", b"foreign", partition=0)
                foreign.abort_transaction()
        except KafkaError:
            fenced += 1
        finally:
            foreign._sender.force_close()
            foreign.close(timeout=1)
    assert fenced > 1
    line = trial.await_line(said)
    assert f"the group {group} has no other member w" in line
    trial.feed(20)
    trial.goes_on()


@pytest.mark.beside
@pytest.mark.fault("a worker that had another `instance` has left a transaction open")
def test_a_transaction_of_another_instance(site: Site) -> None:
    """Its id was another one, so that nobody ends it before its time: the new worker waits for that."""
    trial = Trial(site)
    trial.feed(100)
    stream, group = trial.stream, trial.stream.settings["group"]
    left = KafkaProducer(
        bootstrap_servers=stream.address,
        transactional_id=f"{group}-:before",
        transaction_timeout_ms=10_000,
        max_block_ms=5000,
    )
    left.init_transactions()
    left.begin_transaction()
    for number in range(2):
        left.send(f"{stream.topic}.decisions", b"left open", partition=number)
    left.flush(10)
    places = {TopicPartition(stream.topic, number): OffsetAndMetadata(20, "left open", -1) for number in range(2)}
    left.send_offsets_to_transaction(places, group)
    left._sender.force_close()
    trial.start()
    trial.await_not_ready("they left a transaction open")
    trial.feed(20)
    trial.settle()
    trial.await_ready()
    assert trial.figure("transactions_fenced_total") == 0
    trial.end()
    audit(stream)
    check_exactly_once(stream)
