"""Several workers under one parent: it starts them, starts those again that die, and stops them all.

The parent reads no topic and holds no client. Each worker tells it its figures through a pipe, and ends when the pipe
breaks: no worker outlives its parent. systemd and Kubernetes start again what has died, too; what they cannot do is
to give all workers one model while its file changes, to lead a restart one by one when there is another, to tell of
all workers by one port, and to end the service for an end that no restart mends.
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
"""Seconds before a worker is started again: doubled each time, until one has lived for the longer of them."""


class StartOrder(NamedTuple):
    """Start order for a worker.

    Attributes
    ----------
    settings
        Its own.
    model
        To be read from beside the snapshots.
    first
        It is the first worker of the service.
    silent
        Moment until which its last line is not logged: there was one about such an end a short time ago. A line that
        says why the service ends is always logged.
    """

    settings: ServiceSettings
    model: ModelName
    first: bool = True
    silent: float = -math.inf


@dataclass(slots=True)
class Slot:
    """The place of one worker, whose processes come and go.

    Attributes
    ----------
    settings
        Of the worker.
    process, pipe
        Of the one that runs; None: none does.
    model
        What the latest one was given.
    stats
        As last told, perhaps by one that has died.
    started
        When the process was started.
    leaving
        When it was told to stop, to make room for another model; 0: it was not.
    failures
        Processes in a row that did not live long.
    restarts
        How often one was started again because it had died.
    due
        When the next one is to be started.
    finished
        A bounded run has reached its end: no other process follows.
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
    """Give a worker its name; the settings are passed on as they are, secrets too, and not read again."""
    return ServiceSettings.model_construct(
        **{**dict(settings), "instance": f"{settings.instance}-{number}", "workers": 1, "metrics_port": None}
    )


def ending(code: int | None) -> str:
    """Say how a process ended.

    >>> ending(70), ending(-9)
    ('exit code 70', 'signal 9')
    """
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def pause(failures: int, share: float) -> float:
    """Say how many seconds to wait after so many failures in a row; ``share`` of [0, 1) spreads them.

    >>> [round(pause(failures, 0.5), 1) for failures in (0, 1, 2, 3, 7, 100)]
    [1.0, 1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(max(0, failures - 1), 10)) * (0.75 + share / 2)


REPORT_SECONDS = 0.5
SPARE_SECONDS = 2.0
"""What the parent waits beyond the time after which a worker ends itself."""

READY_SECONDS = 120.0
"""How long a worker that was given another model is waited for before the next one is."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

NOT_OURS = (signal.SIGINT, signal.SIGHUP)
"""What a terminal sends to all its processes; the parent alone answers."""


MAKE_ROOM = signal.SIGUSR1
"""What tells a worker to stop and to stay a member of the group: its successor gets the same partitions."""

Work = Callable[[StartOrder, Connection], None]


