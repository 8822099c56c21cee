"""A topic behind the interface of sources and sinks."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from kafka import KafkaProducer

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import BadRecord, Record, Sink, Source
from stream_osr_connectors.files.file_run import Sinks
from stream_osr_connectors.kafka import KafkaSink, KafkaSource
from tests.blobs import fitted_once, stream_part
from tests.file_runs import run
from tests.kafka.brokers import Broker
from tests.kafka.streams import make_topic

pytestmark = pytest.mark.needs("broker")


@pytest.fixture
def topic(broker: Broker) -> str:
    return make_topic(broker.address, f"topic-{uuid.uuid4().hex[:8]}", 3)


def test_what_is_written_is_read_and_read_on(broker: Broker, topic: str) -> None:
    with KafkaSink(topic, brokers=broker.address) as sink:
        assert isinstance(sink, Sink)
        sink.truncate(None)
        for number in range(300):
            sink.write({"key": f"k{number}", "a": np.float64(number), "b": float("nan")})
        sink.flush()
        assert sink.position() == {"written": 300}
        sink.truncate({"written": 300})
        with pytest.raises(ConnectorError, match="cannot be truncated"):
            sink.truncate(None)
    producer = KafkaProducer(bootstrap_servers=broker.address)
    producer.send(topic, b"\xff{", partition=1)
    producer.close()
    with KafkaSource(topic, brokers=broker.address, features=["a", "b"]) as source:
        assert isinstance(source, Source)
        records = list(source)
        (bad,) = [record for record in records if isinstance(record, BadRecord)]
        assert bad.raw.encode("utf-8", "surrogateescape") == b"\xff{"
        good = {record.key: record.features for record in records if not isinstance(record, BadRecord)}
        assert good == {f"k{number}": {"a": float(number), "b": None} for number in range(300)}
        source.seek(records[100].position)
        assert Counter(map(named, source)) == Counter(map(named, records[101:]))
    with KafkaSource(topic, brokers=broker.address, features=["a", "b"]) as source:
        source.seek(records[200].position)
        assert len(list(source)) == 100
        for position in ({}, {"offsets": {"7": 0}}, {"offsets": {"0": 10**6}}, {"offsets": {"x": 1}}, {"offset": 3}):
            with pytest.raises(ConnectorError, match="is no position"):
                source.seek(position)


def test_the_loop_of_the_command_line_reads_a_topic(broker: Broker, topic: str, tmp_path: Path) -> None:
    with KafkaSink(topic, brokers=broker.address) as sink:
        for x, _ in stream_part(100):
            sink.write(x)
    with KafkaSource(topic, brokers=broker.address) as source, KafkaSink(topic, brokers=broker.address) as decisions:
        totals = run(fitted_once(batch_size=32, chains=1), source, Sinks(decisions))
    assert (totals["read"], totals["decided"]) == (100, 100)


def test_what_is_not_there_is_named(broker: Broker) -> None:
    with pytest.raises(ConnectorError, match="topic nowhere does not exist at"):
        KafkaSource("nowhere", brokers=broker.address)
    with pytest.raises(ConnectorError, match="cannot write to topic nowhere at"):
        KafkaSink("nowhere", brokers=broker.address, max_block_ms=1000)
    with pytest.raises(ConnectorError, match=r"cannot read topic nowhere at 127\.0\.0\.1:1"):
        KafkaSource("nowhere", brokers="127.0.0.1:1", bootstrap_timeout_ms=500)


def named(record: Record | BadRecord) -> object:
    """Identify a record: partitions take turns, in any order."""
    return record.raw if isinstance(record, BadRecord) else record.key
