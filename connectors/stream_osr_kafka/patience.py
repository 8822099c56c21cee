"""How long to wait: before something is tried again or spoken of again, and for the end of what may hang."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from .exits import TakenError
from .figures import Figures
from .places import Place
from .settings import ServiceSettings

FIRST_SECONDS, LONGEST_SECONDS = 0.3, 5.0
"""Before something is tried again: doubled each time, up to the longer of them."""

FIRST_SILENCE, LONGEST_SILENCE = 1.0, 600.0
"""Between two lines about the same thing, likewise."""

CALM = 3.0
"""When nothing of it came for so many times the silence, it is new again."""

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
    """How long something may be as it should not be, before it counts.

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


class Seldom:
    """A logger of what happens again and again: at once, then less and less often, with the number of times.

    Parameters
    ----------
    logger
        Where the lines go.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: dict[str, tuple[float, float, int]] = {}  # when, silence after it, times since

    def say(self, about: str, message: str, level: int = logging.WARNING) -> None:
        """Say it, unless something about the same was said a short time ago."""
        now = time.monotonic()
        when, silence, times = self._said.get(about, (-LONGEST_SILENCE, 0.0, 0))
        if now - when < silence:
            self._said[about] = when, silence, times + 1
            return
        longer = 0.0 if now - when > CALM * silence else 2 * silence
        self._said[about] = now, min(LONGEST_SILENCE, max(FIRST_SILENCE, longer)), 0
        more = f" ({times} times more since it was last said)" if times else ""
        self._logger.log(level, "%s%s", message, more)

    def forget(self, about: str) -> bool:
        """Note that it is over; say whether there was anything."""
        return self._said.pop(about, None) is not None


class Strikes:
    """Tells another process of our name from a request of our own that came late: it fences us again and again.

    Parameters
    ----------
    settings
        Of the service.
    figures
        Where it counts.
    """

    SECONDS = 20.0
    """Twice within this time, and there is another."""

    def __init__(self, settings: ServiceSettings, figures: Figures) -> None:
        self._settings, self._figures = settings, figures
        self._last = -math.inf

    def strike(self) -> None:
        """Note that the broker has preferred another to us.

        Raises
        ------
        TakenError
            If it has done so a short time ago.
        """
        self._figures.add("transactions_fenced")
        now = time.monotonic()
        again, self._last = now - self._last < self.SECONDS, now
        if again:
            raise TakenError(
                f"another worker of group {self._settings.group} has the name {self._settings.instance}; "
                "give each its own instance"
            )


def close(work: Callable[[], None], timeout: float) -> None:
    """Close something of which nothing more is expected, in a thread that may be left behind."""

    def quietly() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True, name="close")
    thread.start()
    thread.join(timeout)
