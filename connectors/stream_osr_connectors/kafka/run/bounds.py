"""The end of a bounded run: the offset before which each partition stops, and whether the group has reached it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from ..client import ClientError, Committed, TopicFollower
from ..places import Place
from ..settings import ServiceSettings
from ..stats import ServiceStats
from ..wire.messages import Received

ASK_SECONDS = 2.0
"""Interval between two requests for the committed offsets, once this worker has no records left."""

READ_SECONDS = 2.0
"""Time that reading the marks of transactions at the end of a partition may take."""


class Bounds:
    """The bounds of a run; without the setting `stop` there are none.

    Parameters
    ----------
    settings
        Of the service.
    figures
        The positions of this worker's partitions.
    """

    def __init__(self, settings: ServiceSettings, stats: ServiceStats) -> None:
        self._settings, self._stats = settings, stats
        self._stops: Mapping[Place, int] = {}
        self._asked = 0.0

    def set(self, stops: Mapping[Place, int]) -> None:
        """Set the offset before which each partition stops."""
        self._stops = stops

    def within(self, place: Place, records: list[Received]) -> list[Received]:
        """Leave out the records behind the end of a partition; one that was added later has no others."""
        if self._settings.stop is None:
            return records
        stop = self._stops.get(place, 0)
        return [record for record in records if record.offset < stop]

    def is_read(self, place: Place) -> bool:
        """Tell whether the consumer has read a partition of this worker to its end."""
        read = self._stats.partitions[place].read
        return self._settings.stop is not None and read is not None and read >= self._stops.get(place, 0)

    def are_reached(self, where: Callable[[Place], Committed]) -> bool:
        """Tell whether the group has committed all partitions up to their ends; asked now and then, otherwise False.

        Parameters
        ----------
        where
            Returns what the brokers say about a partition.
        """
        now = time.monotonic()
        if self._settings.stop is None or now - self._asked < ASK_SECONDS:
            return False
        self._asked = now
        try:
            return not any(self._is_left(place, stop, where(place)) for place, stop in self._stops.items())
        except (ClientError, TimeoutError):
            return False

    def _is_left(self, place: Place, stop: int, committed: Committed) -> bool:
        """Tell whether records lie between the committed offset and the end: marks of transactions are none."""
        begin = committed.first if committed.begin is None else committed.begin
        at = max(begin if committed.offset is None else committed.offset, committed.first)
        if at >= stop:
            return False
        with closing(TopicFollower.of(self._settings, place.topic)) as follower:
            follower.only(place, at)
            ends = time.monotonic() + READ_SECONDS
            while follower.position(place) < stop:
                if _any_before(stop, follower.poll(0.1)):
                    return True
                if time.monotonic() > ends:
                    raise TimeoutError(f"{place} was not read within {READ_SECONDS:g} s")
        return False


def _any_before(stop: int, records: Sequence[Received]) -> bool:
    return any(record.offset < stop for record in records)
