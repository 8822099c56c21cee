"""A micro-batch of decisions is encoded at once: byte for byte what encoding each from scratch gives."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import Decision
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.wire.messages import Outgoing, PartitionOutput, RecordOrigin, TakenRecords
from tests.blobs import fitted_once, stream_part
from tests.kafka.publishers import publisher

PLACE = Place("in", 3)
PUBLISHER = publisher(10_000)
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
    headers: list[tuple[str, bytes | None]] = [
        ("ce_specversion", b"1.0"),
        ("ce_id", f"in-{number}-{origin.offset}".encode()),
        ("ce_source", f"/g/in/{number}".encode()),
        ("ce_type", b"stream-osr.decision.v1"),
        ("content-type", b"application/json"),
    ]
    if 0 <= origin.timestamp <= LAST:
        moment = datetime.fromtimestamp(origin.timestamp // 1000, UTC).replace(tzinfo=None).isoformat()
        headers.append(("ce_time", f"{moment}.{origin.timestamp % 1000:03d}Z".encode()))
    encoded = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    timestamp = None if origin.timestamp < 0 else origin.timestamp
    return Outgoing("out", number, origin.key, encoded, [*headers, *origin.headers], timestamp, origin.offset, "in")


numbers = st.floats(0, 1) | st.floats()
labels = st.sampled_from(
    ["left", "größe", '"', "", "1", 1, 0, -1, True, None, 1.5, (1, "a"), np.str_("np"), np.int64(7)]
)
probabilities = st.dictionaries(labels, numbers, min_size=1, max_size=5)
decisions = st.builds(
    Decision,
    st.one_of(st.text(max_size=5), st.integers(-(2**63), 2**64 - 1), st.none(), st.tuples(st.integers(0, 9))),
    st.none() | st.floats(allow_nan=False),
    labels,
    labels,
    numbers,
    numbers,
    probabilities,
    st.none() | st.integers(0, 2**63 - 1),
    labels,
    numbers,
    numbers,
    st.integers(0, 2**40),
    st.integers(0, 2**40),
)
origins = st.builds(
    RecordOrigin,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1) | st.sampled_from([-1, 0, 999, LAST, LAST + 1, -(1 << 62)]),
    st.none() | st.binary(max_size=4),
    st.sampled_from([(), (("trace", b"1"), ("none", None), ("trace", b"2"))]),
    st.sampled_from([None, "pump 1", '"']),
)


@given(st.lists(st.tuples(origins, decisions), max_size=6), st.integers(0, 99))
def test_a_batch_of_decisions_is_encoded_as_each_from_scratch(
    decided: list[tuple[RecordOrigin, Decision]], number: int
) -> None:
    made = PUBLISHER.decisions(Place("in", number), decided)
    expected = [slowly(number, origin, decision) for origin, decision in decided]
    assert [tuple(each) for each in made] == [tuple(each) for each in expected]


def test_a_topic_that_was_made_again_has_ids_of_its_own() -> None:
    """Everything else names the topic as it is."""
    model = fitted_once(batch_size=32, chains=1)
    for x, _ in stream_part(64):
        model.learn_one(x)
    events = list(model.drain_events())
    decided = [(RecordOrigin(n, 5, None, ()), decision) for n, decision in enumerate(model.drain())]
    outcome = PartitionOutput(decided, events, TakenRecords(), "63", 5)
    again = PUBLISHER._replace(names={"in": "in+1"})
    for publish in (lambda p: p.decisions(PLACE, decided), lambda p: p.events(PLACE, outcome)):
        for first, second in zip(publish(PUBLISHER), publish(again), strict=True):
            ids = [dict(each.headers).pop("ce_id") for each in (first, second)]
            assert ids[0].removeprefix(b"in-3-") == ids[1].removeprefix(b"in+1-3-") != ids[1]
            rest = [[header for header in each.headers if header[0] != "ce_id"] for each in (first, second)]
            assert rest[0] == rest[1]
            assert first._replace(headers=()) == second._replace(headers=())
