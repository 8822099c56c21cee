"""Several input topics, runs that begin and end at given times, and a gap whose commits fail at first."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import Service
from stream_osr_connectors.kafka.client.interface import ClientError, ErrorKind
from stream_osr_connectors.kafka.client.producer import PlainProducer, TransactionalProducer
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.stats import LOST
from stream_osr_connectors.kafka.wire.messages import Outgoing
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import delete_records
from tests.kafka.faults.trials import running
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, make_topic, records_of, small_model

pytestmark = pytest.mark.needs("broker")

START = 1_700_000_000_000
"""Timestamp of the first record of each partition; the others follow by a millisecond."""


def iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def places_of(stream: Stream, suffix: str = "decisions") -> Counter[tuple[str, int, int]]:
    """The records that decisions are about."""
    values = [json.loads(each.value) for each in records_of(stream.address, f"{stream.topic}.{suffix}")]
    return Counter((value["topic"], value["partition"], value["offset"]) for value in values)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_several_inputs_are_decided_each_by_itself(broker: Broker, tmp_path: Path, workers: int) -> None:
    """Two topics of different numbers of partitions, a crash between: each record of each has one decision."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), metrics_port=0, workers=workers)
    other = make_topic(stream.address, f"more-{uuid.uuid4().hex[:8]}", 3, **{"retention.ms": "-1"})
    outputs = {"output": "decisions", "events": "events", "dead_letters": "dlq"}
    stream.settings |= {role: f"{stream.topic}.{suffix}" for role, suffix in outputs.items()}
    stream.settings |= {"input": [stream.topic, other]}
    sent: Counter[str] = Counter()

    def feed(n: int, seed: int) -> None:
        stream.send(instances(n, 2, seed=seed))
        records = instances(n, 3, seed=seed + 50)
        producer = PlainProducer.at(stream.address, 60)
        producer.send([Outgoing(other, at, record.key, record.value, [], START) for at, record in records])
        producer.close(1)
        sent.update({stream.topic: n, other: n})

    def decided() -> bool:
        return sum(places_of(stream).values()) >= sent.total()

    worker = Worker(stream)
    feed(210, 1)
    stream.wait(decided)
    stream.wait(lambda: total(metrics(worker), "stream_osr_decisions_total", topic=other) == 210)
    stream.wait(lambda: total(metrics(worker), "stream_osr_assigned_partitions") == 5)
    worker.kill()
    worker = Worker(stream)
    feed(210, 2)
    stream.wait(decided)
    assert worker.stop() == 0, "\n".join(worker.lines()[-20:])
    found = places_of(stream)
    assert set(found.values()) == {1}
    assert Counter(topic for topic, _, _ in found) == sent
    ids = [dict(each.headers)["ce_id"] for each in records_of(stream.address, f"{stream.topic}.decisions")]
    assert len(ids) == len({*ids}), "ids of the two inputs differ"
    subclasses = {(each.key or b"").decode() for each in records_of(stream.address, f"{stream.topic}.events")}
    assert {each.partition("/")[0] for each in subclasses} == {stream.topic, other}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bounded_run_ends_by_itself(broker: Broker, tmp_path: Path, workers: int) -> None:
    """From a time up to a time: no record outside is decided, and the last micro-batch is not full."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), workers=workers, max_wait=None)
    stream.send(instances(400, 2))
    begin, end = 50, 165
    stream.settings |= {"start": iso(START + begin), "stop": iso(START + end)}
    lines = run_to_the_end(stream, range(begin, end))
    assert any("the end that the setting stop names is reached" in line for line in lines)
    stream.settings |= {"stop": "end"}
    run_to_the_end(stream, range(begin, 200))  # it goes on where the one before ended


@pytest.mark.parametrize("delay", [0, 16])
def test_a_bounded_run_from_the_beginning(broker: Broker, tmp_path: Path, delay: int) -> None:
    """An empty input ends the service at once. Delayed decisions are made, with the same bits."""
    stream = Stream(broker.address, tmp_path, 2, small_model(decision_delay=delay), stop="end")
    for turn in (0, 1, 2):
        stream.send(instances(150, 2, seed=turn) if turn else [])
        run_to_the_end(stream, range(75 * turn))
        if turn == 1 and not delay:
            check_exactly_once(stream)


def run_to_the_end(stream: Stream, offsets: range) -> list[str]:
    """Run a worker until it ends by itself; it has decided these offsets of both partitions. Returns its log."""
    worker = Worker(stream)
    assert worker.process.wait(60) == 0, "\n".join(worker.lines()[-30:])
    assert places_of(stream) == {(stream.topic, number, offset): 1 for number in (0, 1) for offset in offsets}
    return worker.lines()


class Flaky(TransactionalProducer):
    """A producer whose first commits fail."""

    left = 0

    def commit(self) -> None:
        if type(self).left:
            type(self).left -= 1
            raise ClientError(ErrorKind.AGAIN, "the commit fails")
        super().commit()


@contextmanager
def running_with(failures: int, stream: Stream) -> Iterator[Service]:
    """Run a service in this process, whose first commits fail so many times."""
    Flaky.left = failures
    with running(stream, make_producer=Flaky) as service:
        yield service


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_new_partition_begins_though_its_first_commits_fail(broker: Broker, tmp_path: Path, start: str) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(), start=start, transaction_deadline=4.0)
    if start == "earliest":
        stream.send(instances(100, 2))
    with running_with(3, stream) as service:
        stream.wait(lambda: service.stats.ready and Flaky.left == 0)
        if start == "latest":
            stream.send(instances(100, 2))
        stream.wait()
        assert not any(its.suspended for its in service.stats.partitions.values())
        assert not any(count for (name, _), count in service.stats.counts.items() if name.startswith(LOST))
    check_exactly_once(stream)


def test_a_gap_is_counted_once_though_its_commits_fail(broker: Broker, tmp_path: Path) -> None:
    """What has emerged stays, too: the state in the snapshot outlives the failures."""
    stream = Stream(broker.address, tmp_path, 1, small_model(), transaction_deadline=4.0)
    stream.send(instances(300, 1))
    with running_with(0, stream) as service:
        stream.wait()
        emerging = service.stats.partitions[Place(stream.topic, 0)].menu.emerging
        assert emerging > 0
    stream.send(instances(100, 1, seed=1, begin=300))
    delete_records(broker.address, stream.topic, 0, 350)
    with running_with(3, stream) as service:
        stream.wait()
        counts = service.stats.counts
        assert counts[f"{LOST}retention", Place(stream.topic, 0)] == 50
        assert service.stats.partitions[Place(stream.topic, 0)].menu.emerging >= emerging
    assert [value["offset"] for value in stream.values("decisions")[0]] == [*range(300), *range(350, 400)]