class Workers:
    """Worker processes, named ``INSTANCE-0`` and so on: the same names after every start.

    Parameters
    ----------
    settings
        Of the service.
    current
        The model that they run.
    work
        What each process does, with its order and the end of a pipe for its figures.
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
        """Latest figures of each worker."""
        return {slot.name: slot.stats for slot in self._slots}

    def restarts(self) -> Mapping[str, int]:
        """Say how often each has been started again."""
        return {slot.name: slot.restarts for slot in self._slots}

    def run(self, stop: Callable[[], bool], told_to_replace: Callable[[], bool]) -> None:
        """Keep them running until told to stop.

        Parameters
        ----------
        stop
            Says whether to stop.
        told_to_replace
            Says whether, since it was last asked, there was a word to load the model file again.

        Raises
        ------
        EndedError
            If a worker cannot begin or go on (its last line says why), or has not stopped as it should.
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
            raise EndedError(f"{names} did not stop cleanly; the next start goes on all the same", code)

    def _tend(self, slot: Slot) -> None:
        """Start a worker that should run, and end one that hangs so deep that its own watchdog cannot."""
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
            logger.error("%s has not been heard of for %.0f s and is killed", slot.name, now - seen)
            slot.process.kill()
            slot.process.join()
        self._bury(slot)

    def _start(self, slot: Slot) -> None:
        model = self._current.model
        try:
            if slot.restarts:  # what was kept may be why
                model.keep(self._settings.state / self._settings.group)
            silent = self._seldom.due(f"{slot.name} ended")
            order = StartOrder(slot.settings, model.name, slot is self._slots[0], silent)
            slot.process, slot.pipe = self._launched(slot, order)
        except (PersistenceError, OSError) as error:  # the latter: too many processes or open files, no memory
            slot.failures += 1
            self._put_off(slot, f"{slot.name} cannot be started: {error}")
            return
        slot.model = model.name
        line = f"{slot.name} started, process {slot.process.pid}, model {model.identity}"
        self._seldom.say(f"{slot.name} started", line, logging.INFO)

    def _launched(self, slot: Slot, order: StartOrder) -> tuple[BaseProcess, Connection]:
        """Start a process, and give it with our end of its pipe."""
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
        """Note that a worker has died, and when the next one is to be started."""
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
            raise EndedError(f"{slot.name} cannot go on ({ending(code)}); its last line says why", code)
        slot.failures = 0 if lived >= LONGEST_DELAY else slot.failures + 1
        slot.restarts += 1
        self._put_off(slot, f"{slot.name} ended with {ending(code)} after {lived:.0f} s")

    def _put_off(self, slot: Slot, why: str) -> None:
        """Have a worker started after a while, and say so."""
        delay = pause(slot.failures, random.random())
        slot.due = time.monotonic() + delay
        slot.stats.turn()
        times = f", {slot.failures} times in a row" if slot.failures > 1 else ""
        self._seldom.say(f"{slot.name} ended", f"{why}{times}; started again in {delay:.0f} s", logging.ERROR)

    def _change(self) -> None:
        """Give the workers the model that runs now, one after the other: each is waited for, within reason."""
        now, slot = time.monotonic(), self._changing
        if slot is not None:
            ready = slot.process is not None and not slot.leaving and slot.stats.ready
            if not ready and now - self._since < READY_SECONDS:
                return
            if not ready:
                logger.warning("%s is not ready after %.0f s; the next one follows", slot.name, now - self._since)
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
        """Wait a while for figures, or for something to die."""
        awaited: list[Connection | int] = [slot.pipe for slot in self._slots if slot.pipe is not None]
        awaited += [slot.process.sentinel for slot in self._slots if slot.process is not None]
        if not awaited:
            time.sleep(REPORT_SECONDS)
        wait(awaited, REPORT_SECONDS)
        for slot in self._slots:
            self._hear(slot)

    def _hear(self, slot: Slot) -> None:
        """Take in what a worker has told."""
        try:
            while slot.pipe is not None and slot.pipe.poll():
                slot.stats = slot.pipe.recv()
                self._opened = self._opened or slot.stats.opened_at or slot.stats.ready
        except (EOFError, OSError):  # it died, perhaps in the middle of a word
            assert slot.pipe is not None
            slot.pipe.close()
            slot.pipe = None

    def _stop(self) -> dict[str, int]:
        """Stop all, and return those that did not stop as they should, with their exit codes."""
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
    """Tell the parent the figures now and then, in a thread, once the loop has turned.

    Parameters
    ----------
    stats
        Of this worker.
    pipe
        To the parent.
    gone
        Called when the parent has gone.
    """
    begun = stats.loop

    def tell() -> None:
        parent = multiprocessing.parent_process()
        try:
            while parent is None or parent.is_alive():
                if stats.loop != begun:
                    pipe.send(stats.copy())
                time.sleep(REPORT_SECONDS)
        except OSError:
            pass
        logger.error("the parent process has gone")
        gone()

    threading.Thread(target=tell, name="report", daemon=True).start()
