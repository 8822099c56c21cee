"""The decoder of the example reads what fastavro has written, with schemas from a registry over HTTP."""

from __future__ import annotations

import importlib.util
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import fastavro
import pytest

from stream_osr_connectors.values import DecodeError
from stream_osr_kafka.settings import ServiceSettings
from stream_osr_kafka.wire.decoding import make_decoder
from stream_osr_kafka.wire.messages import Message

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka" / "avro_decoder.py"
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


class Registry(BaseHTTPRequestHandler):
    """Answers as a schema registry does; busy at first."""

    asked = 0

    def do_GET(self) -> None:
        Registry.asked += 1
        if Registry.asked == 1:
            self.send_error(503)
        elif self.path == f"/schemas/ids/{NUMBER}":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(SCHEMA)}).encode())
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example as a module, with a registry that runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("REGISTRY", f"http://127.0.0.1:{server.server_port}/")
    spec = importlib.util.spec_from_file_location("avro_decoder", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setitem(__import__("sys").modules, "avro_decoder", module)
    yield module
    server.shutdown()
    server.server_close()


def message(value: bytes | None) -> Message:
    return Message("in", 0, 5, 1500, b"k1", value, [])


def framed(content: dict[str, object], number: int = NUMBER) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, content)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_avro_is_read_by_the_schema_that_the_registry_has(example: ModuleType) -> None:
    settings = ServiceSettings(model=Path("m"), brokers="b:1", input="in", key="id", decoder="avro_decoder:make")
    decode = make_decoder(settings, None)
    Registry.asked = 0
    record = decode(message(framed({"id": "a7", "width": 2.5, "height": 3})))
    assert (dict(record.features), record.key, record.time) == ({"width": 2.5, "height": 3}, "a7", 1.5)
    assert Registry.asked == 2  # it waited for the registry, and asks for a schema once
    assert dict(decode(message(framed({"id": "a8", "width": 1.0, "height": None}))).features) == {"width": 1.0}
    assert Registry.asked == 2
    for value, why in (
        (None, "framing"),
        (b'{"width": 1}', "framing"),
        (framed({"id": "a", "width": 1.0, "height": 1}, 8), "no schema 8"),
    ):
        with pytest.raises(DecodeError, match=why):
            decode(message(value))
    with pytest.raises(EOFError):  # the service makes a dead letter of it, whatever is raised
        decode(message(framed({"id": "a", "width": 1.0, "height": 1})[:-4]))
