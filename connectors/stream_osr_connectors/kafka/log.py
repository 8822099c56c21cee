"""The log of the service, and the rate limit for repeated lines.

`ops.logs` defines the format of lines.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

logger = logging.getLogger("stream_osr.kafka")

FIRST_SILENCE, LONGEST_SILENCE = 1.0, 600.0
"""First and longest silence in seconds after a line about a condition. The silence doubles with each line."""

CALM_SECONDS = 3600.0
"""Seconds after which a recurring condition is new, and older lines about it do not count."""

FEW_LINES = 8
"""Lines within `CALM_SECONDS` after which the end of a condition no longer ends its silence."""


@dataclass(slots=True)
class _Condition:
    """One condition: times of log lines, time of the last occurrence, and number of repeats since the latest line."""

    lines: deque[float] = field(default_factory=deque)
    silence: float = 0.0
    seen: float = -math.inf
    repeats: int = 0
    stands: bool = False

    def begin(self, now: float) -> None:
        """Record an occurrence. After a calm the condition is new."""
        if now - self.seen > CALM_SECONDS:
            self.silence, self.repeats = 0.0, 0
        self.seen = now
        while self.lines and now - self.lines[0] >= CALM_SECONDS:
            self.lines.popleft()

    @property
    def due(self) -> float:
        """Time from which on the next line may be logged."""
        return self.lines[-1] + self.silence if self.lines else -math.inf


class Seldom:
    """A logger of repeated conditions with a rate limit for all such lines of the service.

    The first line about a condition is logged at once. After each line the condition is silent, for one second at
    first, then twice as long each time, up to ten minutes. The next line contains the number of repeats since the
    previous line. The end of a condition (:meth:`forget`) ends its silence, unless eight lines about it were logged
    within an hour. A condition has at most 20 lines per hour. Repeats during a silence are logged at level DEBUG.
    """

    def __init__(self) -> None:
        self._conditions: defaultdict[str, _Condition] = defaultdict(_Condition)

    def say(self, about: str, message: str, level: int = logging.WARNING) -> bool:
        """Log a line about a condition unless it is silent, and return whether the line was logged."""
        now, condition = time.monotonic(), self._conditions[about]
        condition.begin(now)
        if now < condition.due:
            condition.repeats += 1
            logger.debug("%s", message)
            return False
        condition.lines.append(now)
        grown = FIRST_SILENCE * 2.0 ** (len(condition.lines) - 1)
        condition.silence = min(LONGEST_SILENCE, max(2 * condition.silence, grown))
        more = f" ({condition.repeats} times more since it was last said)" if condition.repeats else ""
        condition.repeats, condition.stands = 0, True
        logger.log(level, "%s%s", message, more)
        return True

    def forget(self, about: str, message: str = "") -> None:
        """Record the end of a condition. The message is logged if a line was logged since its start."""
        condition = self._conditions.get(about)
        if condition is None:
            return
        if message and condition.stands:
            logger.info("%s", message)
        condition.stands = False
        if len(condition.lines) < FEW_LINES:
            condition.silence, condition.repeats = 0.0, 0

    def due(self, about: str) -> float:
        """Return the time from which on the next line about a condition may be logged."""
        condition = self._conditions.get(about)
        return -math.inf if condition is None else condition.due
