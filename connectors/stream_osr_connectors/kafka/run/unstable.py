"""Partitions of the input that cannot be read on because a transaction of a producer upstream is open.

The service reads what is committed, up to the last stable offset. An open transaction holds that offset back for all
records behind it, those of other producers too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from ..client import ClientError, OpenTransaction, TopicAdmin
from ..log import logger
from ..patience import Seldom
from ..places import Place

OPEN_SECONDS = 300.0
"""How long a transaction may hold a partition back until the service is not ready."""

ASK_SECONDS = 60.0
"""Interval between two requests for the producer of an open transaction."""


class Blocked(NamedTuple):
    """A partition whose last stable offset does not move.

    Attributes
    ----------
    stable
        The last stable offset: the first record of the open transaction.
    records
        How many there are from it on.
    since, clock
        When it was first seen there, by ``time.monotonic`` and ``time.time``.
    asked
        When the brokers were last asked whose transaction it is.
    producer
        Whose it is; None: not known.
    """

    stable: int
    records: int
    since: float
    clock: float
    asked: float = 0.0
    producer: OpenTransaction | None = None


class Unstable:
    """Follows both ends of each partition of the input. The thread of the watch writes; others may read.

    Parameters
    ----------
    brokers
        Are named in the command that ends a transaction.
    """

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._blocked: dict[Place, Blocked] = {}
        self._seldom = Seldom(logger)

    def follow(self, stable: Mapping[Place, int], ends: Mapping[Place, int]) -> None:
        """Take in where partitions are stable up to, and where they end."""
        blocked: dict[Place, Blocked] = {}
        for place, end in ends.items():
            at = stable.get(place, end)
            if at < end:
                was = self._blocked.get(place)
                if was is None or was.stable != at:
                    was = Blocked(at, 0, time.monotonic(), time.time())
                blocked[place] = was._replace(records=end - at)
        for place in self._blocked.keys() - blocked.keys():
            if self._seldom.forget(str(place)):
                logger.info("%s: the open transaction has ended, and it is read on", place)
        self._blocked = blocked

    def records(self, place: Place) -> int:
        """Count the records that wait for the end of a transaction, its own ones among them."""
        blocked = self._blocked.get(place)
        return 0 if blocked is None else blocked.records

    def tell(self, places: Iterable[Place], admin: TopicAdmin) -> None:
        """Log which of these partitions have been held back for long, and ask whose transaction it is."""
        now, asked = time.monotonic(), False
        for place in places:
            blocked = self._long(place)
            if blocked is None:
                continue
            if not asked and blocked.producer is None and (not blocked.asked or now - blocked.asked > ASK_SECONDS):
                producer, asked = None, True  # one partition in a look: the answers may take long
                with suppress(ClientError):  # a right is missing, or a broker is away
                    producer = admin.open_transaction(place, blocked.stable)
                blocked = self._blocked[place] = blocked._replace(asked=now, producer=producer)
            self._seldom.say(str(place), self._said(place, blocked))

    def obstacles(self, places: Iterable[Place]) -> list[str]:
        """Say which of these partitions have been held back for long, by whom, and what ends it."""
        long = ((place, self._long(place)) for place in places)
        return [self._said(place, blocked) for place, blocked in long if blocked is not None]

    def _long(self, place: Place) -> Blocked | None:
        blocked = self._blocked.get(place)
        return blocked if blocked is not None and time.monotonic() - blocked.since >= OPEN_SECONDS else None

    def _said(self, place: Place, blocked: Blocked) -> str:
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
