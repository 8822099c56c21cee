"""Commands by topic: asked of a running service, read by each of its workers, and listed as a record.

Every worker reads the whole topic, of one partition, and each partition of the input applies it, in order, between
two micro-batches. How far it has come is written down with its offset, so that a replay does the same.
"""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise

import orjson

from stream_osr.errors import ConnectorError, InvalidInstance, InvalidLabel, InvalidParameter
from stream_osr_connectors.values import DecodeError

from ..commands.command import Command, CommandReceipt, Partition, parse_name, parse_record
from ..commands.command_entry import CommandEntry
from .backoff import Backoff
from .client import ClientError, PlainProducer, TopicFollower, read_all, start_explained
from .log import Seldom, logger
from .settings import ServiceSettings
from .stats import ServiceStats
from .wire.messages import Outgoing, Received
from .wire.subclasses import Links, alive

REFRESH_SECONDS = 0.5
ANSWER_SECONDS = 30.0
_GLOBAL = re.compile(r"global:(?P<id>\d{1,18})")


class Commands:
    """Commands in memory: 16 bytes, and the JSON of each, for people ask little, and machines label a great deal.

    Attributes
    ----------
    latest
        The last place at which something was asked of a partition; late labels are asked of none.

    Examples
    --------
    >>> log = Commands()
    >>> log.append(3, Command("label", key="k7", label="leak"))
    >>> log.append(9, Command("undo", partition=("sensors", 0)))
    >>> [command.action for command in log.commands(3, 9)], log.latest
    (['label'], {('sensors', 0): 9})
    """

    def __init__(self) -> None:
        self.latest: dict[Partition, int] = {}
        self._places = array("q")
        self._ends = array("q")
        self._written = bytearray()

    def append(self, place: int, command: Command) -> None:
        """Take in the next one, which stands after all others."""
        (record,) = command.records()
        self._written += orjson.dumps(record)
        self._places.append(place)
        self._ends.append(len(self._written))
        if command.partition is not None:
            self.latest[command.partition] = place

    def commands(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another."""
        first, last = bisect_left(self._places, begin), bisect_left(self._places, end)
        starts = [self._ends[first - 1] if first else 0, *self._ends[first:last]]
        return [parse_record(bytes(self._written[start:stop])) for start, stop in pairwise(starts)]


class CommandTopic:
    """The commands of a service's topic, all of them in memory; none if the settings name no topic.

    Parameters
    ----------
    settings
        Name the topic.
    stats
        Where it counts records that are no commands.

    Attributes
    ----------
    end
        Place after the last command that has been read.
    """

    def __init__(self, settings: ServiceSettings, stats: ServiceStats) -> None:
        self._topic = settings.labels
        self._settings, self._stats = settings, stats
        self._commands = Commands()
        self._backoff = Backoff()
        self._seldom = Seldom()
        self._looked = 0.0
        self._first = self.end = 0
        self._follower: TopicFollower | None = None

    def open(self) -> None:
        """Read all that was ever asked.

        Raises
        ------
        ConnectorError
            If the topic has not one partition.
        """
        if self._topic is None:
            return
        self._follower = TopicFollower.of(self._settings, self._topic)
        count = len(self._follower.places)
        if count != 1:
            raise ConnectorError(
                f"the topic of labels, {self._topic}, has {count} partitions; it needs one, so that all workers see "
                "the same order (`stream-osr topics --create` makes it)"
            )
        (self._place,) = self._follower.places
        first, ends = self._follower.bounds()
        self._first = self.end = first[self._place]
        self._follower.seek(first)
        while self.end < ends[self._place]:
            self._read(self._follower, 0.2)

    def refresh(self) -> None:
        """Read on, without waiting; not more often than twice a second. Without brokers nothing new is asked."""
        now = time.monotonic()
        if self._topic is None or now - self._looked < REFRESH_SECONDS or not self._backoff.due:
            return
        self._looked = now
        try:
            if self._follower is None:
                self._follower = TopicFollower.of(self._settings, self._topic)
                self._follower.seek({self._place: self.end})
            self._read(self._follower, 0.0)
        except (ClientError, ConnectorError) as error:  # after any error the client may be wedged
            self._seldom.say("labels", f"the topic of labels, {self._topic}, cannot be read: {error}")
            self._backoff.fail()
            self.close()
        else:
            self._backoff.succeed()
            if self._seldom.forget("labels"):
                logger.info("the topic of labels, %s, is read again", self._topic)

    def commands(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another.

        Raises
        ------
        ConnectorError
            If the topic no longer holds them, or does not hold them yet, or there is none, and a replay without them
            would differ.
        """
        self._check(begin, end)
        return self._commands.commands(begin, end)

    def asks(self, partition: Partition, begin: int) -> bool:
        """Say whether somebody has named, muted or undone something in a partition since a place.

        Late labels wait for instances.

        Raises
        ------
        ConnectorError
            If the topic no longer holds what was asked since then.
        """
        self._check(begin, self.end)
        return self._commands.latest.get(partition, -1) >= begin

    def tell_of_gap(self, place: str, applied: int) -> None:
        """Say so when a partition has applied more than the topic holds: new commands would not be heard."""
        if applied > self.end:
            logger.error(
                f"{place}: labels up to {applied} were applied, and their topic ends at {self.end}: it was made "
                "again. What is asked there is not heard before it gets so far: take another topic as labels, in "
                "another group"
            )

    def close(self) -> None:
        """Let go of the topic."""
        follower, self._follower = self._follower, None
        if follower is not None:
            with suppress(ClientError):
                follower.close()

    def _check(self, begin: int, end: int) -> None:
        if begin >= end or self._first <= begin <= end <= self.end:
            return
        if self._topic is None:
            raise ConnectorError("labels were applied to this stream before; name their topic again as labels")
        raise ConnectorError(
            f"a replay needs the labels from {begin} to {end}, and topic {self._topic} holds {self._first} to "
            f"{self.end}; keep labels for ever (retention.ms=-1)"
        )

    def _read(self, follower: TopicFollower, seconds: float) -> None:
        for received in follower.poll(seconds, most=500):
            try:
                self._commands.append(received.offset, parse_record(received.value))
            except MemoryError:
                raise
            except Exception as error:  # whatever it is: the topic is kept for ever, and each start comes to it
                logger.warning("%s at %d is left: %s", self._topic, received.offset, error)
                self._stats.add("commands_unreadable")
        self.end = follower.position(self._place)


def topic_of(settings: ServiceSettings) -> str:
    """Return the topic of commands.

    Raises
    ------
    InvalidParameter
        If the service has none.
    """
    if settings.labels is None:
        raise InvalidParameter("setting labels: name the topic of labels that the service reads")
    return settings.labels


def entry_of(received: Received) -> CommandEntry:
    """Read a record of the topic as an entry of the history."""
    seconds = max(received.timestamp or 0, 0) / 1000
    at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    try:
        return CommandEntry(received.offset, at, parse_record(received.value), "asked")
    except DecodeError as error:
        return CommandEntry(received.offset, at, None, "asked", why=str(error))


def history(settings: ServiceSettings) -> Iterator[CommandEntry]:
    """Read all that was asked, in order; what came of it the log of the service says.

    Raises
    ------
    InvalidParameter
        If the service has no topic of labels.
    ConnectorError
        If it cannot be read.
    """
    topic = topic_of(settings)
    with start_explained(settings):
        yield from map(entry_of, read_all(settings, topic))


def ask(settings: ServiceSettings, *commands: Command) -> CommandReceipt:
    """Write commands to the topic of labels, and say where they stand.

    Parameters
    ----------
    settings
        Of the service.
    commands
        Of one kind.

    Raises
    ------
    InvalidParameter
        If the service could not do it.
    ConnectorError
        If they cannot be written; some of them may stand there all the same.
    """
    topic = topic_of(settings)
    try:
        values = [orjson.dumps(record) for command in commands for record in command.checked().records()]
    except (TypeError, DecodeError, InvalidInstance, InvalidLabel, InvalidParameter) as error:
        raise InvalidParameter(f"the service could not do that: {error}") from None
    with start_explained(settings):
        producer = PlainProducer.of(settings, ANSWER_SECONDS)
        try:
            for command in commands:
                _check_place(producer, settings, command.partition)
            sent = producer.send([Outgoing(topic, 0, None, value, [], None) for value in values])
        finally:
            producer.close(1)
    if sent.refused:
        place, why = sent.refused[0]
        taken = f"; {sent.acknowledged[topic]} of {len(values)} commands stand in it" if len(values) > 1 else ""
        raise ConnectorError(f"topic {topic} has not taken command {place + 1}: {why}{taken}")
    of, at = "", str(sent.offsets[0])
    if len(values) > 1:
        count = len({command.partition for command in commands})
        of = f" of {len(values)} subclasses in {count} partition{'' if count == 1 else 's'},"
        at = f"{sent.offsets[0]} to {sent.offsets[-1]}"
    said = (
        f"{commands[0].action} asked for,{of} at {at} of topic {topic}; the log of the service says what came of it"
    )
    return CommandReceipt(said, "queued", sent.offsets[0])


def _check_place(producer: PlainProducer, settings: ServiceSettings, partition: Partition | None) -> None:
    """Make sure that somebody will feel meant."""
    if partition is None:
        return
    topic, number = partition
    if topic not in settings.inputs:
        raise InvalidParameter(f"the service reads topic {', '.join(settings.inputs)}, not {topic}")
    count = producer.partitions(topic)
    if number >= count:
        raise InvalidParameter(f"topic {topic} has {count} partitions, counted from 0: there is no {number}")


def named(settings: ServiceSettings, name: str, command: Command) -> list[Command]:
    """Direct a command at the partitions' own subclasses that a name means, or an undo at the partition.

    Parameters
    ----------
    settings
        Of the service.
    name
        ``topic/partition``, ``topic/partition:id``, or ``global:id`` as `stream-osr reconcile` has told it: then
        those that are linked to this identity now, or to the one that it was merged into, in partitions of the input.
    command
        What is asked of them.

    Raises
    ------
    InvalidParameter
        If there are no global identities, or not this one, or nothing under it is alive.
    ConnectorError
        If they cannot be read.
    """
    given = _GLOBAL.fullmatch(name)
    if given is None:
        try:
            partition, subclass = parse_name(name, whole=command.action != "undo")
        except DecodeError as error:
            raise InvalidParameter(f"the service could not do that: {error}") from None
        return [command._replace(partition=partition, subclasses=() if command.action == "undo" else (subclass,))]
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
        (parse_name(local.place, whole=False)[0], local)
        for local, linked in sorted(links.links.items())
        if links.final(linked) == links.final(key) and local in there
    ]
    own = [(partition, local) for partition, local in own if partition[0] in settings.inputs]
    if not own:
        raise InvalidParameter(
            f"nothing under {name} is an emerging subclass any more: all were named, or are forgotten"
        )
    return [command._replace(partition=place, subclasses=(local.id,), run=local.run) for place, local in own]
