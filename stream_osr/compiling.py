"""Say so when kernels have to be compiled: it takes minutes, and must not look like a process that hangs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, ClassVar

from numba.core import event

logger = logging.getLogger("stream_osr")

ONCE = "compiling the sampler: one or two minutes, once for each installation (`stream-osr warmup` does it ahead)"
EVERY_TIME = (
    "compiling the sampler: one or two minutes in every process, for want of a folder to keep it in "
    "(set NUMBA_CACHE_DIR to one that can be written)"
)


class _Notice(event.Listener):
    """Warn on the logger ``stream_osr`` before the first kernel of this package is compiled, and follow what is.

    numba tells of compiling, not of machine code that is read from its cache.
    """

    reported = False
    latest = 0.0
    under_way: ClassVar[list[str]] = []

    def __init__(self, why_not: Callable[[], str | None]) -> None:
        super().__init__()
        self._why_not = why_not

    def on_start(self, event: Any) -> None:
        _Notice.latest = time.monotonic()
        dispatcher = event.data["dispatcher"]
        self.under_way.append(dispatcher.py_func.__name__)
        others = dispatcher.py_func.__module__.partition(".")[0] != "stream_osr"
        if self.reported or others or dispatcher.targetoptions.get("no_cpython_wrapper"):  # that is part of another
            return
        self.reported = True
        reason = self._why_not()
        notice = EVERY_TIME if dispatcher.stats.cache_path is None else ONCE
        logger.warning(f"{reason}; {notice}" if reason else notice)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""
        _Notice.latest = time.monotonic()
        self.under_way.pop()


def being_compiled() -> str:
    """Name what is being compiled at this moment; empty: nothing is.

    >>> being_compiled()
    ''
    """
    under_way = _Notice.under_way
    return under_way[-1] if under_way else ""


def give_notice(why_not: Callable[[], str | None]) -> None:
    """Have compiling announced, once in the life of the process; who has kernels says so when it is imported.

    Parameters
    ----------
    why_not
        Says why machine code that came along is of no use here, if some did.
    """
    event.register("numba:compile", _Notice(why_not))  # type: ignore[no-untyped-call]  # numba leaves it untyped


def last_compiled() -> float:
    """Moment (`time.monotonic`) when compiling was last begun or done in this process; 0: never."""
    return _Notice.latest
