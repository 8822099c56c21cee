"""The benchmark of the service: workers finish, and what is printed is what was measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from benchmarks.kafka import __main__ as benchmark
from benchmarks.kafka import alone
from tests.data import need_data
from tests.kafka.brokers import Broker
from tests.kafka.streams import CONSUMER, settled_ends

RECORDS = 24_000
"""Three polls."""


def test_throughput_and_memory_are_measured(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    need_data("LETTER")
    topics = []
    fill = alone.fill

    def noted(address: str, n: int) -> str:
        topics.append(fill(address, n))
        return topics[-1]

    monkeypatch.setattr(alone, "fill", noted)
    monkeypatch.setattr(benchmark, "fill", noted, raising=False)
    written = tmp_path / "figures.json"
    benchmark.main(records=RECORDS, repeats=1, memory=RECORDS, brokers=broker.address, json_file=written)
    found = json.loads(written.read_text())
    first, *others = found["speed"]
    assert first["worker"] == "pass-through"
    assert {each["worker"] for each in others} == set(found["known_subclasses"])
    printed = capsys.readouterr().out
    for each in found["speed"]:
        assert each["ratios"] == [each["ratio"]] == [pytest.approx(each["rate"] / first["rate"])]
        assert f"{each['rate']:.0f}" in printed
        assert each["client"] + each["recognizer"] + each["rest"] == pytest.approx(each["processor"], rel=0.01)
        assert each["client"] > each["rest"] > 0
        assert f"{each['rest_of_client']:.2f}" in printed
    assert first["recognizer"] < 1 < min(each["recognizer"] for each in others)
    done = [moment[0] for moment in found["memory"]["moments"]]
    assert sorted(set(done)) == done
    assert done[-1] == RECORDS
    # both workers, and the pass-through, have published something for each record, and of the same size
    values = published(broker, f"{topics[0]}.decisions")
    assert len(values) == 3 * RECORDS
    (passed, times), *made = Counter(values).most_common()
    assert times == RECORDS
    sizes = [len(value) for value, _ in made]
    assert min(sizes) <= len(passed) <= max(sizes)


def published(broker: Broker, topic: str) -> list[bytes]:
    """Read the committed values of a topic."""
    consumer = KafkaConsumer(bootstrap_servers=broker.address, max_poll_records=5000, **CONSUMER)
    places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    ends = settled_ends(consumer, places, broker.address)
    values = []
    while any(consumer.position(place) < ends[place] for place in places):
        values += [record.value for records in consumer.poll(timeout_ms=200).values() for record in records]
    consumer.close()
    return values
