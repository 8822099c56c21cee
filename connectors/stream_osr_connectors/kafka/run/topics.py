"""The topics of a service: what they are for, what they take, what is wrong with them, and making what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stream_osr.errors import ConnectorError, InvalidParameter

from ..client import ClientError, Topic, TopicAdmin, start_explained
from ..exits import NoRightError
from ..log import logger
from ..settings import ServiceSettings
from ..wire.timestamps import TimestampLimits

USUAL_BYTES = 1_048_588
"""``max.message.bytes`` where nobody has set it."""

LEAST_BYTES = 1 << 18
"""A decision with the longest key and headers that are taken fits into it, with thousands of classes."""

SPARE_BYTES = 1 << 16
"""What the headers add to a dead letter."""

NOT_COMPACTED = ("output", "events", "dead_letters", "global_events")
"""Topics of which every record counts, by what they are for: compaction keeps the latest record of each key only."""

Rights = Mapping[str, Sequence[str]]
"""What we need to be allowed of topics, by what they are for."""

READ_FROM: Rights = {"input": ("READ",), "labels": ("READ",)}
"""Topics that the service reads; it writes the others."""


class TopicLimits(NamedTuple):
    """Limits of a topic.

    Attributes
    ----------
    bytes
        Of a message at most (``max.message.bytes``).
    times
        Which timestamps it takes, and keeps.
    in_sync
        Replicas that have to be in sync for it to take anything (``min.insync.replicas``).
    compacted
        It keeps the latest record of each key only (``cleanup.policy``).
    confirmed
        The brokers have said so when last asked; otherwise it is what they said before, or the usual.
    """

    bytes: int = USUAL_BYTES
    times: TimestampLimits = TimestampLimits()
    in_sync: int = 1
    compacted: bool = False
    confirmed: bool = True


RECONCILED = ("links", "global_events")
"""Roles of the topics of `stream-osr reconcile`."""


def topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Roles of the topics of the service, by name."""
    return {topic: role for topic, role in all_topics_of(settings).items() if role not in RECONCILED}


def all_topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Roles of the topics of the service, and of the reconciliation if its workers publish summaries, by name."""
    roles = dict.fromkeys(settings.inputs, "input")
    left_out = ("input",) if settings.subclasses is not None else ("input", *RECONCILED)
    return roles | {t: role for role, t in settings.topics.items() if role not in left_out and t is not None}


def takes_of(admin: TopicAdmin, names: Iterable[str], before: Mapping[str, TopicLimits]) -> dict[str, TopicLimits]:
    """Ask what topics take; where the brokers do not tell, it is what it was before, or the usual.

    Parameters
    ----------
    admin
        Who asks.
    names
        Of the topics.
    before
        The answer before this one.
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
            "what these topics take is not known: %s (%s); unless it was known before, timestamps that they would "
            "refuse or not keep are not clamped. Grant DESCRIBE_CONFIGS on them",
            ", ".join(silent),
            why,
        )
    return takes


def _takes(configs: Mapping[str, str] | None, before: TopicLimits) -> TopicLimits:
    """Read the settings of a topic; none at all: the brokers did not tell them."""
    if not configs:
        return before._replace(confirmed=False)
    largest = int(configs.get("max.message.bytes") or USUAL_BYTES)
    in_sync = int(configs.get("min.insync.replicas") or 1)
    return TopicLimits(largest, TimestampLimits.of(configs), in_sync, is_compacted(configs))


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Say whether a topic with these settings is compacted."""
    return "compact" in configs.get("cleanup.policy", "")


def compaction(role: str, name: str, takes: Mapping[str, TopicLimits]) -> str | None:
    """Say that a topic is compacted that must not be; None: it is as it should be, or not known."""
    if name not in takes or not takes[name].compacted or role not in NOT_COMPACTED:
        return None
    return (
        f"{role}: topic {name} is compacted and loses all but the latest record of each key; "
        "set its cleanup.policy=delete"
    )


def check_sizes(settings: ServiceSettings, takes: Mapping[str, TopicLimits], summary: int) -> None:
    """Make sure that what is published fits.

    Raises
    ------
    ConnectorError
        If decisions, events, dead letters or summaries (of so many bytes at most) would not.
    """
    for name in (settings.output, settings.events, settings.dead_letters):
        if takes[name].bytes < LEAST_BYTES:
            raise ConnectorError(
                f"topic {name} takes messages of {takes[name].bytes} bytes at most; set its max.message.bytes to "
                f"{LEAST_BYTES} or more"
            )
    if settings.subclasses is not None and takes[settings.subclasses].bytes < summary:
        raise ConnectorError(
            f"subclasses: topic {settings.subclasses} takes messages of {takes[settings.subclasses].bytes} bytes at "
            f"most; set its max.message.bytes to {summary}, or train with a PCA"
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
"""The input has to keep its records for at least so many intervals between snapshots."""

DAY = 24 * 3600 * 1000

OF_ONE_PARTITION = ("labels", "subclasses", "links", "global_events")
"""Topics that all have to see in the same order."""

COMPACTED = ("subclasses", "links")


class TopicCheck(NamedTuple):
    """Check result of a topic.

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


