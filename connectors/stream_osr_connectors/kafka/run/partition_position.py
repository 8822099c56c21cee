"""Position of a partition: committed offset, snapshots and outputs.

The outputs are read only if there is no other evidence. Unread records that the input deleted are a gap. The setting
on_gap determines how the partition continues after a gap.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import NamedTuple

from stream_osr.errors import ConnectorError

from ..backoff import Running
from ..client.consumers import TopicFollower
from ..client.interface import ClientError, Committed
from ..log import logger
from ..places import Place
from ..settings import ServiceSettings
from ..stats import ServiceStats
from ..wire.boundaries import Boundary, LaterReleaseError, Progress
from ..wire.messages import Received
from .incarnations import Incarnations
from .partition import Partition
from .snapshots import Snapshots


class LostError(Exception):
    """No state leads to the committed offset. The message has the reason."""


class Change(NamedTuple):
    """A jump of the position of a partition, with lost and repeated records.

    Attributes
    ----------
    reason
        ``retention`` if the input deleted unread records, ``offsets`` if the committed offsets were moved or deleted.
    begin
        Offset at which the partition continues.
    lost
        Number of records without a decision, counted by offsets.
    repeated
        Number of records that are decided again, counted by offsets.
    exact
        Whether the counts are exact. Otherwise they are lower bounds.
    why
        Cause of the jump.
    carried
        Whether the state is kept. Otherwise the stream starts again.
    delayed
        Number of delayed decisions that are lost with the state.
    """

    reason: str
    begin: int
    lost: int = 0
    repeated: int = 0
    exact: bool = True
    why: str = ""
    carried: bool = False
    delayed: int = 0

    @property
    def level(self) -> int:
        """Severity of the log line."""
        return logging.ERROR if self.lost or self.delayed else logging.WARNING

    def __str__(self) -> str:
        least = "" if self.exact else "at least "
        how = "goes on with what has emerged" if self.carried else "starts again"
        numbers = "no record is lost or decided again"
        if self.lost:
            gap = f"{self.begin - self.lost} to {self.begin - 1}"
            numbers = f"{least}{self.lost} records are not decided (offsets {gap})"
        elif self.repeated:
            again = f"{self.begin} to {self.begin + self.repeated - 1}"
            numbers = f"{least}{self.repeated} records are decided again (offsets {again})"
        held_back = f", and {self.delayed} delayed decisions are lost" if self.delayed else ""
        return f"{self.why}: the stream {how} at {self.begin}, {numbers}{held_back}"


class PositionReader:
    """Reads the committed state of partitions.

    Parameters
    ----------
    settings
        Of the service.
    snapshots
        Snapshots, which give a lower bound of the decided offset of each partition.
    lives
        Incarnations of the input topics, by name.
    published
        Function that returns the offset after the last record of a partition with a decision or dead letter in the
        outputs, or ``None`` if unknown.

    Attributes
    ----------
    progress_here
        Decided offset of each partition in this process, including partitions that other workers have now.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        snapshots: Snapshots,
        lives: Mapping[str, Incarnations],
        published: Callable[[Place], int | None],
    ) -> None:
        self._settings, self._snapshots, self._lives, self._published = settings, snapshots, lives, published
        self.progress_here: dict[Place, int] = {}

    def progress(self, place: Place, committed: Committed) -> Progress | None:
        """Parse the metadata of the committed offset, or return ``None`` without a commit for this topic.

        Raises
        ------
        LostError
            If the service did not write the metadata.
        LaterReleaseError
            If a later release wrote the metadata.
        """
        if committed.offset is None:
            reached = self.reached(place)
            if reached is not None:
                raise LostError(
                    f"the group has committed nothing, and records up to {reached} were decided: its offsets were "
                    "deleted, or have expired (offsets.retention.minutes)"
                )
            return None
        if not committed.metadata:
            raise LostError(
                f"offset {committed.offset} was committed by something else, and no micro-batches lead to it"
            )
        try:
            progress = Progress.parse(committed.metadata)
        except LaterReleaseError:
            raise
        except ConnectorError as error:
            raise LostError(str(error)) from None
        return progress if self._lives[place.topic].is_of_now(progress.lineage) else None

    def reached(self, place: Place) -> int | None:
        """Return a lower bound of the decided offset from snapshots and this process, or ``None``."""
        snapshot = self._snapshots.reached(place.topic, self._lives[place.topic].is_of_now).get(place)
        known = [each for each in (snapshot, self.progress_here.get(place)) if each is not None]
        return max(known, default=None)

    def beginning(self, place: Place, committed: Committed) -> int:
        """Return the start of a partition without a committed offset. Added partitions start at the first record."""
        known = self._lives[place.topic].partitions
        later = (known and place.partition >= known) or self._lives[place.topic].now > 0
        if later or self._settings.start == "earliest":
            return committed.first
        return committed.end if committed.begin is None else committed.begin

    def restart(self, place: Place, committed: Committed) -> int:
        """Return the start of a partition whose state is lost: the first record without a final decision."""
        if committed.offset is None:
            return self.beginning(place, committed)
        progress = self._current(place, committed)
        waiting = committed.offset if progress is None or progress.first is None else progress.first
        return min(max(min(committed.offset, waiting), committed.first), committed.end)

    def change(self, place: Place, committed: Committed, begin: int) -> Change:
        """Compare the new start of a partition with its decided offset.

        The decided offset is the largest of the newest snapshot, the progress of this process, the committed
        boundary, and the last output.
        """
        others = self._published(place), self._boundary(place, committed)
        known = [each for each in (self.reached(place), *others) if each is not None]
        if not known:
            return Change("offsets", begin)
        reached, exact = max(known), others != (None, None)
        progress = self._current(place, committed)
        if progress is not None and progress.first is not None and self._settings.by is None:
            reached, exact = min(reached, progress.first), False  # most later records waited
        if begin >= reached and committed.offset is not None and committed.offset < committed.first:
            return Change("retention", begin, lost=begin - reached, exact=exact)
        if progress is not None and progress.first is not None and progress.first < committed.first:
            lost, repeated = committed.first - progress.first, max(0, reached - begin)
            return Change("retention", begin, lost, repeated, exact=False)
        return Change("offsets", begin, max(0, begin - reached), max(0, reached - begin), exact)

    def missed(self, place: Place, committed: Committed) -> Change | None:
        """Return the gap between the committed offset and the first record, or ``None``.

        Raises
        ------
        ConnectorError
            If the setting is ``fail``.
        """
        offset, first = committed.offset, committed.first
        if offset is None or offset >= first:
            return None
        gap = "the input deleted records before they were read (retention)"
        if self._settings.on_gap == "fail":
            raise ConnectorError(
                f"{place}: {gap}, offsets {offset} to {first - 1}, and they cannot be restored. Set on_gap to carry, "
                "to keep the state, or to cold, to start again"
            )
        return Change("retention", first, lost=first - offset, why=gap)

    def _boundary(self, place: Place, committed: Committed) -> int | None:
        progress = self._current(place, committed)
        return None if progress is None else progress.history.last.offset

    def _current(self, place: Place, committed: Committed) -> Progress | None:
        """Parse the metadata of the committed offset, if that is possible and they are of this topic."""
        with suppress(ConnectorError):
            progress = Progress.parse(committed.metadata)
            return progress if self._lives[place.topic].is_of_now(progress.lineage) else None
        return None


