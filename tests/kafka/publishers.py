"""What makes messages, for tests that need no brokers."""

from __future__ import annotations

from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.wire.encoding import Publisher


def publisher(largest: int) -> Publisher:
    """Make one whose dead letters may have so many bytes."""
    names = {"input": "in", "output": "out", "events": "events", "group": "g", "instance": "w-1"}
    return Publisher(ServiceSettings(model="m", brokers="b:1", **names), "ab" * 32, largest)
