"""The consumer of a worker, replaced after each failure, and its assigned partitions.

The assignment changes only inside `poll`. A new partition is paused until :meth:`Reader.begin`.
"""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from stream_osr.errors import ConnectorError

from ..backoff import CLOSE_SECONDS, Backoff, close
from ..client.consumers import GroupConsumer
from ..client.errors import remedy_of
from ..client.interface import ClientError, ErrorKind
from ..exits import TakenError
from ..log import Seldom
from ..places import Place
from ..settings import ServiceSettings
from ..stats import ServiceStats
from ..wire.messages import Received

POLL_SECONDS = 0.1
SWEEP_SECONDS = 30.0

SETTLED_SECONDS = 30.0
"""Seconds of life below which a failed consumer makes the next one wait longer."""

FIRST_HOLD, LONGEST_HOLD = 1.0, 60.0
"""First and longest seconds before an unreadable record is fetched again. The wait doubles each time."""

FENCED_AGAIN_SECONDS = 20.0
"""Seconds within which two fencings mean another process with the same name, and not a late own request."""


class PausedPartition(NamedTuple):
    """A partition with an unreadable record: its offset, the length of the pause, and its end."""

    offset: int
    seconds: float
    until: float


class Reader:
    """The consumer of a topic.

    Parameters
    ----------
    settings
        Of the service.
    topics
        Topics to read.
    most
        Most records of one poll.
    stats
        Statistics, which count consumers and unreadable fetches.

    Attributes
    ----------
    trouble
        Reason why nothing can be read at the moment, or empty.
    """

    def __init__(self, settings: ServiceSettings, topics: Sequence[str], most: int, stats: ServiceStats) -> None:
        self._settings, self._topics, self._most, self._stats = settings, topics, most, stats
        self._named = ", ".join(topics)
        self._client: GroupConsumer | None = None
        self._begun: set[Place] = set()
        self._gone: set[Place] = set()
        self._paused: dict[Place, PausedPartition] = {}
        self._waiting = False
        self._fenced = -math.inf
        self._backoff = Backoff()
        self._seldom = Seldom()
        self.trouble = ""
        self._swept = self._opened = time.monotonic()

    def open(self) -> None:
        """Connect and join the group.

        Raises
        ------
        ClientError
            If no broker answers, or the connection fails.
        """
        self._client = GroupConsumer(self._settings, self._topics, self._most, self._hold)
        self._waiting, self._opened = False, time.monotonic()
        self._stats.add("consumers")

    def close(self, *, leave: bool = False) -> None:
        """Close the consumer with a short time limit. It leaves the group only with ``leave``."""
        client, self._client = self._client, None
        if client is not None:
            close(partial(client.close, leave=leave), CLOSE_SECONDS)

    def renew(self) -> None:
        """Replace the client, and treat all its partitions as lost."""
        self.close()
        self._gone.update(self._begun)

    @property
    def is_member(self) -> bool:
        """Whether the consumer is a member of the group, as far as it knows."""
        return self._client is not None and self._client.is_member

    @property
    def assigned(self) -> frozenset[Place]:
        """Assigned partitions that :meth:`begin` has not started."""
        return frozenset() if self._client is None else frozenset(self._client.assigned)

    def topic_id(self, topic: str) -> str:
        """Id of a topic, as far as the client knows it."""
        return "" if self._client is None else self._client.topic_id(topic)

    @property
    def unreadable(self) -> list[Place]:
        """Partitions that cannot be read."""
        return sorted(self._paused)

    # What comes, and what goes.

    def poll(self, *, wait: bool = False) -> dict[Place, list[Received]]:
        """Return new records by partition, or nothing after a failure of the client.

        Parameters
        ----------
        wait
            Stay a member without reading, because earlier records cannot be published now.

        Raises
        ------
        TakenError
            If another member has the same name.
        ConnectorError
            If a retry cannot help.
        """
        try:
            if self._client is None:
                if not self._backoff.due:
                    time.sleep(POLL_SECONDS)
                    return {}
                self.open()
            self._sweep()
            self._fetch_paused()
            self._pause(wait)
            polled = self.client.poll(POLL_SECONDS)
            self._gone.update(self.client.lost)
            self.client.lost.clear()
        except ClientError as error:  # after any error the client may be wedged: a new one is not
            self._fail(error)
            return {}
        if self.trouble:
            self.trouble = ""
            self._seldom.forget("trouble", f"{self._named} is read again")
        for place, records in polled.items():
            held = self._paused.get(place)
            if held is not None and records[-1].offset >= held.offset:
                del self._paused[place]
                self._seldom.forget(f"hold {place}", f"{place} can be read again")
        return {place: records for place, records in polled.items() if place in self._begun}

    def gone(self) -> list[Place]:
        """Return the partitions that were revoked since the last call."""
        gone = sorted(self._gone)
        self._gone.clear()
        self._begun.difference_update(gone)
        for place in gone:
            self._paused.pop(place, None)
        return gone

    def begin(self, place: Place, offset: int) -> None:
        """Start reading a partition at an offset."""
        self.client.begin(place, offset)
        self._begun.add(place)
        if self._waiting:
            self.client.hold(place)

    def put_off(self, place: Place) -> None:
        """Pause a partition as if it had just been assigned, if it is still assigned."""
        if self._client is not None and self._client.has(place):
            self._client.hold(place)
            self._begun.discard(place)
            self._client.assigned.add(place)

    def position(self, place: Place) -> int | None:
        """Return the next offset to read, or ``None`` if unknown."""
        try:
            return None if self._client is None or not self._client.has(place) else self._client.position(place)
        except ClientError as error:
            self._seldom.say("position", f"the position in {place} is not known: {error}", logging.INFO)
            return None

    @property
    def client(self) -> GroupConsumer:
        """The current consumer.

        Raises
        ------
        ClientError
            If there is none.
        """
        if self._client is None:
            raise ClientError(ErrorKind.AGAIN, "there is no consumer at the moment")
        return self._client

    def _fail(self, error: ClientError) -> None:
        self.trouble = f"{self._named} cannot be read: {error}"
        if self._client is None:
            self._seldom.say("trouble", f"no broker at {self._settings.brokers}: {error}")
        else:
            self._seldom.say("trouble", f"the consumer failed and is replaced: {error}")
        self.renew()
        if time.monotonic() - self._opened > SETTLED_SECONDS:
            self._backoff.succeed()
        self._backoff.fail()
        if error.kind is ErrorKind.TAKEN:
            self._note_fencing()
        if error.kind is ErrorKind.FATAL:
            raise ConnectorError(f"{self.trouble}: {remedy_of(error)}")

    def _note_fencing(self) -> None:
        """Record that another process with the same name has fenced this one. After two within a short time, fail."""
        self._stats.add("transactions_fenced")
        now = time.monotonic()
        again, self._fenced = now - self._fenced < FENCED_AGAIN_SECONDS, now
        if again:
            raise TakenError(
                f"another worker of group {self._settings.group} has the name {self._settings.instance}: "
                "give each its own instance"
            )

    def _pause(self, wait: bool) -> None:
        if wait != self._waiting:
            self._waiting = wait
            if wait:
                self.client.hold(*self._begun)
            else:
                fetched = {place for place, held in self._paused.items() if held.until == math.inf}
                self.client.let_go_on(*(self._begun - (self._paused.keys() - fetched)))

    def _sweep(self) -> None:
        """Collect garbage regularly, because this closes sockets of failed connections."""
        now = time.monotonic()
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            gc.collect()

    # What cannot be read.

    def _hold(self, place: Place, offset: int, error: Exception, remedy: str) -> None:
        """Pause an unreadable partition for some time. The others continue, and no record is skipped."""
        held = self._paused.get(place)
        again = held is not None and held.offset == offset
        seconds = min(2 * held.seconds, LONGEST_HOLD) if held is not None and again else FIRST_HOLD
        self._paused[place] = PausedPartition(offset, seconds, time.monotonic() + seconds)
        self._stats.add("unreadable", place)
        text = f"cannot be read from {offset} on: {error} ({remedy}). Tried again in {seconds:.0f} s"
        if not again:
            self._seldom.forget(f"hold {place}")
        self._seldom.say(f"hold {place}", f"{place} {text}, other partitions go on", logging.ERROR)

    def _fetch_paused(self) -> None:
        """Fetch unreadable records again after their pause."""
        now = time.monotonic()
        for place, held in self._paused.items():
            if now >= held.until and place in self._begun and not self._waiting:
                self._paused[place] = held._replace(until=math.inf)
                self.client.let_go_on(place)
