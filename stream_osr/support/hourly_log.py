"""Log lines about causes that repeat with every micro-batch."""

from __future__ import annotations

import logging
import math
import time

HOUR = 3600.0

_hourly: dict[str, tuple[float, int]] = {}
"""Time of the last line about each cause, and number of repetitions since."""


def log_hourly(logger: logging.Logger, cause: str, line: str, error: Exception | None = None) -> None:
    """Log an error line at most once an hour for a cause. The next line has the number of repetitions."""
    now = time.monotonic()
    at, repeated = _hourly.get(cause, (-math.inf, 0))
    if now - at < HOUR:
        _hourly[cause] = at, repeated + 1
        logger.debug("%s", line)
        return
    _hourly[cause] = now, 0
    logger.error("%s%s", line, f" ({repeated} times more since the last line)" if repeated else "", exc_info=error)
