"""Several workers under one parent, which starts, restarts and stops them.

The parent reads no topic and has no client. Each worker sends its statistics through a pipe, and ends when the pipe
breaks, so no worker outlives its parent. systemd and Kubernetes restart processes, too. The parent also gives all
workers the same model while its file changes, and restarts them one by one for a new model. It reports all workers on
one port, and ends the service if a restart cannot help.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from stream_osr.errors import PersistenceError

from ..exits import HUNG, EndedError, ends_service
from ..log import Seldom, logger
from ..run.models import CurrentModel, ModelName
from ..settings import ServiceSettings
from ..stats import ServiceStats
from .watchdog import STARTING_SECONDS

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""First and longest delay in seconds before a restart. The delay doubles until a worker lives for the longest one."""


class StartOrder(NamedTuple):
    """Start order for a worker.

    Attributes
    ----------
    settings
        Settings of the worker.
    model, archive
        Name of the model, and its archive.
    first
        Whether this is the first worker of the service.
    silent
        Time until which its last line is not logged, because the log had a similar line a short time ago. The reason
        for an end of the service is always logged.
    """

    settings: ServiceSettings
    model: ModelName
    archive: bytes
    first: bool = True
    silent: float = -math.inf


@dataclass(slots=True)
class Slot:
    """State of one worker over its successive processes.

    Attributes
    ----------
    settings
        Settings of the worker.
    process, pipe
        Running process and its pipe, or ``None``.
    model
        Model of the latest process.
    stats
        Latest statistics, possibly of a process that has died.
    started
        Start time of the process.
    leaving
        Time of the signal to stop for a new model, or 0.
    failures
        Number of consecutive processes that died early.
    restarts
        Number of restarts after a death.
    due
        Time of the next start.
    finished
        Whether a bounded run has reached its end, so that no process follows.
    """

    settings: ServiceSettings
    process: BaseProcess | None = None
    pipe: Connection | None = None
    model: ModelName | None = None
    stats: ServiceStats = field(default_factory=ServiceStats)
    started: float = 0.0
    leaving: float = 0.0
    failures: int = 0
    restarts: int = 0
    due: float = 0.0
    finished: bool = False

    @property
    def name(self) -> str:
        """Name of the worker."""
        return self.settings.instance


def of_worker(settings: ServiceSettings, number: int) -> ServiceSettings:
    """Return the settings of a worker with its name. All settings, including secrets, are copied, not read again."""
    return ServiceSettings.model_construct(
        **{**dict(settings), "instance": f"{settings.instance}-{number}", "workers": 1, "metrics_port": None}
    )


def ending(code: int | None) -> str:
    """Describe the end of a process.

    >>> ending(70), ending(-9)
    ('exit code 70', 'signal 9')
    """
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def pause(failures: int, share: float) -> float:
    """Return the seconds to wait after consecutive failures. ``share`` in [0, 1) adds a random spread.

    >>> [round(pause(failures, 0.5), 1) for failures in (0, 1, 2, 3, 7, 100)]
    [1.0, 1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(max(0, failures - 1), 10)) * (0.75 + share / 2)


REPORT_SECONDS = 0.5
SPARE_SECONDS = 2.0
"""Additional seconds that the parent waits after a worker's own time limit."""

