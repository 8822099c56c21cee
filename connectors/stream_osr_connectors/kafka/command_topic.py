"""Commands to a running service through a topic, which each worker reads, and their history.

The topic has one partition. Every worker reads the whole topic, and each partition of the input applies the commands
in order, between two micro-batches. The position in the topic is committed with the offset, so that a replay is
identical.
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

from ..commands.command import OF_STREAM, Command, CommandReceipt
from ..commands.command_entry import CommandEntry
from ..commands.names import Partition, parse_name, parse_stream, parse_subclass
from ..commands.parsing import parse_record
from .backoff import Backoff
from .client.consumers import TopicFollower, read_all
from .client.errors import start_explained
from .client.interface import ClientError
from .client.producer import PlainProducer
from .log import Seldom, logger
from .settings import ServiceSettings
from .stats import ServiceStats
from .wire.messages import Outgoing, Received
from .wire.subclasses import Links, alive

REFRESH_SECONDS = 0.5
ANSWER_SECONDS = 30.0
_GLOBAL = re.compile(r"global:(?P<id>\d{1,18})")


class Commands:
    """Commands in memory, with the JSON text and 16 bytes for each.

    Attributes
    ----------
    latest
        Place of the last command for each partition. Late labels belong to no partition. Commands to a key in any
        partition have the place ``None``.

    Examples
    --------
    >>> log = Commands()
    >>> log.append(3, Command("label", key="k7", label="leak"))
    >>> log.append(9, Command("undo", partition=("sensors", 0)))
    >>> [command.action for command in log.commands(3, 9)], log.latest
    (['label'], {('sensors', 0): 9})
    """

    def __init__(self) -> None:
        self.latest: dict[Partition | None, int] = {}
        self._places = array("q")
        self._ends = array("q")
        self._written = bytearray()

    def append(self, place: int, command: Command) -> None:
        """Append the next command."""
        (record,) = command.records()
        self._written += orjson.dumps(record)
        self._places.append(place)
        self._ends.append(len(self._written))
        if command.partition is not None or command.action != "label":
            self.latest[command.partition] = place

    def commands(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another."""
        first, last = bisect_left(self._places, begin), bisect_left(self._places, end)
        starts = [self._ends[first - 1] if first else 0, *self._ends[first:last]]
        return [parse_record(bytes(self._written[start:stop])) for start, stop in pairwise(starts)]


class CommandTopic:
    """All commands of a service's topic, in memory. It is empty if the settings have no topic.

    Parameters
    ----------
    settings
        Settings with the topic.
    stats
        Statistics that count invalid records.

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
        """Read all commands.

        Raises
        ------
        ConnectorError
            If the topic does not have exactly one partition.
        """
        if self._topic is None:
            return
        self._follower = TopicFollower.of(self._settings, self._topic)
        count = len(self._follower.places)
        if count != 1:
            raise ConnectorError(
                f"the topic of labels, {self._topic}, has {count} partitions. It needs one, so that all workers see "
                "the same order (`stream-osr topics --create` creates it)"
            )
        (self._place,) = self._follower.places
        first, ends = self._follower.bounds()
        self._first = self.end = first[self._place]
        self._follower.seek(first)
        while self.end < ends[self._place]:
            self._read(self._follower, 0.2)

    def refresh(self) -> None:
        """Read new commands without waiting, at most twice a second. Without brokers there are no new commands."""
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
            self._seldom.forget("labels", f"the topic of labels, {self._topic}, is read again")

    def commands(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another.

        Raises
        ------
        ConnectorError
            If the topic does not have these commands, or there is no topic, so that a replay would differ.
        """
        self._check(begin, end)
        return self._commands.commands(begin, end)

    def asks(self, partition: Partition, begin: int) -> bool:
        """Return whether there is a command other than a label for a partition since a place.

        Late labels are not included, because they wait for instances.

        Raises
        ------
        ConnectorError
            If the topic no longer has the commands since then.
        """
        self._check(begin, self.end)
        return any(self._commands.latest.get(each, -1) >= begin for each in (partition, None))

    def tell_of_gap(self, place: str, applied: int) -> None:
        """Log an error if a partition has applied more than the topic has, because it would ignore new commands."""
        if applied > self.end:
            logger.error(
                f"{place}: labels up to {applied} were applied, and their topic ends at {self.end}: it was made "
                "again. New commands are ignored until it reaches this offset: use another topic as labels, in "
                "another group"
            )

    def close(self) -> None:
        """Close the consumer."""
        follower, self._follower = self._follower, None
        if follower is not None:
            with suppress(ClientError):
                follower.close()

    def _check(self, begin: int, end: int) -> None:
        if begin >= end or self._first <= begin <= end <= self.end:
            return
        if self._topic is None:
            raise ConnectorError("labels were applied to this stream before: set their topic as labels again")
        raise ConnectorError(
            f"a replay needs the labels from {begin} to {end}, and topic {self._topic} holds {self._first} to "
            f"{self.end}. Keep labels for ever (retention.ms=-1)"
        )

    def _read(self, follower: TopicFollower, seconds: float) -> None:
        for received in follower.poll(seconds, most=500):
            try:
                self._commands.append(received.offset, parse_record(received.value))
            except MemoryError:
                raise
            except Exception as error:  # any error: the topic is permanent, and each start reads it again
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
    """Convert a record of the topic to an entry of the history."""
    seconds = max(received.timestamp or 0, 0) / 1000
    at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    try:
        return CommandEntry(received.offset, at, parse_record(received.value), "asked")
    except DecodeError as error:
        return CommandEntry(received.offset, at, None, "asked", why=str(error))


