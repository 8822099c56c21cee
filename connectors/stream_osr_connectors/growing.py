"""Inputs that are still being written: pipes, and files that are followed; something else is done while they wait."""

from __future__ import annotations

import io
import os
import select
import stat
import time
from collections.abc import Callable
from typing import Any

WAIT_SECONDS = 0.2
"""How long nothing else is done."""


class GrowingFile(io.FileIO):
    """A file that calls back while it waits for more.

    Parameters
    ----------
    file
        Its name, or its number, which stays open.
    follow
        Whether the end of a regular file is no end: more will be written.

    Attributes
    ----------
    grows
        Whether it may wait: a pipe, or a file that is followed.
    """

    def __init__(self, file: str | os.PathLike[str] | int, *, follow: bool) -> None:
        super().__init__(file if isinstance(file, int) else os.fspath(file), closefd=not isinstance(file, int))
        regular = stat.S_ISREG(os.fstat(self.fileno()).st_mode)
        self.grows = follow or not regular
        self._regular = regular
        self._call: Callable[[], None] | None = None

    def while_waiting(self, call: Callable[[], None]) -> None:
        """Have something called several times a second while nothing comes; what it raises ends the waiting.

        Before that, the end of a file is its end.
        """
        self._call = call

    def readinto(self, buffer: Any) -> int | None:
        """Read what there is, once there is something."""
        if self._call is None or not self.grows:
            return super().readinto(buffer)
        if not self._regular:
            _await_input(self.fileno(), self._call)
            return super().readinto(buffer)
        while not (count := super().readinto(buffer)):
            time.sleep(WAIT_SECONDS)
            self._call()
        return count


def _await_input(descriptor: int, call: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while not poll.poll(1000 * WAIT_SECONDS):
        call()
