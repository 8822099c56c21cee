"""A producer upstream has left a transaction open: what lies behind it cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer

from stream_osr_connectors.kafka import Service
from stream_osr_connectors.kafka.log import logger
from stream_osr_connectors.kafka.ops.metrics import Overview
from tests.kafka.faults.trials import Site, running, until
from tests.kafka.streams import Stream, check_exactly_once, instances, small_model

BEHIND = 300


@pytest.mark.fault("a transaction upstream stays open")
def test_a_transaction_upstream_stays_open(site: Site) -> None:
    stream = Stream(site.broker.address, site.folder, 2, small_model())
    stream.send(instances(60, 2))
    own = f"upstream-of-{stream.topic}"
    producer = KafkaProducer(bootstrap_servers=stream.address, transactional_id=own, transaction_timeout_ms=120_000)
    place = f"{stream.topic}/0"
    with pytest.MonkeyPatch.context() as patch, hearing() as lines, running(stream) as service:
        patch.setattr("stream_osr_connectors.kafka.run.blocked.OPEN_SECONDS", 3.0)
        figures = service.stats
        overview = Overview(lambda: {"w": figures}, 60.0)
        stream.wait()
        until(lambda: figures.ready, 20, lambda: str(figures.reasons))

        producer.init_transactions()
        producer.begin_transaction()
        (_, first), *others = instances(1 + BEHIND, 1, 7, begin=1000)
        content = {"key": first.key, "value": first.value, "headers": list(first.headers)}
        sent = producer.send(stream.topic, **content, partition=0, timestamp_ms=1_700_000_000_030)
        assert sent.get(10).offset == len(stream.sent[0])
        stream.sent[0].append(first)
        stream.send(others)
        until(lambda: waiting(service) == (1 + BEHIND, 1 + BEHIND), 10, lambda: str(figures.partitions))
        assert figures.ready, "transactions may take a while"
        until(lambda: not figures.ready, 20, lambda: str(figures.partitions))
        until(lambda: own in overview.ready().message, 10, lambda: overview.ready().message)
        said = overview.ready().message
        for word in (place, f"{1 + BEHIND} records", own, "kafka-transactions.sh", "abort", "--start-offset 30"):
            assert word in said
        stream.send([(1, each) for _, each in instances(40, 1, 8, begin=2000)])
        stream.wait(lambda: stream.committed()[1] == len(stream.sent[1]))  # the other partition goes on
        assert stream.committed()[0] == 30

        producer.commit_transaction()
        stream.wait()
        until(lambda: figures.ready and waiting(service) == (0, 0), 20, lambda: str(figures.reasons))
        about = [line for line in lines if place in line]
        assert 1 <= len([line for line in about if "kafka-transactions.sh" in line]) < 8
        assert any("the open transaction has ended" in line for line in about)
    producer.close()
    check_exactly_once(stream)


def waiting(service: Service) -> tuple[int | None, int | None]:
    """Lag of the first partition, and the records in it behind the transaction."""
    (partition,) = (its for place, its in service.stats.partitions.items() if place.partition == 0)
    return partition.lag, partition.unstable


@contextmanager
def hearing() -> Iterator[list[str]]:
    """The lines of the log of this process."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
