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
TAIL_BYTES = 256
"""How much of what was read last has to be in a followed file still."""


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
    cut
        Whether what had been read of a followed file is not there any more: the file was cut (``copytruncate`` of
        logrotate), or another one has its name. Reading ends there; :meth:`begin_anew` goes on.
    """

    def __init__(self, file: str | os.PathLike[str] | int, *, follow: bool) -> None:
        super().__init__(file if isinstance(file, int) else os.fspath(file), closefd=not isinstance(file, int))
        self._place = None if isinstance(file, int) else os.fspath(file)
        regular = stat.S_ISREG(os.fstat(self.fileno()).st_mode)
        self.grows = follow or not regular
        self.cut = False
        self._regular = regular
        self._tail = b""  # of what was read
        self._call: Callable[[], None] | None = None

    def while_waiting(self, call: Callable[[], None]) -> None:
        """Have something called several times a second while nothing comes; what it raises ends the waiting.

        Before that, the end of a file is its end.
        """
        self._call = call

    def readinto(self, buffer: Any) -> int | None:
        """Read what there is, once there is something."""
        if self._call is None or not self.grows:
            return self._read(buffer)
        if not self._regular:
            _await_input(self.fileno(), self._call)
            return self._read(buffer)
        while not self.cut:
            replaced = self._is_replaced()
            if self._is_cut():
                break
            if count := self._read(buffer):
                return count
            if replaced:  # and nobody writes the one before any more
                break
            time.sleep(WAIT_SECONDS)
            self._call()
        self.cut = True
        return 0

    def _read(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if count and self.grows and self._regular:
            self._tail = (self._tail + bytes(buffer[max(0, count - TAIL_BYTES) : count]))[-TAIL_BYTES:]
        return count

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a place."""
        self._tail = b""
        return super().seek(offset, whence)

    def begin_anew(self) -> None:
        """Go to the beginning of the file that has the name now."""
        if self._place is not None and self._is_replaced():
            other = os.open(self._place, os.O_RDONLY)
            os.dup2(other, self.fileno(), inheritable=False)
            os.close(other)
        self.cut = False
        self.seek(0)

    def _is_cut(self) -> bool:
        """Look whether the file ends before what was read, or the last of that is something else now."""
        read = self.tell()
        if os.fstat(self.fileno()).st_size < read:
            return True
        return bool(self._tail) and os.pread(self.fileno(), len(self._tail), read - len(self._tail)) != self._tail

    def _is_replaced(self) -> bool:
        """Look whether the name leads to another file, and that has content."""
        if self._place is None:
            return False
        try:
            found = os.stat(self._place)  # noqa: PTH116  # several times a second
        except OSError:  # it was moved away, and the next one is not there yet
            return False
        return (
            stat.S_ISREG(found.st_mode) and found.st_size > 0 and not os.path.samestat(found, os.fstat(self.fileno()))
        )


def _await_input(descriptor: int, call: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while not poll.poll(1000 * WAIT_SECONDS):
        call()
