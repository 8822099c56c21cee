"""Several workers under one parent: it starts them, starts those again that die, and stops them all.

The parent reads no topic and holds no client. Each worker tells it its figures through a pipe, and ends when the
pipe breaks: no worker outlives its parent.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from stream_osr.errors import ConnectorError

from .figures import Figures
from .settings import ServiceSettings
from .watchdog import STARTING_SECONDS

logger = logging.getLogger("stream_osr.kafka")

REPORT_SECONDS = 0.5
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds before a worker is started again: doubled each time, until one has lived for the longer of them."""

SPARE_SECONDS = 2.0
"""What the parent waits beyond the time after which a worker ends itself."""

REFUSED = 1
"""Exit code of a worker that cannot begin, or cannot go on without a person."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Work = Callable[[ServiceSettings, Connection], None]


@dataclass(slots=True)
class Slot:
    """The place of one worker, whose processes come and go.

    Attributes
    ----------
    settings
        Of the worker.
    process, pipe
        Of the one that runs; None: none does.
    figures
        As last told, perhaps by one that has died.
    worked
        A process of this place has been ready once.
    started
        When the process was started.
    failures
        Processes in a row that did not live long.
    restarts
        How often one was started again.
    due
        When the next one is to be started.
    """

    settings: ServiceSettings
    process: BaseProcess | None = None
    pipe: Connection | None = None
    figures: Figures = field(default_factory=Figures)
    worked: bool = False
    started: float = 0.0
    failures: int = 0
    restarts: int = 0
    due: float = 0.0

    @property
    def name(self) -> str:
        """Name of the worker."""
        return self.settings.instance


class Workers:
    """Worker processes, named ``INSTANCE-0`` and so on: the same names after every start.

    Parameters
    ----------
    settings
        Of the service.
    work
        What each process does, with its settings and the end of a pipe for its figures.
    """

    def __init__(self, settings: ServiceSettings, work: Work) -> None:
        self._settings = settings
        self._work = work
        self._context = multiprocessing.get_context("spawn")  # clients do not survive a fork
        self._slots = [Slot(_of_worker(settings, number)) for number in range(settings.workers)]

    def figures(self) -> Mapping[str, Figures]:
        """Latest figures of each worker."""
        return {slot.name: slot.figures for slot in self._slots}

    def restarts(self) -> Mapping[str, int]:
        """Say how often each has been started again."""
        return {slot.name: slot.restarts for slot in self._slots}

    def run(self, stop: Callable[[], bool]) -> None:
        """Keep them running until told to stop.

        Raises
        ------
        ConnectorError
            If a worker cannot begin (its last line says why), or has not stopped as it should.
        """
        for variable in ONE_THREAD:
            os.environ.setdefault(variable, "1")
        try:
            while not stop():
                for slot in self._slots:
                    self._tend(slot)
                self._listen()
        finally:
            unclean = self._stop()
        if unclean:
            raise ConnectorError(f"{', '.join(unclean)} did not stop cleanly; the next start goes on all the same")

    def _tend(self, slot: Slot) -> None:
        """Start a worker that should run, and end one that hangs so deep that its own watchdog cannot."""
        now = time.monotonic()
        if slot.process is None:
            if now >= slot.due:
                self._start(slot)
            return
        if slot.process.is_alive():
            turned = slot.figures.loop > slot.started
            seen = slot.figures.loop if turned else slot.started
            longest = self._settings.watchdog if turned else max(self._settings.watchdog, STARTING_SECONDS)
            if now - seen > longest + SPARE_SECONDS:
                logger.error("%s has not been heard of for %.0f s and is killed", slot.name, now - seen)
                slot.process.kill()
                slot.process.join()
                self._bury(slot)
            return
        self._bury(slot)

    def _start(self, slot: Slot) -> None:
        slot.pipe, end = self._context.Pipe(duplex=False)
        slot.process = self._context.Process(target=self._work, args=(slot.settings, end), name=slot.name)
        slot.started = time.monotonic()
        slot.process.start()
        end.close()
        logger.info("%s started, process %d", slot.name, slot.process.pid)

    def _bury(self, slot: Slot) -> None:
        """Note that a worker has died, and when the next one is to be started."""
        assert slot.process is not None
        self._hear(slot)
        code, lived = slot.process.exitcode, time.monotonic() - slot.started
        slot.process.close()
        if slot.pipe is not None:
            slot.pipe.close()
        slot.process = slot.pipe = None
        slot.figures = slot.figures.ended(f"its process ended with {_ending(code)}")
        if code == REFUSED and not slot.worked:
            raise ConnectorError(f"{slot.name} cannot begin; its last line says why")
        slot.failures = 0 if lived >= LONGEST_DELAY else slot.failures + 1
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** max(0, slot.failures - 1))
        slot.due = time.monotonic() + delay
        slot.restarts += 1
        logger.error("%s ended with %s after %.0f s; started again in %.0f s", slot.name, _ending(code), lived, delay)

    def _listen(self) -> None:
        """Wait a while for figures, or for something to die."""
        awaited: list[Connection | int] = [slot.pipe for slot in self._slots if slot.pipe is not None]
        awaited += [slot.process.sentinel for slot in self._slots if slot.process is not None]
        if not awaited:
            time.sleep(REPORT_SECONDS)
        wait(awaited, REPORT_SECONDS)
        for slot in self._slots:
            self._hear(slot)

    @staticmethod
    def _hear(slot: Slot) -> None:
        """Take in what a worker has told."""
        try:
            while slot.pipe is not None and slot.pipe.poll():
                slot.figures = slot.pipe.recv()
                slot.worked = slot.worked or slot.figures.ready
        except (EOFError, OSError):  # it died, perhaps in the middle of a word
            assert slot.pipe is not None
            slot.pipe.close()
            slot.pipe = None

    def _stop(self) -> list[str]:
        """Stop all, and return the names of those that did not stop as they should."""
        running = [slot for slot in self._slots if slot.process is not None]
        for slot in running:
            assert slot.process is not None
            slot.process.terminate()
        ends = time.monotonic() + self._settings.stop_timeout + SPARE_SECONDS
        unclean = []
        for slot in running:
            assert slot.process is not None
            while slot.process.is_alive() and time.monotonic() < ends:
                self._hear(slot)  # a full pipe must not hold it up
                slot.process.join(0.1)
            if slot.process.is_alive():
                slot.process.kill()
                slot.process.join()
            if slot.process.exitcode not in (0, -signal.SIGTERM):  # the latter: before it had begun
                unclean.append(f"{slot.name} ({_ending(slot.process.exitcode)})")
        return unclean


def report(figures: Figures, pipe: Connection, gone: Callable[[], None]) -> None:
    """Tell the parent the figures now and then, in a thread, once the loop has turned.

    Parameters
    ----------
    figures
        Of this worker.
    pipe
        To the parent.
    gone
        Called when the parent has gone.
    """
    begun = figures.loop

    def tell() -> None:
        parent = multiprocessing.parent_process()
        try:
            while parent is None or parent.is_alive():
                if figures.loop != begun:
                    pipe.send(figures.copy())
                time.sleep(REPORT_SECONDS)
        except OSError:
            pass
        logger.error("the parent process has gone")
        gone()

    threading.Thread(target=tell, name="report", daemon=True).start()


def _of_worker(settings: ServiceSettings, number: int) -> ServiceSettings:
    """Give a worker its name; the settings are passed on as they are, secrets too, and not read again."""
    values = {name: getattr(settings, name) for name in ServiceSettings.model_fields}
    return ServiceSettings.model_construct(
        **{**values, "instance": f"{settings.instance}-{number}", "workers": 1, "metrics_port": None}
    )


def _ending(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
