"""Kafka: a service that decides the instances of a topic exactly once, and survives crashes bit for bit.

Needs the extra ``kafka``: ``pip install stream-osr[kafka]``.

Delivery: decisions, events, dead letters and the offsets of the instances that they come from are published in one
transaction. After any crash a partition goes on from the newest snapshot by replaying, silently, the micro-batches up
to the committed offset; they end where they ended before, because their ends are committed with the offset.
"""

from importlib.util import find_spec

from stream_osr.errors import MissingExtra

# crc32c: without it the client computes checksums in Python, a thousand times slower
_needed = ("crc32c", "kafka", "orjson", "prometheus_client", "pydantic_settings", "yaml")
_missing = [name for name in _needed if find_spec(name) is None]
if _missing:
    raise MissingExtra(
        f"the Kafka service needs {', '.join(_missing)}, which is not installed; "
        "pip install 'stream-osr[kafka]' brings everything"
    )

# E402: these import what is needed, so what is missing has to be said before
from .run.service import Service  # noqa: E402
from .settings import ServiceSettings, load_settings  # noqa: E402
from .sink import KafkaSink  # noqa: E402
from .source import KafkaSource  # noqa: E402

__all__ = ["KafkaSink", "KafkaSource", "Service", "ServiceSettings", "load_settings"]
