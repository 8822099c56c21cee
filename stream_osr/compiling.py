"""Notice that kernels are being compiled, which takes minutes and could look like a hang.

Processes that start together on an empty cache compile each kernel once (:func:`one_process`). One of them compiles,
and the others wait: two processes that compile different kernels both process the functions that these kernels share.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ClassVar

from numba.core import event

logger = logging.getLogger("stream_osr")

ONCE = "compiling the sampler: one or two minutes, once for each installation (`stream-osr warmup` does it ahead)"
EVERY_TIME = (
    "compiling the sampler: one or two minutes in every process, since the cache folder is not writable "
    "(set NUMBA_CACHE_DIR to a writable folder)"
)
WAITING = "another process compiles the sampler: this process waits for it, one or two minutes at most"

LONGEST_WAIT = 600.0
"""Seconds after which a process compiles a kernel itself, although another one still has the lock."""
PAUSE = 0.1
"""Seconds between two attempts to take the lock."""
BETWEEN = 3.0
"""Seconds between two kernels of a process that compiles, at most. Others do not begin to compile before."""
LOADING = 3.0
"""Seconds of waiting before the message. A process that only loads machine code has the lock for less."""


class _Notice(event.Listener):
    """Warn before the first kernel of this package is compiled, and track compilation.

    The warning goes to the logger ``stream_osr``. numba reports compilation, but not loading of cached machine code.
    """

    reported = False
    waited = False
    compiles = False
    latest = 0.0
    under_way: ClassVar[list[str]] = []

    def __init__(self, why_not: Callable[[], str | None]) -> None:
        super().__init__()
        self._why_not = why_not

    def on_start(self, event: Any) -> None:
        _Notice.latest = time.monotonic()
        dispatcher = event.data["dispatcher"]
        self.under_way.append(dispatcher.py_func.__name__)
        others = str(dispatcher.py_func.__module__).partition(".")[0] != "stream_osr"
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


@contextmanager
def one_process(lock: Path, name: str, is_cached: Callable[[], bool]) -> Iterator[None]:
    """Let one process at a time compile a kernel into the cache. The others wait, and then find its machine code.

    A process that has not compiled yet also waits while another process compiles other kernels. The system releases
    the lock when a process ends, however it ends. Without a writable folder or a file system with locks, each process
    compiles for itself.

    Parameters
    ----------
    lock
        The file to lock for all kernels, which is created if needed.
    name
        Name of the kernel, for the progress display (:func:`being_compiled`).
    is_cached
        Function that returns whether the machine code is in the cache.
    """
    with ExitStack() as opened:
        with suppress(OSError):
            file = opened.enter_context(lock.open("ab"))
            if _may_begin(file, name, is_cached):
                _Notice.compiles = True
                opened.callback(os.utime, file.fileno())
        yield


def _may_begin(file: IO[bytes], name: str, is_cached: Callable[[], bool]) -> bool:
    """Lock the file when no other process compiles. Return ``False`` if another one has compiled this kernel."""
    for _ in _attempts(name):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            used = os.fstat(file.fileno())
            if _Notice.compiles or not used.st_size or abs(time.time() - used.st_mtime) > BETWEEN:
                os.ftruncate(file.fileno(), 1)
                return True
            fcntl.flock(file, fcntl.LOCK_UN)
        if is_cached():
            return False
    return True


def _attempts(name: str) -> Iterator[None]:
    """Yield now and after each pause, until this process has waited too long for another one."""
    begin = now = time.monotonic()
    yield
    _Notice.under_way.append(name)
    try:
        while now < begin + LONGEST_WAIT:
            if now - begin > LOADING and not _Notice.waited:
                _Notice.waited = True
                logger.warning(WAITING)
            time.sleep(PAUSE)
            _Notice.latest = now = time.monotonic()
            yield
    finally:
        _Notice.under_way.pop()


def last_compiled() -> float:
    """Moment (`time.monotonic`) when this process last compiled, or waited for another that does. 0: never."""
    return _Notice.latest
