"""Bounds of the service: commands and records beyond them, and micro-batches that fail by some of their records."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from stream_osr import Limits, ModelOptions, OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.errors import InvalidParameter
from stream_osr.stream import culprits as culprits_module
from stream_osr.stream import recognizer_state, state_changes
from stream_osr.stream.culprits import MOST_TRIES
from stream_osr.stream.recognizer_state import RecognizerState
from stream_osr.support import hourly_log
from stream_osr_connectors.commands import Command
from stream_osr_connectors.commands.command import MOST_COMMAND_BYTES
from stream_osr_connectors.commands.parsing import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings, command_topic
from stream_osr_connectors.kafka.command_topic import CommandTopic, ask
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin, step
from stream_osr_connectors.kafka.run.publishing import PendingBatch, account
from stream_osr_connectors.kafka.stats import ServiceStats
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message, PartitionOutput
from stream_osr_connectors.values import DecodeError
from tests import examples
from tests.blobs import fitted_once
from tests.kafka.brokers import Broker
from tests.kafka.publishers import publisher
from tests.kafka.streams import Stream, make_topic, send_commands, small_model
from tests.kafka.test_partition import DECODE, PLACE, advance, records

SIZE = 64
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


READ, READ_WHOLE = (
    JsonDecoder(JsonFields(key="id", label="y", features=["a", "b"], label_type=kind), 1_000_000)
    for kind in ("auto", "int")
)


def partition_of(model: OpenSetRecognizer, **arguments: Any) -> Partition:
    return begin(OpenSetRecognizer.from_trained(model.trained, **grouped(chains=1, **arguments)), Boundary(0))


def classes_by_number(**arguments: Any) -> Partition:
    """A partition whose classes are 0 and 1."""
    model = OpenSetRecognizer(chains=1, seed=5)
    for i in range(40):
        model.learn_one({"a": i % 7, "b": i % 5}, 0)
        model.learn_one({"a": 20 + i % 7, "b": i % 5}, 1)
    model.freeze()
    return partition_of(model, **arguments)


# Commands


def test_a_command_that_cannot_be_read_raises_only_a_decode_error() -> None:
    for value in (*MONSTERS, *JUNK):
        try:
            command = parse_record(value)
        except DecodeError:
            continue
        pytest.fail(f"{value!r:.80} is read as {command}")


def test_commands_that_cannot_be_read_are_left_and_counted(
    broker: Broker, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(broker.address, "labels-" + tmp_path.name, 1)
    stream = Stream(broker.address, tmp_path, 1, small_model(), labels=topic)
    send_commands(stream, *MONSTERS, {"key": "k3", "label": "third"}, {"undo": f"{stream.topic}/0"})
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

    monkeypatch.setattr(command_topic, "parse_record", fail)
    log = CommandTopic(ServiceSettings(**stream.settings), figures)
    log.open()
    log.close()
    assert figures.counts["commands_unreadable", None] == 2 * len(MONSTERS) + 2


def test_what_cannot_be_done_is_left_and_counted_in_its_partition(caplog: Any) -> None:
    model = fitted_once(chains=1, seed=5, max_classes=2)
    partition, _ = advance(partition_of(model, max_classes=2), [records(40)])
    contents = [
        {"subclass": "in/3:99", "label": "a"},
        {"subclass": "in/4:99", "label": "a"},  # another's
        {"key": "k3", "label": "l" * 300},
        {"key": "k" * 5000, "label": "left"},
        {"key": "k3", "label": "third"},
        {"key": "k3", "label": 2**63},
        {"key": "k3", "label": "left"},
    ]
    commands = [parse_record(json.dumps(each).encode()) for each in contents]
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
    partition = partition_of(fitted_once(chains=1, seed=5))

    def fail(*_: Any) -> None:
        raise FloatingPointError("by order of the test")

    monkeypatch.setattr(OpenSetRecognizer, "promote", fail)
    command = parse_record(b'{"subclass": "in/3:4", "label": "a"}')
    _, outcome = step(partition, PLACE, records(40), [command], Boundary(40, 1), DECODE)
    assert (outcome.left, len(outcome.decisions)) == (1, 40)
    assert "by order of the test" in caplog.text


def test_the_command_line_refuses_what_the_service_would() -> None:
    settings = ServiceSettings(model="m", brokers="127.0.0.1:1", input="in", labels="in.labels")
    for label, key in (("l" * 257, "k"), (10**30, "k"), ("left", 10**30), ("left", "k\ud800"), ("left", "k" * 5000)):
        with pytest.raises(InvalidParameter, match="the service could not do that"):
            ask(settings, Command("label", label=label, key=key))


# Records


def two_records(content: dict[str, Any], key: bytes = b"k") -> list[Message]:
    values = orjson.dumps({"a": 1, "b": 1, **content}), b'{"a": 1, "b": 1}'
    return [Message("in", 3, n, 1000, (key, b"k1")[n], value, []) for n, value in enumerate(values)]


def test_beyond_the_bounds_it_is_a_dead_letter() -> None:
    of_numbers, of_texts = classes_by_number(), partition_of(fitted_once(chains=1, seed=5))
    for name, before, content, decode in (
        ("long label", of_texts, {"y": "l" * 900_000}, READ),
        ("large label", of_numbers, {"y": 2**63}, READ),
        ("third class", classes_by_number(max_classes=2), {"y": 7}, READ),
        ("long key", of_numbers, {"id": "k" * 5000}, READ),
        ("long key of three bytes each", of_numbers, {"id": "\N{SNOWMAN}" * 1366}, READ),
        ("large key", of_numbers, {"id": 2**63}, READ),
        ("a number that JSON cannot say as a whole one", of_numbers, {"y": 1e30}, READ_WHOLE),
        ("a text of one", of_numbers, {"y": "9" * 400}, READ_WHOLE),
    ):
        after, outcome = step(before, PLACE, two_records(content), (), Boundary(2), decode)
        assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(0, "VALIDATE")], name
        assert len(PUBLISHER.decisions(PLACE, outcome.decisions)) == 1, name
        assert after.model.signals.data_quality == after.model.counters["refused"] == 1, name


def test_a_key_of_three_thousand_bytes_is_what_it_was() -> None:
    for key in (b"k" * 3000, "\N{SNOWMAN}".encode() * 1365):
        _, outcome = step(classes_by_number(), PLACE, two_records({"y": None}, key), (), Boundary(2), READ)
        assert [decision.key for _, decision, *_ in outcome.decisions] == [key.decode(), "k1"]


def test_the_identity_of_a_model_names_all_that_a_replay_depends_on(tmp_path: Path) -> None:
    model, identities = fitted_once(chains=1, seed=5), set()
    for most, by in ((1000, None), (7, None), (7, "key"), (7, "device")):
        model.limits = Limits(max_classes=most)
        model.save(tmp_path / "m.osr")
        settings = ServiceSettings(model=tmp_path / "m.osr", brokers="b", input="in", by=by)
        identities.add(ModelFile.load(settings).identity)
    assert len(identities) == 4


# Micro-batches


class Failing:
    """Makes micro-batches fail that hold one of some instances, and counts how often one is closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, keys: Iterable[str], labels: Iterable[str] = ()) -> None:
        self.closed = self.attempts = 0
        close, keys, labels = recognizer_state.close, {*keys}, {*labels}

        def close_or_fail(state: RecognizerState, **named: Any) -> Any:
            self.closed += 1
            self.attempts += bool(named.get("attempt"))
            found = sorted(keys & {arrived.key for arrived in state.buffer})
            found += sorted(labels & {evidence.label for evidence in state.evidence})
            if found:
                raise FloatingPointError(f"by order of the test: {found}")
            return close(state, **named)

        for module in (state_changes, recognizer_state):
            monkeypatch.setattr(module, "close", close_or_fail)
        monkeypatch.setattr(hourly_log, "_hourly", {})


