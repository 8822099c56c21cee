"""Decisions and events in Avro, with the schemas in a registry: an example of an encoder of one's own.

    pip install fastavro
    export REGISTRY=http://127.0.0.1:8081
    PYTHONPATH=examples/kafka stream-osr run --config service.yaml --encoder avro_encoder:make

A value is a zero byte, the number of its schema in four bytes, and the record (the registry's framing). The subjects
of the schemas are ``DECISIONS-value`` and ``EVENTS-value``, DECISIONS and EVENTS being the names of the topics. A
decision has a field for each of its members. An event has the members that all events have, and all of it as JSON in
``content``: each type of event has members of its own.
"""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import fastavro

from stream_osr.errors import ConnectorError
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.wire.messages import Encoded, EncodedKind, Encoder

logger = logging.getLogger("stream_osr.kafka")

CONTENT_TYPE = "application/avro"
JSON = "application/vnd.schemaregistry.v1+json"
RETRY_SECONDS = 1.0

LABEL = ["string", "long", "boolean"]
NUMBER = ["null", "double"]


def record(name: str, **fields: Any) -> dict[str, Any]:
    """Write the schema of a record."""
    return {
        "type": "record",
        "name": name,
        "namespace": "stream_osr",
        "fields": [{"name": field, "type": its} for field, its in fields.items()],
    }


DECISION = record(
    "Decision",
    topic="string",
    partition="int",
    offset="long",
    model="string",
    key=["string", "long"],
    t=NUMBER,
    label=LABEL,
    first_label=LABEL,
    probability=NUMBER,
    p_unknown=NUMBER,
    probabilities={"type": "map", "values": NUMBER},
    subclass_id=["null", "long"],
    nearest_class=LABEL,
    distance=NUMBER,
    density_rank=NUMBER,
    batch="long",
    seq="long",
)
EVENT = record(
    "Event",
    topic="string",
    partition="int",
    subject="string",
    type="string",
    batch="long",
    seq="long",
    content="string",
)


def make(settings: ServiceSettings) -> Encoder:
    """Make the encoder that `encoder: avro_encoder:make` in the settings names.

    It registers the schemas once, here: what it does later depends on its arguments alone.
    """
    registry = os.environ.get("REGISTRY", "").rstrip("/")
    if not registry:
        raise ConnectorError("the variable REGISTRY is not set; set it to the address of the schema registry")
    schemas = {
        kind: (register(registry, f"{topic}-value", schema), fastavro.parse_schema(schema))
        for kind, topic, schema in (("decision", settings.output, DECISION), ("event", settings.events, EVENT))
    }

    def encode(kind: EncodedKind, content: Mapping[str, Any]) -> Encoded:
        number, schema = schemas[kind]
        written = content if kind == "decision" else {**content, "content": json.dumps(content)}
        out = io.BytesIO()
        out.write(b"\0" + number.to_bytes(4, "big"))
        fastavro.schemaless_writer(out, schema, written)
        return Encoded(out.getvalue(), CONTENT_TYPE, f"{registry}/schemas/ids/{number}")

    return encode


def register(registry: str, subject: str, schema: Mapping[str, Any]) -> int:
    """Register a schema, and return its number; a schema that is there keeps its number.

    The service waits while the registry does not answer.
    """
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    request = Request(f"{registry}/subjects/{quote(subject, safe='')}/versions", body, {"Content-Type": JSON})
    while True:
        try:
            with urlopen(request, timeout=10) as answer:
                return int(json.load(answer)["id"])
        except HTTPError as error:
            with error:
                told = error.read(500).decode(errors="backslashreplace")
            if error.code < 500 and error.code != 429:
                raise ConnectorError(
                    f"the registry at {registry} refuses the schema of subject {subject}: {error.code} {told}; "
                    "change the compatibility of the subject, or the rights of the user"
                ) from None
            logger.warning("the registry at %s does not register schemas now: %s %s", registry, error.code, told)
        except URLError as error:
            logger.warning("the registry at %s does not answer: %s", registry, error.reason)
        time.sleep(RETRY_SECONDS)
