"""The commands around the service: its topics, and commands to it while it runs."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from stream_osr_connectors.commands.parsing import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import begin, step
from stream_osr_connectors.kafka.wire.boundaries import Boundary, Progress
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message
from tests.kafka.brokers import Broker
from tests.kafka.commands import done, refused, run
from tests.kafka.streams import Stream, Worker, instances, make_topic, records_of, send_commands, small_model

pytestmark = pytest.mark.needs("broker")

SPARE = 64 * 1024


@pytest.fixture
def names(broker: Broker) -> list[str]:
    """Flags of a service whose topics are not there yet."""
    topic = f"in-{uuid.uuid4().hex[:8]}"
    return ["--brokers", broker.address, "--input", topic, "--labels", f"{topic}.labels", "--group", topic]


def test_topics_are_made_with_settings_that_fit_together(names: list[str]) -> None:
    seen = run("topics", *names)
    assert seen.exit_code == 1
    assert seen.output.count("missing") == 6
    assert "--partitions" in refused("topics", "--create", *names)
    made = done("topics", "--create", "--partitions", 6, "--max-message-bytes", 2_000_000, *names)
    suffixes = {"output": ".decisions", "events": ".events", "dead_letters": ".dlq", "state_topic": ".state"}
    of_six = ("created:", "6", "partitions,", "1")
    assert {words[0]: tuple(words[1:6]) for words in map(str.split, made.splitlines())} == {
        "input": (names[3], *of_six),
        "labels": (f"{names[3]}.labels", "created:", "1", "partition,", "1"),
        **{role: (names[3] + suffix, *of_six) for role, suffix in suffixes.items()},
    }
    assert made.count(f"records up to {2_000_000 + SPARE} bytes") == 1
    assert "created" not in done("topics", "--create", *names)


def test_topics_of_the_reconciliation_are_compacted_and_of_one_partition(names: list[str], broker: Broker) -> None:
    topic = names[3]
    names += ["--subclasses", f"{topic}.subclasses"]
    made = done("topics", "--create", "--partitions", 2, *names)
    lines = {words[0]: words[1:5] for words in map(str.split, made.splitlines())}
    for role, suffix in (("subclasses", "subclasses"), ("links", "links"), ("global_events", "global-events")):
        assert lines[role] == [f"{topic}.{suffix}", "created:", "1", "partition,"]
    make_topic(broker.address, f"{topic}.other", 2)
    seen = run("topics", *names[:-1], f"{topic}.other")
    assert seen.exit_code == 1
    assert "it needs one partition" in seen.output
    assert "the latest of each key has to stay: set cleanup.policy=compact" in seen.output


def test_topics_that_do_not_fit_together_are_listed(names: list[str], broker: Broker) -> None:
    topic = names[3]
    make_topic(broker.address, topic, 2, **{"max.message.bytes": "3000000", "retention.ms": "60000"})
    make_topic(broker.address, f"{topic}.decisions", 3, **{"max.message.bytes": "1000"})
    make_topic(broker.address, f"{topic}.dlq", 2)
    make_topic(broker.address, f"{topic}.labels", 2, **{"cleanup.policy": "compact"})
    seen = run("topics", *names)
    assert seen.exit_code == 1
    for problem in (
        "have 262144 bytes: set max.message.bytes to that or more",
        "keeps records for 60 s only",
        "more partitions than the input (2)",
        f"have {3_000_000 + SPARE} bytes: set max.message.bytes to that or more",
        "it needs one partition",
        "a replay needs all records",
        "it does not exist: --create creates it",
    ):
        assert problem in seen.output, seen.output


def test_commands_are_refused_or_are_in_the_record_with_who_and_why(names: list[str]) -> None:
    topic = names[3]
    done("topics", "--create", "--partitions", 2, *names)
    assert "not other" in refused("mute", "other/0:1", *names)
    assert "there is no 2" in refused("undo", f"{topic}/2", *names)
    assert "is not of the form topic/partition:id" in refused("promote", topic, "leak", *names)
    assert "not a whole number" in refused("label", "a7", "leak", "--int-key", *names)
    assert "name the topic of labels" in refused("label", "a7", "leak", *names[:4])
    assert "cannot connect to 127.0.0.1:1" in refused("label", "a7", "leak", *names, "--brokers", "127.0.0.1:1")
    assert "it has 1001 bytes" in refused("mute", f"{topic}/0:1", "--reason", "x" * 1001, *names)
    assert done("history", *names) == "no commands yet\n"
    done("label", "a7", "3", *names)
    done("mute", f"{topic}/0:1", "--reason", "a lamp", "--by", "ann", *names)
    done("promote", f"{topic}/0:2", "sky", "--by", "", *names)
    _, second, third = done("history", *names).splitlines()
    assert second.startswith("1  20")
    assert second.endswith(f"Z  ann: mute {topic}/0:1 (a lamp)")
    assert third.endswith(f"promote {topic}/0:2 to sky")


def progress(stream: Stream, number: int) -> Progress:
    """What was committed last."""
    consumer = KafkaConsumer(bootstrap_servers=stream.address, group_id=stream.settings["group"])
    committed = consumer.committed(TopicPartition(stream.topic, number), metadata=True, timeout_ms=15_000)
    consumer.close()
    return Progress.parse(committed.metadata)


def test_commands_take_effect_once_and_are_replayed_where_they_were(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker.address, "labels-" + tmp_path.name, 1)
    settings = {"labels": topic, "snapshot_interval": 1000.0}
    stream = Stream(broker.address, tmp_path, 2, small_model(), **settings)
    config, worker = stream.config(), Worker(stream)
    stream.send(instances(400, 2))
    stream.wait()
    first, second = (
        next(value["subject"] for value in events if value["type"] == "SubclassEmerged")
        for events in stream.values("events")
    )
    queued = f"promote queued, at 0 of topic {topic}. The log of the service has the result\n"
    assert done("promote", first, "third", "--config", config) == queued
    send_commands(stream, b"{")
    stream.wait(lambda: "SubclassPromoted" in stream.event_types(0))  # the partition is idle
    stream.send(instances(100, 2, 1, begin=400))
    stream.wait()
    send_commands(stream, {"key": "k401", "label": "fourth"}, {"subclass": second, "mute": True})
    stream.wait(lambda: "SubclassMuted" in stream.event_types(1))
    worker.kill()
    stream.send(instances(200, 2, 2, begin=500))
    done("undo", f"{stream.topic}/1", "--config", config)
    worker = Worker(stream)
    stream.wait()
    stream.wait(lambda: "NamingUndone" in stream.event_types(1))
    worker.kill()  # no snapshot has been written: everything is replayed from the beginning
    worker = Worker(stream)
    stream.send(instances(200, 2, 3, begin=700))
    stream.wait()
    assert worker.stop() == 0
    assert any("is live at" in line for line in worker.lines()), "it did replay"
    commands = [record.value for record in records_of(broker.address, topic)]
    model = ModelFile.load(ServiceSettings(**stream.settings))
    decode = JsonDecoder(JsonFields(features=["a", "b"]), 10_000)
    for number, values in enumerate(stream.values("decisions")):
        _, _, history, size, _ = progress(stream, number)
        assert history.fresh, "all boundaries are there"
        assert history.last.labels == len(commands)
        state = begin(model.recognizer(Place(stream.topic, number)), history.base, size=size)
        expected, types = [], []
        for end in history.after(history.base):
            last = state.history.last
            records = [
                Message(stream.topic, number, o, 1_700_000_000_000 + o, sent.key, sent.value, [])
                for o, sent in enumerate(stream.sent[number])
                if last.offset <= o < end.offset
            ]
            new = [parse_record(value) for value in commands[last.labels : end.labels] if value != b"{"]
            state, outcome = step(state, (stream.topic, number), records, new, Boundary(*end), decode)
            expected += [json.loads(json.dumps(decision.as_dict())) for _, decision, *_ in outcome.decisions]
            types += [type(event).__name__ for event in outcome.events]
        assert [{k: v for k, v in value.items() if k in expected[0]} for value in values] == expected
        assert stream.event_types(number) == types
        if number == 0:
            labels = [value["label"] for value in values]
            assert "unknown" in labels[:200]
            assert "third" not in labels[:200]
            assert "third" in labels[200:232]
            assert types.count("SubclassPromoted") == 1
