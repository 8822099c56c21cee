"""Records into a recognizer: a micro-batch at once comes to what one record after the other does."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive.record import RecordForm, form_of
from stream_osr.archive.records import BY_TYPE
from stream_osr.config import grouped
from stream_osr_connectors.base import Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.partition import Partition, begin, step
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder, Plain
from stream_osr_connectors.kafka.wire.messages import Message, Outgoing, PartitionOutput, Received
from tests.blobs import around, fitted_once, stream_part
from tests.kafka.publishers import publisher
from tests.kafka.test_hostile import anything, headers, keys, times, usual
from tests.tiers import examples

PLACE = Place("in", 3)
NOW = 1_760_000_000_000
PUBLISHER = publisher(10_000)


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted_once(chains=1, seed=5).trained


def partition(trained: TrainedModel, **arguments: Any) -> Partition:
    usual = {"chains": 1, "window": 32, "seed": 5, "batch_size": 1 << 62, **arguments}
    return begin(OpenSetRecognizer.from_trained(trained, **grouped(**usual)), Boundary(0))._replace(lineage="77aa")


def one_by_one(self: JsonDecoder, records: Any, features: Any) -> Plain:
    """Find nothing plain."""
    return Plain([], np.empty((0, len(features))), [], [])


def bits(value: Any) -> Any:
    """Take a state apart, down to the bits of its numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, Mapping):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(bits, value)]
    return [value.name, bits(value.values)] if isinstance(value, RecordForm) else value


def written(state: Any) -> Any:
    """A state as archives have it: what is beside it in memory, room for more say, is none of it."""
    return bits(form_of(state, BY_TYPE, {}))


def published(outcome: PartitionOutput) -> list[Outgoing]:
    return [
        *PUBLISHER.decisions(PLACE, outcome.decisions),
        *PUBLISHER.events(PLACE, outcome),
        *PUBLISHER.dead_letters(outcome.taken.refused),
    ]


def counts(outcome: PartitionOutput) -> tuple[int, ...]:
    taken = outcome.taken
    return len(taken.waiting), len(taken.labelled), taken.skipped, taken.missing, taken.values, outcome.left


odd = st.sampled_from(
    [
        *(b'{"a": 1, "a": "x", "b": 2}', b'{"a": "x", "b": 2, "a": 1}', b'{"a": 1, "b": 2, "y": null, "y": "left"}'),
        *(b"{", b"[1, 2]", b'"ab"', b"7", b'{"a": NaN, "b": 1}', b'{"a": 1, "b": -0.0, "y": ""}', b'{"a": null}'),
        *(
            b'{"a": 1, "b": 1, "n": "' + b"x" * 2000 + b'"}',
            b'{"features": {"a": 1, "b": 2}}',
            b'{"a": true, "b": 1}',
        ),
        *(b'{"a": %d, "b": 1e100}' % number for number in (2**53 + 1, 2**63, 2**64 - 1, -(2**63))),
    ]
)
plain = st.tuples(st.floats(-20, 20), st.floats(-20, 20)).map(lambda x: b'{"a": %r, "b": %r}' % x)
contents = st.one_of(
    *[st.tuples(times, st.just(b"k"), plain, headers)] * 3, usual, anything, st.tuples(times, keys, odd, headers)
)
FIELDS = [
    JsonFields(label="y", features=["a", "b"]),
    JsonFields("id", "t", "y", ["b", "a"]),
    JsonFields("a", "b", "y", ["a", "b"]),
    JsonFields(label="y", features=["a", "b", "c"]),
    JsonFields(label="y", features=["a"]),
    JsonFields(label="y"),
]


