"""A decoder as a user may bring one."""

from __future__ import annotations

import time

from stream_osr_connectors.base import Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Decoder, Received

HANG = b"hang"

SECONDS = 8.0
"""Time that the first record takes with :func:`slow_at_first`."""


def hanging(settings: ServiceSettings) -> Decoder:
    """JSON, but the record with the key ``hang`` never ends."""
    decode = JsonDecoder(JsonFields(), settings.max_instance_bytes)

    def decode_or_hang(received: Received) -> Record:
        while received.key == HANG:
            time.sleep(0.1)
        return decode(received)

    return decode_or_hang


def slow_at_first(settings: ServiceSettings) -> Decoder:
    """JSON, but the first record takes as long as a sampler that has to be compiled."""
    decode, begun = JsonDecoder(JsonFields(), settings.max_instance_bytes), False

    def decode_late(received: Received) -> Record:
        nonlocal begun
        if not begun:
            begun = True
            time.sleep(SECONDS)
        return decode(received)

    return decode_late