class StartingPoint(NamedTuple):
    """Start of a partition.

    Attributes
    ----------
    state
        State at its last boundary.
    replay
        Later boundaries of micro-batches that were published before.
    snapshots
        Boundaries with snapshots, the newest last.
    new
        Whether it is a new start that must be committed.
    change
        Lost and repeated records, or ``None``.
    """

    state: Partition
    replay: tuple[Boundary, ...] = ()
    snapshots: tuple[Boundary, ...] = ()
    new: bool = False
    change: Change | None = None


BLOCK = 500
"""Number of records in the first read backwards from the end. It quadruples if no record of the partition appears."""

MOST_SECONDS = 1.5
"""Time limit in seconds. All partitions of the worker wait meanwhile."""


def last_published(settings: ServiceSettings, place: Place, name: str) -> int | None:
    """Return the offset after the last record with a decision or dead letter in the outputs.

    Parameters
    ----------
    settings
        Of the service.
    place
        Partition of the input.
    name
        Name of the input in ids of decisions.

    Returns
    -------
    ``None`` if the outputs have no record of the partition, or cannot be read. Only this function needs the right
    READ on them.
    """
    ends, found = time.monotonic() + MOST_SECONDS, list[int | None]()

    def look() -> None:
        topics = [settings.output, settings.dead_letters]
        if name != place.topic:  # dead letters of an earlier incarnation of the topic look the same
            topics = topics[:1]
        for topic in topics:
            with closing(TopicFollower.of(settings, topic)) as follower:
                found.append(_last_in(follower, place, name, settings.group, ends))

    try:
        Running(look, MOST_SECONDS, "published").wait()
    except Exception as error:  # any error: there is other evidence of the decided offset
        logger.info("%s: the outputs do not show how far it was decided: %s", place, error)
        return None
    return max((each for each in found if each is not None), default=None)


