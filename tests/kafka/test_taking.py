"""Records into a recognizer: a micro-batch at once comes to what one record after the other does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive.recognizers import content_of
from stream_osr.archive.record import form_of
from stream_osr.archive.records import BY_TYPE
from stream_osr.config import grouped
from stream_osr_connectors.base import Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.partition import Partition, begin, step
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder, Plain
from stream_osr_connectors.kafka.wire.messages import Message, Outgoing, PartitionOutput, Received
from tests.blobs import around, bits, fitted_once, learn_all, stream_part
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


def written(state: Any) -> bytes:
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
    return taken.labelled, taken.skipped, taken.missing, taken.values, outcome.left


odd = st.sampled_from(
    [
        *(b'{"a": 1, "a": "x", "b": 2}', b'{"a": "x", "b": 2, "a": 1}', b'{"a": 1, "b": 2, "y": null, "y": "left"}'),
        *(b"{", b"[1, 2]", b'"ab"', b"7", b'{"a": NaN, "b": 1}', b'{"a": 1, "b": -0.0, "y": ""}', b'{"a": null}'),
        *(b'{"features": {"a": 1, "b": 2}}', b'{"a": true, "b": 1}', b'{"a": 1, "n": "%s"}' % (b"x" * 2000)),
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
DECODE = JsonDecoder(FIELDS[0], 1000)


def messages_of(values: Iterable[bytes], timestamp: int = NOW) -> list[Message]:
    return [Message(*PLACE, n, timestamp, b"k", value, []) for n, value in enumerate(values)]


def take(trained: TrainedModel, batch: list[Message], decode: Any = DECODE, **arguments: Any) -> Any:
    """The partition and the outcome after one micro-batch."""
    return step(partition(trained, **arguments), PLACE, batch, (), Boundary(len(batch)), decode)


def usual_values(n: int) -> list[bytes]:
    return [json.dumps(x).encode() for x, _ in stream_part(n)]


@examples(120)
@given(
    batches=st.lists(st.lists(contents, min_size=1, max_size=12), min_size=1, max_size=3),
    fields=st.one_of(st.just(FIELDS[0]), st.sampled_from(FIELDS)),
    on_missing=st.sampled_from(["impute", "error", "skip"]),
    delay=st.sampled_from([0, 5]),
    size=st.sampled_from([4, 1 << 62]),
    closes=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_a_batch_at_once_comes_to_what_its_records_do(
    trained: TrainedModel,
    batches: Any,
    fields: JsonFields,
    on_missing: str,
    delay: int,
    size: int,
    closes: list[bool],
) -> None:
    """The same decisions, events, refusals and their order, counts and state, to the bit; all of it can be sent."""
    decode = JsonDecoder(fields, 1000)
    together = alone = partition(trained, on_missing=on_missing, decision_delay=delay)._replace(size=size)
    offset = 0
    for batch, closing in zip(batches, closes, strict=False):
        batch = [Message(*PLACE, offset + n, *each) for n, each in enumerate(batch)]
        offset += len(batch)
        end = Boundary(offset, closes=closing)
        together, outcome = step(together, PLACE, batch, (), end, decode)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JsonDecoder, "plain", one_by_one)
            alone, expected = step(alone, PLACE, batch, (), end, decode)
        messages = published(outcome)
        assert messages == published(expected)
        assert counts(outcome) == counts(expected)
        assert written(content_of(together.model, together.model.value)) == written(
            content_of(alone.model, alone.model.value)
        )
        assert together[1:] == alone[1:]
        about = [(m.topic, m.offset) for m in messages if m.topic != "events"]
        assert len({*about}) == len(about)


def test_plain_records_are_taken_at_once(trained: TrainedModel) -> None:
    """The quick way is taken: without it the service is slower, and no other test would fail."""
    values = usual_values(40)
    values[5], values[9] = b'{"a": null, "b": 1.0}', b'{"a": 1.0, "b": 1.0, "y": "left"}'
    found = DECODE.plain(messages_of(values), trained.names)
    assert list(found.places) == [n for n in range(40) if n not in (5, 9)]
    assert found.rows.shape == (38, 2)


# Records without the features of the model


def refused(trained: TrainedModel, value: bytes, decode: Any = DECODE, **arguments: Any) -> list[str]:
    """Reasons why this value, between others, is refused."""
    values = usual_values(8)
    _, outcome = take(trained, messages_of([*values[:4], value, *values[4:]]), decode, **arguments)
    assert [r.offset for r, _ in outcome.taken.refused] in ([], [4])
    assert {refusal.stage for _, refusal in outcome.taken.refused} <= {"VALIDATE"}
    return [str(refusal.error) for _, refusal in outcome.taken.refused]


def test_an_instance_without_any_feature_is_a_dead_letter(trained: TrainedModel) -> None:
    cases = {
        b'{"A": 1.0, "B": 2.0}': "'A', 'B'",
        b'{"a": null, "b": null, "c": 1}': "'c', 'a', 'b'",
        b'{"features": {"A": 1}, "a": 1, "b": 2}': "'A'",
        b'{"A": 1, "y": "left"}': "'A', 'y'",
        b"{}": "no field",
        json.dumps(dict.fromkeys("cdefghij", 1)).encode(): "'g' and 3 more",
    }
    for on_missing, (value, found) in product(["impute", "error", "skip"], cases.items()):
        (message,) = refused(trained, value, on_missing=on_missing)
        assert "none of the model's 2 features" in message, value
        assert "expected 'a', 'b'" in message, value
        assert found in message, value
        assert "Name the fields as in training" in message, value
    assert refused(trained, b'{"a": 1.0}') == [], "one feature of two is enough"

    def decode(received: Received) -> Record:
        value = json.loads(received.value or b"")
        return Record(value or {"a": float("nan"), "B": 1.0})

    (message,) = refused(trained, b"{}", decode)
    assert "found 'B', 'a'" in message, "by a decoder of the user's own"


@pytest.fixture(scope="module")
def of_three() -> TrainedModel:
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(chains=1, seed=5)
    for label, at in (("left", 0.0), ("right", 9.0)):
        learn_all(model, [(x, label) for x in around([at] * 3, 40, rng, "abc")])
    model.freeze()
    return model.trained


def test_an_instance_with_fewer_than_half_of_the_features_is_a_dead_letter(of_three: TrainedModel) -> None:
    decode = JsonDecoder(FIELDS[3], 1000)
    batch = messages_of(
        [b'{"a": 1, "b": 1, "c": 1}', b'{"a": 1, "B": 2, "C": 3}', b'{"a": 1, "b": 1}', b'{"c": 1, "y": "left"}']
    )
    for on_missing in ("impute", "error", "skip"):
        after, outcome = take(of_three, batch, decode, on_missing=on_missing)
        reasons = {received.offset: str(refusal.error) for received, refusal in outcome.taken.refused}
        assert [*reasons] == ([1, 2, 3] if on_missing == "error" else [1, 3])
        assert "1 of the model's 3 features is there" in reasons[1]
        assert "expected 'b', 'c' as well, found 'B', 'C', 'a'. Name the fields as in training" in reasons[1]
        assert "expected 'a', 'b' as well, found 'y', 'c'" in reasons[3]
        assert after.model.counters["refused"] == len(reasons)
        assert after.model.signals.data_quality == 3, "each of them once"
    lacking = replace(of_three, report=replace(of_three.report, missing_values=25))
    _, outcome = take(lacking, batch, decode)
    assert outcome.taken.refused == [], "where training lacked more than a tenth of the values"


def test_missing_values_are_counted_over_what_was_taken(trained: TrainedModel) -> None:
    batch = messages_of([b'{"a": 1.0, "b": 1.0}', b'{"a": 1.0}', b'{"b": 1.0, "y": "left"}', b"{}", b"{"])
    _, outcome = take(trained, batch)
    assert (outcome.taken.missing, outcome.taken.values) == (2, 6)
    _, outcome = take(trained, batch, on_missing="skip")
    assert (outcome.taken.missing, outcome.taken.values, outcome.taken.skipped) == (0, 2, 2)


# Records that cannot be published


def test_what_a_decoder_may_not_bring_is_a_dead_letter(trained: TrainedModel) -> None:
    x = {"a": 1.0, "b": 1.0}
    wrong = [{"key": 1 << 64}, {"key": "\ud800"}, {"time": 10**50}, {"label": "\ud800"}, {"time": float("inf")}]
    for record in (*(Record(x, **fields) for fields in wrong), Record([1.0, 1.0])):  # type: ignore[arg-type]
        found = iter([record, Record(x, key="good")])
        _, outcome = take(trained, messages_of([b"", b""]), lambda _, found=found: next(found))
        refusals = [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused]
        assert refusals == [(0, "VALIDATE")], record
        (message,) = PUBLISHER.decisions(PLACE, outcome.decisions)
        assert isinstance(message, Outgoing)
