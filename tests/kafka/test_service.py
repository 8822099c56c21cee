"""The service against a real broker: what goes in comes out decided, once and in order, over starts and stops."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, small_model


def test_decides_once_in_order_and_goes_on_after_a_stop(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model())
    stream.send(instances(700, 2))
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    assert len(list((tmp_path / "state").rglob("*.osr"))) == 2, "a clean stop leaves a snapshot of each partition"
    stream.send(instances(300, 2, seed=1, begin=700))
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    assert not any("replay" in line for line in worker.lines())
    assert min(check_exactly_once(stream)) > 10


def test_messages_carry_what_readers_need(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 1, small_model())
    feed, headers = instances(200, 1), (("none", None), ("empty", b""), ("none", b"1"))
    feed[100] = (0, feed[100][1]._replace(headers=headers))
    stream.send(feed)
    worker = Worker(stream)
    stream.wait()
    worker.stop()
    (decisions,) = stream.read("decisions")
    first = decisions[0]
    value = json.loads(first.value)
    assert (first.key, first.timestamp, value["key"], value["t"]) == (b"k0", 1_700_000_000_000, "k0", 1_700_000_000.0)
    assert tuple(decisions[100].headers[-3:]) == headers, "what is null stays null"
    headers = dict(first.headers)
    assert headers["ce_type"] == b"stream-osr.decision.v1"
    assert headers["ce_time"] == b"2023-11-14T22:13:20.000Z"
    (events,) = stream.read("events")
    assert json.loads(events[0].value)["type"] == "SubclassEmerged"
    assert len({dict(record.headers)["ce_id"] for record in [*decisions, *events]}) == len(decisions) + len(events)
