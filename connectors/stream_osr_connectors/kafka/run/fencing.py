"""Resolution of two processes with one name in the group or one transactional id."""

from __future__ import annotations

import math
import time

from ..client import ErrorKind
from ..exits import TakenError
from ..settings import ServiceSettings
from ..stats import ServiceStats


class Strikes:
    """Tells another process of our name from a request of our own that came late: it fences us again and again.

    Parameters
    ----------
    settings
        Of the service.
    figures
        Where it counts.
    """

    SECONDS = 20.0
    """Twice within this time, and there is another."""

    def __init__(self, settings: ServiceSettings, stats: ServiceStats) -> None:
        self._settings, self._stats = settings, stats
        self._last = -math.inf

    def strike(self) -> None:
        """Note that the broker has preferred another to us.

        Raises
        ------
        TakenError
            If it has done so a short time ago.
        """
        self._stats.add("transactions_fenced")
        now = time.monotonic()
        again, self._last = now - self._last < self.SECONDS, now
        if again:
            raise TakenError(
                f"another worker of group {self._settings.group} has the name {self._settings.instance}; "
                "give each its own instance"
            )


class Rivalry:
    """Decides whether another producer uses our transactional id, and whether this process has to end for it.

    Two producers with one id fence each other in turn: each is fenced only after the other has opened a producer
    anew. So a process that ends when it is fenced leaves the other one undisturbed, and of two exactly one ends. The
    younger one is to end: a process that had the id for less than a minute before its first fencing ends after fewer
    fencings and a shorter time than one that had it for longer.

    Parameters
    ----------
    settings
        Of the service.
    name
        The transactional id.
    figures
        Where it counts.
    """

    YOUNG_SECONDS = 60.0
    """A process that was first fenced within this time after its first producer is the younger one."""

    YOUNG_FENCINGS, OLD_FENCINGS = 3, 6
    YOUNG_PATIENCE, OLD_PATIENCE = 20.0, 120.0
    """Least number of fencings, and least seconds from the first of them, before the process ends. The group needs
    10 s to decide about two members of one name; a young process adds the time that it had the id."""

    QUIET_SECONDS = 15.0
    """When an old process has committed for so long without a fencing, the other one has gone."""

    FORGET_SECONDS = 600.0
    """Fencings that are further apart do not belong together."""

    def __init__(self, settings: ServiceSettings, name: str, stats: ServiceStats) -> None:
        self._settings, self._name, self._stats = settings, name, stats
        self._opened = math.inf
        self._excused = False
        self.settle()

    def open(self) -> None:
        """Take note of a new producer."""
        self._opened = min(self._opened, time.monotonic())

    def settle(self) -> None:
        """Count from the beginning: the group decides, or the other one has gone."""
        self._fencings, self._begun, self._latest, self._committing = 0, 0.0, -math.inf, math.inf

    def excuse(self) -> None:
        """Take note of another failure: a late request of the producer that is given up may fence the next one."""
        self._excused = True

    def commit(self) -> None:
        """Take note of a transaction that was committed."""
        self._excused = False
        self._committing = min(self._committing, time.monotonic())
        if self._is_old and time.monotonic() - self._committing >= self.QUIET_SECONDS:
            self.settle()

    def judge(self, kind: ErrorKind, seconds: float) -> str:
        """Take note of a transaction that failed after so many seconds; return what is to be said of a rival.

        Raises
        ------
        TakenError
            If this process has to end for it.
        """
        by_timeout = seconds >= self._settings.transaction_timeout  # the brokers fence it, too
        if kind in (ErrorKind.TAKEN, ErrorKind.FENCED) and not by_timeout:
            self._stats.add("transactions_fenced")
        if kind is ErrorKind.TAKEN:  # the group decides which of two members of one name goes on
            self.settle()
        elif kind is ErrorKind.FENCED and not by_timeout:
            return self.fence()
        else:
            self.excuse()
        return ""

    def fence(self) -> str:
        """Take note that our producer was fenced; return what is to be said of it, empty for a single time.

        Raises
        ------
        TakenError
            If another producer uses the id, and this process is the one to end.
        """
        now = time.monotonic()
        if self._excused:
            self._excused = False
            return ""
        if now - self._latest > self.FORGET_SECONDS:
            self.settle()
            self._begun = now
        self._fencings, self._latest, self._committing = self._fencings + 1, now, math.inf
        if self._fencings < 2:
            return ""
        seconds = now - self._begun
        said = (
            f"another producer uses the transactional id {self._name}: it has fenced this worker {self._fencings} "
            f"times in {seconds:.0f} s, and the group {self._settings.group} has no other member "
            f"{self._settings.instance}. Give each service its own group and instance, and other programs other "
            "transactional ids"
        )
        least = self.OLD_FENCINGS if self._is_old else self.YOUNG_FENCINGS
        timeout = self.OLD_PATIENCE if self._is_old else self.YOUNG_PATIENCE + max(0.0, self._begun - self._opened)
        if self._fencings >= least and seconds >= timeout:
            raise TakenError(f"{said}. This worker ends; the other producer goes on")
        return said

    @property
    def _is_old(self) -> bool:
        return self._begun - self._opened >= self.YOUNG_SECONDS