def history(settings: ServiceSettings) -> Iterator[CommandEntry]:
    """Yield all commands in order. The log of the service has their results.

    Raises
    ------
    InvalidParameter
        If the service has no topic of labels.
    ConnectorError
        If the topic cannot be read.
    """
    topic = topic_of(settings)
    with start_explained(settings):
        yield from map(entry_of, read_all(settings, topic))


def ask(settings: ServiceSettings, *commands: Command) -> CommandReceipt:
    """Write commands to the topic of labels, and return their offsets.

    Parameters
    ----------
    settings
        Of the service.
    commands
        Commands of one kind.

    Raises
    ------
    InvalidParameter
        If the service cannot execute the commands.
    ConnectorError
        If they cannot be written. Some of them may be in the topic nevertheless.
    """
    topic = topic_of(settings)
    for command in commands:
        if (command.stream is None) != (settings.by is None):
            raise InvalidParameter(
                "the service is one stream for each partition (setting by). Leave the key out"
                if settings.by is None
                else "the service has a stream for each key (setting by). Name the key: KEY/ID, or --stream KEY"
            )
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
        taken = f" ({sent.acknowledged[topic]} of {len(values)} commands are in the topic)" if len(values) > 1 else ""
        raise ConnectorError(f"topic {topic} rejected command {place + 1}: {why}{taken}")
    of, at = "", str(sent.offsets[0])
    if len(values) > 1:
        count = len({command.partition for command in commands})
        of = f" of {len(values)} subclasses in {count} partition{'' if count == 1 else 's'},"
        at = f"{sent.offsets[0]} to {sent.offsets[-1]}"
    said = f"{commands[0].action} queued,{of} at {at} of topic {topic}. The log of the service has the result"
    return CommandReceipt(said, "queued", sent.offsets[0])


def _check_place(producer: PlainProducer, settings: ServiceSettings, partition: Partition | None) -> None:
    """Check that the partition of a command exists."""
    if partition is None:
        return
    topic, number = partition
    if topic not in settings.inputs:
        raise InvalidParameter(f"the service reads topic {', '.join(settings.inputs)}, not {topic}")
    count = producer.partitions(topic)
    if number >= count:
        raise InvalidParameter(f"topic {topic} has {count} partitions, counted from 0: there is no {number}")


def named(settings: ServiceSettings, name: str, command: Command) -> list[Command]:
    """Resolve a name to commands on subclasses of partitions, or to a command on a partition.

    Parameters
    ----------
    settings
        Of the service.
    name
        ``topic/partition``, ``topic/partition:id``, or ``global:id`` of `stream-osr reconcile`. A global id means all
        subclasses in partitions of the input that are linked to it now, or to the global id that it was merged into.
        With the setting `by`: ``KEY`` and ``KEY/id``, also after ``topic/partition:``.
    command
        Command without subclasses.

    Raises
    ------
    InvalidParameter
        If there are no global ids, or not this one, or if no subclass with this id is alive.
    ConnectorError
        If the topics cannot be read.
    """
    given = _GLOBAL.fullmatch(name)
    if settings.by is not None or command.action == "label":
        return [_of_key(name, command)]
    if given is None:
        try:
            partition, subclass = parse_name(name, whole=command.action not in OF_STREAM)
        except DecodeError as error:
            raise InvalidParameter(f"the service could not do that: {error}") from None
        return [command._replace(partition=partition, subclasses=() if command.action in OF_STREAM else (subclass,))]
    if settings.subclasses is None:
        raise InvalidParameter(
            f"setting subclasses: {name} is an id of `stream-osr reconcile`. Set the topic that it reads"
        )
    links, key = Links({}, {}), int(given["id"])
    with start_explained(settings):
        for received in read_all(settings, settings.links):
            with suppress(DecodeError):  # `stream-osr reconcile` reports it
                links.read(received)
        there = alive(read_all(settings, settings.subclasses))
    if key not in {*links.links.values(), *links.merged}:
        raise InvalidParameter(
            f"no subclass has had the global id {key}. Topic {settings.global_events} has all global ids"
        )
    own = [
        (parse_name(local.place, whole=False)[0], local)
        for local, linked in sorted(links.links.items())
        if links.final(linked) == links.final(key) and local in there
    ]
    own = [(partition, local) for partition, local in own if partition[0] in settings.inputs]
    if not own:
        raise InvalidParameter(f"{name} has no emerging subclass any more: all were named or forgotten")
    return [command._replace(partition=place, subclasses=(local.id,), run=local.run) for place, local in own]


def _of_key(name: str, command: Command) -> Command:
    """Resolve a name in a service with the setting `by`."""
    try:
        if command.action in ("promote", "mute"):
            partition, stream, subclass = parse_subclass(name)
            return command._replace(partition=partition, stream=stream, subclasses=(subclass,))
        partition, stream = parse_stream(name)
        return command._replace(partition=partition, stream=stream)
    except DecodeError as error:
        raise InvalidParameter(f"the service could not do that: {error}. Give a name such as KEY/ID") from None
