"""The places of workers: what each is to do, what is known of it, and when it is started again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from ..figures import Figures
from ..run.models import ModelName
from ..settings import ServiceSettings

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds before a worker is started again: doubled each time, until one has lived for the longer of them."""


class Order(NamedTuple):
    """What a worker is to do.

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
    figures
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
    figures: Figures = field(default_factory=Figures)
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
