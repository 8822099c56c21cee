"""Asking something of a running service: writing to the topic of labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from stream_osr.errors import ConnectorError, InvalidInstance, InvalidLabel, InvalidParameter
from stream_osr.limits import check_key, check_label
from stream_osr_connectors.values import DecodeError

from ..commands.command import parse
from .client import PlainProducer, read_all, start_explained
from .settings import ServiceSettings
from .wire.messages import Outgoing
from .wire.subclasses import Links, alive, name_of

_GLOBAL = re.compile(r"global:(?P<id>\d{1,18})")

ANSWER_SECONDS = 30.0


def ask(settings: ServiceSettings, *asked: Mapping[str, Any]) -> str:
    """Write commands to the topic of labels, and say where they stand.

    Parameters
    ----------
    settings
        Of the service.
    asked
        As they go over the wire (:mod:`stream_osr_connectors.commands.command`), all of one kind.

    Raises
    ------
    InvalidParameter
        If the service could not do it.
    ConnectorError
        If they cannot be written; some of them may stand there all the same.
    """
    topic = settings.labels
    if topic is None:
        raise InvalidParameter("setting labels: name the topic of labels that the service reads")
    try:
        values = [orjson.dumps(each) for each in asked]
        commands = [parse(value) for value in values]
        for command in commands:
            check_key(command.key)
            check_label(command.label)
    except (TypeError, DecodeError, InvalidInstance, InvalidLabel) as error:
        raise InvalidParameter(f"the service could not do that: {error}") from None
    with start_explained(settings):
        producer = PlainProducer.of(settings, ANSWER_SECONDS)
        try:
            for command in commands:
                _check_place(producer, settings, command.topic, command.partition)
            sent = producer.send([Outgoing(topic, 0, None, value, [], None) for value in values])
        finally:
            producer.close(1)
    if sent.refused:
        place, why = sent.refused[0]
        taken = f"; {sent.acknowledged[topic]} of {len(values)} commands stand in it" if len(values) > 1 else ""
        raise ConnectorError(f"topic {topic} has not taken command {place + 1}: {why}{taken}")
    action, count = commands[0].action, len({command.partition for command in commands})
    of, at = "", str(sent.offsets[0])
    if len(values) > 1:
        of = f" of {len(values)} subclasses in {count} partition{'' if count == 1 else 's'},"
        at = f"{sent.offsets[0]} to {sent.offsets[-1]}"
    return f"{action} asked for,{of} at {at} of topic {topic}; the log of the service says what came of it"


def meant(settings: ServiceSettings, name: str) -> list[dict[str, str]]:
    """Find the partitions' own subclasses that a name means, as commands name them.

    Parameters
    ----------
    settings
        Of the service.
    name
        ``topic/partition:id``, or ``global:id`` as `stream-osr reconcile` has told it: then those that are linked to
        this identity now, or to the one that it was merged into, in partitions of the input.

    Raises
    ------
    InvalidParameter
        If there are no global identities, or not this one, or nothing under it is alive.
    ConnectorError
        If they cannot be read.
    """
    given = _GLOBAL.fullmatch(name)
    if given is None:
        return [{"subclass": name}]
    if settings.subclasses is None:
        raise InvalidParameter(
            f"setting subclasses: {name} is an identity of `stream-osr reconcile`; name the topic that it reads"
        )
    links, key = Links({}, {}), int(given["id"])
    with start_explained(settings):
        for received in read_all(settings, settings.links):
            with suppress(DecodeError):  # `stream-osr reconcile` tells of it
                links.read(received)
        there = alive(read_all(settings, settings.subclasses))
    if key not in {*links.links.values(), *links.merged}:
        raise InvalidParameter(
            f"no subclass has had the global id {key}; those that there are stand in topic {settings.global_events}"
        )
    own = [
        local
        for local, linked in sorted(links.links.items())
        if links.final(linked) == links.final(key)
        and local in there
        and local.place.rpartition("/")[0] in settings.inputs
    ]
    if not own:
        raise InvalidParameter(
            f"nothing under {name} is an emerging subclass any more: all were named, or are forgotten"
        )
    return [{"subclass": name_of(local), "run": local.run} for local in own]


def _check_place(
    producer: PlainProducer, settings: ServiceSettings, topic: str | None, partition: int | None
) -> None:
    """Make sure that somebody will feel meant."""
    if topic is None:
        return
    if topic not in settings.inputs:
        raise InvalidParameter(f"the service reads topic {', '.join(settings.inputs)}, not {topic}")
    count = producer.partitions(topic)
    if partition is None or partition >= count:
        raise InvalidParameter(f"topic {topic} has {count} partitions, counted from 0: there is no {partition}")
