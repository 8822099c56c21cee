"""Several input topics, and runs that begin and end at given times."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaAdminClient, KafkaProducer

from stream_osr.errors import InvalidParameter
from stream_osr_connectors.kafka import ServiceSettings, load_settings
from tests.kafka.brokers import Broker
from tests.kafka.faults.auditing import records_of
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, small_model

START = 1_700_000_000_000
"""Timestamp of the first record of each partition; the others follow by a millisecond."""


def iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def further_input(stream: Stream, partitions: int) -> str:
    """Make another input topic."""
    topic = f"more-{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=stream.address)
    configs = {"num_partitions": partitions, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    admin.create_topics({topic: configs}, wait_for_metadata=True)
    admin.close()
    return topic


def places_of(stream: Stream, suffix: str = "decisions") -> Counter[tuple[str, int, int]]:
    """The records that decisions are about."""
    values = [json.loads(each.value) for each in records_of(stream.address, f"{stream.topic}.{suffix}")]
    return Counter((value["topic"], value["partition"], value["offset"]) for value in values)


@pytest.mark.parametrize("workers", [1, 2])
def test_several_inputs_are_decided_each_by_itself(broker: Broker, tmp_path: Path, workers: int) -> None:
    """Two topics of different numbers of partitions, a crash between: each record of each has one decision."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), metrics_port=0, workers=workers)
    other = further_input(stream, 3)
    outputs = {"output": "decisions", "events": "events", "dead_letters": "dlq"}
    stream.settings |= {role: f"{stream.topic}.{suffix}" for role, suffix in outputs.items()}
    stream.settings |= {"input": [stream.topic, other]}
    sent: Counter[str] = Counter()

    def feed(n: int, seed: int) -> None:
        stream.send(instances(n, 2, seed=seed))
        producer = KafkaProducer(bootstrap_servers=stream.address)
        for partition, record in instances(n, 3, seed=seed + 50):
            producer.send(other, key=record.key, value=record.value, partition=partition, timestamp_ms=START)
        producer.flush()
        producer.close()
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


def test_several_inputs_in_settings(tmp_path: Path) -> None:
    settings = ServiceSettings(model="m", brokers="b:1", input="a, b", group="g")
    assert (settings.inputs, settings.output, settings.dead_letters) == (("a", "b"), "g.decisions", "g.dlq")
    file = tmp_path / "service.yaml"
    file.write_text(yaml.safe_dump({"model": "m", "brokers": "b:1", "input": ["a", "b"], "group": "h"}))
    assert load_settings(file).inputs == ("a", "b")
    assert load_settings(file).events == "h.events"
    with pytest.raises(InvalidParameter, match="input and input are the same topic, a"):
        load_settings(model="m", brokers="b:1", input="a,a")


@pytest.mark.parametrize("given", [{"start": "tomorrow"}, {"stop": "latest"}, {"stop": "2026-13-01"}])
def test_times_that_are_none(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=r"(start|stop) is .*, expected .* or a time such as"):
        load_settings(model="m", brokers="b:1", input="a", **given)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bounded_run_ends_by_itself(broker: Broker, tmp_path: Path, workers: int) -> None:
    """From a time up to a time: no record outside is decided, and the last micro-batch is not full."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), workers=workers, max_wait=None)
    stream.send(instances(400, 2))
    begin, end = 50, 165
    stream.settings |= {"start": iso(START + begin), "stop": iso(START + end)}
    worker = Worker(stream)
    assert worker.process.wait(60) == 0, "\n".join(worker.lines()[-30:])
    assert any("the end that the setting stop names is reached" in line for line in worker.lines())
    expected = {(stream.topic, partition, offset): 1 for partition in (0, 1) for offset in range(begin, end)}
    assert places_of(stream) == expected
    stream.settings |= {"stop": "end"}
    worker = Worker(stream)  # it goes on where the one before ended, up to the end
    assert worker.process.wait(60) == 0, "\n".join(worker.lines()[-30:])
    expected = {(stream.topic, partition, offset): 1 for partition in (0, 1) for offset in range(begin, 200)}
    assert places_of(stream) == expected


def test_a_bounded_run_decides_what_is_held_back(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(decision_delay=16), stop="end")
    for turn in (0, 1, 2):
        stream.send(instances(150, 2, seed=turn) if turn else [])  # over nothing it ends at once
        assert Worker(stream).process.wait(60) == 0
        offsets = range(75 * turn)
        assert places_of(stream) == {
            (stream.topic, partition, offset): 1 for partition in (0, 1) for offset in offsets
        }


def test_a_bounded_run_from_the_beginning_has_the_same_bits(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(), stop="end")
    stream.send(instances(150, 2))
    assert Worker(stream).process.wait(60) == 0
    check_exactly_once(stream)