@examples(300)
@given(
    batches=st.lists(st.lists(contents, min_size=1, max_size=12), min_size=1, max_size=3),
    fields=st.one_of(st.just(FIELDS[0]), st.sampled_from(FIELDS)),
    on_missing=st.sampled_from(["impute", "error", "skip"]),
    delay=st.sampled_from([0, 5]),
)
def test_a_batch_at_once_comes_to_what_its_records_do(
    trained: TrainedModel, batches: Any, fields: JsonFields, on_missing: str, delay: int
) -> None:
    """The same decisions, events, refusals and their order, counts and state, to the bit; all of it can be sent."""
    decode = JsonDecoder(fields, 1000)
    together = alone = partition(trained, on_missing=on_missing, decision_delay=delay)
    offset = 0
    for batch in batches:
        batch = [Message(*PLACE, offset + n, *each) for n, each in enumerate(batch)]
        offset += len(batch)
        together, outcome = step(together, PLACE, batch, (), Boundary(offset), decode)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JsonDecoder, "plain", one_by_one)
            alone, expected = step(alone, PLACE, batch, (), Boundary(offset), decode)
        messages = published(outcome)
        assert messages == published(expected)
        assert counts(outcome) == counts(expected)
        assert written(together.model.as_state()) == written(alone.model.as_state())
        assert together[1:] == alone[1:]
        about = [(m.topic, m.offset) for m in messages if m.topic != "events"]
        assert len({*about}) == len(about)


def test_plain_records_are_taken_at_once(trained: TrainedModel) -> None:
    """The quick way is taken: whoever breaks it makes the service slower, and nothing else would say so."""
    decode = JsonDecoder(FIELDS[0], 1000)
    batch = [Message("in", 3, n, NOW, b"k", json.dumps(x).encode(), []) for n, (x, _) in enumerate(stream_part(40))]
    batch[5] = batch[5]._replace(value=b'{"a": null, "b": 1.0}')
    batch[9] = batch[9]._replace(value=b'{"a": 1.0, "b": 1.0, "y": "left"}')
    found = decode.plain(batch, trained.names)
    assert list(found.places) == [n for n in range(40) if n not in (5, 9)]
    assert found.rows.shape == (38, 2)


# Nothing of what the model looks at


def refused(trained: TrainedModel, value: bytes, decode: Any, **arguments: Any) -> list[str]:
    values = [json.dumps(x).encode() for x, _ in stream_part(8)]
    values.insert(4, value)
    batch = [Message("in", 3, n, NOW, b"k", each, []) for n, each in enumerate(values)]
    _, outcome = step(partition(trained, **arguments), PLACE, batch, (), Boundary(9), decode)
    assert [r.offset for r, _ in outcome.taken.refused] in ([], [4])
    assert {refusal.stage for _, refusal in outcome.taken.refused} <= {"VALIDATE"}
    return [str(refusal.error) for _, refusal in outcome.taken.refused]


@pytest.mark.parametrize("on_missing", ["impute", "error", "skip"])
@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"A": 1.0, "B": 2.0}', "'A', 'B'"),
        (b'{"a": null, "b": null, "c": 1}', "'c', 'a', 'b'"),
        (b'{"features": {"A": 1}, "a": 1, "b": 2}', "'A'"),
        (b'{"A": 1, "y": "left"}', "'A', 'y'"),
        (b"{}", "no field"),
        (json.dumps(dict.fromkeys("cdefghij", 1)).encode(), "'g' and 3 more"),
    ],
)
def test_an_instance_without_any_feature_is_a_dead_letter(
    trained: TrainedModel, on_missing: str, value: bytes, found: str
) -> None:
    decode = JsonDecoder(FIELDS[0], 1000)
    (message,) = refused(trained, value, decode, on_missing=on_missing)
    assert "none of the model's 2 features" in message
    assert "expected 'a', 'b'" in message
    assert found in message
    assert "Name the fields as in training" in message


def test_a_decoder_of_the_users_own_may_bring_nothing_either(trained: TrainedModel) -> None:
    nothing = {"a": float("nan"), "B": 1.0}

    def decode(received: Received) -> Record:
        value = json.loads(received.value or b"")
        return Record(nothing if value == {} else value)

    (message,) = refused(trained, b"{}", decode)
    assert "found 'B', 'a'" in message


def test_one_feature_of_two_is_enough(trained: TrainedModel) -> None:
    assert refused(trained, b'{"a": 1.0}', JsonDecoder(FIELDS[0], 1000)) == []


@pytest.fixture(scope="module")
def of_three() -> TrainedModel:
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(chains=1, seed=5)
    for label, at in (("left", 0.0), ("right", 9.0)):
        for x in around([at] * 3, 40, rng, "abc"):
            model.learn_one(x, label)
    model.freeze()
    return model.trained


