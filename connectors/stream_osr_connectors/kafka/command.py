"""The commands of the service: run it (a worker in this process, or several under it), look after it, ask of it."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from stream_osr.errors import InvalidParameter, StreamOSRError
from stream_osr_connectors.values import DecodeError, label_of_text

from .asking import ask, meant
from .clients import quieten
from .figures import Figures
from .logs import begin_logging
from .metrics import Overview
from .monitor import Monitor
from .reconciling import Reconciler
from .service import Service
from .settings import ServiceSettings, load_settings
from .topic_setup import Line, Wanted, look_after
from .watchdog import Watchdog
from .workers import Workers, report

logger = logging.getLogger("stream_osr.kafka")


class Loop(Protocol):
    """What a process does until it is told to stop."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Work until told to stop."""


class Make(Protocol):
    """Makes the loop of a process."""

    def __call__(self, settings: ServiceSettings, *, figures: Figures) -> Loop:
        """Make it; it tells how it goes by the figures."""


def serve(config: Path | None, flags: Sequence[str]) -> None:
    """Run the service until SIGTERM or SIGINT.

    Raises
    ------
    StreamOSRError
        If a setting is wrong, if it cannot begin, or cannot go on without a person. When the log is JSON the latter
        two are lines of it, and the process ends.
    """
    settings = load_settings(config, flags)
    if settings.workers == 1:
        _begin(settings, lambda: _work_alone(settings, settings.input, Service))
    else:
        _begin(settings, lambda: _work_together(settings))


def reconcile(config: Path | None, flags: Sequence[str]) -> None:
    """Join the subclasses of all partitions until SIGTERM or SIGINT; looked after as a worker of the service is.

    Raises
    ------
    StreamOSRError
        As :func:`serve`.
    """
    settings = load_settings(config, flags)
    _begin(settings, lambda: _work_alone(settings, settings.subclasses or "", Reconciler))


def topics(config: Path | None, flags: Sequence[str], wanted: dict[str, Any] | None) -> list[Line]:
    """Look after the topics of a service; see :class:`.topic_setup.Wanted`."""
    quieten()
    return look_after(_without_model(config, flags), None if wanted is None else Wanted(**wanted))


def label(config: Path | None, flags: Sequence[str], *, key: str, label: str, whole_key: bool) -> str:
    """Say which class the instance with a key is of."""
    settings = _without_model(config, flags)
    return _ask(settings, {"key": _whole(key) if whole_key else key, "label": _label(settings, label)})


def promote(config: Path | None, flags: Sequence[str], *, subclass: str, label: str) -> str:
    """Make a subclass (part of) a known class."""
    settings = _without_model(config, flags)
    named = _label(settings, label)
    return _ask(settings, *({**one, "label": named} for one in _meant(settings, subclass)))


def mute(config: Path | None, flags: Sequence[str], *, subclass: str) -> str:
    """Have nothing more told of a subclass."""
    settings = _without_model(config, flags)
    return _ask(settings, *({**one, "mute": True} for one in _meant(settings, subclass)))


def undo(config: Path | None, flags: Sequence[str], *, stream: str) -> str:
    """Take back what was last asked of a partition."""
    return _ask(_without_model(config, flags), {"undo": stream})


def _without_model(config: Path | None, flags: Sequence[str]) -> ServiceSettings:
    """Read the settings for a command that needs no model."""
    return load_settings(config, flags, model=Path())


def _meant(settings: ServiceSettings, subclass: str) -> list[dict[str, str]]:
    quieten()
    return meant(settings, subclass)


def _ask(settings: ServiceSettings, *asked: dict[str, Any]) -> str:
    quieten()
    return ask(settings, *asked)


def _label(settings: ServiceSettings, text: str) -> str | int | None:
    try:
        return label_of_text(text, settings.label_type)
    except DecodeError as error:
        raise InvalidParameter(f"the label {error}") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"the key {text!r} is not a whole number") from None


def _begin(settings: ServiceSettings, work: Callable[[], None]) -> None:
    begin_logging(settings)
    if settings.log_format == "text":
        work()
        return
    with _errors_logged():
        work()


def _work_alone(settings: ServiceSettings, topic: str, make: Make) -> None:
    figures = Figures()
    monitor = _monitor(settings, Overview(topic, lambda: {settings.instance: figures}, settings.watchdog))
    try:
        _work(settings, figures, threading.Event(), make)
    finally:
        if monitor is not None:
            monitor.close()


def _work_together(settings: ServiceSettings) -> None:
    workers = Workers(settings, work_under_parent)
    overview = Overview(settings.input, workers.figures, settings.watchdog, workers.restarts)
    monitor = _monitor(settings, overview)
    told = threading.Event()
    _on_signals(told.set)
    try:
        workers.run(told.is_set)
    finally:
        if monitor is not None:
            monitor.close()


def work_under_parent(settings: ServiceSettings, pipe: Connection) -> None:
    """Work as one of several: the parent hears how it goes, and the worker ends when the parent has gone."""
    begin_logging(settings)
    figures, told = Figures(), threading.Event()
    report(figures, pipe, gone=told.set)
    with _errors_logged():
        _work(settings, figures, told, Service)


def _work(settings: ServiceSettings, figures: Figures, told: threading.Event, make: Make) -> None:
    watchdog = Watchdog(figures, settings.watchdog, settings.stop_timeout, told)
    _on_signals(told.set)
    try:
        loop = make(settings, figures=figures)
        gc.collect()
        gc.freeze()  # what lives for ever: the loop's own collections are quick beside it
        loop.run(told.is_set)
    finally:
        watchdog.dismiss()


def _monitor(settings: ServiceSettings, overview: Overview) -> Monitor | None:
    if settings.metrics_port is None:
        return None
    return Monitor(settings.metrics_host, settings.metrics_port, overview)


def _on_signals(tell: Callable[[], None]) -> None:
    def note(number: int, frame: FrameType | None) -> None:
        tell()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)


@contextmanager
def _errors_logged() -> Iterator[None]:
    """Turn whatever ends the process into a line of the log, and end it."""
    try:
        yield
    except StreamOSRError as error:
        logger.critical("%s", error)
        sys.exit(1)
    except Exception:
        logger.critical("the service has a defect", exc_info=True)
        sys.exit(1)
