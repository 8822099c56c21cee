"""Where a partition stands: what the brokers say of it, beside what the folder of the snapshots remembers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stream_osr.errors import ConnectorError

from ..client import Committed
from ..places import Place
from ..settings import ServiceSettings
from ..wire.boundaries import LaterReleaseError, Progress
from .incarnations import Incarnations
from .snapshots import Snapshots


class LostError(Exception):
    """No state leads to the committed offset; the message says why."""


class Change(NamedTuple):
    """A jump of the position of a partition, and what it does to records.

    Attributes
    ----------
    reason
        ``retention``: the input deleted records that were not read. ``offsets``: somebody moved or deleted the
        committed offsets.
    begin
        Offset at which the partition goes on.
    lost
        Records that are not decided, counted by offsets.
    repeated
        Records that are decided again, counted by offsets.
    exact
        The counts are exact; otherwise they are lower bounds.
    why
        The cause.
    carried
        The state goes on; otherwise the stream begins anew.
    held_back
        Decisions that were held back and are lost with the state.
    """

    reason: str
    begin: int
    lost: int = 0
    repeated: int = 0
    exact: bool = True
    why: str = ""
    carried: bool = False
    held_back: int = 0

    @property
    def level(self) -> int:
        """Severity of the line that states it."""
        return logging.ERROR if self.lost or self.held_back else logging.WARNING

    def __str__(self) -> str:
        least = "" if self.exact else "at least "
        how = "goes on with what has emerged" if self.carried else "begins anew"
        numbers = "no record is lost or decided again"
        if self.lost:
            gap = f"{self.begin - self.lost} to {self.begin - 1}"
            numbers = f"{least}{self.lost} records are not decided (offsets {gap})"
        elif self.repeated:
            again = f"{self.begin} to {self.begin + self.repeated - 1}"
            numbers = f"{least}{self.repeated} records are decided again (offsets {again})"
        held_back = f"; {self.held_back} decisions that were held back are lost" if self.held_back else ""
        return f"{self.why}; the stream {how} at {self.begin}: {numbers}{held_back}"


class Standing:
    """Reads what is committed.

    Parameters
    ----------
    settings
        Of the service.
    snapshots
        A lower bound of how far each partition was decided.
    lives
        Which topic each input is, by its name.
    published
        Returns the offset after the last record of a partition that the outputs hold a decision or a dead letter of;
        None: unknown.

    Attributes
    ----------
    progress_here
        How far this process has decided partitions, the ones included that went to other workers.
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
        """Read what was committed with the offset; None: nothing yet, of this topic.

        Raises
        ------
        LostError
            If it is not what the service has committed.
        LaterReleaseError
            If a later release has committed it.
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
        """Return how far a partition was decided at least, by snapshots and this process; None: not at all."""
        snapshot = self._snapshots.reached(place.topic, self._lives[place.topic].is_of_now).get(place)
        known = [each for each in (snapshot, self.progress_here.get(place)) if each is not None]
        return max(known, default=None)

    def beginning(self, place: Place, committed: Committed) -> int:
        """Return where a partition begins of which nothing is committed; a later one begins with its first record."""
        known = self._lives[place.topic].partitions
        later = (known and place.partition >= known) or self._lives[place.topic].now > 0
        if later or self._settings.start == "earliest":
            return committed.first
        return committed.end if committed.begin is None else committed.begin

    def restart(self, place: Place, committed: Committed) -> int:
        """Return where a partition begins anew whose state is lost."""
        if committed.offset is None:
            return self.beginning(place, committed)
        return min(max(committed.offset, committed.first), committed.end)

    def change(self, place: Place, committed: Committed, begin: int) -> Change:
        """Compare where a partition begins anew with how far it was decided.

        The latter is the largest of the newest snapshot, the progress of this process, the boundary that is committed
        with the offset, and what the outputs hold.
        """
        reached, exact = self._furthest(place, committed)
        if reached is None:
            return Change("offsets", begin)
        if begin >= reached and committed.offset is not None and committed.offset < committed.first:
            return Change("retention", begin, lost=begin - reached, exact=exact)
        return Change("offsets", begin, max(0, begin - reached), max(0, reached - begin), exact)

    def _furthest(self, place: Place, committed: Committed) -> tuple[int | None, bool]:
        """Return the offset up to which records were decided, and whether it is exact."""
        published = self._published(place)
        known = [each for each in (self.reached(place), published) if each is not None]
        boundary = self._boundary(place, committed)
        if boundary is not None:
            known.append(boundary)
        return max(known, default=None), published is not None or boundary is not None

    def _boundary(self, place: Place, committed: Committed) -> int | None:
        try:
            progress = Progress.parse(committed.metadata)
        except ConnectorError:
            return None
        return progress.history.last.offset if self._lives[place.topic].is_of_now(progress.lineage) else None
