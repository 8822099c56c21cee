"""Bounds at the doors of the service: what is asked of it, and what is read."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import orjson
import pytest

from stream_osr import Limits, OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.errors import InvalidParameter
from stream_osr_connectors.commands import Command
from stream_osr_connectors.commands.command import MOST_COMMAND_BYTES, parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings, command_topic
from stream_osr_connectors.kafka.command_topic import Commands, CommandTopic, ask
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin, step
from stream_osr_connectors.kafka.run.publishing import PendingBatch, account
from stream_osr_connectors.kafka.stats import ServiceStats
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message
from stream_osr_connectors.values import DecodeError
from tests.blobs import fitted_once
from tests.kafka.brokers import Broker
from tests.kafka.publishers import publisher
from tests.kafka.streams import Stream, small_model
from tests.kafka.test_labels import Labels
from tests.kafka.test_partition import DECODE, PLACE, advance, records

PUBLISHER = publisher(10_000_000)
MONSTERS = [
    b'{"undo": "s/' + b"9" * 5000 + b'"}',
    b'{"subclass": "s/' + b"9" * 5000 + b':1", "label": "a"}',
    b'{"subclass": "s/3:' + b"9" * 5000 + b'", "mute": true}',
    b'{"undo": "s/' + b"9" * 19 + b'"}',
    b'{"key": ' + b"9" * 5000 + b', "label": "a"}',
    b'{"key": "a", "label": ' + b"9" * 5000 + b"}",
    b'{"key": "\\ud800", "label": "a"}',
    b'{"key": "a", "label": "\\ud800"}',
    b'{"key": "a", "label": 1e400}',
    b"[" * 100_000,
    b'{"key": ' + b"[" * 1000 + b"]" * 1000 + b', "label": "a"}',
    b'{"key": "a", "label": "' + b"l" * MOST_COMMAND_BYTES + b'"}',
    b"\xff\xfe{}",
]
JUNK = [
    *(None, b"", b"{", b"[]", b"{}", b'{"key": "a"}', b'{"label": "a"}', b'{"subclass": "in/3:1"}'),
    *(b'{"undo": true}', b'{"undo": "in/3:4"}', b'{"subclass": "in/3", "label": "a"}'),
    *(b'{"subclass": "in:3", "label": "a"}', b'{"subclass": 3, "label": "a"}'),
    b'{"subclass": "in/3:1", "label": "a", "run": 7}',
    *(b'{"subclass": "/3:1", "label": "a"}', b'{"key": [1], "label": "a"}', b'{"key": "a", "label": {}}'),
]


# What is asked


@pytest.mark.parametrize("value", [*MONSTERS, *JUNK], ids=range(len(MONSTERS) + len(JUNK)))
def test_no_record_of_the_labels_raises_anything_else(value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        parse_record(value)


def test_monsters_are_left_and_counted(
    broker: Broker, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels_topic = "labels-" + tmp_path.name
    stream = Stream(broker.address, tmp_path, 1, small_model(), labels=labels_topic)
    labels = Labels(stream)
    labels.ask(*MONSTERS, {"key": "k3", "label": "third"}, {"undo": f"{stream.topic}/0"})
    figures = ServiceStats()
    with caplog.at_level(logging.WARNING, "stream_osr.kafka"):
        log = CommandTopic(ServiceSettings(**stream.settings), figures)
        log.open()
    try:
        assert log.end == len(MONSTERS) + 2
        assert [command.action for command in log.commands(0, log.end)] == ["label", "undo"]
        assert [command.action for command in log.commands(len(MONSTERS) + 1, log.end)] == ["undo"]
        assert log.asks((stream.topic, 0), 0)
        assert not log.asks((stream.topic, 0), log.end)
        assert not log.asks((stream.topic, 1), 0)
    finally:
        log.close()
    assert figures.counts["commands_unreadable", None] == len(MONSTERS)
    assert caplog.text.count("is left") == len(MONSTERS)

    def fail(value: bytes) -> Command:
        raise RecursionError("by order of the test")

    with monkeypatch.context() as patch:
        patch.setattr(command_topic, "parse_record", fail)
        topic = CommandTopic(ServiceSettings(**stream.settings), figures)
        topic.open()
        topic.close()
    assert figures.counts["commands_unreadable", None] == 2 * len(MONSTERS) + 2


def test_what_cannot_be_done_is_left_and_counted_in_its_partition(caplog: Any) -> None:
    model = fitted_once(chains=1, seed=5, max_classes=2)
    partition = begin(
        OpenSetRecognizer.from_trained(model.trained, chains=1, limits=Limits(max_classes=2)), Boundary(0)
    )
    partition, _ = advance(partition, [records(40)])
    asked = [
        {"subclass": "in/3:99", "label": "a"},
        {"subclass": "in/4:99", "label": "a"},  # another's
        {"key": "k3", "label": "l" * 300},
        {"key": "k" * 5000, "label": "left"},
        {"key": "k3", "label": "third"},
        {"key": "k3", "label": 2**63},
        {"key": "k3", "label": "left"},
    ]
    commands = [parse_record(json.dumps(each).encode()) for each in asked]
    after, outcome = step(partition, PLACE, records(40, 40), commands, Boundary(80, 7), DECODE)
    assert outcome.left == 5
    assert caplog.text.count("was not applied") == 5
    assert "Traceback" not in caplog.text
    assert len(after.model.summary().known) == 2
    figures = ServiceStats()
    settings = ServiceSettings(model="m", brokers="b", input="in")
    account(figures, settings, [PendingBatch(PLACE, partition, after, records(40, 40), outcome)], [], 0.0)
    assert figures.counts["commands_left", PLACE] == 5


def test_a_command_that_fails_by_our_fault_is_left(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    partition = begin(OpenSetRecognizer.from_trained(fitted_once(chains=1, seed=5).trained, chains=1), Boundary(0))

    def fail(*_: Any) -> None:
        raise FloatingPointError("by order of the test")

    monkeypatch.setattr(OpenSetRecognizer, "promote", fail)
    command = parse_record(b'{"subclass": "in/3:4", "label": "a"}')
    _, outcome = step(partition, PLACE, records(40), [command], Boundary(40, 1), DECODE)
    assert (outcome.left, len(outcome.decisions)) == (1, 40)
    assert "by order of the test" in caplog.text


@pytest.mark.parametrize(
    ("label", "key"),
    [("l" * 257, "k"), (10**30, "k"), ("left", 10**30), ("left", "k\ud800"), ("left", "k" * 5000)],
    ids=["label", "large label", "large key", "half a pair", "key"],
)
def test_the_command_line_refuses_what_the_service_would(label: Any, key: Any) -> None:
    settings = ServiceSettings(model="m", brokers="127.0.0.1:1", input="in", labels="in.labels")
    with pytest.raises(InvalidParameter, match="the service could not do that"):
        ask(settings, Command("label", label=label, key=key))


@pytest.mark.parametrize(("begin", "end"), [(0, 40), (3, 9), (4, 9), (9, 9), (10, 40)])
def test_the_log_keeps_what_was_asked(begin: int, end: int) -> None:
    of, other = ("in", 0), ("other", 3)
    asked = {
        1: Command("label", label=True, key="k"),
        3: Command("label", label="left", key=2**64 - 1, by="ann"),
        4: Command("promote", subclasses=(7,), label=3, partition=of, run="77aa", reason="a lamp"),
        8: Command("mute", subclasses=(10**18 - 1,), partition=of),
        9: Command("undo", partition=other),
    }
    log = Commands()
    for place, command in asked.items():
        log.append(place, command)
    expected = [command for place, command in asked.items() if begin <= place < end]
    found = list(log.commands(begin, end))
    assert found == expected
    assert [list(map(type, each)) for each in found] == [list(map(type, each)) for each in expected]
    assert log.latest == {of: 8, other: 9}


def test_a_million_late_labels_take_less_than_a_hundred_bytes_each() -> None:
    log = Commands()
    command = parse_record(b'{"key": "k1234567", "label": "leak"}')
    for place in range(10_000):
        log.append(place, command)
    size = sum(part.__sizeof__() for part in (log._places, log._ends, log._written))
    assert size / 10_000 < 100
    assert log.commands(9_998, 20_000) == [command] * 2


# What is read


def labelled(value: Any, key: bytes = b"k") -> list[Message]:
    content = orjson.dumps({"a": 1, "b": 1, "y": value}) if not isinstance(value, bytes) else value
    return [
        Message("in", 3, 0, 1000, key, content, []),
        Message("in", 3, 1, 1000, b"k1", b'{"a": 1, "b": 1}', []),
    ]


def fresh(**arguments: Any) -> Partition:
    numbers = OpenSetRecognizer(chains=1, seed=5)
    for i in range(40):
        numbers.learn_one({"a": i % 7, "b": i % 5}, 0)
        numbers.learn_one({"a": 20 + i % 7, "b": i % 5}, 1)
    numbers.freeze()
    return begin(OpenSetRecognizer.from_trained(numbers.trained, **grouped(chains=1, **arguments)), Boundary(0))


READ, READ_WHOLE = (
    JsonDecoder(JsonFields(key="id", label="y", features=["a", "b"], label_type=kind), 1_000_000)
    for kind in ("auto", "int")
)


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ({"y": "l" * 900_000}, {"unknown": "x"}),
        ({"y": 2**63}, {}),
        ({"y": 7}, {"max_classes": 2}),
        ({"id": "k" * 5000}, {}),
        ({"id": "\N{SNOWMAN}" * 1366}, {}),
        ({"id": 2**63}, {}),
        ({"y": 1e30}, {"decode": READ_WHOLE}),
        ({"y": "9" * 400}, {"decode": READ_WHOLE}),
    ],
    ids=[
        *("long label", "large label", "third class", "long key", "long key of three bytes each", "large key"),
        *("a number that JSON cannot say as a whole one", "a text of one"),
    ],
)
def test_beyond_the_bounds_it_is_a_dead_letter(value: dict[str, Any], arguments: dict[str, Any]) -> None:
    decode = arguments.pop("decode", None)
    if isinstance(value.get("y"), str) and decode is None:
        now = begin(OpenSetRecognizer.from_trained(fitted_once(chains=1, seed=5).trained, chains=1), Boundary(0))
    else:
        now = fresh(**arguments)
    batch = labelled(orjson.dumps({"a": 1, "b": 1, **value}))
    after, outcome = step(now, PLACE, batch, (), Boundary(2), decode or READ)
    assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(0, "VALIDATE")]
    assert len(PUBLISHER.decisions(PLACE, outcome.decisions)) == 1
    assert after.model.signals.data_quality == after.model.counters["refused"] == 1


def test_a_key_of_three_thousand_bytes_is_what_it_was() -> None:
    for key in (b"k" * 3000, "\N{SNOWMAN}".encode() * 1365):
        _, outcome = step(fresh(), PLACE, labelled(None, key), (), Boundary(2), READ)
        assert [decision.key for _, decision in outcome.decisions] == [key.decode(), "k1"]


def test_the_identity_of_a_model_names_all_that_a_replay_depends_on(tmp_path: Path) -> None:
    model = fitted_once(chains=1, seed=5)
    identities = []
    for number, most in enumerate((1000, 7)):
        model.limits = Limits(max_classes=most)
        model.save(tmp_path / f"{number}.osr")
        settings = ServiceSettings(model=tmp_path / f"{number}.osr", brokers="b", input="in")
        identities.append(ModelFile.load(settings).identity)
    assert identities[0] != identities[1]
