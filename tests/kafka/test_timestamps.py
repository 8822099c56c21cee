"""Timestamps that topics refuse or do not keep are replaced, and the original is told."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr_connectors.kafka.wire.messages import Outgoing
from stream_osr_connectors.kafka.wire.timestamps import HEADER, TimestampLimits, clamped

NOW = 1_760_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
USUAL = TimestampLimits.of(
    {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": str((1 << 63) - 1),
        "message.timestamp.after.max.ms": str(HOUR),
        "retention.ms": str(7 * DAY),
        "cleanup.policy": "delete",
    }
)
"""What a broker says of a topic that nobody has configured."""


def message(timestamp: int | None, **changes: Any) -> Outgoing:
    return Outgoing("out", 3, b"k", b"{}", [("trace", b"1"), ("none", None)], timestamp, 17)._replace(**changes)


@pytest.mark.parametrize("timestamp", [NOW + DAY, 0, NOW - 8 * DAY, NOW + HOUR + 1, 1 << 62, (1 << 63) - 1])
def test_what_the_topic_would_refuse_or_delete_is_sent_as_of_now(timestamp: int) -> None:
    before = message(timestamp)
    after = clamped(before, USUAL, NOW)
    assert after.timestamp == NOW
    assert list(after.headers) == [*before.headers, (HEADER, str(timestamp).encode())]
    assert after._replace(timestamp=timestamp, headers=before.headers) == before
    assert list(before.headers) == [("trace", b"1"), ("none", None)], "the message itself does not change"


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "1", "retention.ms": "1"},
        {"retention.ms": "-1"},
        {"cleanup.policy": "compact", "retention.ms": "1"},
        {"message.timestamp.after.max.ms": None, "retention.ms": str((1 << 63) - 1)},
    ],
)
def test_topics_that_take_and_keep_everything(configs: dict[str, str | None]) -> None:
    assert TimestampLimits.of(configs) == TimestampLimits(None, None, None)


def test_bounds_of_older_brokers_and_of_both_policies() -> None:
    either = TimestampLimits.of({"message.timestamp.difference.max.ms": str(HOUR)})
    assert either[:2] == (HOUR - 60_000, HOUR - 60_000)
    assert TimestampLimits.of({"cleanup.policy": "compact,delete", "retention.ms": str(DAY)}).keeps_ms == DAY - 60_000
    assert TimestampLimits.of({"retention.ms": "1000"}).keeps_ms == 500, "the margin leaves something"
    narrow = {"message.timestamp.difference.max.ms": str(DAY), "message.timestamp.before.max.ms": str(HOUR)}
    assert TimestampLimits.of(narrow).before_ms == HOUR - 60_000


_times = st.none() | st.integers(0, (1 << 63) - 1)
_bounds = st.none() | st.integers(0, 1 << 50)


@given(_times, st.builds(TimestampLimits, _bounds, _bounds, _bounds), st.integers(0, 1 << 45))
def test_whatever_comes_is_within_the_limits(timestamp: int | None, limits: TimestampLimits, now: int) -> None:
    after = clamped(message(timestamp), limits, now)
    again = clamped(after, limits, now)
    assert again == after, "once is enough"
    oldest = max((now - bound for bound in (limits.before_ms, limits.keeps_ms) if bound is not None), default=0)
    newest = math.inf if limits.after_ms is None else now + limits.after_ms
    if timestamp is None or oldest <= timestamp <= newest:
        assert after == message(timestamp)
    else:
        assert (after.timestamp, dict(after.headers)[HEADER]) == (now, str(timestamp).encode())
