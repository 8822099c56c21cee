"""Bytes in, bytes out: decoding, envelopes, dead letters, and the schemas that are published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stream_osr import (
    ColumnFailed,
    Decision,
    DependenceFound,
    Event,
    EventsSummed,
    OpenSetRecognizer,
    RecallDropped,
    RowsRepeated,
    SubclassRefuted,
    UnknownRateJumped,
)
from stream_osr.discovery.events import Moment
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import (
    Message,
    Outgoing,
    PartitionOutput,
    Received,
    Refusal,
    TakenRecords,
    origin_of,
)
from stream_osr_connectors.values import DecodeError
from tests.blobs import KNOWN, around, fitted_once, stream_part
from tests.kafka.publishers import publisher

ABOUT: dict[str, Any] = {"batch": 3, "seq": 127, "model": "ab" * 32}
PLACE = Place("in", 3)
PUBLISHER = publisher(10_000)


def decision_of(model_says: Decision, received: Received) -> Outgoing:
    return PUBLISHER.decisions(PLACE, [(origin_of(received), model_says)])[0]


def events_of(told: list[Event]) -> list[Outgoing]:
    return PUBLISHER.events(PLACE, PartitionOutput([], told, TakenRecords(), "17", 5))


def message(value: bytes | None, key: bytes | None = b"k", **changes: Any) -> Message:
    return Message("in", 3, 17, 1_700_000_000_500, key, value, [])._replace(**changes)


def validator(name: str) -> Draft202012Validator:
    schema = json.loads(files("stream_osr_connectors.kafka").joinpath("schemas", f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def stream_with_names() -> OpenSetRecognizer:
    """A stream in which everything happens that events tell of, short of drift."""
    model = fitted_once(batch_size=32, chains=1)
    for number, (x, _) in enumerate(stream_part(400)):
        model.learn_one(x, key=f"k{number}", t=float(number))
    emerged = model.new_classes().candidates[0].subclasses[0]
    model.mute([emerged])
    model.undo()
    model.promote([emerged], "third")
    for x in around(KNOWN["left"], 64, np.random.default_rng(3)):
        model.learn_one(x)
    return model


def test_decisions_and_events_are_as_their_schemas_say() -> None:
    model = stream_with_names()
    check = {"decision": validator("decision"), "event": validator("event")}
    kinds = set()
    for decision in model.drain():
        value = orjson.loads(decision_of(decision._replace(key="k"), message(b"")).value or b"")
        check["decision"].validate(value)
    for published in events_of(list(model.drain_events())):
        value = orjson.loads(published.value or b"")
        check["event"].validate(value)
        kinds.add(value["type"])
    assert kinds >= {"SubclassEmerged", "SubclassGrew", "SubclassMuted", "NamingUndone", "SubclassPromoted"}
    for name in ("label", "probability", "offset"):
        whole = orjson.loads(decision_of(decision, message(b"")).value or b"")
        assert not check["decision"].is_valid({key: item for key, item in whole.items() if key != name})


@pytest.mark.parametrize(
    ("told", "subject"),
    [
        (SubclassRefuted(**ABOUT, subclass_id=9, label="left", known_share=0.875, size=20), "in/3:9"),
        (UnknownRateJumped(**ABOUT, rate=0.3, before=0.02, since=640, size=64), "in/3"),
        (
            ColumnFailed(
                **ABOUT, column="a", kind="stuck", since=90, size=16, value=0.0, low=1.0, high=2.0, longest=1
            ),
            "in/3",
        ),
        (
            DependenceFound(**ABOUT, kind="neighbours depend", labels=("a",), correlation=0.2, since=128),
            "in/3",
        ),
        (RowsRepeated(**ABOUT, first=Moment(96, None, "k"), size=32, usual=1), "in/3"),
        (RecallDropped(**ABOUT, recall=0.8, low=0.76, high=0.84, false_unknown=0.19, promised=0.97), "in/3"),
        (EventsSummed(**ABOUT, counts={"SubclassGrew": 7}, since=3, until=9, emerged=(4, 5)), "in/3"),
    ],
)
def test_what_came_later_is_as_the_schema_says(told: Event, subject: str) -> None:
    check = validator("event")
    (published,) = events_of([told])
    value = orjson.loads(published.value or b"")
    check.validate(value)
    assert value["subject"] == subject
    for name in told.as_dict():
        assert not check.is_valid({key: item for key, item in value.items() if key != name}), name


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ({"a": 1.0, "note": "ok"}, True),
        ({"features": {"a": 1, "b": None}}, True),
        ({"features": {"a": "high"}}, False),
        ({"features": {"a": 1e200}}, False),
        ([1.0], False),
    ],
)
def test_schema_of_instances(value: Any, valid: bool) -> None:
    assert validator("instance").is_valid(value) == valid


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.binary(max_size=60)
    | st.text(max_size=30).map(str.encode)
    | st.none()
    | ANYTHING.map(lambda any: json.dumps(dict.fromkeys(("k", "t", "y", "features"), any)).encode())
)
def test_whatever_comes_is_an_instance_or_a_reason(value: bytes | None) -> None:
    decode = JsonDecoder(JsonFields(key="k", time="t", label="y"), max_bytes=1000)
    with suppress(DecodeError):
        assert isinstance(decode(message(value)).features, Mapping)


def test_key_and_time_come_from_the_record_unless_fields_hold_them() -> None:
    fields = JsonFields(key="id", time="at", features=["a"])
    decode = JsonDecoder(fields, 1000)
    assert decode(message(b'{"a": 1}'))[1:3] == ("k", 1_700_000_000.5)
    assert decode(message(b'{"a": 1, "id": 7, "at": 2.5}'))[1:3] == (7, 2.5)
    assert decode(message(b'{"a": 1}', key=None)).key == "in-3-17"
    assert decode(message(b'{"a": 1}', key=b"\xff")).key == "in-3-17"
    assert decode(message(b'{"a": 1}', timestamp=-1)).time is None


def test_what_is_passed_through_and_what_is_not() -> None:
    pass_through = [("trace", b"1"), ("trace", b"2"), ("none", None)]
    headers = [("ce_id", b"theirs"), *pass_through, ("content-type", b"text/plain")]
    assert origin_of(message(b"", headers=headers)).headers == tuple(pass_through)


def dead_letter(received: Message) -> Outgoing:
    (letter,) = PUBLISHER.dead_letters([(received, Refusal("DECODE", DecodeError("why")))])
    return letter


def test_dead_letters_keep_what_they_were() -> None:
    refused = dead_letter(message(b"\x00", headers=[("ce_id", b"x"), ("none", None), ("empty", b"")]))
    assert (refused.topic, refused.partition, refused.key, refused.value) == ("in.dlq", 3, b"k", b"\x00")
    assert refused.offset == 17
    assert refused.headers[:3] == [("ce_id", b"x"), ("none", None), ("empty", b"")]
    told = dict(refused.headers)
    assert told["__connect.errors.offset"] == b"17"
    assert told["__connect.errors.exception.message"] == b"why"
    assert told["__connect.errors.class.name"] == b"stream_osr_connectors.kafka"
    assert told["__connect.errors.exception.class.name"] == b"stream_osr_connectors.values.DecodeError"


@pytest.mark.parametrize(
    ("key", "value", "long", "sent", "note"),
    [
        (None, None, 0, (None, b""), b"null"),
        (b"k", None, 0, (b"k", None), None),
        (b"k", b"x" * 20_000, 0, (b"k", None), b"too large"),
        (b"k" * 20_000, b"x", 0, (b"", None), b"too large"),
        (b"k", b"x", 20_000, (b"k", None), b"too large"),
    ],
)
def test_dead_letters_that_cannot_be_sent_as_they_were(
    key: bytes | None, value: bytes | None, long: int, sent: Any, note: bytes | None
) -> None:
    letter = dead_letter(message(value, key=key, headers=[("h", b"y" * long)]))
    assert (letter.key, letter.value) == sent
    told = dict(letter.headers)
    assert (told.get("stream-osr.value"), "h" in told) == (note, not long)
    assert told["__connect.errors.offset"] == b"17"
