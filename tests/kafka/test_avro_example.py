"""The decoder of the example reads what fastavro has written, with schemas from a registry over HTTP."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pytest

from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.wire.decoding import make_decoder
from stream_osr_connectors.kafka.wire.messages import Message
from stream_osr_connectors.values import DecodeError
from tests.kafka.registries import Registry, registry

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka"
SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "width", "type": "double"},
        {"name": "height", "type": ["null", "int"]},
    ],
}
NUMBER = 7


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry that is busy at first, and the example as a module."""
    with registry() as running:
        running.add(SCHEMA, NUMBER)
        running.busy = 1
        monkeypatch.setenv("REGISTRY", f"{running.address}/")
        monkeypatch.syspath_prepend(EXAMPLES)
        monkeypatch.setattr(importlib.import_module("avro_decoder"), "RETRY_SECONDS", 0.01)
        yield running


def message(value: bytes | None) -> Message:
    return Message("in", 0, 5, 1500, b"k1", value, [])


def framed(content: dict[str, object], number: int = NUMBER) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, content)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_avro_is_read_by_the_schema_that_the_registry_has(running: Registry) -> None:
    settings = ServiceSettings(model=Path("m"), brokers="b:1", input="in", key="id", decoder="avro_decoder:make")
    decode = make_decoder(settings, None)
    record = decode(message(framed({"id": "a7", "width": 2.5, "height": 3})))
    assert (dict(record.features), record.key, record.time) == ({"width": 2.5, "height": 3}, "a7", 1.5)
    assert running.asked == 2  # it waited for the registry, and asks for a schema once
    assert dict(decode(message(framed({"id": "a8", "width": 1.0, "height": None}))).features) == {"width": 1.0}
    assert running.asked == 2
    for value, why in (
        (None, "framing"),
        (b'{"width": 1}', "framing"),
        (framed({"id": "a", "width": 1.0, "height": 1}, 8), "no schema 8"),
    ):
        with pytest.raises(DecodeError, match=why):
            decode(message(value))
    with pytest.raises(EOFError):  # the service makes a dead letter of it, whatever is raised
        decode(message(framed({"id": "a", "width": 1.0, "height": 1})[:-4]))
