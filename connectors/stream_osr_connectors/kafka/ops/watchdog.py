"""Ends a process that hangs: some calls of the client have no time limit, and who waits in one cannot help itself.

Whatever starts the service (its parent under ``--workers``, systemd, Kubernetes) then starts it again, and it goes on
as after any crash. Those alone cannot do it: their probes see the service as a whole, and would end all its workers
for one that hangs, and none of them says where it hung.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback

from stream_osr.compiling import last_compiled

from ..exits import HUNG
from ..log import logger
from ..stats import ServiceStats

LOOK_SECONDS = 0.2

STARTING_SECONDS = 180.0
"""What a process may take at least until the loop first comes round."""


class Watchdog:
    """A thread that watches the loop of this process's main thread.

    Parameters
    ----------
    figures
        Tell when the loop last came round.
    longest
        Seconds that this may be ago.
    stopping
        Seconds that stopping may take.
    told
        Set when the process has been told to stop.
    """

    def __init__(self, stats: ServiceStats, longest: float, stopping: float, stop: threading.Event) -> None:
        self._stats, self._longest, self._stopping, self._stop = stats, longest, stopping, stop
        self._dismissed = threading.Event()
        self._watched = threading.main_thread().ident or 0
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def dismiss(self) -> None:
        """Watch no longer."""
        self._dismissed.set()

    def _watch(self) -> None:
        since: float | None = None
        begun = self._stats.loop
        while not self._dismissed.wait(LOOK_SECONDS):
            now = time.monotonic()
            turned = self._stats.loop
            longest = max(self._longest, STARTING_SECONDS) if turned == begun else self._longest
            at = max(turned, last_compiled())  # the first micro-batch may have to compile the sampler
            if now - at > longest:
                self._end(f"the loop has not turned for {longest:g} s")
            if self._stop.is_set():
                since = now if since is None else since
                if now - since > self._stopping:
                    self._end(f"stopping has taken more than {self._stopping:g} s")

    def _end(self, reason: str) -> None:
        logger.critical("%s; the process ends, to be started again. It was in %s", reason, self._place())
        sys.stderr.flush()
        os._exit(HUNG)

    def _place(self) -> str:
        """Say where the main thread is: file, line and function, the innermost last."""
        stack = traceback.extract_stack(sys._current_frames().get(self._watched))[-4:]
        return " > ".join(f"{entry.filename.rpartition('/')[2]}:{entry.lineno} {entry.name}" for entry in stack)
