"""Another format than JSON: what an encoder is given, what becomes of its result, and of its failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.wire.encoding import IN_A_ROW, EncodeError, Encoding
from stream_osr_connectors.kafka.wire.messages import (
    Encoded,
    EncodedKind,
    Outgoing,
    PartitionOutput,
    RecordOrigin,
    TakenRecords,
)
from tests.blobs import fitted_once, stream_part
from tests.kafka.publishers import publisher

PUBLISHER = publisher(10_000)
PLACE = Place("in", 3)


def made() -> tuple[list[Outgoing], list[Outgoing]]:
    """Decisions and events of a stream, as JSON."""
    model = fitted_once(batch_size=32, chains=1)
    for number, (x, _) in enumerate(stream_part(128)):
        model.learn_one(x, key=f"k{number}", t=float(number))
    model.close_batch()
    decided = [(RecordOrigin(n, 5, b"k", (("trace", b"1"),)), decision) for n, decision in enumerate(model.drain())]
    events = list(model.drain_events())
    assert decided
    assert events
    return PUBLISHER.decisions(PLACE, decided), PUBLISHER.events(
        PLACE, PartitionOutput(decided, events, TakenRecords(), "127", 5)
    )


def test_an_encoder_is_given_what_the_json_holds_and_headers_follow_it() -> None:
    """The key, the timestamp and all other headers stay."""
    given: list[tuple[str, Mapping[str, Any]]] = []

    def encode(kind: EncodedKind, content: Mapping[str, Any]) -> Encoded:
        given.append((kind, content))
        return Encoded(b"\0%d" % len(given), "application/own", "" if kind == "event" else "urn:decision")

    encoding = Encoding("mine:make", encode)
    decisions, events = made()
    for kind, messages in (("decision", decisions), ("event", events)):
        for message in messages:
            found = encoding.encoded(kind, message)  # type: ignore[arg-type]
            assert given[-1] == (kind, orjson.loads(message.value or b""))
            assert found.value == b"\0%d" % len(given)
            before, after = dict(message.headers), dict(found.headers)
            assert after.pop("ce_dataschema", None) == (b"urn:decision" if kind == "decision" else None)
            assert after == {**before, "content-type": b"application/own"}
            assert len(found.headers) == len({*found.headers})
            assert found._replace(value=None, headers=()) == message._replace(value=None, headers=())


@pytest.mark.parametrize(
    "returned", [b"x", None, ("text", "t"), (b"x",), (b"x", b"t"), (b"x", "t", None), (b"x", "\ud800")]
)
def test_what_cannot_be_published_is_a_failure(returned: Any) -> None:
    encoding = Encoding("mine:make", lambda kind, content: returned)
    with pytest.raises((EncodeError, UnicodeEncodeError)):
        encoding.encoded("decision", made()[0][0])


def test_an_encoder_that_fails_for_everything_is_an_obstacle_until_it_succeeds() -> None:
    works = False

    def encode(kind: EncodedKind, content: Mapping[str, Any]) -> Encoded:
        if works:
            return Encoded(b"", "text/plain")
        raise MemoryError("none left")

    encoding = Encoding("mine:make", encode)
    decision = made()[0][0]
    for failures in range(1, IN_A_ROW + 3):
        with pytest.raises(MemoryError):
            encoding.encoded("decision", decision)
        assert bool(encoding.obstacles()) is (failures >= IN_A_ROW)
    (said,) = encoding.obstacles()
    assert said.startswith("the encoder mine:make fails for every decision (the latest: MemoryError in encode, test_")
    works = True
    encoding.encoded("event", made()[1][0])
    assert encoding.obstacles()
    encoding.encoded("decision", decision)
    assert not encoding.obstacles()


@pytest.mark.parametrize("named", ["nowhere:make", "json:nothing", "json.dumps", ":", "tests.kafka.encoders:"])
def test_an_encoder_that_is_not_there_ends_the_start(named: str) -> None:
    settings = ServiceSettings(model=Path("m"), brokers="b:1", input="in", encoder=named)
    with pytest.raises(ConnectorError, match="returns an encoder"):
        Encoding.of(settings)


def test_json_is_not_encoded_again() -> None:
    assert Encoding.of(ServiceSettings(model=Path("m"), brokers="b:1", input="in")).is_json
