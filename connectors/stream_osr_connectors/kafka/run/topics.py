"""The topics of a service: roles, limits, checks and creation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stream_osr.errors import ConnectorError, InvalidParameter

from ..client.admin import TopicAdmin
from ..client.errors import start_explained
from ..client.interface import ClientError, Topic
from ..exits import NoRightError
from ..log import logger
from ..settings import ServiceSettings
from ..wire.timestamps import TimestampLimits

USUAL_BYTES = 1_048_588
"""Default of ``max.message.bytes``."""

LEAST_BYTES = 1 << 18
"""Least message size of outputs. A decision with the longest key and headers and thousands of classes fits."""

SPARE_BYTES = 1 << 16
"""Most bytes that headers add to a dead letter."""

NOT_COMPACTED = ("output", "events", "dead_letters", "global_events")
"""Roles of topics that must not be compacted, because every record counts."""

Rights = Mapping[str, Sequence[str]]
"""Required rights on topics, by role."""

READ_FROM: Rights = {"input": ("READ",), "labels": ("READ",), "state_topic": ("READ", "WRITE")}
"""Rights of topics that the service reads. It writes the others."""


class TopicLimits(NamedTuple):
    """Limits of a topic.

    Attributes
    ----------
    bytes
        Size limit of a message (``max.message.bytes``).
    times
        Limits of timestamps.
    in_sync
        Required number of in-sync replicas (``min.insync.replicas``).
    policy
        Deletion or compaction (``cleanup.policy``).
    confirmed
        Whether the brokers returned these limits in the last request. Otherwise they are older values or defaults.
    """

    bytes: int = USUAL_BYTES
    times: TimestampLimits = TimestampLimits()
    in_sync: int = 1
    policy: str = "delete"
    confirmed: bool = True


RECONCILED = ("links", "global_events")
"""Roles of the topics of `stream-osr reconcile`."""


def topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Return the roles of the topics of the service, by name."""
    return {topic: role for topic, role in all_topics_of(settings).items() if role not in RECONCILED}


