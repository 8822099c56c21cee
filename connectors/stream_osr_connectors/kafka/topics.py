"""What the topics of a service are, and what they take."""

from __future__ import annotations

import logging

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from stream_osr.errors import ConnectorError

from .clients import admin
from .settings import ServiceSettings

logger = logging.getLogger("stream_osr.kafka")

USUAL_BYTES = 1_048_588
"""``max.message.bytes`` where nobody has set it."""

LEAST_BYTES = 1 << 18
"""A decision with the longest key and headers that are taken fits into it, with thousands of classes."""

SPARE_BYTES = 1 << 16
"""What the headers add to a dead letter."""


def topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Names of the topics by what they are for."""
    topics = {
        "input": settings.input,
        "output": settings.output,
        "events": settings.events,
        "dead_letters": settings.dead_letters,
    }
    further = {"labels": settings.labels, "subclasses": settings.subclasses}
    return topics | {name: topic for name, topic in further.items() if topic is not None}


def all_topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Names of the topics of the service, and of the reconciliation if its workers publish summaries."""
    if settings.subclasses is None:
        return topics_of(settings)
    return topics_of(settings) | {"links": settings.links, "global_events": settings.global_events}


def message_limits(settings: ServiceSettings) -> dict[str, int]:
    """Ask how many bytes a message of each topic may have (``max.message.bytes``); who may not ask, gets the usual.

    Raises
    ------
    ConnectorError
        If decisions or events would not fit.
    """
    names = list(topics_of(settings).values())
    asked = [ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": None}) for name in names]
    try:
        client = admin(settings)
        try:
            told = client.describe_configs(asked, config_filter="all").get("topic", {})
        finally:
            client.close()
    except KafkaError as error:
        logger.info("the brokers do not tell what the topics take: %s", error)
        told = {}
    limits = {
        name: int(told.get(name, {}).get("max.message.bytes", {}).get("value") or USUAL_BYTES) for name in names
    }
    for name in (settings.output, settings.events, settings.dead_letters):
        if limits[name] < LEAST_BYTES:
            raise ConnectorError(
                f"topic {name} takes messages of {limits[name]} bytes at most; set its max.message.bytes to "
                f"{LEAST_BYTES} or more"
            )
    if limits[settings.dead_letters] < limits[settings.input] + SPARE_BYTES:
        logger.warning(
            "topic %s takes messages of %d bytes and %s of %d: set max.message.bytes of %s to %d, or the "
            "largest dead letters have no value",
            settings.dead_letters,
            limits[settings.dead_letters],
            settings.input,
            limits[settings.input],
            settings.dead_letters,
            limits[settings.input] + SPARE_BYTES,
        )
    return limits
