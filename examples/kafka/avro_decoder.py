"""Instances in Avro, with the schemas in a registry: an example of a decoder of one's own.

    pip install fastavro
    export REGISTRY=http://127.0.0.1:8081
    PYTHONPATH=examples/kafka stream-osr run --config service.yaml --decoder avro_decoder:make

A value is a zero byte, the number of its schema in four bytes, and the record (the registry's framing). The record's
numeric fields are the features, unless the settings name them.
"""

from __future__ import annotations

import io
import json
import logging
import os
import time
from functools import cache
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import fastavro

from stream_osr_connectors.base import Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.wire.messages import Decoder, Received
from stream_osr_connectors.values import DecodeError

logger = logging.getLogger("stream_osr.kafka")

FRAME = 5
RETRY_SECONDS = 1.0


def make(settings: ServiceSettings) -> Decoder:
    """Make the decoder that `decoder: avro_decoder:make` in the settings asks for."""
    registry = os.environ["REGISTRY"].rstrip("/")
    fields = JsonFields(settings.key, settings.time, settings.label, settings.features, settings.label_type)

    @cache
    def schema(number: int) -> Any:
        """Ask the registry for a schema, which never changes.

        While the registry is away the service waits: a record that is decided later is right, one that is refused
        because of the hour is not, and a replay would come to something else.
        """
        while True:
            try:
                with urlopen(f"{registry}/schemas/ids/{number}", timeout=10) as answer:
                    return fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
            except HTTPError as error:
                if error.code == 404:
                    raise DecodeError(f"the registry has no schema {number}") from None
                logger.warning("the registry at %s: %s", registry, error)
            except URLError as error:
                logger.warning("no registry at %s: %s", registry, error.reason)
            time.sleep(RETRY_SECONDS)

    def decode(received: Received) -> Record:
        value = received.value
        if value is None or len(value) < FRAME or value[0] != 0:
            raise DecodeError("the value is not Avro with the registry's framing (a zero byte and a schema's number)")
        if len(value) > settings.max_instance_bytes:
            raise DecodeError(f"the value has {len(value)} bytes; {settings.max_instance_bytes} are allowed")
        content = fastavro.schemaless_reader(
            io.BytesIO(value[FRAME:]), schema(int.from_bytes(value[1:FRAME], "big")), None
        )
        if not isinstance(content, dict):
            raise DecodeError("the schema is not one of records")
        record = fields.record(content)
        key = record.key
        if key is None and received.key is not None:
            key = received.key.decode(errors="backslashreplace")
        moment = record.time
        if moment is None and received.timestamp >= 0:
            moment = received.timestamp / 1000
        return Record(record.features, key, moment, record.label, found=record.found)

    return decode
