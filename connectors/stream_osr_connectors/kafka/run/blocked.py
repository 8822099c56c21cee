"""Partitions that an open transaction of another producer blocks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from ..client.admin import TopicAdmin
from ..client.interface import ClientError, OpenTransaction
from ..log import Seldom
from ..places import Place

OPEN_SECONDS = 300.0
"""Seconds for which a transaction may block a partition until the service is not ready."""

ASK_SECONDS = 60.0
"""Seconds between two requests for the producer of an open transaction."""


class Blocked(NamedTuple):
    """A partition whose last stable offset does not move.

    Attributes
    ----------
    stable
        Last stable offset, which is the first record of the open transaction.
    records
        Number of records after it.
    since, clock
        Time of the first observation, by ``time.monotonic`` and ``time.time``.
    asked_at
        Time of the last request for the producer.
    producer
        Producer of the transaction, ``None`` if unknown.
    """

    stable: int
    records: int
    since: float
    clock: float
    asked_at: float = -math.inf
    producer: OpenTransaction | None = None


class Unstable:
    """Tracks the last stable offset and the end of each partition of the input, for all threads.

    Parameters
    ----------
    brokers
        Brokers, for the command that aborts a transaction.
    """

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._blocked: dict[Place, Blocked] = {}
        self._seldom = Seldom()

    def follow(self, stable: Mapping[Place, int], ends: Mapping[Place, int]) -> None:
        """Update the last stable offsets and the ends of partitions."""
        blocked: dict[Place, Blocked] = {}
        for place, end in ends.items():
            at = stable.get(place, end)
            if at < end:
                was = self._blocked.get(place)
                if was is None or was.stable != at:
                    was = Blocked(at, 0, time.monotonic(), time.time())
                blocked[place] = was._replace(records=end - at)
        for place in self._blocked.keys() - blocked.keys():
            self._seldom.forget(str(place), f"{place}: the open transaction has ended, and it is read on")
        self._blocked = blocked

    def records(self, place: Place) -> int:
        """Return the number of records that wait for the end of a transaction, including its own records."""
        blocked = self._blocked.get(place)
        return 0 if blocked is None else blocked.records

    def tell(self, places: Iterable[Place], admin: TopicAdmin) -> None:
        """Log partitions that have been blocked for long, and request the producers of the transactions."""
        now, asked = time.monotonic(), False
        for place in places:
            blocked = self._long(place)
            if blocked is None:
                continue
            if not asked and blocked.producer is None and now - blocked.asked_at > ASK_SECONDS:
                producer, asked = None, True  # one partition in each check, because requests may take long
                with suppress(ClientError):  # a right is missing, or a broker is away
                    producer = admin.open_transaction(place, blocked.stable)
                blocked = self._blocked[place] = blocked._replace(asked_at=now, producer=producer)
            self._seldom.say(str(place), self._message(place, blocked))

    def obstacles(self, places: Iterable[Place]) -> list[str]:
        """Return texts for partitions that have been blocked for long, with the producer and the remedy."""
        long = ((place, self._long(place)) for place in places)
        return [self._message(place, blocked) for place, blocked in long if blocked is not None]

    def _long(self, place: Place) -> Blocked | None:
        blocked = self._blocked.get(place)
        return blocked if blocked is not None and time.monotonic() - blocked.since >= OPEN_SECONDS else None

    def _message(self, place: Place, blocked: Blocked) -> str:
        stable, records, since, clock, _, producer = blocked
        owner = ""
        if producer is not None:
            owner = f" of producer {producer.producer}"
            if producer.transactional_id is not None:
                owner += f" (transactional id {producer.transactional_id})"
        begun = datetime.fromtimestamp(clock, UTC).strftime("%H:%M:%S")
        return (
            f"{place}: {records} records from {stable} on wait for the end of a transaction{owner}, for "
            f"{time.monotonic() - since:.0f} s (since {begun} UTC). If its producer does not end it: "
            f"kafka-transactions.sh --bootstrap-server {self._brokers} abort --topic {place.topic} "
            f"--partition {place.partition} --start-offset {stable}"
        )
