"""Another format than JSON: what an encoder is given, what becomes of its result, and of its failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.engine import DecidedRecord
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.wire import messages as wire
from stream_osr_connectors.kafka.wire.encoding import EncodeError, Encoding
from stream_osr_connectors.kafka.wire.messages import Encoded, EncodedKind, Outgoing
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
    origins = (wire.RecordOrigin(n, 5, b"k", (("trace", b"1"),)) for n in range(128))
    decided = [*map(DecidedRecord, origins, model.drain())]
    events = list(model.drain_events())
    assert decided
    assert events
    output = wire.PartitionOutput(decided, events, wire.TakenRecords(), "127", 5)
    return PUBLISHER.decisions(PLACE, decided), PUBLISHER.events(PLACE, output)


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


def test_what_cannot_be_published_is_a_failure() -> None:
    decision = made()[0][0]
    for returned in (b"x", None, ("text", "t"), (b"x",), (b"x", b"t"), (b"x", "t", None), (b"x", "\ud800")):
        encoding = Encoding("mine:make", lambda kind, content, returned=returned: returned)
        with pytest.raises((EncodeError, UnicodeEncodeError)):
            encoding.encoded("decision", decision)


def test_json_is_not_encoded_again_and_an_encoder_that_is_not_there_ends_the_start() -> None:
    settings = {"model": Path("m"), "brokers": "b:1", "input": "in"}
    assert Encoding.of(ServiceSettings(**settings)).is_json
    for named in ("nowhere:make", "json:nothing", "json.dumps", ":", "tests.kafka.encoders:"):
        with pytest.raises(ConnectorError, match="returns an encoder"):
            Encoding.of(ServiceSettings(**settings, encoder=named))