def all_topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Return the roles of the topics of the service and of the reconciliation (if any), by name."""
    roles = dict.fromkeys(settings.inputs, "input")
    left_out = ("input",) if settings.subclasses is not None else ("input", *RECONCILED)
    return roles | {t: role for role, t in settings.topics.items() if role not in left_out and t is not None}


def takes_of(admin: TopicAdmin, names: Iterable[str], before: Mapping[str, TopicLimits]) -> dict[str, TopicLimits]:
    """Return the limits of topics. If the brokers do not return them, older values or defaults apply.

    Parameters
    ----------
    admin
        Administrative client.
    names
        Names of topics.
    before
        Previous limits.
    """
    names, why = list(names), "the user lacks the right DESCRIBE_CONFIGS"
    try:
        configs = admin.configs(names)
    except ClientError as error:
        configs, why = {}, str(error)
    takes = {name: _takes(configs.get(name), before.get(name, TopicLimits())) for name in names}
    silent = [name for name, its in takes.items() if not its.confirmed and before.get(name, TopicLimits()).confirmed]
    if silent:
        logger.warning(
            "the limits of these topics are not known: %s (%s). Unless they were known before, timestamps outside "
            "these limits are not replaced. Grant DESCRIBE_CONFIGS on them",
            ", ".join(silent),
            why,
        )
    return takes


def _takes(configs: Mapping[str, str] | None, before: TopicLimits) -> TopicLimits:
    """Read the limits from the settings of a topic. Without settings the previous limits apply."""
    if not configs:
        return before._replace(confirmed=False)
    largest = int(configs.get("max.message.bytes") or USUAL_BYTES)
    in_sync = int(configs.get("min.insync.replicas") or 1)
    return TopicLimits(largest, TimestampLimits.of(configs), in_sync, configs.get("cleanup.policy", "delete"))


def compaction(role: str, name: str, takes: Mapping[str, TopicLimits]) -> str | None:
    """Return a text for a topic with the wrong ``cleanup.policy``, or ``None``."""
    limits = takes.get(name, TopicLimits(confirmed=False))
    if role in NOT_COMPACTED and "compact" in limits.policy:
        return (
            f"{role}: topic {name} is compacted and loses all but the latest record of each key: "
            "set its cleanup.policy=delete"
        )
    if role == "state_topic" and limits.confirmed and limits.policy != "compact":
        return (
            f"{role}: topic {name} has cleanup.policy={limits.policy} and loses the snapshots of quiet partitions: "
            "set its cleanup.policy=compact"
        )
    return None


def check_sizes(settings: ServiceSettings, takes: Mapping[str, TopicLimits], summary: int) -> None:
    """Check that published messages fit into the topics.

    Raises
    ------
    ConnectorError
        If decisions, events, dead letters or summaries would not fit.
    """
    for name in (settings.output, settings.events, settings.dead_letters):
        if takes[name].bytes < LEAST_BYTES:
            raise ConnectorError(
                f"topic {name} takes messages of {takes[name].bytes} bytes at most: set its max.message.bytes to "
                f"{LEAST_BYTES} or more"
            )
    if settings.subclasses is not None and takes[settings.subclasses].bytes < summary:
        raise ConnectorError(
            f"subclasses: topic {settings.subclasses} takes messages of {takes[settings.subclasses].bytes} bytes at "
            f"most: set its max.message.bytes to {summary}, or train with a PCA"
        )
    largest = max(settings.inputs, key=lambda topic: takes[topic].bytes)
    given, letters = takes[largest].bytes, takes[settings.dead_letters].bytes
    if letters < given + SPARE_BYTES:
        logger.warning(
            f"topic {settings.dead_letters} takes messages of {letters} bytes and {largest} of {given}: set "
            f"max.message.bytes of {settings.dead_letters} to {given + SPARE_BYTES}, or the largest dead letters "
            "have no value"
        )


DEAD_LETTER_DAYS = 30
SNAPSHOTS_IN_RETENTION = 10
"""Least retention of the input in intervals between snapshots."""

HOUR = 3600 * 1000
DAY = 24 * HOUR

OF_ONE_PARTITION = ("labels", "subclasses", "links", "global_events")
"""Roles of topics with one partition, so that all workers see the same order."""

COMPACTED = ("subclasses", "links", "state_topic")


class TopicCheck(NamedTuple):
    """Check result of a topic.

    Attributes
    ----------
    role
        Role of the topic.
    name
        Name of the topic.
    found
        Description of the topic.
    problems
        Problems that must be solved.
    """

    role: str
    name: str
    found: str
    problems: tuple[str, ...]


class WantedTopics(NamedTuple):
    """Configuration of topics to create.

    Attributes
    ----------
    partitions
        Number of partitions of the input. Other topics have the same number.
    replicas
        Number of replicas of all topics, ``None`` for the broker's default.
    max_message_bytes
        Size limit of messages of the input.
    """

    partitions: int | None
    replicas: int | None = None
    max_message_bytes: int = USUAL_BYTES


def look_after(settings: ServiceSettings, wanted: WantedTopics | None) -> list[TopicCheck]:
    """Create missing topics if requested, and check all topics.

    Parameters
    ----------
    settings
        Of the service.
    wanted
        Configuration of topics to create, or ``None`` to create none.

    Raises
    ------
    ConnectorError
        If the broker does not answer or refuses.
    NoRightError
        If the broker does not return the settings of a topic.
    InvalidParameter
        If the input is missing, and the number of partitions is not given.
    """
    with start_explained(settings):
        client = TopicAdmin(settings)
        try:
            found = _found(client, settings)
            made = {} if wanted is None else _missing(settings, found, wanted)
            if made:
                client.create(made)
                found = _found(client, settings)
        finally:
            client.close()
    return [_line(settings, role, name, found, name in made) for name, role in all_topics_of(settings).items()]


def _found(client: TopicAdmin, settings: ServiceSettings) -> dict[str, Topic]:
    """Return the existing topics with their settings."""
    there = {name: its for name, its in client.topics(all_topics_of(settings)).items() if its.partitions}
    configs = client.configs(there)
    for name in there:
        if not configs.get(name):
            raise NoRightError(
                f"the brokers do not return the settings of topic {name}: the user lacks the right DESCRIBE_CONFIGS "
                "on it, which the brokers' ACLs grant"
            )
    return {name: its._replace(configs=configs[name]) for name, its in there.items()}


def _missing(
    settings: ServiceSettings, found: Mapping[str, Topic], wanted: WantedTopics
) -> dict[str, dict[str, Any]]:
    """Return the configuration of missing topics."""
    partitions, largest = wanted.partitions, wanted.max_message_bytes
    missing = [topic for topic in settings.inputs if topic not in found]
    if missing and partitions is None:
        raise InvalidParameter(
            f"topic {missing[0]} does not exist: give --partitions with its number of partitions. It bounds the "
            "number of workers that share the work, and must not change later"
        )
    given = _largest_input(settings, found)
    if given is not None:
        partitions = max(given.partitions, (partitions or 1) if missing else 0)
        largest = given.number("max.message.bytes")
    safe = {"min.insync.replicas": "2"} if wanted.replicas is not None and wanted.replicas >= 3 else {}
    late = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(DAY)}
    letters = {"max.message.bytes": str(largest + SPARE_BYTES), "retention.ms": str(DEAD_LETTER_DAYS * DAY)}
    configs = {
        "input": {"max.message.bytes": str(largest)},
        "dead_letters": letters,
        "labels": {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"},
        "subclasses": late,
        "links": {"cleanup.policy": "compact"},
        "state_topic": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": str(HOUR)},
    }
    return {
        name: {
            "num_partitions": 1 if role in OF_ONE_PARTITION else wanted.partitions if role == "input" else partitions,
            "replication_factor": -1 if wanted.replicas is None else wanted.replicas,
            "configs": {**safe, **configs.get(role, {})},
        }
        for name, role in all_topics_of(settings).items()
        if name not in found
    }


def _line(settings: ServiceSettings, role: str, name: str, found: Mapping[str, Topic], new: bool) -> TopicCheck:
    topic = found.get(name)
    if topic is None:
        return TopicCheck(role, name, "missing", ("it does not exist: --create creates it",))
    text = f"{'created: ' if new else ''}{_count(topic.partitions, 'partition')}, {_count(topic.replicas, 'replica')}"
    text += f", records up to {topic.number('max.message.bytes')} bytes"
    return TopicCheck(role, name, text, tuple(_problems(settings, role, topic, _largest_input(settings, found))))


def _problems(settings: ServiceSettings, role: str, topic: Topic, given: Topic | None) -> Iterator[str]:
    """Yield problems of a topic."""
    largest, retention = topic.number("max.message.bytes"), topic.number("retention.ms")
    compacted = "compact" in topic.configs.get("cleanup.policy", "")
    if role in OF_ONE_PARTITION and topic.partitions != 1:
        yield "it needs one partition, so that all see the same order"
    if role == "labels":
        if compacted or retention != -1:
            yield "a replay needs all records: set cleanup.policy=delete and retention.ms=-1"
    elif role in COMPACTED:
        if not compacted or "delete" in topic.configs["cleanup.policy"]:
            yield "the latest of each key has to stay: set cleanup.policy=compact"
    elif role == "input":
        if compacted:
            yield "it is compacted, and a replay needs all records since the last snapshot: set cleanup.policy=delete"
        elif 0 <= retention < SNAPSHOTS_IN_RETENTION * 1000 * settings.snapshot_interval:
            yield f"it keeps records for {retention / 1000:g} s only: a replay needs those since the last snapshot"
    elif compacted and role in NOT_COMPACTED:
        yield "it is compacted and loses all but the latest record of each key: set cleanup.policy=delete"
    elif given is not None and role not in OF_ONE_PARTITION:
        needed = given.number("max.message.bytes") + SPARE_BYTES if role == "dead_letters" else LEAST_BYTES
        if largest < needed:
            yield f"published messages may have {needed} bytes: set max.message.bytes to that or more"
        if topic.partitions > given.partitions:
            yield f"it has more partitions than the input ({given.partitions}): those beyond stay empty"


def _largest_input(settings: ServiceSettings, found: Mapping[str, Topic]) -> Topic | None:
    """Return the largest limits of all inputs as one topic, or ``None`` without inputs."""
    inputs = [found[topic] for topic in settings.inputs if topic in found]
    if not inputs:
        return None
    largest = max(inputs, key=lambda topic: topic.number("max.message.bytes"))
    return largest._replace(partitions=max(topic.partitions for topic in inputs))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
