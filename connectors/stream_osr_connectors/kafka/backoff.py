"""Backoff before retries and repeated log lines, and time limits for what may hang."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

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


class Running:
    """Work in a thread of its own, which is given up when its time is over.

    Attributes
    ----------
    seconds
        How long it took, once it has ended.
    ended
        When it ended, seconds since 1970.
    """

    def __init__(self, work: Callable[[], object], deadline: float, name: str) -> None:
        self.seconds = self.ended = 0.0
        self._begun, self._deadline = time.monotonic(), deadline
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True, name=name)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # it is raised where somebody waits for it
            self._error = error
        finally:
            self.seconds, self.ended = time.monotonic() - self._begun, time.time()

    def wait(self) -> None:
        """Wait for its end, and raise its error.

        Raises
        ------
        TimeoutError
            If the deadline has passed.
        """
        self._thread.join(max(0.0, self._begun + self._deadline - time.monotonic()))
        if self._thread.is_alive():
            self.seconds = time.monotonic() - self._begun
            raise TimeoutError("the deadline has passed")
        if self._error is not None:
            raise self._error


def close(work: Callable[[], None], timeout: float) -> None:
    """Close something of which nothing more is expected, in a thread that may be left behind."""
    with suppress(Exception):
        Running(work, timeout, "close").wait()
