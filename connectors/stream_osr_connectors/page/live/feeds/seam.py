"""What a feed does, whatever it follows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Decision = dict[str, Any]

ORDINARY = 1000
"""Decisions that are taken in before somebody else has a turn."""


class CutBack(Exception):
    """What was read is not what stands there now: a run was resumed, or begun anew. Everything is read again."""


class Found(NamedTuple):
    """A decision that was looked up: its number on the page, and what it says."""

    n: int
    decision: Decision


class Told(NamedTuple):
    """What came.

    Attributes
    ----------
    decisions
        Track, number there, place, and decision of each.
    events
        Track of each, and the event.
    more
        There is more to be read at once.
    """

    decisions: Sequence[tuple[int, int, int, Decision]]
    events: Sequence[tuple[int, Mapping[str, Any]]]
    more: bool


class Feed(Protocol):
    """What is followed; `poll` is called by one thread, the others by several."""

    kind: str
    """``file`` or ``kafka``."""
    name: str
    """What a person calls it."""
    prefixes: Sequence[str]
    """Of each track, what stands before the identities of its subclasses."""
    has_events: bool
    """Whether it tells events."""

    def poll(self, refuse: Callable[[str, BaseException], None]) -> Told:
        """Read what has come.

        Raises
        ------
        CutBack
            If all has to be read again; the feed begins anew by itself.
        """

    def behind(self) -> int | None:
        """Say how many decisions are still to be read, if that is known."""

    def running(self) -> bool:
        """Say whether decisions still come, as far as can be told."""

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[Found]:
        """Read a block of decisions, from number and place of its first one to the next block; or some of it."""

    def features(self, found: Sequence[Found]) -> list[dict[str, Any] | None]:
        """Find the features of instances; None: they cannot be found."""

    def notes(self) -> list[str]:
        """Say what could not be read."""

    def close(self) -> None:
        """Let go of everything."""
