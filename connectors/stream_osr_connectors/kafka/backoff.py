"""Backoff before retries, and time limits for work that may hang."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

FIRST_SECONDS, LONGEST_SECONDS = 0.3, 5.0
"""First and longest wait before a retry. The wait doubles each time."""

CLOSE_SECONDS = 3.0
"""Time limit in seconds for closing a client, which is then abandoned."""


class Backoff:
    """Growing waits with a random factor between 0.5 and 1, so that workers do not retry at the same time."""

    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first, self._longest = first, longest
        self._next = first
        self.until = 0.0

    def fail(self) -> float:
        """Record a failure, and return the seconds until the next attempt."""
        seconds = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._longest, 2 * self._next)
        self.until = time.monotonic() + seconds
        return seconds

    def succeed(self) -> None:
        """Reset the wait to the first one."""
        self._next, self.until = self._first, 0.0

    @property
    def due(self) -> bool:
        """Whether the next attempt is due."""
        return time.monotonic() >= self.until


class Running:
    """Work in a separate thread, which is abandoned after its time limit.

    Attributes
    ----------
    seconds
        Duration, after the end.
    ended
        End time in seconds since 1970.
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
        except BaseException as error:  # `wait` raises it
            self._error = error
        finally:
            self.seconds, self.ended = time.monotonic() - self._begun, time.time()

    def wait(self) -> None:
        """Wait for the end, and raise the error of the work.

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
    """Close a resource in a thread that may be abandoned, and ignore errors."""
    with suppress(Exception):
        Running(work, timeout, "close").wait()
