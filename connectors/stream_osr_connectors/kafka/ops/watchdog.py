"""Ends a process that hangs, because some calls of the client have no time limit, and reports a disk that hangs.

The supervisor (the parent under ``--workers``, systemd, Kubernetes) then restarts the process, which resumes as after
a crash. A supervisor alone is not sufficient. Its probes see the service as a whole, would end all workers for one
that hangs, and do not report where it hung.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback

from stream_osr.compiling import last_compiled

from ..exits import HUNG
from ..log import Seldom, logger
from ..stats import ServiceStats

LOOK_SECONDS = 0.2

STARTING_SECONDS = 180.0
"""Least time limit in seconds for the first iteration of the loop."""


class Watchdog:
    """A thread that monitors the loop in the main thread of this process.

    Parameters
    ----------
    stats
        Statistics with the time of the last iteration of the loop.
    longest
        Time limit in seconds for one iteration.
    stopping
        Time limit in seconds for stopping.
    stop
        Event that is set when the process must stop.
    """

    def __init__(self, stats: ServiceStats, longest: float, stopping: float, stop: threading.Event) -> None:
        self._stats, self._longest, self._stopping, self._stop = stats, longest, stopping, stop
        self._dismissed, self._seldom = threading.Event(), Seldom()
        self._reported: set[str] = set()
        self._watched = threading.main_thread().ident or 0
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def dismiss(self) -> None:
        """Stop monitoring."""
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
            self._report()

    def _report(self) -> None:
        """Log that reading or writing of a state hangs, or that the copy lacks states, once for each time."""
        storage = self._stats.storage
        hangs, trouble, complete = storage.loop.hangs, storage.copy_trouble, "the copy is complete again"
        for why, ends, line, ended in (
            (hangs, not hangs, f"nothing is decided meanwhile: {hangs}", "the loop goes on"),
            (trouble, not storage.behind, f"{trouble}. Decisions and snapshots go on", complete),
        ):
            if why and ended not in self._reported:
                self._reported.add(ended)
                self._seldom.say(ended, line)
            elif ends and ended in self._reported:
                self._reported.remove(ended)
                self._seldom.forget(ended, ended)

    def _end(self, reason: str) -> None:
        logger.critical("%s: the process ends, to be started again. It was in %s", reason, self._place())
        sys.stderr.flush()
        os._exit(HUNG)

    def _place(self) -> str:
        """Return the place of the main thread: file, line and function, the innermost last."""
        stack = traceback.extract_stack(sys._current_frames().get(self._watched))[-4:]
        return " > ".join(f"{entry.filename.rpartition('/')[2]}:{entry.lineno} {entry.name}" for entry in stack)
