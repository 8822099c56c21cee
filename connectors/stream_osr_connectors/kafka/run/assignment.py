"""Partitions that are assigned to a worker and not loaded yet.

They are loaded one by one. A partition that cannot be loaded is suspended, and the others continue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..backoff import Backoff
from ..client.interface import ClientError, Committed
from ..log import Seldom
from ..places import Place
from ..stats import PartitionStats, ServiceStats
from .job import Job, NotLoadable
from .reading import Reader
from .topic_monitor import Watch
from .transactions import InDoubtError, Transactions

AGAIN_SECONDS = 1.0
"""Seconds before a retry of a waiting partition."""

AT_ONCE = 32
"""Most partitions whose offsets and states are read at once."""

TURN_SECONDS = 0.5
"""Seconds of loading in one iteration of the loop, so that loaded partitions continue."""

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""First and longest seconds before a retry of a suspended partition. The pause doubles each time."""


@dataclass(slots=True)
class Assigned:
    """An assigned partition that is not loaded.

    Attributes
    ----------
    since
        Time of the assignment.
    why
        Reason for waiting, empty if it is only queued.
    suspended
        Whether it needs an external change.
    again
        Time of the next attempt.
    broker_pause
        Pauses while the brokers fail.
    """

    since: float
    why: str = ""
    suspended: bool = False
    again: float = 0.0
    broker_pause: Backoff = field(default_factory=Backoff)


class Assignment:
    """Loads partitions independently. One that cannot be loaded does not delay others.

    Parameters
    ----------
    job
        Job that owns the partitions.
    reader
        The consumer of the input.
    transactions
        Transactions, which commit new starts of partitions.
    watch
        The state of the topics.
    stats
        Statistics of the worker.
    since
        Start time of a stream without a committed offset, in milliseconds since 1970, or ``None``.
    """

    def __init__(
        self,
        job: Job,
        reader: Reader,
        transactions: Transactions,
        watch: Watch,
        stats: ServiceStats,
        since: int | None = None,
    ) -> None:
        self._job, self._reader, self._transactions, self._watch = job, reader, transactions, watch
        self._stats, self._since = stats, since
        self._assigned: dict[Place, Assigned] = {}
        self._pauses: dict[Place, Backoff] = {}
        self._loaded: dict[Place, float] = {}
        self._seldom = Seldom()

    @property
    def waiting(self) -> Mapping[Place, str]:
        """Partitions that are not loaded, with reasons."""
        return {
            place: f"is suspended: {its.why}" if its.suspended else f"is not loaded{its.why and ': '}{its.why}"
            for place, its in self._assigned.items()
        }

    def forget(self, *places: Place) -> None:
        """Drop partitions that are loaded, or that another worker has now."""
        for place in places:
            self._assigned.pop(place, None)
            partition_stats = self._stats.partitions.get(place)
            if partition_stats is not None and partition_stats.suspended and place not in self._job.owned:
                self._stats.partitions.pop(place)

    def suspend(self, place: Place, why: str, position: int = 0) -> None:
        """Suspend a failed partition, and retry later. All others continue.

        Parameters
        ----------
        place
            Partition that the job has dropped.
        why
            The reason.
        position
            Offset after the last committed record.
        """
        its = self._assigned.setdefault(place, Assigned(time.monotonic()))
        its.why, its.suspended = why.removeprefix(f"{place}: "), True
        pause = self._pauses.setdefault(place, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        if time.monotonic() - self._loaded.get(place, time.monotonic()) > LONGEST_PAUSE:
            pause.succeed()  # it went on for a while
        seconds = pause.fail()
        its.again = pause.until
        self._stats.partitions[place] = PartitionStats(position, suspended=True)
        self._seldom.say(
            str(place),
            f"{place} is suspended, other partitions go on: {its.why}. The next attempt is in {seconds:.0f} s",
            logging.ERROR,
        )

    def load(self) -> None:
        """Load partitions that can be loaded now, and leave the rest to later iterations."""
        assigned, spent = self._reader.assigned, 0.0
        self._job.expect(())
        self.forget(*self._assigned.keys() - assigned)
        due = [place for place in sorted(assigned - set(self._job.owned)) if self._is_due(place)]
        for first in range(0, len(due), AT_ONCE):
            places = due[first : first + AT_ONCE]
            found = self._where(places) if len(places) > 1 else {}
            begun = (
                time.monotonic() - spent
            )  # a request may wait for a fetch of records, and is worth some partitions
            for place in places:
                self._load(place, self._assigned[place], found.get(place))
                if (spent := time.monotonic() - begun) > TURN_SECONDS:
                    return

    @property
    def is_busy(self) -> bool:
        """Whether partitions wait for nothing but their turn."""
        return any(not its.why for its in self._assigned.values())

    def _is_due(self, place: Place) -> bool:
        its = self._assigned.setdefault(place, Assigned(time.monotonic()))
        if time.monotonic() < its.again or not self._is_seen(place, its):
            return False
        if why := self._watch.held_up(place):
            self._wait(place, its, why)
        return not why

    def _where(self, places: Sequence[Place]) -> Mapping[Place, Committed]:
        """Return the state of the first partitions at the brokers, or nothing if it is not known."""
        try:
            self._transactions.open()  # what a failed one has begun hides what is committed until it is ended
            found = self._reader.client.where(places, self._since)
        except (ClientError, InDoubtError):
            return {}
        self._job.expect(places)  # afterwards: a state is published before an offset that needs it
        return found

    def _load(self, place: Place, its: Assigned, where: Committed | None) -> None:
        try:
            self._transactions.open()  # the one of an earlier partition may have failed
            if where is None:
                where = self._reader.client.where([place], self._since)[place]
            loaded = self._job.load(place, where)
            if isinstance(loaded, NotLoadable):
                if loaded.suspended:
                    self.suspend(place, loaded.why, where.offset or 0)
                else:
                    self._wait(place, its, loaded.why)
                return
            if loaded.commit is not None:
                offsets = {place: loaded.commit}
                self._transactions.finish(self._transactions.begin([], offsets, self._reader.client.membership))
            self._reader.begin(place, loaded.begin)
        except (ClientError, InDoubtError) as error:
            self._job.drop(place)
            self._wait(place, its, str(error), its.broker_pause.fail())
            return
        self._job.start_committed(place)
        self._seldom.forget(str(place))
        del self._assigned[place]
        self._loaded[place] = time.monotonic()
        self._seldom.say(f"assigned {place}", f"assigned {place} at {loaded.begin}", logging.INFO)

    def _wait(self, place: Place, its: Assigned, why: str, seconds: float = AGAIN_SECONDS) -> None:
        its.why, its.again = why, time.monotonic() + seconds
        self._seldom.say(str(place), f"{place} cannot be loaded yet: {why}", logging.INFO)

    def _is_seen(self, place: Place, its: Assigned) -> bool:
        """Return whether the input was checked since the assignment, and is still the same topic."""
        topic = place.topic
        return self._watch.has_looked_since(its.since) and not (
            self._watch.is_broken(topic) or self._watch.renewed(topic, self._reader.topic_id(topic))
        )
