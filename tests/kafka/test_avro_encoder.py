"""The encoder of the example: what a service publishes with it is read by the schemas that the registry has."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest
from typer.testing import CliRunner

from stream_osr.errors import ConnectorError
from stream_osr_connectors.cli.app import app
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.wire.encoding import Encoding
from stream_osr_connectors.page.live.service_feed import ServiceFeed
from tests.kafka.brokers import Broker
from tests.kafka.registries import Registry, registry
from tests.kafka.streams import Stream, Worker, decide, instances, small_model

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka"
MAKE = "avro_encoder:make"


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
        assert running.asked == 4, "two that were busy, and one for each schema"
        for number, (decisions, events) in enumerate(
            zip(stream.read("decisions"), stream.read("events"), strict=True)
        ):
            found = [read(running, record) for record in decisions]
            offsets = [each["offset"] for each in found]
            assert offsets == [*range(150)]
            ends = [
                offset
                for offset, each, after in zip(offsets, found, [*found[1:], None], strict=True)
                if after is None or after["batch"] != each["batch"]
            ]
            expected, told = decide(stream, number, offsets, ends)
            assert [{name: each[name] for name in expected[0]} for each in found] == expected
            contents = [json.loads(read(running, record)["content"]) for record in events]
            assert [{name: one[name] for name in event} for one, event in zip(contents, told, strict=True)] == told
    not_for_people(stream)


def not_for_people(stream: Stream) -> None:
    """Programs of the project that read decisions say in a line that they read JSON alone."""
    told: list[str] = []
    feed = ServiceFeed(ServiceSettings(**{**stream.settings, "encoder": "json"}), 100)
    until = time.monotonic() + 20
    while not told and time.monotonic() < until:
        feed.poll(lambda kind, error: told.append(str(error)))
    feed.close()
    assert "the value is not JSON. Did the service run with an encoder other than json?" in told[0]
    found = CliRunner().invoke(app, ["watch", "--config", str(stream.config())])
    assert found.exit_code == 1
    assert "encoder avro_encoder:make, and the page reads only JSON" in str(found.exception)
    command = [sys.executable, EXAMPLES / "consume.py", "--brokers", stream.address, "--topic", stream.topic]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "is not JSON, which is all that this program reads" in ended.stderr


def read(running: Registry, record: Any) -> dict[str, Any]:
    """Read a value by the schema that its frame and its header name."""
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
