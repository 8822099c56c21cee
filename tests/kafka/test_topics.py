"""Limits of topics: of sizes and timestamps, and where the brokers do not answer with the settings."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr_connectors.kafka import ServiceSettings, exits
from stream_osr_connectors.kafka.client.admin import TopicAdmin
from stream_osr_connectors.kafka.client.interface import ClientError, ErrorKind, Offset, Topic
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.topics import TopicLimits, _found, takes_of
from stream_osr_connectors.kafka.wire.messages import Outgoing
from stream_osr_connectors.kafka.wire.timestamps import HEADER, TimestampLimits, clamped
from tests.tiers import examples

CONFIGS = {"max.message.bytes": "2000000", "retention.ms": "604800000", "cleanup.policy": "delete"}
KNOWN = TopicLimits(2_000_000, TimestampLimits(keeps_ms=604_740_000))


class Brokers(TopicAdmin):
    """Brokers that answer with the settings of some topics, with none for the others, or with an error."""

    def __init__(self, configs: dict[str, dict[str, str]], error: ClientError | None = None) -> None:
        self._configs, self._error = configs, error

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic("id", 2, 1) for name in names}

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        if self._error is not None:
            raise self._error
        return {name: self._configs.get(name, {}) for name in names}

    def ends(self, places: Iterable[Place], *, stable: bool = True) -> dict[Place, int]:
        return dict.fromkeys(places, 0)

    def committed(self, group: str, topic: str) -> dict[int, Offset]:
        return {}

    def create(self, topics: Mapping[str, Mapping[str, Any]]) -> None:
        self._configs |= dict.fromkeys(topics, CONFIGS)

    def close(self) -> None:
        pass


def test_who_may_not_ask_goes_on_with_what_was_known_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first = takes_of(Brokers({"out": CONFIGS, "events": CONFIGS}), ["out", "events"], {})
    assert first == {"out": KNOWN, "events": KNOWN}
    assert not caplog.records

    silent = Brokers({"events": CONFIGS})
    second = takes_of(silent, ["out", "events", "new"], first)
    assert second == {"out": KNOWN._replace(confirmed=False), "events": KNOWN, "new": TopicLimits(confirmed=False)}
    assert takes_of(silent, ["out", "events", "new"], second) == second
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for word in ("not known: out, new (", "DESCRIBE_CONFIGS", "timestamps", "not replaced"):
        assert word in record.getMessage()

    third = takes_of(Brokers({"out": CONFIGS, "events": CONFIGS}), ["out", "events"], second)
    assert third == first
    takes_of(silent, ["out"], third)
    assert len(caplog.records) == 2, "it was taken away again"


def test_brokers_that_do_not_answer_change_nothing_that_was_known(caplog: pytest.LogCaptureFixture) -> None:
    away = Brokers({}, ClientError(ErrorKind.AGAIN, "KafkaTimeoutError"))
    assert takes_of(away, ["out"], {"out": KNOWN}) == {"out": KNOWN._replace(confirmed=False)}
    assert "KafkaTimeoutError" in caplog.text


def test_the_topics_cannot_be_judged_without_the_right_to_their_settings(tmp_path: Path) -> None:
    settings = ServiceSettings(model=tmp_path / "m.osr", brokers="127.0.0.1:1", input="in", output="out")
    names = [settings.input, settings.output, settings.events, settings.dead_letters, settings.topics["state_topic"]]
    answers = {name or "": CONFIGS for name in names}
    assert _found(Brokers(answers), settings)["out"].number("max.message.bytes") == 2_000_000
    with pytest.raises(exits.NoRightError, match="of topic out: the user lacks the right DESCRIBE_CONFIGS"):
        _found(Brokers(answers | {"out": {}}), settings)


# Timestamps that a topic refuses or does not keep are replaced, and a header keeps the original

HOUR = 3_600_000
DAY = 24 * HOUR
USUAL = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str((1 << 63) - 1),
    "message.timestamp.after.max.ms": str(HOUR),
    "retention.ms": str(7 * DAY),
    "cleanup.policy": "delete",
}
"""The answer of a broker about a topic without settings of its own."""


def message(timestamp: int | None, **changes: Any) -> Outgoing:
    return Outgoing("out", 3, b"k", b"{}", [("trace", b"1"), ("none", None)], timestamp, 17)._replace(**changes)


def test_topics_that_take_and_keep_everything() -> None:
    for configs in (
        {},
        {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "1", "retention.ms": "1"},
        {"retention.ms": "-1"},
        {"cleanup.policy": "compact", "retention.ms": "1"},
        {"message.timestamp.after.max.ms": None, "retention.ms": str((1 << 63) - 1)},
    ):
        assert TimestampLimits.of(configs) == TimestampLimits(None, None, None), configs


def test_bounds_of_usual_topics_of_older_brokers_and_of_both_policies() -> None:
    assert TimestampLimits.of(USUAL) == TimestampLimits(None, HOUR - 60_000, 7 * DAY - 60_000)
    either = TimestampLimits.of({"message.timestamp.difference.max.ms": str(HOUR)})
    assert either[:2] == (HOUR - 60_000, HOUR - 60_000)
    assert TimestampLimits.of({"cleanup.policy": "compact,delete", "retention.ms": str(DAY)}).keeps_ms == DAY - 60_000
    assert TimestampLimits.of({"retention.ms": "1000"}).keeps_ms == 500, "the margin leaves something"
    narrow = {"message.timestamp.difference.max.ms": str(DAY), "message.timestamp.before.max.ms": str(HOUR)}
    assert TimestampLimits.of(narrow).before_ms == HOUR - 60_000


_times = st.none() | st.integers(0, (1 << 63) - 1)
_bounds = st.none() | st.integers(0, 1 << 50)


@examples(100)
@given(_times, st.builds(TimestampLimits, _bounds, _bounds, _bounds), st.integers(0, 1 << 45))
def test_whatever_comes_is_within_the_limits(timestamp: int | None, limits: TimestampLimits, now: int) -> None:
    before = message(timestamp)
    after = clamped(before, limits, now)
    assert before == message(timestamp), "the message itself does not change"
    again = clamped(after, limits, now)
    assert again == after, "once is enough"
    oldest = max((now - bound for bound in (limits.before_ms, limits.keeps_ms) if bound is not None), default=0)
    newest = math.inf if limits.after_ms is None else now + limits.after_ms
    if timestamp is None or oldest <= timestamp <= newest:
        assert after == before
    else:
        header = (HEADER, str(timestamp).encode())
        assert after == message(now, headers=[*before.headers, header])
