"""The topic of labels as a log in memory, kept small: people ask for little, and machines label a great deal."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import orjson

from stream_osr.errors import ConnectorError

from ..commands.command import Command, parse
from .backoff import Backoff
from .client import ClientError, TopicFollower
from .figures import Figures
from .log import Seldom, logger
from .settings import ServiceSettings

REFRESH_SECONDS = 0.5


class Commands:
    """A log of commands: 16 bytes, and what each says as JSON.

    Attributes
    ----------
    asked
        The last place at which something was asked of a partition; late labels are asked of none.

    Examples
    --------
    >>> log = Commands()
    >>> log.append(3, Command("label", key="k7", label="leak"))
    >>> log.append(9, Command("undo", "sensors", 0))
    >>> [command.action for command in log.between(3, 9)], log.asked
    (['label'], {('sensors', 0): 9})
    """

    def __init__(self) -> None:
        self.asked: dict[tuple[str, int], int] = {}
        self._places = array("q")
        self._ends = array("q")
        self._said = bytearray()

    def append(self, place: int, command: Command) -> None:
        """Take in the next one, which stands after all others."""
        self._said += orjson.dumps(tuple(command))
        self._places.append(place)
        self._ends.append(len(self._said))
        if command.topic is not None and command.partition is not None:
            self.asked[command.topic, command.partition] = place

    def between(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another."""
        first, last = bisect_left(self._places, begin), bisect_left(self._places, end)
        starts = [self._ends[first - 1] if first else 0, *self._ends[first:last]]
        return [Command(*orjson.loads(self._said[start:stop])) for start, stop in pairwise(starts)]


class Labels:
    """What has been asked so far: nothing, without a topic of labels.

    Attributes
    ----------
    end
        Place after the last command that has been read.
    """

    end: int = 0

    def refresh(self) -> None:
        """Read on, without waiting."""

    def between(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another, which has been read.

        Raises
        ------
        ConnectorError
            If labels were applied when this stream was first run: a replay without them would differ.
        """
        if end > begin:
            raise ConnectorError("labels were applied to this stream before; name their topic again as labels")
        return ()

    def asks(self, topic: str, number: int, begin: int) -> bool:
        """Say whether somebody has named, muted or undone something in a partition since a place.

        Late labels wait for instances.
        """
        return False

    def close(self) -> None:
        """Let go of the topic."""


class LabelLog(Labels):
    """The commands of a topic, all of them in memory, as short as they can be said.

    Parameters
    ----------
    settings
        Name the topic.
    figures
        Where it counts records that are no commands.

    Raises
    ------
    ConnectorError
        If the topic has not one partition.
    """

    def __init__(self, settings: ServiceSettings, figures: Figures) -> None:
        self._topic = settings.labels or ""
        self._settings, self._figures = settings, figures
        self._follower: TopicFollower | None = TopicFollower.of(settings, self._topic)
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
        self._commands = Commands()
        self._backoff = Backoff()
        self._seldom = Seldom()
        self._looked = 0.0
        while self.end < ends[self._place]:
            self._read(self._follower, 0.2)

    def refresh(self) -> None:
        """Read on, without waiting; not more often than twice a second. Without brokers nothing new is asked."""
        now = time.monotonic()
        if now - self._looked < REFRESH_SECONDS or not self._backoff.due:
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

    def between(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another.

        Raises
        ------
        ConnectorError
            If the topic no longer holds them, or does not hold them yet.
        """
        self._check(begin, end)
        return self._commands.between(begin, end)

    def asks(self, topic: str, number: int, begin: int) -> bool:
        """Say whether somebody has named, muted or undone something in a partition since a place.

        Raises
        ------
        ConnectorError
            If the topic no longer holds what was asked since then.
        """
        self._check(begin, self.end)
        return self._commands.asked.get((topic, number), -1) >= begin

    def close(self) -> None:
        """Let go of the topic."""
        follower, self._follower = self._follower, None
        if follower is not None:
            with suppress(ClientError):
                follower.close()

    def _check(self, begin: int, end: int) -> None:
        if begin < end and not self._first <= begin <= end <= self.end:
            raise ConnectorError(
                f"a replay needs the labels from {begin} to {end}, and topic {self._topic} holds {self._first} to "
                f"{self.end}; keep labels for ever (retention.ms=-1)"
            )

    def _read(self, follower: TopicFollower, seconds: float) -> None:
        for received in follower.poll(seconds, most=500):
            try:
                command = parse(received.value)
            except MemoryError:
                raise
            except Exception as error:  # whatever it is: the topic is kept for ever, and each start comes to it
                logger.warning("%s at %d is left: %s", self._topic, received.offset, error)
                self._figures.add("commands_unreadable")
                continue
            self._commands.append(received.offset, command)
        self.end = follower.position(self._place)


def tell_of_gap(labels: Labels, place: str, applied: int) -> None:
    """Say so when a partition has applied more than the topic holds: what is asked there now would not be heard."""
    if applied > labels.end:
        logger.error(
            f"{place}: labels up to {applied} were applied, and their topic ends at {labels.end}: it was made again. "
            "What is asked there is not heard before it gets so far: take another topic as labels, in another group"
        )
