"""The Avro examples: the decoder and the encoder with the schemas of a registry over HTTP."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.wire.decoding import make_decoder
from stream_osr_connectors.kafka.wire.encoding import Encoding
from stream_osr_connectors.kafka.wire.messages import Message
from stream_osr_connectors.values import DecodeError
from tests.kafka.brokers import Broker
from tests.kafka.commands import refused
from tests.kafka.registries import Registry, registry
from tests.kafka.streams import Stream, Worker, check_outputs, instances, recognizer_after, small_model, until

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka"
MAKE = "avro_encoder:make"

FIELDS = {"id": "string", "width": "double", "height": ["null", "int"]}
NAMED = [{"name": name, "type": kind} for name, kind in FIELDS.items()]
SCHEMA = {"type": "record", "name": "Reading", "fields": NAMED}
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
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, content)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_avro_is_read_by_the_schema_that_the_registry_has(running: Registry) -> None:
    settings = ServiceSettings(model=Path("m"), brokers="b:1", input="in", key="id", decoder="avro_decoder:make")
    decode = make_decoder(settings, None)
    record = decode(message(framed({"id": "a7", "width": 2.5, "height": 3})))
    assert (dict(record.features), record.key, record.time) == ({"width": 2.5, "height": 3}, "a7", 1.5)
    assert running.requests == 2  # it waited for the registry, and asks for a schema once
    assert dict(decode(message(framed({"id": "a8", "width": 1.0, "height": None}))).features) == {"width": 1.0}
    assert running.requests == 2
    for value, why in (
        (None, "framing"),
        (b'{"width": 1}', "framing"),
        (framed({"id": "a", "width": 1.0, "height": 1}, 8), "no schema 8"),
    ):
        with pytest.raises(DecodeError, match=why):
            decode(message(value))
    with pytest.raises(EOFError):  # the service makes a dead letter of it, whatever is raised
        decode(message(framed({"id": "a", "width": 1.0, "height": 1})[:-4]))


def test_a_service_writes_avro_by_schemas_of_the_registry(broker: Broker, tmp_path: Path) -> None:
    """The registry is busy at first: the service waits. The decisions are those that JSON would hold."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), encoder=MAKE)
    stream.send(instances(300, 2))
    path = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    with registry() as running:
        running.busy = 2
        worker = Worker(stream, REGISTRY=running.address, PYTHONPATH=path)
        stream.wait()
        assert worker.stop() == 0
        assert any("does not register schemas now: 503" in line for line in worker.lines())
        assert {*running.subjects} == {f"{stream.topic}.decisions-value", f"{stream.topic}.events-value"}
        assert running.requests == 4, "two that were busy, and one for each schema"
        outputs = zip(stream.read("decisions"), stream.read("events"), strict=True)
        for number, (decisions, events) in enumerate(outputs):
            found = [read(running, record) for record in decisions]
            assert [each["offset"] for each in found] == [*range(150)]
            contents = [json.loads(read(running, record)["content"]) for record in events]
            check_outputs(recognizer_after(stream, number, found), found, contents, f"partition {number}")
    check_readers_of_json(stream)


def check_readers_of_json(stream: Stream) -> None:
    """Programs of the project that read decisions say in a line that they read JSON alone."""
    from stream_osr_connectors.page.live.service_feed import ServiceFeed

    errors: list[str] = []
    feed = ServiceFeed(ServiceSettings(**{**stream.settings, "encoder": "json"}), 100)
    until(lambda: feed.poll(lambda kind, error: errors.append(str(error))) or bool(errors), 20, lambda: "no error")
    feed.close()
    assert "the value is not JSON. Did the service run with an encoder other than json?" in errors[0]
    message = refused("watch", "--config", stream.config())
    assert "encoder avro_encoder:make, and the page reads only JSON" in message
    command = [sys.executable, EXAMPLES / "consume.py", "--brokers", stream.address, "--topic", stream.topic]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "is not JSON, which is all that this program reads" in ended.stderr


def read(running: Registry, record: Any) -> dict[str, Any]:
    """Read a value by the schema that its frame and its header name."""
    import fastavro

    headers = dict(record.headers)
    number = int.from_bytes(record.value[1:5], "big")
    assert record.value[:1] == b"\0"
    assert headers["content-type"] == b"application/avro"
    assert headers["ce_dataschema"] == f"{running.address}/schemas/ids/{number}".encode()
    assert headers["ce_id"].startswith(f"{record.topic.rpartition('.')[0]}-{record.partition}-".encode())
    content = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), running.schemas[number], None)
    assert isinstance(content, dict)
    return content


def test_a_registry_that_refuses_a_schema_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    settings = ServiceSettings(model=Path("m"), brokers="b:1", input="in", encoder=MAKE)
    monkeypatch.delenv("REGISTRY", raising=False)
    with pytest.raises(ConnectorError, match="REGISTRY is not set"):
        Encoding.of(settings)
    with registry() as running:
        monkeypatch.setenv("REGISTRY", running.address)
        running.refuses = True
        with pytest.raises(ConnectorError, match=r"refuses the schema of subject in.decisions-value: 409"):
            Encoding.of(settings)
