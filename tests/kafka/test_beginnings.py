"""A partition whose beginning cannot be committed at once begins all the same, and is counted once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import Service, ServiceSettings
from stream_osr_connectors.kafka.client.interface import ClientError, ErrorKind
from stream_osr_connectors.kafka.client.producer import TransactionalProducer
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.stats import LOST
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import delete_records
from tests.kafka.streams import Stream, check_exactly_once, instances, small_model


class Flaky(TransactionalProducer):
    """A producer whose first commits fail."""

    left = 0

    def commit(self) -> None:
        if type(self).left:
            type(self).left -= 1
            raise ClientError(ErrorKind.AGAIN, "the commit fails")
        super().commit()


@contextmanager
def running(stream: Stream, failures: int) -> Iterator[Service]:
    """Run a service in this process, whose first commits fail so many times."""
    Flaky.left = failures
    service = Service(ServiceSettings(**stream.settings, instance="w"), make_producer=Flaky)
    stop = threading.Event()
    thread = threading.Thread(target=service.run, args=(stop.is_set,))
    thread.start()
    try:
        yield service
    finally:
        stop.set()
        thread.join(40)
    assert not thread.is_alive()


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_new_partition_begins_though_its_first_commits_fail(broker: Broker, tmp_path: Path, start: str) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(), start=start, transaction_deadline=4.0)
    if start == "earliest":
        stream.send(instances(100, 2))
    with running(stream, failures=3) as service:
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
    with running(stream, failures=0) as service:
        stream.wait()
        emerging = service.stats.partitions[Place(stream.topic, 0)].menu.emerging
        assert emerging > 0
    stream.send(instances(100, 1, seed=1, begin=300))
    delete_records(broker.address, stream.topic, 0, 350)
    with running(stream, failures=3) as service:
        stream.wait()
        counts = service.stats.counts
        assert counts[f"{LOST}retention", Place(stream.topic, 0)] == 50
        assert service.stats.partitions[Place(stream.topic, 0)].menu.emerging >= emerging
    offsets = [int(dict(each.headers)["ce_id"].rsplit(b"-", 1)[1]) for each in stream.read("decisions")[0]]
    assert offsets == [*range(300), *range(350, 400)]