class WantedTopics(NamedTuple):
    """Configuration wanted for topics that are made.

    Attributes
    ----------
    partitions
        Of the input; the other topics follow it.
    replicas
        Of all; None: what the broker gives.
    max_message_bytes
        Of the input.
    """

    partitions: int | None
    replicas: int | None = None
    max_message_bytes: int = USUAL_BYTES


def look_after(settings: ServiceSettings, wanted: WantedTopics | None) -> list[TopicCheck]:
    """Make the topics that are missing, if asked to, and say how all of them are.

    Parameters
    ----------
    settings
        Of the service.
    wanted
        Make what is missing, like this; None: make nothing.

    Raises
    ------
    ConnectorError
        If the broker does not answer or refuses.
    NoRightError
        If it does not tell the settings of a topic.
    InvalidParameter
        If the input is missing, and nobody has said how many partitions it should have.
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
    """Ask for the topics that are there."""
    there = {name: its for name, its in client.topics(all_topics_of(settings)).items() if its.partitions}
    configs = client.configs(there)
    for name in there:
        if not configs.get(name):
            raise NoRightError(
                f"the brokers do not tell the settings of topic {name}: the user lacks the right DESCRIBE_CONFIGS on "
                "it, which the brokers' ACLs grant"
            )
    return {name: its._replace(configs=configs[name]) for name, its in there.items()}


def _missing(
    settings: ServiceSettings, found: Mapping[str, Topic], wanted: WantedTopics
) -> dict[str, dict[str, Any]]:
    """Describe the topics that are to be made."""
    partitions, largest = wanted.partitions, wanted.max_message_bytes
    missing = [topic for topic in settings.inputs if topic not in found]
    if missing and partitions is None:
        raise InvalidParameter(
            f"topic {missing[0]} does not exist: give --partitions with the number that it shall have. It bounds the "
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
        return TopicCheck(role, name, "missing", ("it does not exist; --create makes it",))
    text = f"{'created: ' if new else ''}{_count(topic.partitions, 'partition')}, {_count(topic.replicas, 'replica')}"
    text += f", records up to {topic.number('max.message.bytes')} bytes"
    return TopicCheck(role, name, text, tuple(_problems(settings, role, topic, _largest_input(settings, found))))


def _problems(settings: ServiceSettings, role: str, topic: Topic, given: Topic | None) -> Iterator[str]:
    """Find what would go wrong, sooner or later."""
    largest, retention = topic.number("max.message.bytes"), topic.number("retention.ms")
    compacted = is_compacted(topic.configs)
    if role in OF_ONE_PARTITION and topic.partitions != 1:
        yield "it needs one partition, so that all see the same order"
    if role == "labels":
        if compacted or retention != -1:
            yield "a replay needs all of it: set cleanup.policy=delete and retention.ms=-1"
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
            yield f"what is published may have {needed} bytes: set max.message.bytes to that or more"
        if topic.partitions > given.partitions:
            yield f"it has more partitions than the input ({given.partitions}): those beyond stay empty"


def _largest_input(settings: ServiceSettings, found: Mapping[str, Topic]) -> Topic | None:
    """Describe all inputs as one: the most partitions, the largest records; None: there is none yet."""
    inputs = [found[topic] for topic in settings.inputs if topic in found]
    if not inputs:
        return None
    largest = max(inputs, key=lambda topic: topic.number("max.message.bytes"))
    return largest._replace(partitions=max(topic.partitions for topic in inputs))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
