"""Timestamps that a topic takes and keeps: what is older or newer is sent as of now, with the original in a header.

Outputs carry the timestamps of their instances, which may be anything. A broker refuses what is too far from its own
clock, and what is older than a topic's retention would be deleted with the next round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from .messages import Outgoing

HEADER = "stream-osr.timestamp"
"""Holds the original, in decimal milliseconds since 1970, where another was sent."""

NO_TIME = -1
"""A timestamp that every topic takes: none."""

MARGIN_MS = 60_000
"""So far the clocks of a broker and of this machine may be apart."""

_UNBOUNDED = 1 << 62
"""Kafka writes "no bound" as the largest number of 64 bits, or as -1."""


class TimestampLimits(NamedTuple):
    """Largest distance of a topic's timestamps from now, in milliseconds; None: any.

    Attributes
    ----------
    before_ms
        What is older is refused.
    after_ms
        What is newer is refused.
    keeps_ms
        What is older is not kept.
    """

    before_ms: int | None = None
    after_ms: int | None = None
    keeps_ms: int | None = None

    @classmethod
    def of(cls, configs: Mapping[str, str | None]) -> TimestampLimits:
        """Read them from the configuration of a topic; they are a minute narrower than the broker's, for its clock.

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
        """Give the oldest and the newest timestamp that the topic takes and keeps now."""
        old = [limit for limit in (self.before_ms, self.keeps_ms) if limit is not None]
        newest = math.inf if self.after_ms is None else now_ms + self.after_ms
        return now_ms - min(old) if old else -math.inf, newest


def clamped(message: Outgoing, limits: TimestampLimits, now_ms: int) -> Outgoing:
    """Send a message as of now whose timestamp the topic would refuse or not keep; any other as it is.

    Parameters
    ----------
    message
        As it was to be sent.
    limits
        Of its topic.
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
    """Take the narrowest of some bounds, as the configuration has them."""
    bounds = [int(text) for text in written if text is not None]
    bounds = [bound for bound in bounds if 0 <= bound < _UNBOUNDED]
    if not bounds:
        return None
    return max(min(bounds) - MARGIN_MS, min(bounds) // 2)