READY_SECONDS = 120.0
"""Most seconds to wait for a worker with a new model before the next worker."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

NOT_OURS = (signal.SIGINT, signal.SIGHUP)
"""Signals that a terminal sends to all its processes. Only the parent handles them."""


MAKE_ROOM = signal.SIGUSR1
"""Signal that stops a worker without leaving the group, so that its successor gets the same partitions."""

Work = Callable[[StartOrder, Connection], None]


class Workers:
    """Worker processes with the names ``INSTANCE-0`` and so on, the same after every start.

    Parameters
    ----------
    settings
        Of the service.
    current
        Current model.
    work
        Function that each process runs, given its order and the end of a pipe for its statistics.
    """

    def __init__(self, settings: ServiceSettings, current: CurrentModel, work: Work) -> None:
        self._settings, self._current, self._work = settings, current, work
        self._context = multiprocessing.get_context("spawn")  # clients do not survive a fork
        self._slots = [Slot(of_worker(settings, number)) for number in range(settings.workers)]
        self._seldom = Seldom()
        self._opened = False  # one of them has got through to the brokers
        self._changing: Slot | None = None  # the one that is given another model now
        self._since = 0.0

    def stats(self) -> Mapping[str, ServiceStats]:
        """Latest statistics of each worker."""
        return {slot.name: slot.stats for slot in self._slots}

    def restarts(self) -> Mapping[str, int]:
        """Return the number of restarts of each worker."""
        return {slot.name: slot.restarts for slot in self._slots}

    def run(self, stop: Callable[[], bool], told_to_replace: Callable[[], bool]) -> None:
        """Run the workers until ``stop`` returns true.

        Parameters
        ----------
        stop
            Function that returns whether to stop.
        told_to_replace
            Function that returns whether SIGHUP has arrived since the last call.

        Raises
        ------
        EndedError
            If a worker cannot start or continue (see its last log line), or did not stop cleanly.
        """
        for variable in ONE_THREAD:
            os.environ.setdefault(variable, "1")
        try:
            while not stop():
                self._current.look()
                if told_to_replace():
                    self._current.replace()
                for slot in self._slots:
                    self._tend(slot)
                self._change()
                self._listen()
                if all(slot.finished for slot in self._slots):
                    break
        finally:
            unclean = self._stop()
        if unclean:
            code = next((code for code in unclean.values() if code > 0), HUNG)
            names = ", ".join(f"{name} ({ending(code)})" for name, code in unclean.items())
            raise EndedError(f"{names} did not stop cleanly. The next start resumes normally", code)

    def _tend(self, slot: Slot) -> None:
        """Start a worker that should run, and kill one that hangs if its watchdog cannot."""
        now = time.monotonic()
        if slot.process is None:
            slot.stats.turn()  # there is no loop that could be stuck
            if now >= slot.due and not slot.finished:
                self._start(slot)
            return
        if slot.process.is_alive():
            turned = slot.stats.loop > slot.started
            seen = slot.stats.loop if turned else slot.started
            longest = self._settings.watchdog if turned else max(self._settings.watchdog, STARTING_SECONDS)
            late = slot.leaving and now - slot.leaving > self._settings.stop_timeout + SPARE_SECONDS
            if not late and now - seen <= longest + SPARE_SECONDS:
                return
            logger.error("%s has not responded for %.0f s and is killed", slot.name, now - seen)
            slot.process.kill()
            slot.process.join()
        self._bury(slot)

    def _start(self, slot: Slot) -> None:
        model = self._current.model
        try:
            silent = self._seldom.due(f"{slot.name} ended")
            order = StartOrder(slot.settings, model.name, model.archive(), slot is self._slots[0], silent)
            slot.process, slot.pipe = self._launched(slot, order)
        except (PersistenceError, OSError) as error:  # the latter: too many processes or open files, no memory
            slot.failures += 1
            self._put_off(slot, f"{slot.name} cannot be started: {error}")
            return
        slot.model = model.name
        line = f"{slot.name} started, process {slot.process.pid}, model {model.identity}"
        self._seldom.say(f"{slot.name} started", line, logging.INFO)

    def _launched(self, slot: Slot, order: StartOrder) -> tuple[BaseProcess, Connection]:
        """Start a process, and return it with our end of the pipe."""
        ours, its = self._context.Pipe(duplex=False)
        process = self._context.Process(target=self._work, args=(order, its), name=slot.name)
        slot.started = time.monotonic()  # later than any turn in its figures, until it tells of one
        resource_tracker.ensure_running()  # the first time it lets go of these signals again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, NOT_OURS)
        try:
            process.start()
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            its.close()
        return process, ours

    def _bury(self, slot: Slot) -> None:
        """Record the death of a worker, and schedule the next start."""
        assert slot.process is not None
        self._hear(slot)
        code, lived = slot.process.exitcode, time.monotonic() - slot.started
        slot.process.close()
        if slot.pipe is not None:
            slot.pipe.close()
        slot.process = slot.pipe = None
        slot.stats = slot.stats.ended(f"its process ended with {ending(code)}")
        if slot.leaving:
            slot.leaving, slot.due = 0.0, 0.0
            self._seldom.forget(f"{slot.name} started")
            logger.info("%s stopped", slot.name)
            return
        if code == 0 and self._settings.stop is not None:
            slot.finished, slot.stats = True, replace(slot.stats, obstacles=())
            logger.info("%s has finished", slot.name)
            return
        if ends_service(code, self._opened, first=slot is self._slots[0]):
            assert code is not None
            raise EndedError(f"{slot.name} cannot go on ({ending(code)}): its last line says why", code)
        slot.failures = 0 if lived >= LONGEST_DELAY else slot.failures + 1
        slot.restarts += 1
        self._put_off(slot, f"{slot.name} ended with {ending(code)} after {lived:.0f} s")

    def _put_off(self, slot: Slot, why: str) -> None:
        """Schedule a delayed start of a worker, and log it."""
        delay = pause(slot.failures, random.random())
        slot.due = time.monotonic() + delay
        slot.stats.turn()
        times = f", {slot.failures} times in a row" if slot.failures > 1 else ""
        self._seldom.say(f"{slot.name} ended", f"{why}{times}, started again in {delay:.0f} s", logging.ERROR)

    def _change(self) -> None:
        """Restart workers with the current model one by one, with a limited wait for each."""
        now, slot = time.monotonic(), self._changing
        if slot is not None:
            ready = slot.process is not None and not slot.leaving and slot.stats.ready
            if not ready and now - self._since < READY_SECONDS:
                return
            if not ready:
                logger.warning("%s is not ready after %.0f s, the next one follows", slot.name, now - self._since)
            self._changing = None
        wanted = self._current.model.name
        for slot in self._slots:
            if slot.process is not None and slot.model != wanted:
                logger.info("%s is stopped, to be given the model %s", slot.name, wanted.identity)
                if slot.process.pid is not None and slot.process.is_alive():
                    os.kill(slot.process.pid, MAKE_ROOM)
                slot.leaving = self._since = now
                self._changing = slot
                return

    def _listen(self) -> None:
        """Wait for statistics, or for the end of a process."""
        awaited: list[Connection | int] = [slot.pipe for slot in self._slots if slot.pipe is not None]
        awaited += [slot.process.sentinel for slot in self._slots if slot.process is not None]
        if not awaited:
            time.sleep(REPORT_SECONDS)
        wait(awaited, REPORT_SECONDS)
        for slot in self._slots:
            self._hear(slot)

    def _hear(self, slot: Slot) -> None:
        """Receive statistics from a worker."""
        try:
            while slot.pipe is not None and slot.pipe.poll():
                slot.stats = slot.pipe.recv()
                self._opened = self._opened or slot.stats.opened_at or slot.stats.ready
        except (EOFError, OSError):  # it died, perhaps in the middle of a word
            assert slot.pipe is not None
            slot.pipe.close()
            slot.pipe = None

    def _stop(self) -> dict[str, int]:
        """Stop all workers, and return the exit codes of those that did not stop cleanly."""
        running = [(slot, slot.process) for slot in self._slots if slot.process is not None]
        for _, process in running:
            process.terminate()
        ends = time.monotonic() + self._settings.stop_timeout + SPARE_SECONDS
        unclean = {}
        for slot, process in running:
            while process.is_alive() and time.monotonic() < ends:
                self._hear(slot)  # a full pipe must not hold it up
                process.join(0.1)
            if process.is_alive():
                process.kill()
                process.join()
            code = process.exitcode or 0
            if code in (0, -signal.SIGTERM):  # the latter: before it had begun
                logger.info("%s stopped", slot.name)
            else:
                unclean[slot.name] = code
        return unclean


def report(stats: ServiceStats, pipe: Connection, gone: Callable[[], None]) -> None:
    """Send statistics to the parent regularly, in a thread, after the first iteration of the loop.

    Parameters
    ----------
    stats
        Statistics of this worker.
    pipe
        Pipe to the parent.
    gone
        Function to call when the parent has gone.
    """
    begun = stats.loop

    def tell() -> None:
        parent = multiprocessing.parent_process()
        with suppress(OSError):
            while parent is None or parent.is_alive():
                if stats.loop != begun:
                    pipe.send(stats.copy())
                time.sleep(REPORT_SECONDS)
        logger.error("the parent process has gone")
        gone()

    threading.Thread(target=tell, name="report", daemon=True).start()
