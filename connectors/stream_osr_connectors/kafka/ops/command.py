"""The commands of the service: run one or several workers, reconcile subclasses, and check topics."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NamedTuple

from stream_osr.errors import StreamOSRError
from stream_osr_connectors.terminal import protect_terminal

from ..client.errors import quieten
from ..exits import AGAIN, ends_service, exit_code, passes
from ..log import logger
from ..run.models import CurrentModel, ModelFile
from ..run.service import Reconciler, Service
from ..run.topics import TopicCheck, WantedTopics, look_after
from ..settings import ServiceSettings
from ..settings_errors import unknown_variables
from ..stats import ServiceStats
from .logs import begin_logging
from .metrics import Overview
from .monitor import Monitor
from .watchdog import Watchdog
from .workers import MAKE_ROOM, StartOrder, Workers, report

Make = type[Service] | type[Reconciler]
"""Class of the main loop of a process."""


class ProcessSignals(NamedTuple):
    """Signals that the process has received.

    Attributes
    ----------
    stop
        To stop (SIGTERM, SIGINT).
    replace
        To load the model file again (SIGHUP).
    make_room
        To stop for a successor that starts at once: the parent's :data:`.workers.MAKE_ROOM`.
    """

    stop: threading.Event
    replace: threading.Event
    make_room: threading.Event

    @classmethod
    def by_signals(cls) -> ProcessSignals:
        """Install the signal handlers."""
        signals = cls(threading.Event(), threading.Event(), threading.Event())

        def note(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGHUP:
                signals.replace.set()
                return
            (signals.make_room.set if number == MAKE_ROOM else signals.make_room.clear)()  # the latest word counts
            signals.stop.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, MAKE_ROOM):
            signal.signal(number, note)
        return signals

    def to_replace(self) -> bool:
        """Return whether SIGHUP has arrived since the last call."""
        reported = self.replace.is_set()
        self.replace.clear()
        return reported


def serve(settings: ServiceSettings) -> None:
    """Run the service until SIGTERM or SIGINT.

    Raises
    ------
    StreamOSRError
        If the service cannot start or continue without a person. With a JSON log, the error is a log line, and the
        process ends.
    """
    _begin(settings, _work_watched if settings.workers == 1 else _work_together)


def reconcile(settings: ServiceSettings) -> None:
    """Link the subclasses of all partitions until SIGTERM or SIGINT, with the same supervision as a worker.

    Raises
    ------
    StreamOSRError
        As :func:`serve`.
    """
    _begin(settings, partial(_work_watched, make=Reconciler))


def topics(settings: ServiceSettings, wanted: dict[str, Any] | None) -> list[TopicCheck]:
    """Check or create the topics of a service (see :class:`.topics.WantedTopics`)."""
    quieten()
    return look_after(settings, None if wanted is None else WantedTopics(**wanted))


def _begin(settings: ServiceSettings, work: Callable[[ServiceSettings, ProcessSignals], None]) -> None:
    signals = ProcessSignals.by_signals()
    begin_logging(settings)
    for line in unknown_variables(os.environ, ServiceSettings.model_fields):
        logger.warning(line)
    with _errors_logged() if settings.log_format == "json" else nullcontext():
        work(settings, signals)
    logger.info("stopped")


def _work_watched(settings: ServiceSettings, signals: ProcessSignals, make: Make = Service) -> None:
    """Run one worker in this process until it must stop. A new model restarts the loop."""
    stats = ServiceStats()
    current = CurrentModel(settings, kept=make is Service, storage=stats.storage)
    with _port(settings, Overview(lambda: {settings.instance: stats}, settings.watchdog)):
        while not signals.stop.is_set():
            model = current.model

            def ended() -> bool:
                current.look()
                if signals.to_replace():
                    current.replace()
                return signals.stop.is_set() or current.model is not model  # noqa: B023  # asked within this turn only

            _work(settings, stats, signals, ended, model, make)
            stats.partitions.clear()
            if current.model is model:  # a signal has stopped it, or a bounded run has reached its end
                break
            gc.unfreeze()  # the next loop collects what has lived as long as this one


def _work_together(settings: ServiceSettings, signals: ProcessSignals) -> None:
    workers = Workers(settings, CurrentModel(settings), work_under_parent)
    overview = Overview(workers.stats, settings.watchdog, workers.restarts)
    with _port(settings, overview):
        workers.run(signals.stop.is_set, signals.to_replace)


def work_under_parent(order: StartOrder, pipe: Connection) -> None:
    """Run one of several workers. It reports to the parent, and ends when the parent has gone."""
    settings, signals, stats = order.settings, ProcessSignals.by_signals(), ServiceStats()
    protect_terminal()
    begin_logging(settings)
    report(stats, pipe, gone=signals.stop.set)
    with _errors_logged(stats, order):
        model = ModelFile.given(order.archive, order.model)
        _work(settings, stats, signals, signals.stop.is_set, model, Service)
    logger.info("stopped")


def _work(
    settings: ServiceSettings,
    stats: ServiceStats,
    signals: ProcessSignals,
    ended: Callable[[], bool],
    model: ModelFile,
    make: Make,
) -> None:
    watchdog = Watchdog(stats, settings.watchdog, settings.stop_timeout, signals.stop)
    try:
        loop = make(settings, model=model, stats=stats)
        gc.collect()
        gc.freeze()  # what lives for ever: the loop's own collections are quick beside it
        if not signals.stop.is_set():
            loop.run(ended, stay=lambda: signals.make_room.is_set() or not signals.stop.is_set())
    except StreamOSRError as error:
        if not (signals.stop.is_set() and passes(error)):
            raise
        logger.info("%s", error)
    finally:
        watchdog.dismiss()


def _port(settings: ServiceSettings, overview: Overview) -> AbstractContextManager[object]:
    """Serve metrics and health checks in a context, if the settings have a port."""
    if settings.metrics_port is None:
        return nullcontext()
    return closing(Monitor(settings.metrics_host, settings.metrics_port, overview))


@contextmanager
def _errors_logged(stats: ServiceStats | None = None, order: StartOrder | None = None) -> Iterator[None]:
    """Log an error that ends the process in one line, and exit."""
    try:
        yield
    except Exception as error:
        defect = not isinstance(error, StreamOSRError)
        code = AGAIN if defect and stats is not None and stats.opened_at else exit_code(error)
        # the parent of a worker knows how often such lines may be logged
        due = (
            order is None or ends_service(code, was_open=True, first=order.first) or time.monotonic() >= order.silent
        )
        text = "the service has a defect" if defect else error
        logger.log(logging.CRITICAL if due else logging.DEBUG, "%s", text, exc_info=defect)
        sys.exit(code)
