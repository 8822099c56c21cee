"""Global identities of the subclasses of all partitions: published once, and the same over kills and starts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from typer.testing import CliRunner

from stream_osr import TrainedModel
from stream_osr.discovery.reconcile import Local, ReconciledSubclasses, reconcile
from stream_osr.errors import InvalidParameter
from stream_osr_connectors.cli.app import app
from stream_osr_connectors.commands import Command
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.command_topic import named as named_by
from stream_osr_connectors.kafka.wire.subclasses import parse_summary
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import delete_records, make_topics
from tests.kafka.scraping import metrics, status, total
from tests.kafka.streams import (
    CONSUMER,
    Stream,
    Worker,
    check_exactly_once,
    instances,
    records_of,
    small_model,
    until,
)

pytestmark = pytest.mark.needs("broker")

PARTITIONS = 4


def reconciled_stream(broker: Broker, folder: Path) -> Stream:
    stream = Stream(broker.address, folder, PARTITIONS, small_model(), snapshot_interval=3.0)
    topic = stream.topic
    stream.settings["subclasses"] = f"{topic}.subclasses"
    deletable = {"cleanup.policy": "compact,delete", "retention.ms": "-1"}  # a broker deletes nothing else on demand
    configs = {"subclasses": deletable, "links": {"cleanup.policy": "compact"}, "global-events": {}}
    make_topics(broker.address, 1, {f"{topic}.{suffix}": config for suffix, config in configs.items()})
    return stream


def read(stream: Stream, suffix: str) -> list[Any]:
    """All committed records of a topic of one partition."""
    return records_of(stream.address, f"{stream.topic}.{suffix}")


def committed(stream: Stream) -> int:
    group = f"{stream.settings['group']}-reconcile"
    consumer = KafkaConsumer(bootstrap_servers=stream.address, group_id=group, **CONSUMER)
    try:
        return consumer.committed(TopicPartition(f"{stream.topic}.subclasses", 0), timeout_ms=15_000) or 0
    finally:
        consumer.close()


def wait_until_done(stream: Stream) -> None:
    last = read(stream, "subclasses")[-1].offset
    until(lambda: committed(stream) > last, 180, lambda: f"committed {committed(stream)} of {last + 1}")


def finish(stream: Stream, *workers: Worker) -> None:
    """Wait until everything is decided and reconciled, and stop the workers."""
    stream.wait(seconds=180)
    wait_until_done(stream)
    assert [worker.stop(120) for worker in workers] == [0] * len(workers)


def wait_for_transaction(worker: Worker, seconds: float) -> None:
    """Wait until one is open, or none comes: everything may have been said."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not worker.in_transaction():
        time.sleep(0.001)


def expected(stream: Stream, trained: TrainedModel) -> tuple[ReconciledSubclasses, list[int], dict[int, int]]:
    """Reconcile the summaries in this process, without a stop."""
    state, runs, emerged, merged = ReconciledSubclasses(), dict[str, str](), list[int](), dict[int, int]()
    for received in read(stream, "subclasses"):
        summary = parse_summary(received, runs, trained)
        assert summary is not None
        runs[summary.local.place] = summary.local.run
        state, changes = reconcile(state, summary, trained.known.prior, trained.known.location)
        emerged.extend(changes.emerged)
        merged.update(changes.merged)
    return state, emerged, merged


def stored(stream: Stream) -> dict[Local, int]:
    """The links as a reader of the topic sees them."""
    out: dict[Local, int] = {}
    for record in read(stream, "links"):
        value = json.loads(record.value)
        if "subclass" in value:
            place, _, number = value["subclass"].rpartition(":")
            out[Local(place, value["run"], int(number))] = value["global"]
            assert record.key == value["subclass"].encode()
    return out


