"""The count: every record that the input holds is decided or a dead letter, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from tests.kafka.streams import CONSUMER, Stream, records_of

Place = tuple[int, int]
"""Partition and offset of a record of the input."""


def audit(
    stream: Stream,
    *,
    name: str | None = None,
    below: Mapping[int, int] | None = None,
    gone: Iterable[Place] = (),
    again: Iterable[Place] = (),
    left_out: Iterable[Place] = (),
) -> int:
    """Count over the committed records of the outputs, and return how many records of the input there are.

    Parameters
    ----------
    stream
        Whose topics are looked at.
    name
        What the input is called in the ids of decisions; its name if not given.
    below
        Offsets up to which records have to be there by now; the ends of the partitions if not given.
    gone
        Records of which a deletion of an output may have taken what was said of them.
    again
        Records that are decided twice, as a line of the log has said.
    left_out
        Records that are not decided at all, as a line of the log has said.
    """
    expected = _held(stream.address, stream.topic, below)
    first = {number: min((at for part, at in expected if part == number), default=0) for number, _ in expected}
    for place in again:
        expected[place] += 1
    for place in left_out:
        del expected[place]
    found = Counter(place for place, _ in decisions(stream, name)) + _dead(stream)
    for place in gone:
        if found[place] == 0:
            del expected[place]
    if below is not None:
        found = Counter({place: count for place, count in found.items() if place in expected})
    if stream.counted is not None and below is None:
        assert stream.counted == truth(stream, found, gone), "lost and repeated records, by metrics and by topics"
    found = Counter({place: count for place, count in found.items() if place[1] >= first.get(place[0], 0)})
    missing, surplus = expected - found, found - expected
    assert not missing, f"lost: {len(missing)} of {len(expected)}, {_shown(missing)}"
    assert not surplus, f"too often: {len(surplus)} of {len(expected)}, {_shown(surplus)}"
    return len(expected)


def truth(stream: Stream, found: Mapping[Place, int], gone: Iterable[Place] = ()) -> dict[str, float]:
    """Count the records that no output is about, and the further outputs about one record.

    Parameters
    ----------
    stream
        Whose input is looked at, the records included that are deleted by now.
    found
        How many outputs are about each record.
    gone
        Records of which a deletion of an output may have taken what was said of them.
    """
    ends = _bounds(stream.address, stream.topic)[1]
    everything = {(number, offset) for number, end in ends.items() for offset in range(end)} - set(gone)
    lost = sum(found.get(each, 0) == 0 for each in everything)
    return {"lost": lost, "repeated": sum(max(0, found.get(each, 0) - 1) for each in everything)}


def decisions(stream: Stream, name: str | None = None) -> list[tuple[Place, dict[str, Any]]]:
    """Decisions with the place of the record that they are about, those of one partition in their order."""
    beginning = f"{stream.topic if name is None else name}-".encode()
    out = []
    for record in records_of(stream.address, f"{stream.topic}.decisions"):
        rest = dict(record.headers)["ce_id"].removeprefix(beginning)
        value = json.loads(record.value)
        if rest == f"{value['partition']}-{value['offset']}".encode():
            out.append(((value["partition"], value["offset"]), value))
    return out


def _dead(stream: Stream) -> Counter[Place]:
    headers = [dict(record.headers) for record in records_of(stream.address, f"{stream.topic}.dlq")]
    return Counter(
        (int(each["__connect.errors.partition"]), int(each["__connect.errors.offset"])) for each in headers
    )


def _held(address: str, topic: str, below: Mapping[int, int] | None) -> Counter[Place]:
    """The records that the input holds: none of them is deleted or belongs to a transaction."""
    first, ends = _bounds(address, topic)
    if below is not None:
        ends = {number: min(end, below.get(number, 0)) for number, end in ends.items()}
    return Counter((number, offset) for number, end in ends.items() for offset in range(first[number], end))


def _bounds(address: str, topic: str) -> list[dict[int, int]]:
    """The first offsets of the partitions of a topic, and their ends."""
    consumer = KafkaConsumer(bootstrap_servers=address, **CONSUMER)
    try:
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        bounds = consumer.beginning_offsets(places), consumer.end_offsets(places)
        return [{place.partition: offset for place, offset in each.items()} for each in bounds]
    finally:
        consumer.close()


def _shown(places: Counter[Place]) -> str:
    return ", ".join(f"{partition}@{offset}" for partition, offset in sorted(places)[:20])
