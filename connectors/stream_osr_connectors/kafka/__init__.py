"""Kafka: a service that decides each instance of a topic exactly once, with identical results after a crash.

Needs the extra ``kafka``: ``pip install stream-osr[kafka]``.

Delivery: one transaction publishes decisions, events, dead letters and the offsets of their instances. After a crash
a partition loads the newest snapshot and replays the micro-batches up to the committed offset without output. The
micro-batches have the same boundaries as before, because these are committed with the offset.
"""

from importlib.util import find_spec

from stream_osr.errors import MissingExtra

# crc32c: without it the client computes checksums in Python, a thousand times slower
_needed = ("crc32c", "kafka", "orjson", "prometheus_client", "pydantic_settings", "yaml")
_missing = [name for name in _needed if find_spec(name) is None]
if _missing:
    raise MissingExtra(
        f"the Kafka service needs {', '.join(_missing)}, which is not installed: run pip install 'stream-osr[kafka]'"
    )

# E402: these import the extra, so missing packages must be reported before
from .run.service import Service  # noqa: E402
from .settings import ServiceSettings, load_settings  # noqa: E402
from .sink import KafkaSink  # noqa: E402
from .source import KafkaSource  # noqa: E402

__all__ = ["KafkaSink", "KafkaSource", "Service", "ServiceSettings", "load_settings"]
