"""The commands around the service: its topics, and asking things of it while it runs."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from typer.testing import CliRunner, Result

from stream_osr.errors import StreamOSRError
from stream_osr_connectors.cli.app import app
from tests.kafka.brokers import Broker
from tests.kafka.streams import Sent, Stream, Worker, instances, small_model

SPARE = 64 * 1024


def run(*arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """Run a command that has to fail, and return what it says."""
    result = run(*arguments)
    assert isinstance(result.exception, StreamOSRError), result.output
    return str(result.exception)


@pytest.fixture
def names(broker: Broker) -> list[str]:
    """Flags of a service whose topics are not there yet."""
    topic = f"in-{uuid.uuid4().hex[:8]}"
    return ["--brokers", broker.address, "--input", topic, "--labels", f"{topic}.labels", "--group", topic]


def test_topics_are_made_with_settings_that_fit_together(names: list[str]) -> None:
    topic = names[3]
    seen = run("topics", *names)
    assert seen.exit_code == 1
    assert seen.output.count("missing") == 6
    assert "--partitions" in refused("topics", "--create", *names)
    made = run("topics", "--create", "--partitions", 6, "--max-message-bytes", 2_000_000, *names)
    assert made.exit_code == 0, made.output
    assert [line.split()[:6] for line in made.output.splitlines()] == [
        [role, name, "created:", *count, "1"]
        for role, name, count in (
            ("input", topic, ("6", "partitions,")),
            ("output", f"{topic}.decisions", ("6", "partitions,")),
            ("events", f"{topic}.events", ("6", "partitions,")),
            ("dead_letters", f"{topic}.dlq", ("6", "partitions,")),
            ("labels", f"{topic}.labels", ("1", "partition,")),
            ("state_topic", f"{topic}.state", ("6", "partitions,")),
        )
    ]
    assert made.output.count(f"records up to {2_000_000 + SPARE} bytes") == 1
    again = run("topics", "--create", *names)
    assert again.exit_code == 0
    assert "created" not in again.output


def test_topics_of_the_reconciliation_are_compacted_and_of_one_partition(names: list[str], broker: Broker) -> None:
    topic = names[3]
    names += ["--subclasses", f"{topic}.subclasses"]
    made = run("topics", "--create", "--partitions", 2, *names)
    assert made.exit_code == 0, made.output
    lines = {words[0]: words[1:5] for words in map(str.split, made.output.splitlines())}
    assert {
        role: (name, int(count)) for role, (name, _, count, _) in lines.items() if role not in ("input", "labels")
    } == {
        "output": (f"{topic}.decisions", 2),
        "events": (f"{topic}.events", 2),
        "dead_letters": (f"{topic}.dlq", 2),
        "state_topic": (f"{topic}.state", 2),
        "subclasses": (f"{topic}.subclasses", 1),
        "links": (f"{topic}.links", 1),
        "global_events": (f"{topic}.global-events", 1),
    }
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics({f"{topic}.other": {"num_partitions": 2}}, wait_for_metadata=True)
    admin.close()
    seen = run("topics", *names[:-1], f"{topic}.other")
    assert seen.exit_code == 1
    assert "it needs one partition" in seen.output
    assert "the latest of each key has to stay: set cleanup.policy=compact" in seen.output


def test_topics_that_do_not_fit_together_are_told_of(names: list[str], broker: Broker) -> None:
    topic = names[3]
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics(
        {
            topic: {"num_partitions": 2, "configs": {"max.message.bytes": "3000000", "retention.ms": "60000"}},
            f"{topic}.decisions": {"num_partitions": 3, "configs": {"max.message.bytes": "1000"}},
            f"{topic}.dlq": {"num_partitions": 2},
            f"{topic}.labels": {"num_partitions": 2, "configs": {"cleanup.policy": "compact"}},
        },
        wait_for_metadata=True,
    )
    admin.close()
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


def test_a_promotion_takes_effect_with_the_next_batch_and_survives_a_restart(broker: Broker, tmp_path: Path) -> None:
    """The service is killed after the promotion, and replays it."""
    stream = Stream(broker.address, tmp_path, 1, small_model(), snapshot_interval=1000.0, max_wait=None)
    stream.settings["labels"] = f"{stream.topic}.labels"
    config = stream.config()
    assert "created: 1 partition" in run("topics", "--config", config, "--create").output
    stream.send(recent(instances(256, 1)))
    worker = Worker(stream)
    stream.wait()
    subject = next(value["subject"] for value in values(stream, "events") if value["type"] == "SubclassEmerged")
    asked = run("promote", subject, "third", "--config", config)
    assert asked.output == (
        f"promote queued, at 0 of topic {stream.topic}.labels. The log of the service has the result\n"
    )
    stream.wait(lambda: "SubclassPromoted" in types(stream))
    worker.kill()
    worker = Worker(stream)
    stream.send(recent(instances(256, 1, seed=1, begin=256)))
    stream.wait()
    assert run("undo", f"{stream.topic}/0", "--config", config).exit_code == 0
    stream.wait(lambda: "NamingUndone" in types(stream))
    assert worker.stop() == 0
    assert any("is live at 256" in line for line in worker.lines()), "it has replayed"
    labels = [value["label"] for value in values(stream, "decisions")]
    assert len(labels) == 512
    assert "third" in labels[256:288]
    assert "unknown" in labels[:256]
    assert "third" not in labels[:256]
    assert types(stream).count("SubclassPromoted") == 1


def test_what_cannot_be_meant_is_refused(names: list[str], broker: Broker, tmp_path: Path) -> None:
    topic = names[3]
    run("topics", "--create", "--partitions", 2, *names)
    assert "not other" in refused("mute", "other/0:1", *names)
    assert "there is no 2" in refused("undo", f"{topic}/2", *names)
    assert "is not of the form topic/partition:id" in refused("promote", topic, "leak", *names)
    assert "not a whole number" in refused("label", "a7", "leak", "--int-key", *names)
    assert "name the topic of labels" in refused("label", "a7", "leak", *names[:4])
    assert "cannot connect to 127.0.0.1:1" in refused("label", "a7", "leak", *names, "--brokers", "127.0.0.1:1")
    assert "it has 1001 bytes" in refused("mute", f"{topic}/0:1", "--reason", "x" * 1001, *names)
    assert run("label", "a7", "3", *names).exit_code == 0


def test_the_record_says_who_asked_for_what_and_why(names: list[str], broker: Broker) -> None:
    topic = names[3]
    run("topics", "--create", "--partitions", 1, *names)
    assert run("history", *names).output == "no commands yet\n"
    run("mute", f"{topic}/0:1", "--reason", "a lamp", "--by", "ann", *names)
    run("promote", f"{topic}/0:2", "sky", "--by", "", *names)
    first, second = run("history", *names).output.splitlines()
    assert first.startswith("0  20")
    assert first.endswith(f"Z  ann: mute {topic}/0:1 (a lamp)")
    assert second.endswith(f"promote {topic}/0:2 to sky")


def recent(records: list[tuple[int, Sent]]) -> list[tuple[int, Sent]]:
    """Give records the time of today: topics that the command has made forget old ones, as the broker says."""
    now = int(1000 * time.time())
    return [(partition, sent._replace(timestamp=now + n)) for n, (partition, sent) in enumerate(records)]


def values(stream: Stream, suffix: str) -> list[dict[str, Any]]:
    """Contents of all records of an output."""
    return [json.loads(record.value) for partition in stream.read(suffix) for record in partition]


def types(stream: Stream) -> list[str]:
    """Kinds of all events."""
    return [value["type"] for value in values(stream, "events")]
