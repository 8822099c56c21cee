"""Backoff before retries and repeated log lines, and time limits for what may hang."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from .places import Place

FIRST_SECONDS, LONGEST_SECONDS = 0.3, 5.0
"""Before something is tried again: doubled each time, up to the longer of them."""

CLOSE_SECONDS = 3.0
"""How long closing a client may take before it is left behind."""


class Backoff:
    """Waits that get longer, each drawn at random between half of it and the whole, so that workers do not march."""

    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first, self._longest = first, longest
        self._next = first
        self.until = 0.0

    def fail(self) -> float:
        """Note a failure; return the seconds until the next attempt."""
        seconds = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._longest, 2 * self._next)
        self.until = time.monotonic() + seconds
        return seconds

    def succeed(self) -> None:
        """Begin again with the shortest."""
        self._next, self.until = self._first, 0.0

    @property
    def due(self) -> bool:
        """The next attempt may be made."""
        return time.monotonic() >= self.until


class Grace:
    """Time that a fault may last before it counts.

    Parameters
    ----------
    seconds
        That it may be so.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Place, float] = {}

    def lasts(self, place: Place) -> bool:
        """Say whether it may still be so."""
        now = time.monotonic()
        return now - self._since.setdefault(place, now) < self._seconds

    def end(self, place: Place) -> None:
        """Note that it is not so any more."""
        self._since.pop(place, None)


def close(work: Callable[[], None], timeout: float) -> None:
    """Close something of which nothing more is expected, in a thread that may be left behind."""

    def quietly() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True, name="close")
    thread.start()
    thread.join(timeout)