@pytest.fixture
def before() -> Partition:
    model = fitted_once(chains=1, decision_delay=20, seed=5, batch_size=1 << 62)
    return close(begin(model, Boundary(0)), records(40))[0]


def close(partition: Partition, batch: list[Message], commands: Any = ()) -> tuple[Partition, PartitionOutput]:
    after, (outcome,) = advance(partition, [batch], commands)
    return after, outcome


@pytest.mark.parametrize(
    "culprits", [["k40"], ["k71"], ["k103"], ["k50", "k51"], ["k40", "k60", "k103"], [f"k{n}" for n in range(60, 65)]]
)
def test_the_others_are_decided_as_if_it_had_not_been_there(
    before: Partition, monkeypatch: pytest.MonkeyPatch, culprits: list[str], caplog: Any
) -> None:
    batch = records(SIZE, 40, 40)
    batch[7] = batch[7]._replace(value=b"{")
    batch[9] = batch[9]._replace(value=b'{"a": 1, "b": 1, "y": "left"}')
    expected, without = close(before, [r for r in batch if (r.key or b"").decode() not in culprits])
    with monkeypatch.context() as patch:
        Failing(patch, culprits)
        after, outcome = close(before, batch)
        again = close(before, batch)[1]
    assert outcome.decisions == without.decisions
    assert after.waiting == expected.waiting
    assert (outcome.taken.labelled, outcome.taken.missing, outcome.taken.values) == (1, 0, without.taken.values)
    reasons = {f"k{r.offset}": (refusal.stage, str(refusal.error)) for r, refusal in outcome.taken.refused}
    assert [*reasons] == sorted({"k47", *culprits}, key=lambda key: int(key[1:])), "in their order"
    assert reasons.pop("k47")[0] == "DECODE"
    for culprit, (stage, error) in reasons.items():
        assert stage == "PROCESS"
        assert f"'{culprit}'" in error, "each has the reason that is its own"
    assert again.decisions == outcome.decisions
    assert after.model.counters["refused"] == after.model.signals.data_quality == len(outcome.taken.refused)
    assert [r.offset for r, _ in again.taken.refused] == [r.offset for r, _ in outcome.taken.refused]
    following = records(SIZE, 200, 200)
    assert close(after, following)[1] == close(expected, following)[1]
    assert "dead letters are the records that make a micro-batch fail: " in caplog.text


