"""Messages of anything, and commands of anything, through a partition: counted, published as JSON, and kept."""

from __future__ import annotations

import functools
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr_connectors.commands.parsing import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.command_topic import Commands
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.partition import begin, step
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message, Outgoing, RawName, Refusal
from stream_osr_connectors.values import DecodeError
from tests import hostile
from tests.kafka.publishers import publisher
from tests.kafka.test_bounds import MONSTERS
from tests.tiers import examples

PLACE = Place("in", 3)
PUBLISHER = publisher(1_000_000)
LARGEST = 10_000
DECODERS = [
    JsonDecoder(JsonFields(features=["a", "b"]), LARGEST),
    JsonDecoder(JsonFields("id", "t", "y"), LARGEST),
    *(JsonDecoder(JsonFields("id", "t", "y", ["a", "b"], kind), LARGEST) for kind in ("auto", "int", "str")),
]

encoded = hostile.texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
keys = st.one_of(st.none(), st.binary(max_size=5), encoded, st.sampled_from([b"k" * 4096, b"k" * 4097]))
own_names = ["ce_id", "ce_time", "content-type", "__connect.errors.offset", "stream-osr.value"]
header_names = st.one_of(
    st.sampled_from(["", *own_names, "x" * 70_000]),
    st.text(max_size=3).filter(lambda text: text.isprintable()),
    st.just(RawName("gr\udcf6")),
)
headers = st.lists(st.tuples(header_names, st.none() | st.binary(max_size=5)), max_size=3)
times = st.sampled_from([-1, 0, 1, 1_700_000_000_000, 253_402_300_799_999, 253_402_300_800_000, 2**62, 2**63 - 1])
anything = st.tuples(times, keys, st.none() | hostile.documents, headers)
usual = st.tuples(times, st.just(b"k"), hostile.documents, st.just([("trace", b"1")]))
messages = st.lists(hostile.mostly(usual, anything), max_size=16)

places = st.sampled_from(["in/3:" + "9" * 18, "in/3:0", "in/03:1", "in/4:1", "in/3:\u0663", "a/b/3:1", "in/3"])
subclasses = st.integers(2, 12).map("in/3:{}".format) | places
ids, labels = hostile.new_ids, hostile.new_labels
optional = {"run": hostile.texts, "mute": st.booleans(), "key": hostile.texts, "label": labels, "undo": places}
wishes = st.one_of(
    st.fixed_dictionaries({"key": ids, "label": labels}),
    st.fixed_dictionaries({"subclass": subclasses, "label": labels}),
    st.fixed_dictionaries({"subclass": subclasses, "mute": st.just(True)}),
    st.sampled_from([{action: "in/3"} for action in ("undo", "accept_frame", "reject_frame")]),
    st.fixed_dictionaries({}, optional=optional),
    st.dictionaries(st.sampled_from([*optional, "subclass"]), hostile.json_values),
).filter(lambda command: command.get("label") not in ("left", "right"))
written = st.builds(hostile.as_json, wishes, ascii_only=st.booleans())
commands = st.lists(hostile.mostly(written, hostile.nowhere_near_json | st.sampled_from(MONSTERS)), max_size=5)
feeds = st.lists(st.tuples(messages, commands), min_size=1, max_size=3)


def check_feed(feed: list[tuple[list[Any], list[bytes]]], decode: JsonDecoder) -> None:
    """Take it as a worker does: micro-batch by micro-batch, with what the topic of labels holds by then."""
    partition = begin(hostile.fresh(), Boundary(0))
    log, end = Commands(), 0
    for batch, values in feed:
        if not batch and not values:
            continue  # there is no such micro-batch
        for value in values:
            with suppress(DecodeError):
                log.append(end, parse_record(value))
            end += 1
        last = partition.history.last
        received = [Message(*PLACE, last.offset + place, *each) for place, each in enumerate(batch)]
        due = Boundary(last.offset + len(received), end)
        after, outcome = step(partition, PLACE, received, log.commands(last.labels, end), due, decode)
        decided = [origin.offset for origin, _, *_ in outcome.decisions]
        refused = [message.offset for message, _ in outcome.taken.refused]
        assert len(received) == len(decided) + len(refused) + outcome.taken.labelled
        assert not {*decided} & {*refused}
        assert "PROCESS" not in {refusal.stage for _, refusal in outcome.taken.refused}
        decisions, events = PUBLISHER.decisions(PLACE, outcome.decisions), PUBLISHER.events(PLACE, outcome)
        for message in (*decisions, *events):
            assert json.loads(message.value or b"")["partition"] == PLACE[1]
            check_sendable(message)
        assert [json.loads(message.value or b"")["offset"] for message in decisions] == decided
        letters = PUBLISHER.dead_letters(outcome.taken.refused)
        for (message, _), letter in zip(outcome.taken.refused, letters, strict=True):
            check_sendable(letter)
            assert not (dict(letter.headers)["__connect.errors.exception.message"] or b"").startswith(b"no text: ")
            unchanged = (letter.key, letter.value) == (message.key, message.value)
            assert unchanged or letter.headers[-1][0] == "stream-osr.value"
        partition = after
    with tempfile.TemporaryDirectory() as folder:
        snapshots = Snapshots(FolderStates(Path(folder)), keep=2)
        snapshots.write(PLACE, partition)
        back = snapshots.read(PLACE, partition.lineage, partition.history.last, partition.model.trained)
    assert back is not None
    assert back.waiting == partition.waiting
    hostile.check_alive(back.model)
    hostile.check_alive(partition.model)


def check_sendable(message: Outgoing) -> None:
    """What the client asks of a message: bytes, a time, and names that can be encoded."""
    assert message.key is not None or message.value is not None
    assert message.timestamp is None or 0 <= message.timestamp < 2**63
    for name, value in message.headers:
        assert isinstance(name.encode(), bytes)
        assert value is None or isinstance(value, bytes)


@pytest.mark.parametrize(
    "depth", [3, 5000, *(pytest.param(n, marks=pytest.mark.thorough) for n in hostile.DEPTHS[1:-1])]
)
def test_depths(depth: int) -> None:
    """Outside of the property test, because hypothesis widens the stack."""
    deep = hostile.nested_everywhere(depth)
    for decode in DECODERS:
        check_feed([([(-1, None, value, []) for value in deep], deep)], decode)


def test_an_error_without_a_text_becomes_a_dead_letter() -> None:
    """A decoder of the user may raise one."""
    message, deep = Message(*PLACE, 0, -1, None, b"x", []), functools.reduce(lambda inner, _: [inner], range(2000), 1)
    (letter,) = PUBLISHER.dead_letters([(message, Refusal("DECODE", KeyError(deep)))])
    assert dict(letter.headers)["__connect.errors.exception.message"] == b"no text: RecursionError"


@pytest.mark.thorough
@examples(120)
@given(feeds, st.sampled_from(DECODERS))
def test_messages_of_anything(feed: list[tuple[list[Any], list[bytes]]], decode: JsonDecoder) -> None:
    check_feed(feed, decode)
