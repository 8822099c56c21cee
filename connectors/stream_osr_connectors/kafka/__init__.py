"""Kafka: a service that decides each instance of a topic exactly once, with identical results after a crash.

Needs the extra ``kafka``: ``pip install stream-osr[kafka]``.

Delivery: one transaction publishes decisions, events, dead letters and the offsets of their instances. After a crash
a partition loads the newest snapshot and replays the micro-batches up to the committed offset without output. The
micro-batches have the same boundaries as before, because these are committed with the offset.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from stream_osr.errors import MissingExtra

# crc32c: without it the client computes checksums in Python, a thousand times slower
_needed = ("crc32c", "kafka", "orjson", "prometheus_client", "pydantic_settings", "yaml")
_missing = [name for name in _needed if find_spec(name) is None]
if _missing:
    raise MissingExtra(
        f"the Kafka service needs {', '.join(_missing)}, which is not installed: run pip install 'stream-osr[kafka]'"
    )

if TYPE_CHECKING:
    from .run.service import Service
    from .settings import ServiceSettings, load_settings
    from .sink import KafkaSink
    from .source import KafkaSource

__all__ = ["KafkaSink", "KafkaSource", "Service", "ServiceSettings", "load_settings"]

_MODULES = {
    "KafkaSink": "sink",
    "KafkaSource": "source",
    "Service": "run.service",
    "ServiceSettings": "settings",
    "load_settings": "settings",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that the help of a command does not load the sampler."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
