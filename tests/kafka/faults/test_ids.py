"""Each worker has a transactional id of its own; where another producer uses it, one of the two ends."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from stream_osr_connectors.kafka import exits
from stream_osr_connectors.kafka.client.producer import TransactionalProducer
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.trials import ServiceThread, Site, Trial, until
from tests.kafka.streams import check_exactly_once


@pytest.mark.fault("`group-instance` is the same text for two services")
def test_two_services_of_one_joined_name(site: Site) -> None:
    """Group ``g`` with instance ``a-b``, and group ``g-a`` with instance ``b``."""
    group = f"group-{site.folder.name}-{time.time_ns()}"
    trials = {"a-b": Trial(site, name="one", group=group), "b": Trial(site, name="two", group=f"{group}-a")}
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
        trial.end_exactly_once()


@pytest.mark.fault("another service uses the transactional id of a worker")
def test_two_services_of_one_transactional_id(site: Site) -> None:
    """Of two groups, so that no group separates them; the younger one ends and the older one goes on."""
    name = f"shared-{time.time_ns()}"

    class Shared(TransactionalProducer):
        name = staticmethod(lambda settings: shared)

    shared = name
    trials = [Trial(site, name=name) for name in ("older", "younger")]
    older_stream, younger_stream = (trial.stream for trial in trials)
    older = ServiceThread(older_stream, make_producer=Shared)
    for _ in range(20):
        trials[0].feed(4)
        time.sleep(0.4)
    older_stream.wait(seconds=20)
    younger = ServiceThread(younger_stream, make_producer=Shared)
    begun = time.monotonic()

    def over() -> bool:
        for trial in trials:
            trial.feed(4)
        time.sleep(0.3)
        return not (older.thread.is_alive() and younger.thread.is_alive())

    try:
        until(over, 60, lambda: "both go on")
        print(f"one of them ended after {time.monotonic() - begun:.1f} s")
        assert not younger.thread.is_alive(), older.error
        assert exits.exit_code(younger.error) == exits.TAKEN
        assert "another producer uses the transactional id" in str(younger.error)
        trials[0].feed(4)
        older_stream.wait(seconds=30)
    finally:
        older.stop()
        younger.stop()
    assert older.error is None
    audit(older_stream)
    check_exactly_once(older_stream)
    audit(younger_stream, below=dict(enumerate(younger_stream.committed())))


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
                foreign.send(f"{trial.stream.topic}.decisions", b"foreign", partition=0).get(timeout=5)
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


@pytest.mark.fault("a worker that had another `instance` has left a transaction open")
def test_a_transaction_of_another_instance(site: Site) -> None:
    """Its id was another one, so that it stays open for its time: the new worker waits for that."""
    trial = Trial(site)
    trial.feed(100)
    stream, group = trial.stream, trial.stream.settings["group"]
    limits = {"transaction_timeout_ms": 10_000, "max_block_ms": 5000}
    left = KafkaProducer(bootstrap_servers=stream.address, transactional_id=f"{group}-:before", **limits)
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
    trial.decide(20)
    trial.await_ready()
    assert trial.figure("transactions_fenced_total") == 0
    trial.end()
    audit(stream)
    check_exactly_once(stream)
