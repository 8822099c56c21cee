"""What the topics of a service are, and what they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stream_osr.errors import ConnectorError

from ..client import ClientError, Topic, TopicAdmin
from ..log import logger
from ..settings import ServiceSettings
from ..wire.timestamps import Limits

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


class Takes(NamedTuple):
    """What a topic takes.

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
    told
        The brokers have said so when last asked; otherwise it is what they said before, or the usual.
    """

    bytes: int = USUAL_BYTES
    times: Limits = Limits()
    in_sync: int = 1
    compacted: bool = False
    told: bool = True


RECONCILED = ("links", "global_events")
"""Roles of the topics of `stream-osr reconcile`."""


def topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Roles of the topics of the service, by name."""
    return {topic: role for topic, role in all_topics_of(settings).items() if role not in RECONCILED}


def all_topics_of(settings: ServiceSettings) -> dict[str, str]:
    """Roles of the topics of the service, and of the reconciliation if its workers publish summaries, by name."""
    roles = dict.fromkeys(settings.inputs, "input")
    roles |= {topic: role for role, topic in settings.topics.items() if role != "input" and topic is not None}
    if settings.subclasses is None:
        return {topic: role for topic, role in roles.items() if role not in RECONCILED}
    return roles


def takes_of(admin: TopicAdmin, names: Iterable[str], before: Mapping[str, Takes]) -> dict[str, Takes]:
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
    takes = {name: _takes(configs.get(name), before.get(name, Takes())) for name in names}
    silent = [name for name, its in takes.items() if not its.told and before.get(name, Takes()).told]
    if silent:
        logger.warning(
            "what these topics take is not known: %s (%s); unless it was known before, timestamps that they would "
            "refuse or not keep are not clamped. Grant DESCRIBE_CONFIGS on them",
            ", ".join(silent),
            why,
        )
    return takes


def _takes(configs: Mapping[str, str] | None, before: Takes) -> Takes:
    """Read the settings of a topic; none at all: the brokers did not tell them."""
    if not configs:
        return before._replace(told=False)
    largest = int(configs.get("max.message.bytes") or USUAL_BYTES)
    in_sync = int(configs.get("min.insync.replicas") or 1)
    return Takes(largest, Limits.of(configs), in_sync, is_compacted(configs))


def takes_nothing(topic: Topic, takes: Takes) -> bool:
    """Say whether a topic takes nothing now, because too few of its replicas are in sync."""
    return 0 < topic.in_sync < min(takes.in_sync, topic.replicas)


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Say whether a topic with these settings is compacted."""
    return "compact" in configs.get("cleanup.policy", "")


def compaction(role: str, name: str, takes: Takes) -> str | None:
    """Say that a topic is compacted that must not be; None: it is as it should be."""
    if not takes.compacted or role not in NOT_COMPACTED:
        return None
    return (
        f"{role}: topic {name} is compacted and loses all but the latest record of each key; "
        "set its cleanup.policy=delete"
    )


def check_sizes(settings: ServiceSettings, takes: Mapping[str, Takes], summary: int) -> None:
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
