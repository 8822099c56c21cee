"""What a topic does not take: the message that it refuses is found, and replaced; all others are published."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest

from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.wire.timestamps import TimestampLimits
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import configure
from tests.kafka.faults.test_broker_killed import running
from tests.kafka.streams import Stream, check_exactly_once, instances, small_model

LONG = (("long", b"x" * 60_000),)


def test_a_timestamp_that_is_refused_after_all_is_left_out(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks of the brokers and of a worker may differ."""
    monkeypatch.setattr(TimestampLimits, "between", lambda self, now_ms: (-math.inf, math.inf))
    stream = Stream(broker.address, tmp_path, 2, small_model())
    configure(stream.address, stream.topic, {"message.timestamp.after.max.ms": str(10**12)})
    late = int(1000 * time.time()) + 10**8
    feed = instances(300, 2)
    for place in (50, 51, 201):
        feed[place] = (feed[place][0], feed[place][1]._replace(timestamp=late))
    stream.send(feed)
    with running(stream) as service:
        stream.wait()
    check_exactly_once(stream)
    told = [
        (record.key, record.timestamp)
        for partition in stream.read("decisions")
        for record in partition
        if dict(record.headers).get("stream-osr.timestamp") == b"%d" % late
    ]
    assert sorted(told) == [(b"k201", -1), (b"k50", -1), (b"k51", -1)]
    assert sum(count for (name, _), count in service.stats.counts.items() if name == "timestamps_replaced") == 3
    assert service.stats.counts["transactions_retried", None] >= 1
    assert sum(count for (name, _), count in service.stats.counts.items() if name == "unaccounted_records") == 0


def test_a_decision_that_is_too_large_is_a_dead_letter(broker: Broker, tmp_path: Path) -> None:
    """Somebody has lowered the limit of the topic while the service runs."""
    stream = Stream(broker.address, tmp_path, 2, small_model())
    stream.send(instances(100, 2))
    with running(stream) as service:
        stream.wait()
        configure(stream.address, f"{stream.topic}.decisions", {"max.message.bytes": "50000"})
        feed = instances(100, 2, 1, begin=100)
        for place in (10, 41, 42):
            feed[place] = (feed[place][0], feed[place][1]._replace(headers=LONG))
        stream.send(feed)
        stream.wait()
    (dead,) = [[record for partition in stream.read("dlq") for record in partition]]
    assert sorted(record.key for record in dead) == [b"k110", b"k141", b"k142"]
    for record in dead:
        told = dict(record.headers)
        number, offset = int(told["__connect.errors.partition"]), int(told["__connect.errors.offset"])
        sent = stream.sent[number][offset]
        assert (record.key, record.value) == (sent.key, sent.value)
        assert told["__connect.errors.stage"] == b"PUBLISH"
        assert "TooLarge" in told["__connect.errors.exception.message"].decode()
    for number, decisions in enumerate(stream.read("decisions")):
        offsets = [json.loads(record.value)["offset"] for record in decisions]
        letters = [int(dict(r.headers)["__connect.errors.offset"]) for r in dead if r.partition == number]
        assert offsets == sorted(offsets)
        assert sorted([*offsets, *letters]) == list(range(len(stream.sent[number])))
    counts = service.stats.counts
    assert counts["dead_letters", Place(stream.topic, 0)] + counts["dead_letters", Place(stream.topic, 1)] == 3
    assert sum(counts[name, Place(stream.topic, number)] for name in ("known", "unknown") for number in (0, 1)) == 197
    assert (
        counts["unaccounted_records", Place(stream.topic, 0)]
        == counts["unaccounted_records", Place(stream.topic, 1)]
        == 0
    )
