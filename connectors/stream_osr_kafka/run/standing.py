"""Where a partition stands: what the brokers say of it, beside what the folder of the snapshots remembers."""

from __future__ import annotations

from stream_osr.errors import ConnectorError

from ..client import Committed
from ..settings import ServiceSettings
from ..wire.boundaries import LaterReleaseError, Progress
from .incarnations import Incarnations
from .snapshots import Snapshots


class LostError(Exception):
    """Nothing leads to the committed offset; why."""


class Standing:
    """Reads what is committed.

    Parameters
    ----------
    settings
        What the operator has set.
    snapshots
        Tell how far a partition had come at least.
    incarnations
        Which topic it is.
    """

    def __init__(self, settings: ServiceSettings, snapshots: Snapshots, incarnations: Incarnations) -> None:
        self._settings, self._snapshots, self._incarnations = settings, snapshots, incarnations

    def progress(self, number: int, committed: Committed) -> Progress | None:
        """Read what was committed with the offset; None: nothing yet, of this topic.

        Raises
        ------
        LostError
            If it is not what the service has committed.
        LaterReleaseError
            If a later release has committed it.
        """
        if committed.offset is None:
            reached = self.reached(number)
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
        return progress if self._incarnations.is_of_now(progress.lineage) else None

    def reached(self, number: int) -> int | None:
        """Say how far a partition had come at least, by its snapshots; None: there are none of this topic."""
        return self._snapshots.reached(self._settings.input, self._incarnations.is_of_now).get(number)

    def beginning(self, number: int, committed: Committed) -> int:
        """Say where a partition begins of which nothing is committed; one that came later begins with its first."""
        known = self._incarnations.partitions
        later = (known and number >= known) or self._incarnations.now > 0
        return committed.end if self._settings.start == "latest" and not later else committed.first

    def restart(self, number: int, committed: Committed) -> int:
        """Say where a partition begins anew whose state is lost."""
        if committed.offset is None:
            return self.beginning(number, committed)
        return min(max(committed.offset, committed.first), committed.end)

    def taken_away(self, number: int, begin: int) -> str:
        """Say where it begins anew, and what that repeats or leaves out."""
        reached = self.reached(number)
        if reached is None or reached == begin:
            return str(begin)
        if begin < reached:
            return f"{begin}: {reached - begin} records or more that were decided before are decided again"
        return f"{begin}: of the {begin - reached} records since {reached} some may never be decided"