def test_the_search_closes_few_micro_batches(before: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two that fail and the one without the culprit. The others are attempts, which cost less."""
    failing = Failing(monkeypatch, ["k71"])
    _, outcome = close(before, records(SIZE, 40, 40))
    assert [r.offset for r, _ in outcome.taken.refused] == [71]
    assert failing.closed - failing.attempts == 3
    assert failing.attempts <= 2 * math.log2(SIZE) + 3


def test_a_cause_is_logged_once_an_hour(
    before: Partition, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the number of repetitions after an hour."""
    Failing(monkeypatch, ["k50", "k60", "k70"])
    now = time.monotonic()
    for seconds in (0.0, 10.0, 20.0, hourly_log.HOUR + 30.0):
        monkeypatch.setattr(hourly_log.time, "monotonic", lambda seconds=seconds: now + seconds)
        close(before, records(SIZE, 40, 40))
    lines = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
    assert [line.partition(" (")[2] for line in lines] == ["", "", *["2 times more since the last line)"] * 2]
    assert [line for line in lines if "could not be closed" in line] == [lines[0], lines[2]]
    assert (
        lines[1]
        == "in/3: the step that ends at 104: dead letters are the records that make a micro-batch fail: 50, 60, 70"
    )


def test_a_label_may_be_what_it_fails_by(before: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = records(SIZE, 40, 40)
    batch[9] = batch[9]._replace(value=b'{"a": 1, "b": 1, "y": "evil"}')
    Failing(monkeypatch, [], ["evil"])
    _, outcome = close(before, batch)
    assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(49, "PROCESS")]
    assert outcome.taken.labelled == 0
    assert len(outcome.decisions) == SIZE - 1


def test_too_many_culprits_take_all_instances_with_them(before: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of tries is bounded. The label is learnt."""
    batch = records(SIZE, 40, 40)
    batch[7] = batch[7]._replace(value=b"{")
    batch[9] = batch[9]._replace(value=b'{"a": 1, "b": 1, "y": "left"}')
    with monkeypatch.context() as patch:
        patch.setattr(culprits_module, "MOST_CHEAP", 64)
        failing = Failing(patch, [f"k{n}" for n in range(40, 104, 2)])
        after, outcome = close(before, batch)
    assert [r.offset for r, _ in outcome.taken.refused] == [n for n in range(40, 104) if n != 49]
    assert {refusal.stage for _, refusal in outcome.taken.refused} == {"DECODE", "PROCESS"}
    assert (outcome.decisions, outcome.taken.labelled, outcome.taken.values) == ([], 1, 2)
    assert failing.closed <= 2 * MOST_TRIES
    following = records(SIZE, 200, 200)
    assert close(after, following)[1] == close(close(before, [batch[9]])[0], following)[1]


def test_a_late_label_that_fails_is_given_up_alone(
    before: Partition, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    batch = records(SIZE, 40, 40)
    Failing(monkeypatch, [], ["evil"])
    _, outcome = close(before, batch, [parse_record(b'{"key": "k3", "label": "evil"}')])
    assert (outcome.taken.refused, len(outcome.decisions)) == ([], SIZE)
    assert "the label of key 'k3' was given up: by order of the test: ['evil']" in caplog.text


def test_a_marker_of_a_missing_value_is_no_number() -> None:
    model = fitted_once(chains=1, seed=5, batch_size=1 << 62, missing=["-999"])
    batch = records(8)
    batch[3] = batch[3]._replace(value=b'{"a": -999, "b": 0.1}')
    _, outcome = close(begin(model, Boundary(0)), batch)
    assert (outcome.taken.missing, len(outcome.decisions)) == (1, 8)


def test_text_columns_are_decided_as_by_the_class() -> None:
    """Text is no number, a number is a category where text is, and null is missing."""
    example = examples.example("intrusion")
    model = OpenSetRecognizer(batch_size=1 << 62, seed=1, chains=1, model=ModelOptions(window=32))
    for x, kind in example.labelled(300, np.random.default_rng(1)):
        model.learn_one(x, kind)
    model.freeze()
    assert set(model.trained.values) == {"protocol_type", "service", "flag"}
    drawn = list(example.stream(160, np.random.default_rng(2)))
    for number, change in ((100, {"src_bytes": "much"}), (101, {"service": 8080}), (102, {"flag": None})):
        drawn[number][0].update(change)
    batch = [Message(*PLACE, n, n, b"%d" % n, json.dumps(x).encode(), []) for n, (x, _) in enumerate(drawn)]
    decode = JsonDecoder(JsonFields(features=list(drawn[0][0])), 10_000)
    _, outcome = step(begin(copy(model), Boundary(0)), PLACE, batch, (), Boundary(len(batch)), decode)
    ((message, refusal),) = outcome.taken.refused
    assert (message.offset, refusal.stage) == (100, "VALIDATE")
    assert "feature 'src_bytes' is 'much'" in str(refusal.error)
    for number, (x, _) in enumerate(drawn):
        if number != 100:
            model.learn_one({**x, "service": str(x["service"])}, key=str(number), t=number / 1000)
    model.close_batch()
    assert [decision for _, decision, *_ in outcome.decisions] == list(model.drain())
    decisions = [each.decision for each in outcome.decisions]
    right = [d.label == drawn[int(d.key)][1] for d in decisions if drawn[int(d.key)][1] in example.KNOWN]
    assert np.mean(right) > 0.95