def test_one_class_in_four_partitions_emerges_once_over_kills(broker: Broker, tmp_path: Path) -> None:
    stream = reconciled_stream(broker, tmp_path)
    worker, reconciler, inside = Worker(stream), Worker(stream, "r", "reconcile"), []
    for part in range(6):
        stream.send(instances(400, PARTITIONS, seed=part, begin=400 * part))
        if part in (1, 2, 4):
            wait_for_transaction(reconciler, 30)
            reconciler.kill()
            inside.append(reconciler.in_transaction())
            reconciler = Worker(stream, "r", "reconcile")
        if part == 3:
            worker.kill()
            worker = Worker(stream)
    finish(stream, worker, reconciler)
    print(f"{len(inside)} kills, {sum(inside)} of them inside a transaction")
    check_exactly_once(stream)
    state, emerged, merged = expected(stream, stream.model.trained)
    events = [json.loads(record.value) for record in read(stream, "global-events")]
    assert [event["global"] for event in events if event["type"] == "SubclassEmerged"] == emerged
    assert {event["global"] for event in events if event["type"] == "SubclassMerged"} == merged.keys()
    assert stored(stream) == state.links
    assert {local.place for local in state.links} == {f"{stream.topic}/{n}" for n in range(PARTITIONS)}
    assert len(state.sums) == 1, "one new class in four partitions is one global subclass"
    assert events[0]["explanation"]["mean"]["b"] == pytest.approx(14, abs=2)


def test_links_are_taken_at_their_word(broker: Broker, tmp_path: Path) -> None:
    """What compaction may do: the earlier summaries are gone, the links are not."""
    stream = reconciled_stream(broker, tmp_path)
    stream.send(instances(1200, PARTITIONS))
    finish(stream, Worker(stream), Worker(stream, "r", "reconcile"))
    before, events = stored(stream), read(stream, "global-events")
    reconciler = Worker(stream, "r", "reconcile")
    delete_records(broker.address, f"{stream.topic}.subclasses", 0, committed(stream))
    worker = Worker(stream)
    stream.send(instances(1200, PARTITIONS, seed=1, begin=1200))
    finish(stream, worker, reconciler)
    assert before.items() <= stored(stream).items()
    assert len(read(stream, "global-events")) == len(events)


def test_a_global_id_names_the_subclass_of_every_partition(broker: Broker, tmp_path: Path) -> None:
    stream = reconciled_stream(broker, tmp_path)
    stream.settings |= {"labels": f"{stream.topic}.labels", "metrics_port": 0}
    make_topics(broker.address, 1, {stream.settings["labels"]: {}})
    worker, reconciler = Worker(stream), Worker(stream, "r", "reconcile")
    stream.send(instances(400, PARTITIONS))
    finish(stream)
    stream.wait(lambda: total(metrics(reconciler), "stream_osr_lag_records") == 0)
    figures, summaries = metrics(reconciler), read(stream, "subclasses")
    of = {"worker": "r", "topic": f"{stream.topic}.subclasses", "partition": "0"}
    assert total(figures, "stream_osr_records_total", **of) == len(summaries)
    assert total(figures, "stream_osr_committed_offset", **of) == summaries[-1].offset + 1
    assert total(figures, "stream_osr_events_total", **of) == len(read(stream, "global-events"))
    assert total(figures, "stream_osr_transaction_seconds_count", worker="r") > 0
    assert status(reconciler, "/healthz") == status(reconciler, "/readyz") == 200
    there = {f"{local.place}:{local.id}" for local, key in stored(stream).items() if key == 0}
    assert {name.rpartition(":")[0] for name in there} == {f"{stream.topic}/{n}" for n in range(PARTITIONS)}

    def invoke(*command: str) -> Any:
        return CliRunner().invoke(app, [*command, "--config", str(stream.config())])

    queued = invoke("promote", "global:0", "third")
    assert f"promote queued, of {len(there)} subclasses in {PARTITIONS} partitions" in queued.output, queued.exception
    stream.wait(lambda: named(stream) == there)
    stream.wait(lambda: {r.key.decode() for r in read(stream, "subclasses") if r.value is None} == there)
    stream.send(instances(200, PARTITIONS, seed=1, begin=400))
    finish(stream, worker, reconciler)
    for partition in stream.read("decisions"):
        assert "third" in {json.loads(record.value)["label"] for record in partition}
    for reason, *command in (
        ("global:0 has no emerging subclass any more", "promote", "global:0", "third"),
        ("global:0 has no emerging subclass any more", "mute", "global:0"),
        ("no subclass has had the global id 99", "mute", "global:99"),
        ("topic none does not exist", "mute", "global:0", "--links", "none"),
    ):
        assert reason in str(invoke(*command).exception)


