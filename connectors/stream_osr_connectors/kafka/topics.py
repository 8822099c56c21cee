"""The topics of a service: what is there, what is wrong with it, and making what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from stream_osr.errors import ConnectorError, InvalidParameter

from .clients import admin, explained
from .settings import SPARE_BYTES, ServiceSettings

DEAD_LETTER_DAYS = 30
SNAPSHOTS_IN_RETENTION = 10
"""The input has to keep its records for at least so many intervals between snapshots."""

DAY = 24 * 3600 * 1000


class Topic(NamedTuple):
    """A topic as it is.

    Attributes
    ----------
    partitions, replicas
        How many.
    configs
        Its settings, as text.
    """

    partitions: int
    replicas: int
    configs: Mapping[str, str]

    def number(self, name: str) -> int:
        """Read a setting that is a number."""
        return int(self.configs[name])


class Line(NamedTuple):
    """What is to be said of a topic.

    Attributes
    ----------
    role
        What the service calls it.
    name
        What the broker calls it.
    found
        How it is.
    problems
        What has to be changed before the service may be trusted.
    """

    role: str
    name: str
    found: str
    problems: tuple[str, ...]


def roles(settings: ServiceSettings) -> dict[str, str]:
    """Name the topics of a service by what they are for, the input first."""
    named = {role: getattr(settings, role) for role in ("input", "output", "events", "dead_letters", "labels")}
    return {role: topic for role, topic in named.items() if topic is not None}


def look_after(settings: ServiceSettings, create: bool, partitions: int | None, replicas: int | None) -> list[Line]:
    """Make the topics that are missing, if asked to, and say how all of them are.

    Parameters
    ----------
    settings
        Of the service.
    create
        Make what is missing.
    partitions
        Of the input, when it is made; the other topics follow the input.
    replicas
        Of topics that are made; None: what the broker gives.

    Raises
    ------
    ConnectorError
        If the broker does not answer or refuses.
    InvalidParameter
        If the input is missing, and nobody has said how many partitions it should have.
    """
    try:
        client = admin(settings)
    except KafkaError as error:
        raise ConnectorError(explained(settings, error)) from None
    try:
        found = _found(client, settings)
        made = _missing(settings, found, partitions, replicas) if create else {}
        if made:
            client.create_topics(made, wait_for_metadata=True)
            found = _found(client, settings)
        return [_line(settings, role, name, found, name in made) for role, name in roles(settings).items()]
    except KafkaError as error:
        raise ConnectorError(explained(settings, error)) from None
    finally:
        client.close()


def _found(client: KafkaAdminClient, settings: ServiceSettings) -> dict[str, Topic]:
    """Ask for the topics that are there."""
    there = set(client.list_topics())
    names = [name for name in roles(settings).values() if name in there]
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    configs = client.describe_configs(resources, config_filter="all")["topic"]
    return {
        topic["name"]: Topic(
            len(topic["partitions"]),
            min(len(partition["replica_nodes"]) for partition in topic["partitions"]),
            {key: config["value"] for key, config in configs[topic["name"]].items()},
        )
        for topic in client.describe_topics(names)
    }


def _missing(
    settings: ServiceSettings, found: Mapping[str, Topic], partitions: int | None, replicas: int | None
) -> dict[str, dict[str, Any]]:
    """Describe the topics that are to be made."""
    if settings.input in found:
        partitions, largest = found[settings.input].partitions, found[settings.input].number("max.message.bytes")
    elif partitions is None:
        raise InvalidParameter(
            f"topic {settings.input} does not exist: give --partitions with the number that it shall have. It bounds "
            "the number of workers that share the work, and must not change later"
        )
    else:
        largest = settings.max_record_bytes
    safe = {"min.insync.replicas": "2"} if replicas is not None and replicas >= 3 else {}
    sizes = {"input": largest, "labels": None}
    configs = {
        "dead_letters": {"retention.ms": str(DEAD_LETTER_DAYS * DAY)},
        "labels": {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"},
    }
    made = {}
    for role, name in roles(settings).items():
        if name in found:
            continue
        size = sizes.get(role, largest + SPARE_BYTES)
        limit = {} if size is None else {"max.message.bytes": str(size)}
        made[name] = {
            "num_partitions": 1 if role == "labels" else partitions,
            "replication_factor": -1 if replicas is None else replicas,
            "configs": {**safe, **limit, **configs.get(role, {})},
        }
    return made


def _line(settings: ServiceSettings, role: str, name: str, found: Mapping[str, Topic], new: bool) -> Line:
    topic = found.get(name)
    if topic is None:
        return Line(role, name, "missing", ("it does not exist; --create makes it",))
    text = f"{'created: ' if new else ''}{_count(topic.partitions, 'partition')}, {_count(topic.replicas, 'replica')}"
    text += f", records up to {topic.number('max.message.bytes')} bytes"
    return Line(role, name, text, tuple(_problems(settings, role, topic, found.get(settings.input))))


def _problems(settings: ServiceSettings, role: str, topic: Topic, given: Topic | None) -> Iterator[str]:
    """Find what would go wrong, sooner or later."""
    largest, retention = topic.number("max.message.bytes"), topic.number("retention.ms")
    compacted = "compact" in topic.configs["cleanup.policy"]
    if role == "labels":
        if topic.partitions != 1:
            yield "it needs one partition, so that all workers see the same order"
        if compacted or retention != -1:
            yield "a replay needs all of it: set cleanup.policy=delete and retention.ms=-1"
    elif role == "input":
        if largest > settings.max_record_bytes:
            yield f"it may hold records of {largest} bytes: set max_record_bytes to that, or the topic's limit lower"
        if compacted:
            yield "it is compacted, and a replay needs all records since the last snapshot: set cleanup.policy=delete"
        elif 0 <= retention < SNAPSHOTS_IN_RETENTION * 1000 * settings.snapshot_interval:
            yield f"it keeps records for {retention / 1000:g} s only: a replay needs those since the last snapshot"
    elif given is not None:
        needed = given.number("max.message.bytes") + SPARE_BYTES
        if largest < needed:
            yield f"what is published may have up to {needed} bytes: set max.message.bytes to that"
        if topic.partitions > given.partitions:
            yield f"it has more partitions than the input ({given.partitions}): those beyond stay empty"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
