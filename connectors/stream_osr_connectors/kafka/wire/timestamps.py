"""Replacement of timestamps outside a topic's limits by the current time, with the original in a header.

Outputs have the timestamps of their instances, which can be arbitrary. A broker rejects timestamps that are too far
from its clock, and soon deletes records that are older than the topic's retention.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from .messages import Outgoing

HEADER = "stream-osr.timestamp"
"""Header with the original timestamp in decimal milliseconds since 1970, if it was replaced."""

NO_TIME = -1
"""Absence of a timestamp, which every topic accepts."""

MARGIN_MS = 60_000
"""Assumed maximum difference between the clocks of a broker and this machine."""

_UNBOUNDED = 1 << 62
"""Smallest value that means no limit. Kafka uses the largest 64-bit number, or -1."""


class TimestampLimits(NamedTuple):
    """Limits of a topic's timestamps relative to now, in milliseconds, ``None`` for no limit.

    Attributes
    ----------
    before_ms
        Older timestamps are rejected.
    after_ms
        Newer timestamps are rejected.
    keeps_ms
        Records with older timestamps are deleted.
    """

    before_ms: int | None = None
    after_ms: int | None = None
    keeps_ms: int | None = None

    @classmethod
    def of(cls, configs: Mapping[str, str | None]) -> TimestampLimits:
        """Read the limits from the configuration of a topic, with a margin of one minute for the broker's clock.

        Examples
        --------
        >>> TimestampLimits.of({"message.timestamp.after.max.ms": "3600000", "retention.ms": "604800000"})
        TimestampLimits(before_ms=None, after_ms=3540000, keeps_ms=604740000)
        >>> TimestampLimits.of({"cleanup.policy": "compact", "retention.ms": "604800000"})
        TimestampLimits(before_ms=None, after_ms=None, keeps_ms=None)
        """
        if configs.get("message.timestamp.type") == "LogAppendTime":
            return cls()
        either = configs.get("message.timestamp.difference.max.ms")  # until Kafka 4.0
        deletes = "delete" in (configs.get("cleanup.policy") or "delete")
        return cls(
            _bound(configs.get("message.timestamp.before.max.ms"), either),
            _bound(configs.get("message.timestamp.after.max.ms"), either),
            _bound(configs.get("retention.ms")) if deletes else None,
        )

    def between(self, now_ms: int) -> tuple[float, float]:
        """Return the oldest and the newest timestamp that the topic accepts and keeps now."""
        old = [limit for limit in (self.before_ms, self.keeps_ms) if limit is not None]
        newest = math.inf if self.after_ms is None else now_ms + self.after_ms
        return now_ms - min(old) if old else -math.inf, newest


def clamped(message: Outgoing, limits: TimestampLimits, now_ms: int) -> Outgoing:
    """Replace the timestamp of a message by the current time if the topic would reject or delete it.

    Parameters
    ----------
    message
        Message to send.
    limits
        Limits of the topic.
    now_ms
        Milliseconds since 1970.

    Examples
    --------
    >>> late = Outgoing("out", 0, None, b"{}", [], 0)
    >>> clamped(late, TimestampLimits(keeps_ms=1000), 1_700_000_000_000)[4:6]
    ([('stream-osr.timestamp', b'0')], 1700000000000)
    >>> clamped(late, TimestampLimits(), 1_700_000_000_000) == late
    True
    """
    oldest, newest = limits.between(now_ms)
    if message.timestamp is None or oldest <= message.timestamp <= newest:
        return message
    headers = [*message.headers, (HEADER, b"%d" % message.timestamp)]
    return message._replace(headers=headers, timestamp=now_ms)


def _bound(*written: str | None) -> int | None:
    """Return the narrowest of some limits of the configuration."""
    bounds = [int(text) for text in written if text is not None]
    bounds = [bound for bound in bounds if 0 <= bound < _UNBOUNDED]
    if not bounds:
        return None
    return max(min(bounds) - MARGIN_MS, min(bounds) // 2)


def refuses_timestamp(error: Exception) -> bool:
    """Return whether a broker refuses a record for its timestamp, as InvalidTimestamp or as InvalidRecord."""
    return "InvalidTimestamp" in str(error) or "Timestamp " in str(error)