def _last_in(follower: TopicFollower, place: Place, name: str, group: str, ends: float) -> int | None:
    own = follower.places[place.partition % len(follower.places)]
    first, end = (bounds[own] for bounds in follower.bounds())
    size, until = BLOCK, end
    while until > first:
        begin = max(first, until - size)
        read = _records(follower, own, begin, until, ends)
        offsets = [offset for record in read if (offset := offset_of(record, place, name, group)) is not None]
        if offsets:
            return max(offsets) + 1
        until, size = begin, 4 * size
    return None


def _records(follower: TopicFollower, place: Place, begin: int, until: int, ends: float) -> Iterator[Received]:
    """Yield the records of a partition between two offsets, with a time limit."""
    follower.only(place, begin)
    while follower.position(place) < until:
        if time.monotonic() > ends:
            raise TimeoutError(f"topic {place.topic} was not read in time")
        yield from (record for record in follower.poll(0.1) if record.offset < until)


def offset_of(record: Received, place: Place, name: str, group: str) -> int | None:
    """Return the offset of the input record of a decision or dead letter, or ``None`` for other messages.

    >>> headers = [("ce_id", b"sensors-3-17"), ("ce_source", b"/g/sensors/3")]
    >>> record = Received("sensors.decisions", 3, 2, -1, None, b"{}", headers)
    >>> offset_of(record, Place("sensors", 3), "sensors", "g"), offset_of(record, Place("sensors", 3), "sensors", "h")
    (17, None)
    """
    headers = dict(record.headers)
    fields = ("connector.name", "topic", "partition", "offset")
    letter = [headers.get(f"__connect.errors.{field}") for field in fields]
    if letter[:3] == [group.encode(), place.topic.encode(), b"%d" % place.partition]:
        return int(letter[3] or b"-1")
    if headers.get("ce_source") != f"/{group}/{place}".encode():
        return None
    text = (headers.get("ce_id") or b"").decode("utf-8", "replace")
    offset = text.removeprefix(f"{name}-{place.partition}-")
    return int(offset) if offset != text and offset.isdecimal() else None


ASK_SECONDS = 2.0
"""Seconds between two requests for the committed offsets when this worker has no records left."""

READ_SECONDS = 2.0
"""Time limit in seconds for reading the transaction markers at the end of a partition."""


class Bounds:
    """The end of a bounded run (setting `stop`).

    Parameters
    ----------
    settings
        Of the service.
    stats
        Statistics with the positions of this worker's partitions.
    """

    def __init__(self, settings: ServiceSettings, stats: ServiceStats) -> None:
        self._settings, self._stats = settings, stats
        self._stops: Mapping[Place, int] = {}
        self._asked = 0.0

    def set(self, stops: Mapping[Place, int]) -> None:
        """Set the end offset of each partition."""
        self._stops = stops

    def within(self, place: Place, records: list[Received]) -> list[Received]:
        """Remove the records after the end of a partition. All records of an added partition are after the end."""
        if self._settings.stop is None:
            return records
        stop = self._stops.get(place, 0)
        return [record for record in records if record.offset < stop]

    def is_read(self, place: Place) -> bool:
        """Return whether the consumer has read a partition of this worker to its end."""
        read = self._stats.partitions[place].read
        return self._settings.stop is not None and read is not None and read >= self._stops.get(place, 0)

    def are_reached(self, where: Callable[[Place], Committed]) -> bool:
        """Return whether the group has committed all partitions up to their ends. Between checks the result is False.

        Parameters
        ----------
        where
            Function that returns the state of a partition at the brokers.
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
        """Return whether there are records, not only transaction markers, after the committed offset."""
        begin = committed.first if committed.begin is None else committed.begin
        at = max(begin if committed.offset is None else committed.offset, committed.first)
        if at >= stop:
            with suppress(ConnectorError):  # another worker may have ended before it has decided them
                return Progress.parse(committed.metadata).first is not None
            return False
        with closing(TopicFollower.of(self._settings, place.topic)) as follower:
            ends = time.monotonic() + READ_SECONDS
            return any(True for _ in _records(follower, place, at, stop, ends))