@pytest.mark.parametrize("on_missing", ["impute", "error", "skip"])
def test_an_instance_with_fewer_than_half_of_the_features_is_a_dead_letter(
    of_three: TrainedModel, on_missing: str
) -> None:
    decode = JsonDecoder(JsonFields(label="y", features=["a", "b", "c"]), 1000)
    values = [b'{"a": 1, "b": 1, "c": 1}', b'{"a": 1, "B": 2, "C": 3}', b'{"a": 1, "b": 1}', b'{"c": 1, "y": "left"}']
    batch = [Message("in", 3, n, NOW, b"k", each, []) for n, each in enumerate(values)]
    after, outcome = step(partition(of_three, on_missing=on_missing), PLACE, batch, (), Boundary(4), decode)
    told = {received.offset: str(refusal.error) for received, refusal in outcome.taken.refused}
    assert [*told] == ([1, 2, 3] if on_missing == "error" else [1, 3])
    assert "1 of the model's 3 features is there" in told[1]
    assert "expected 'b', 'c' as well, found 'B', 'C', 'a'. Name the fields as in training" in told[1]
    assert "expected 'a', 'b' as well, found 'y', 'c'" in told[3]
    assert after.model.counters["refused"] == len(told)
    assert after.model.signals.data_quality == 3, "each of them once"
    lacking = replace(of_three, report=replace(of_three.report, missing_values=25))
    _, outcome = step(partition(lacking), PLACE, batch, (), Boundary(4), decode)
    assert outcome.taken.refused == [], "where training lacked more than a tenth of the values"


def test_missing_values_are_counted_over_what_was_taken(trained: TrainedModel) -> None:
    decode = JsonDecoder(FIELDS[0], 1000)
    values = [b'{"a": 1.0, "b": 1.0}', b'{"a": 1.0}', b'{"b": 1.0, "y": "left"}', b"{}", b"{"]
    batch = [Message("in", 3, n, NOW, b"k", value, []) for n, value in enumerate(values)]
    _, outcome = step(partition(trained), PLACE, batch, (), Boundary(5), decode)
    assert (outcome.taken.missing, outcome.taken.values) == (2, 6)
    _, outcome = step(partition(trained, on_missing="skip"), PLACE, batch, (), Boundary(5), decode)
    assert (outcome.taken.missing, outcome.taken.values, outcome.taken.skipped) == (0, 2, 2)


# What could not be told


@pytest.mark.parametrize(
    "record",
    [
        Record({"a": 1.0, "b": 1.0}, key=1 << 64),
        Record({"a": 1.0, "b": 1.0}, key="\ud800"),
        Record({"a": 1.0, "b": 1.0}, time=10**50),
        Record({"a": 1.0, "b": 1.0}, label="\ud800"),
        Record({"a": 1.0, "b": 1.0}, time=float("inf")),
        Record([1.0, 1.0]),  # type: ignore[arg-type]
    ],
)
def test_what_a_decoder_may_not_bring_is_a_dead_letter(trained: TrainedModel, record: Record) -> None:
    batch = [Message("in", 3, 0, NOW, b"k", b"", []), Message("in", 3, 1, NOW, b"k", b"", [])]
    good = Record({"a": 1.0, "b": 1.0}, key="good")
    found = iter([record, good])
    _, outcome = step(partition(trained), PLACE, batch, (), Boundary(2), lambda _: next(found))
    assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(0, "VALIDATE")]
    (published,) = PUBLISHER.decisions(PLACE, outcome.decisions)
    assert isinstance(published, Outgoing)


@pytest.mark.parametrize("timestamp", [-1, -(1 << 62), 0, 1 << 62, (1 << 63) - 1])
def test_absurd_timestamps_stop_nothing(trained: TrainedModel, timestamp: int) -> None:
    decode = JsonDecoder(FIELDS[0], 1000)
    batch = [
        Message("in", 3, n, timestamp, b"k", json.dumps(x).encode(), []) for n, (x, _) in enumerate(stream_part(64))
    ]
    batch[5] = batch[5]._replace(value=b"{")
    _, outcome = step(partition(trained), PLACE, batch, (), Boundary(64), decode)
    assert len(outcome.decisions) == 63
    assert outcome.events
    messages = published(outcome)
    assert {message.timestamp for message in messages} == {timestamp if timestamp >= 0 else None}
    assert any("ce_time" in dict(message.headers) for message in messages) == (timestamp == 0)