def test_a_global_id_means_what_it_was_merged_into_and_what_is_alive(broker: Broker, tmp_path: Path) -> None:
    stream = reconciled_stream(broker, tmp_path)
    topic, producer = stream.topic, KafkaProducer(bootstrap_servers=broker.address)

    def say(suffix: str, key: str, value: dict[str, Any] | None) -> None:
        content = None if value is None else json.dumps(value).encode()
        producer.send(f"{topic}.{suffix}", key=key.encode(), value=content)

    own = {"0:3": 0, "1:3": 1, "2:5": 1, "3:1": 2, "0:4": 0}
    for name, key in {**{f"{topic}/{name}": key for name, key in own.items()}, "other/0:1": 1}.items():
        say("subclasses", name, {"run": "77aa"})
        say("links", name, {"subclass": name, "run": "77aa", "global": key})
    say("links", "global:1", {"global": 1, "into": 0})
    say("subclasses", f"{topic}/0:4", None)
    say("subclasses", f"{topic}/2:6", {"run": "88bb"})
    producer.flush()
    producer.close()
    settings = ServiceSettings(**stream.settings)
    mute = Command("mute")

    def meant(name: str) -> list[tuple[str, str | None]]:
        return [(*each.names, each.run) for each in named_by(settings, name, mute)]

    both = [(f"{topic}/0:3", "77aa"), (f"{topic}/1:3", "77aa")]
    assert meant("global:1") == meant("global:0") == both
    assert meant("global:2") == [(f"{topic}/3:1", "77aa")]
    assert meant(f"{topic}/2:6") == [(f"{topic}/2:6", None)]
    with pytest.raises(InvalidParameter, match="setting subclasses"):
        named_by(settings.model_copy(update={"subclasses": None}), "global:0", mute)


def named(stream: Stream) -> set[str]:
    """Subclasses of which an event says that they were promoted."""
    events = [json.loads(record.value) for partition in stream.read("events") for record in partition]
    return {event["subject"] for event in events if event["type"] == "SubclassPromoted"}


def test_junk_and_other_models_are_left_with_a_line_each(broker: Broker, tmp_path: Path) -> None:
    stream = reconciled_stream(broker, tmp_path)
    links = [b"", b"{", b"[]", b'{"subclass": 5}', b'{"global": "' + b"9" * 5000 + b'", "into": 1}', b"\xff"]
    own = f"{stream.topic}/0:1".encode()
    summaries = [(b"no place", b"{}"), (own, b'{"model": "another"}'), (own, b'["nothing"]')]
    producer = KafkaProducer(bootstrap_servers=broker.address)
    for number, value in enumerate(links):
        producer.send(f"{stream.topic}.links", key=b"junk%d" % number, value=value)
    for key, value in summaries:
        producer.send(f"{stream.topic}.subclasses", key=key, value=value)
    producer.close()
    reconciler = Worker(stream, "r", "reconcile")
    wait_until_done(stream)
    assert [record.key for record in read(stream, "links")] == [b"junk%d" % number for number in range(len(links))]
    worker = Worker(stream)
    stream.send(instances(400, PARTITIONS))
    finish(stream, worker, reconciler)
    for topic, junk in (("links", links), ("subclasses", summaries)):
        left = [line for line in reconciler.lines() if f"{stream.topic}.{topic} at " in line and "is left" in line]
        assert len(left) == len(junk)
    assert len(read(stream, "global-events")) > 0


def test_without_a_topic_it_says_what_to_set(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 1, small_model())
    reconciler = Worker(stream, "r", "reconcile")
    assert reconciler.process.wait(120) == 1
    assert any("set subclasses" in line for line in reconciler.lines())
