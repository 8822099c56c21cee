"""Bytes in, bytes out: decoding, encoding, dead letters, and the schemas that are published."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import (
    ColumnFailed,
    Decision,
    DependenceFound,
    Event,
    EventsSummed,
    FrameMoved,
    RecallDropped,
    RowsRepeated,
    SubclassRefuted,
    UnknownRateJumped,
)
from stream_osr.discovery.event_base import Moment
from stream_osr_connectors.engine import DecidedRecord
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import (
    Message,
    Outgoing,
    PartitionOutput,
    RawName,
    RecordOrigin,
    Refusal,
    TakenRecords,
    origin_of,
)
from stream_osr_connectors.values import DecodeError
from tests.blobs import KNOWN, around, fitted_once, play, stream_part
from tests.kafka.publishers import publisher
from tests.tiers import examples

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

ABOUT: dict[str, Any] = {"batch": 3, "seq": 127, "model": "ab" * 32}
PLACE = Place("in", 3)
PUBLISHER = publisher(10_000)


def value_of(decision: Decision) -> Any:
    (published,) = PUBLISHER.decisions(PLACE, [DecidedRecord(origin_of(message(b"")), decision)])
    return orjson.loads(published.value or b"")


def values_of(events: list[Event]) -> list[Any]:
    published = PUBLISHER.events(PLACE, PartitionOutput([], events, TakenRecords(), "17", 5))
    return [orjson.loads(each.value or b"") for each in published]


def message(value: bytes | None, key: bytes | None = b"k", **changes: Any) -> Message:
    return Message("in", 3, 17, 1_700_000_000_500, key, value, [])._replace(**changes)


def validator(name: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    schema = json.loads(files("stream_osr_connectors.kafka").joinpath("schemas", f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@cache
def stream_with_names() -> tuple[list[Decision], list[Event]]:
    """What a stream gives in which everything happens that events are about, except drift."""
    model = play(fitted_once(batch_size=32, chains=1), stream_part(400))
    emerged = model.new_classes().candidates[0].subclasses[0]
    model.mute([emerged])
    model.undo()
    model.promote([emerged], "third")
    play(model, [(x, None) for x in around(KNOWN["left"], 64, np.random.default_rng(3))], begin=400)
    return list(model.drain()), list(model.drain_events())


def lacking(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != name}


def test_decisions_and_events_are_as_their_schemas_say() -> None:
    decisions, events = stream_with_names()
    decision_schema, event_schema = validator("decision"), validator("event")
    for decision in decisions:
        value = value_of(decision._replace(key="k"))
        decision_schema.validate(value)
    for name in ("label", "probability", "offset"):
        assert not decision_schema.is_valid(lacking(value, name)), name
    values = values_of(events)
    for value in values:
        event_schema.validate(value)
    kinds = {value["type"] for value in values}
    assert kinds >= {"SubclassEmerged", "SubclassGrew", "SubclassMuted", "NamingUndone", "SubclassPromoted"}


def test_rare_events_are_as_the_schema_says() -> None:
    check = validator("event")
    found = {"kind": "neighbours depend", "labels": ("a",), "correlation": 0.2, "since": 128}
    stuck = {"column": "a", "kind": "stuck", "since": 90, "size": 16, "value": 0.0, "low": 1.0, "high": 2.0}
    events = [
        SubclassRefuted(**ABOUT, subclass_id=9, label="left", known_share=0.875, size=20),
        UnknownRateJumped(**ABOUT, rate=0.3, before=0.02, since=640, size=64),
        ColumnFailed(**ABOUT, **stuck, longest=1),
        DependenceFound(**ABOUT, **found),
        FrameMoved(**ABOUT, columns=("a",), offset={"a": 4.1}, shift={"a": 2.3}, since=0, share=0.9),
        RowsRepeated(**ABOUT, first=Moment(96, None, "k"), size=32, usual=1),
        RecallDropped(**ABOUT, recall=0.8, low=0.76, high=0.84, false_unknown=0.19, promised=0.97),
        EventsSummed(**ABOUT, counts={"SubclassGrew": 7}, since=3, until=9, emerged=(4, 5)),
    ]
    for event, value in zip(events, values_of(events), strict=True):
        check.validate(value)
        assert value["subject"] == ("in/3:9" if isinstance(event, SubclassRefuted) else "in/3")
        for name in event.as_dict():
            assert not check.is_valid(lacking(value, name)), (value["type"], name)


def test_schema_of_instances() -> None:
    check = validator("instance")
    for value in ({"a": 1.0, "note": "ok"}, {"features": {"a": 1, "b": None}}):
        check.validate(value)
    for value in ({"features": {"a": "high"}}, {"features": {"a": 1e200}}, [1.0]):
        assert not check.is_valid(value), value


def test_key_and_time_come_from_the_record_unless_fields_hold_them() -> None:
    fields = JsonFields(key="id", time="at", features=["a"])
    decode = JsonDecoder(fields, 1000)
    assert decode(message(b'{"a": 1}'))[1:3] == ("k", 1_700_000_000.5)
    assert decode(message(b'{"a": 1, "id": 7, "at": 2.5}'))[1:3] == (7, 2.5)
    assert decode(message(b'{"a": 1}', key=None)).key == "in-3-17"
    assert decode(message(b'{"a": 1}', key=b"\xff")).key == "in-3-17"
    assert decode(message(b'{"a": 1}', timestamp=-1)).time is None


def test_a_name_of_a_header_that_is_no_text_keeps_its_bytes() -> None:
    name = RawName(b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"))
    assert name.encode() == name.encode("utf-8") == b"gr\xf6\xdfe"
    with pytest.raises(UnicodeEncodeError):
        str.encode(name)


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
    headers = dict(refused.headers)
    assert headers["__connect.errors.offset"] == b"17"
    assert headers["__connect.errors.exception.message"] == b"why"
    assert headers["__connect.errors.class.name"] == b"stream_osr_connectors.kafka"
    assert headers["__connect.errors.exception.class.name"] == b"stream_osr_connectors.values.DecodeError"


def test_dead_letters_that_cannot_be_sent_as_they_were() -> None:
    for key, value, header, sent, note in (
        (None, None, 0, (None, b""), b"null"),
        (b"k", None, 0, (b"k", None), None),
        (b"k", b"x" * 20_000, 0, (b"k", None), b"too large"),
        (b"k" * 20_000, b"x", 0, (b"", None), b"too large"),
        (b"k", b"x", 20_000, (b"k", None), b"too large"),
    ):
        letter = dead_letter(message(value, key=key, headers=[("h", b"y" * header)]))
        assert (letter.key, letter.value) == sent
        headers = dict(letter.headers)
        assert (headers.get("stream-osr.value"), "h" in headers) == (note, not header), sent
        assert headers["__connect.errors.offset"] == b"17"


# A micro-batch of decisions is encoded at once

LAST = 253_402_300_799_999
"""Of the year 9999."""


def slowly(number: int, origin: RecordOrigin, decision: Decision) -> Outgoing:
    """Encode one decision from scratch, as its schema and the binding of CloudEvents say."""
    value = {
        "schema": "stream-osr.decision.v1",
        "topic": "in",
        "partition": number,
        "offset": origin.offset,
        "model": PUBLISHER.model,
        **({} if origin.by is None else {"by": origin.by}),
        **decision.as_dict(),
    }
    about = {
        "ce_specversion": "1.0",
        "ce_id": f"in-{number}-{origin.offset}",
        "ce_source": f"/g/in/{number}",
        "ce_type": "stream-osr.decision.v1",
        "content-type": "application/json",
    }
    if 0 <= origin.timestamp <= LAST:
        moment = datetime.fromtimestamp(origin.timestamp // 1000, UTC).replace(tzinfo=None).isoformat()
        about["ce_time"] = f"{moment}.{origin.timestamp % 1000:03d}Z"
    headers = [*((name, text.encode()) for name, text in about.items()), *origin.headers]
    encoded = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    timestamp = None if origin.timestamp < 0 else origin.timestamp
    return Outgoing("out", number, origin.key, encoded, headers, timestamp, origin.offset, "in")


numbers = st.floats(0, 1) | st.floats()
labels = st.sampled_from(
    ["left", "größe", '"', "", "1", 1, 0, -1, True, None, 1.5, (1, "a"), np.str_("np"), np.int64(7)]
)
probabilities = st.dictionaries(labels, numbers, min_size=1, max_size=5)
keys = st.one_of(st.text(max_size=5), st.integers(-(2**63), 2**64 - 1), st.none(), st.tuples(st.integers(0, 9)))
times, ids = st.none() | st.floats(allow_nan=False), st.none() | st.integers(0, 2**63 - 1)
places = st.integers(0, 2**40)
certain = (labels, labels, numbers, numbers, probabilities, ids, labels, numbers, numbers)
decisions = st.builds(Decision, keys, times, *certain, places, places, st.sampled_from([(), ("node",)]))
origins = st.builds(
    RecordOrigin,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1) | st.sampled_from([-1, 0, 999, LAST, LAST + 1, -(1 << 62)]),
    st.none() | st.binary(max_size=4),
    st.sampled_from([(), (("trace", b"1"), ("none", None), ("trace", b"2"))]),
    st.sampled_from([None, "pump 1", '"']),
)


@examples(100)
@given(st.lists(st.builds(DecidedRecord, origins, decisions, st.none()), max_size=6), st.integers(0, 99))
def test_a_batch_of_decisions_is_encoded_as_each_from_scratch(
    decided: list[DecidedRecord[RecordOrigin]], number: int
) -> None:
    made = PUBLISHER.decisions(Place("in", number), decided)
    expected = [slowly(number, origin, decision) for origin, decision, _ in decided]
    assert [tuple(each) for each in made] == [tuple(each) for each in expected]


def test_a_topic_that_was_made_again_has_ids_of_its_own() -> None:
    """Everything else names the topic as it is."""
    decisions, events = stream_with_names()
    decided = [DecidedRecord(RecordOrigin(n, 5, None, ()), decision) for n, decision in enumerate(decisions)]
    outcome = PartitionOutput(decided, events, TakenRecords(), "63", 5)
    again = PUBLISHER._replace(names={"in": "in+1"})
    for publish in (lambda p: p.decisions(PLACE, decided), lambda p: p.events(PLACE, outcome)):
        for first, second in zip(publish(PUBLISHER), publish(again), strict=True):
            ids = [dict(each.headers).pop("ce_id") for each in (first, second)]
            assert ids[0].removeprefix(b"in-3-") == ids[1].removeprefix(b"in+1-3-") != ids[1]
            rest = [[header for header in each.headers if header[0] != "ce_id"] for each in (first, second)]
            assert rest[0] == rest[1]
            assert first._replace(headers=()) == second._replace(headers=())
