"""Bounds at the doors of the service: what is asked of it, and what is read."""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import EventsSummed, Limits, OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.errors import InvalidParameter
from stream_osr_connectors.commands import Action
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.values import DecodeError
from tests.blobs import fitted
from tests.doors.commands import MOST_COMMAND_BYTES, Command, parse_record
from tests.doors.kafka import (
    Boundary,
    Commands,
    CommandTopic,
    JsonDecoder,
    Message,
    ModelFile,
    Overview,
    Partition,
    PendingBatch,
    ServiceStats,
    account,
    ask,
    begin,
    command_topic,
    step,
)
from tests.kafka.brokers import Broker
from tests.kafka.publishers import publisher
from tests.kafka.streams import Stream, Worker, instances, small_model
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


# What is asked


@pytest.mark.parametrize("value", MONSTERS, ids=range(len(MONSTERS)))
def test_no_record_of_the_labels_raises_anything_else(value: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_record(value)


@given(st.one_of(st.binary(max_size=60), st.text(alphabet='{}":/,0123456789abelundosky \ud800٣²', max_size=60)))
def test_whatever_stands_there_is_taken_or_left(value: bytes | str) -> None:
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    for each in (raw, b'{"undo": ' + orjson.dumps(raw.decode(errors="replace")) + b"}"):
        with suppress(DecodeError):
            parse_record(each)


def test_monsters_stop_no_worker_and_are_counted(
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

    worker = Worker(stream)
    stream.send(instances(100, 1))
    stream.wait()
    labels.ask(MONSTERS[0])
    stream.send(instances(100, 1, seed=1, begin=100))
    stream.wait()
    assert worker.stop() == 0


def test_what_cannot_be_done_is_left_and_counted_in_its_partition(caplog: Any) -> None:
    model = fitted(chains=1, seed=5, max_classes=2)
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
    assert caplog.text.count("is left") == 5
    assert "Traceback" not in caplog.text
    assert len(after.model.summary().known) == 2
    figures = ServiceStats()
    settings = ServiceSettings(model="m", brokers="b", input="in")
    account(figures, settings, [PendingBatch(PLACE, partition, after, records(40, 40), outcome)], [], 0.0)
    assert figures.counts["commands_left", PLACE] == 5


def test_a_command_that_fails_by_our_fault_is_left(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    partition = begin(OpenSetRecognizer.from_trained(fitted(chains=1, seed=5).trained, chains=1), Boundary(0))

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


keys = st.one_of(st.text(max_size=9).filter(lambda text: text.isprintable()), st.integers(-(2**63), 2**64 - 1))


places = st.tuples(st.sampled_from(["in", "other"]), st.integers(0, 3))
subclasses = st.tuples(st.integers(0, 10**18 - 1))
said = {name: st.one_of(st.none(), st.just(text)) for name, text in (("by", "ann"), ("reason", "a lamp"))}
runs = st.one_of(st.none(), st.just("77aa"))
labels_given = st.one_of(keys.filter(lambda key: key != ""), st.booleans())


def made(action: Action, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    return st.fixed_dictionaries({**said, **given}).map(lambda fields: Command(action, **fields))


asked_for = st.one_of(
    made("label", label=labels_given, key=keys),
    made("promote", subclasses=subclasses, label=labels_given, partition=places, run=runs),
    made("mute", subclasses=subclasses, partition=places, run=runs),
    made("undo", partition=places),
)


@given(
    st.lists(asked_for, max_size=12),
    st.lists(st.integers(1, 5), min_size=12, max_size=12),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_the_log_keeps_what_was_asked(commands: list[Command], steps: list[int], begin: int, end: int) -> None:
    log, places, at = Commands(), [], 0
    for command, way in zip(commands, steps, strict=False):
        at += way
        places.append(at)
        log.append(at, command)
    expected = [c for place, c in zip(places, commands, strict=True) if begin <= place < end]
    found = list(log.commands(begin, end))
    assert found == expected
    assert [list(map(type, each)) for each in found] == [list(map(type, each)) for each in expected]
    for place in (("in", 0), ("other", 3)):
        last = max((p for p, c in zip(places, commands, strict=True) if c.partition == place), default=-1)
        assert log.latest.get(place, -1) == last


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


@pytest.mark.parametrize("label", [b"1e30", b'"' + b"9" * 400 + b'"'], ids=["number", "text"])
def test_a_whole_number_that_json_cannot_say_is_a_dead_letter(label: bytes) -> None:
    decode = JsonDecoder(JsonFields(label="y", features=["a", "b"], label_type="int"), 10_000)
    batch = labelled(b'{"a": 1, "b": 1, "y": ' + label + b"}")
    after, outcome = step(fresh(), PLACE, batch, (), Boundary(2), decode)
    assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(0, "VALIDATE")]
    assert len(PUBLISHER.decisions(PLACE, outcome.decisions)) == 1
    assert after.model.counters["refused"] == 1


READ = JsonDecoder(JsonFields(key="id", label="y", features=["a", "b"]), 1_000_000)


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ({"y": "l" * 900_000}, {"unknown": "x"}),
        ({"y": 2**63}, {}),
        ({"y": 7}, {"max_classes": 2}),
        ({"id": "k" * 5000}, {}),
        ({"id": "\N{SNOWMAN}" * 1366}, {}),
        ({"id": 2**63}, {}),
    ],
    ids=["long label", "large label", "third class", "long key", "long key of three bytes each", "large key"],
)
def test_beyond_the_bounds_it_is_a_dead_letter(value: dict[str, Any], arguments: dict[str, Any]) -> None:
    if isinstance(value.get("y"), str):
        model = OpenSetRecognizer.from_trained(fitted(chains=1, seed=5).trained, chains=1)
        now = begin(model, Boundary(0))
    else:
        now = fresh(**arguments)
    batch = labelled(orjson.dumps({"a": 1, "b": 1, **value}))
    after, outcome = step(now, PLACE, batch, (), Boundary(2), READ)
    assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(0, "VALIDATE")]
    assert after.model.signals.data_quality == 1


def test_a_key_of_three_thousand_bytes_is_what_it_was() -> None:
    for key in (b"k" * 3000, "\N{SNOWMAN}".encode() * 1365):
        _, outcome = step(fresh(), PLACE, labelled(None, key), (), Boundary(2), READ)
        assert [decision.key for _, decision in outcome.decisions] == [key.decode(), "k1"]


def test_the_identity_of_a_model_names_all_that_a_replay_depends_on(tmp_path: Path) -> None:
    model = fitted(chains=1, seed=5)
    identities = []
    for number, most in enumerate((1000, 7)):
        model.limits = Limits(max_classes=most)
        model.save(tmp_path / f"{number}.osr")
        settings = ServiceSettings(model=tmp_path / f"{number}.osr", brokers="b", input="in")
        identities.append(ModelFile.load(settings))
    same, other = identities
    assert same.identity != other.identity
    shaping = {
        name: value
        for name, value in sorted(same.arguments.items())
        if name not in ("batch_size", "max_wait", "n_jobs", "min_probability")
    }
    expected = hashlib.sha256(f"{same.trained.fingerprint} {shaping}".encode()).hexdigest()[:16]
    assert same.identity == expected


# Events that are summed up


def test_the_events_of_a_sum_are_counted_by_type() -> None:
    before = fresh()
    after, outcome = step(before, PLACE, labelled(None), (), Boundary(2), READ)
    summed = EventsSummed(
        counts={"SubclassEmerged": 12, "SubclassGrew": 3},
        since=4,
        until=9,
        emerged=(4, 5),
        batch=3,
        seq=11,
        model="m",
    )
    outcome.events.append(summed)
    figures = ServiceStats()
    settings = ServiceSettings(model="m", brokers="b", input="in")
    account(
        figures,
        settings,
        [PendingBatch(PLACE, before, after, labelled(None), outcome)],
        PUBLISHER.events(PLACE, outcome),
        0.0,
    )
    overview = Overview(lambda: {"w": figures}, 300.0)
    (family,) = [metric for metric in overview.collect() if metric.name == "stream_osr_events_summed"]
    counts = {sample.labels["type"]: sample.value for sample in family.samples if sample.name.endswith("_total")}
    assert counts == {"SubclassEmerged": 12, "SubclassGrew": 3}
