"""Say so when kernels have to be compiled: it takes minutes, and must not look like a process that hangs."""

from __future__ import annotations

import logging
import time
from typing import Any

from numba.core import event

logger = logging.getLogger("stream_osr")

ONCE = "compiling the sampler: one or two minutes, once for each installation (`stream-osr warmup` does it ahead)"
EVERY_TIME = (
    "compiling the sampler: one or two minutes in every process, for want of a folder to keep it in "
    "(set NUMBA_CACHE_DIR to one that can be written)"
)


class _Notice(event.Listener):
    """Warn on the logger ``stream_osr`` before the first kernel of this package is compiled.

    numba tells of compiling, not of machine code that is read from its cache.
    """

    said = False
    latest = 0.0

    def on_start(self, event: Any) -> None:
        _Notice.latest = time.monotonic()
        dispatcher = event.data["dispatcher"]
        others = dispatcher.py_func.__module__.partition(".")[0] != "stream_osr"
        if self.said or others or dispatcher.targetoptions.get("no_cpython_wrapper"):  # that is part of another
            return
        self.said = True
        logger.warning(EVERY_TIME if dispatcher.stats.cache_path is None else ONCE)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""
        _Notice.latest = time.monotonic()


def give_notice() -> None:
    """Have compiling announced, once in the life of the process."""
    event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]  # numba leaves it untyped


def last_compiled() -> float:
    """Moment (`time.monotonic`) when compiling was last begun or done in this process; 0: never."""
    return _Notice.latest
