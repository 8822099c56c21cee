"""Notice that kernels are being compiled, which takes minutes and could look like a hang."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, ClassVar

from numba.core import event

logger = logging.getLogger("stream_osr")

ONCE = "compiling the sampler: one or two minutes, once for each installation (`stream-osr warmup` does it ahead)"
EVERY_TIME = (
    "compiling the sampler: one or two minutes in every process, since the cache folder is not writable "
    "(set NUMBA_CACHE_DIR to a writable folder)"
)


class _Notice(event.Listener):
    """Warn before the first kernel of this package is compiled, and track compilation.

    The warning goes to the logger ``stream_osr``. numba reports compilation, but not loading of cached machine code.
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
        """Record that compilation ended."""
        _Notice.latest = time.monotonic()
        self.under_way.pop()


def being_compiled() -> str:
    """Return the name of the kernel that is being compiled at this moment, or an empty text.

    >>> being_compiled()
    ''
    """
    under_way = _Notice.under_way
    return under_way[-1] if under_way else ""


def give_notice(why_not: Callable[[], str | None]) -> None:
    """Announce compilation, once for each process. Packages with kernels call it when they are imported.

    Parameters
    ----------
    why_not
        Function that returns why the machine code in the package cannot be used, if it has some.
    """
    event.register("numba:compile", _Notice(why_not))  # type: ignore[no-untyped-call]  # numba leaves it untyped


def last_compiled() -> float:
    """Moment (`time.monotonic`) when compilation last began or ended in this process. 0: never."""
    return _Notice.latest
