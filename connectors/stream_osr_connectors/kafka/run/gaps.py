"""Records that the input deleted before they were read: where a partition goes on, and with which state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from stream_osr.errors import ConnectorError

from ..client import Committed
from ..places import Place
from ..settings import ServiceSettings
from ..wire.boundaries import Boundary
from .partition import Partition, begin
from .snapshots import Snapshots
from .incarnations import Incarnations
from .standing import Change


class Found(NamedTuple):
    """Where a partition goes on.

    Attributes
    ----------
    state
        As of its last boundary.
    replay
        Boundaries after it, of micro-batches that have been published before.
    snapshots
        Boundaries at which there are snapshots, the newest last.
    new
        It begins anew, and its beginning has to be committed.
    change
        What the beginning does to records; None: nothing.
    """

    state: Partition
    replay: tuple[Boundary, ...] = ()
    snapshots: tuple[Boundary, ...] = ()
    new: bool = False
    change: Change | None = None


class Gaps(NamedTuple):
    """The rule for gaps: the setting `on_gap`.

    Attributes
    ----------
    settings
        Of the service.
    snapshots
        The folder of the snapshots.
    lives
        Which topic each input is, by its name.
    """

    settings: ServiceSettings
    snapshots: Snapshots
    lives: Mapping[str, Incarnations]

    def behind(self, place: Place, found: Found, committed: Committed, anew: Callable[[int], Found]) -> Found:
        """Go on behind the gap that lies between the committed offset and the first record, if there is one.

        A state that goes on is a snapshot first: the records that lead to it are gone.

        Parameters
        ----------
        place
            The partition.
        found
            Its state at the committed offset.
        committed
            What the broker says.
        anew
            Begins the stream anew at an offset.

        Raises
        ------
        ConnectorError
            If the setting is ``fail``.
        PersistenceError
            If the snapshot cannot be written.
        """
        change, state, first = self.missed(place, committed), found.state, committed.first
        if change is None:
            return found
        if self.settings.on_gap == "cold":
            return anew(first)._replace(change=change._replace(held_back=len(state.waiting)))
        at = Boundary(first, state.history.last.labels)
        begun = begin(state.model, at, fresh=False, mark=self.lives[place.topic].mark)
        carried = begun._replace(waiting=state.waiting)
        self.snapshots.write(place, carried)
        return Found(carried, snapshots=(at,), new=True, change=change._replace(carried=True))

    def missed(self, place: Place, committed: Committed) -> Change | None:
        """Return the gap between the committed offset and the first record; None: there is none.

        Raises
        ------
        ConnectorError
            If the setting is ``fail``.
        """
        offset, first = committed.offset, committed.first
        if offset is None or offset >= first:
            return None
        gap = "the input deleted records before they were read (retention)"
        if self.settings.on_gap == "fail":
            raise ConnectorError(
                f"{place}: {gap}, offsets {offset} to {first - 1}; nothing brings them back. Set on_gap to carry, to "
                "go on with what has emerged, or to cold, to begin anew"
            )
        return Change("retention", first, lost=first - offset, why=gap)
