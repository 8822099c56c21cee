"""Waits that get longer, lines that get rarer, and who is fenced twice."""

from __future__ import annotations

import logging

import pytest

from stream_osr_kafka import patience
from stream_osr_kafka.exits import TAKEN, TakenError
from stream_osr_kafka.figures import Figures
from stream_osr_kafka.patience import Backoff, Seldom, Strikes
from stream_osr_kafka.settings import ServiceSettings


class Clock:
    """Moments that pass when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(patience.time, "monotonic", lambda: self.now)


def test_waits_double_up_to_the_longest_and_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, backoff = Clock(monkeypatch), Backoff(1.0, 8.0)
    assert backoff.due
    waits = [backoff.fail() for _ in range(6)]
    for wait, most in zip(waits, (1, 2, 4, 8, 8, 8), strict=True):
        assert most / 2 <= wait <= most
    assert not backoff.due
    clock.now += 8
    assert backoff.due
    backoff.succeed()
    assert backoff.fail() <= 1.0
    assert len({Backoff().fail() for _ in range(20)}) == 20, "workers do not march"


def test_an_outage_of_an_hour_is_a_handful_of_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, seldom = Clock(monkeypatch), Seldom(logging.getLogger("test"))
    with caplog.at_level(logging.INFO):
        for _ in range(36_000):
            seldom.say("brokers", "no broker")
            clock.now += 0.1
    assert 8 <= len(caplog.records) <= 16
    times = [int(record.getMessage().split("(")[1].split()[0]) for record in caplog.records[1:]]
    assert sum(times) + len(caplog.records) <= 36_000
    assert sum(times) > 29_000, "those in between are counted"
    assert seldom.forget("brokers")
    assert not seldom.forget("brokers")
    seldom.say("brokers", "no broker again")
    assert caplog.records[-1].getMessage() == "no broker again"


def test_what_comes_again_after_a_calm_is_new(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten incidents in months must not make the eleventh a line too late."""
    clock, seldom = Clock(monkeypatch), Seldom(logging.getLogger("test"))
    with caplog.at_level(logging.INFO):
        for incident in range(20):
            seldom.say("ready", f"not ready {incident}")
            clock.now += 86_400
    assert len(caplog.records) == 20


def test_fenced_twice_in_a_short_time_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServiceSettings(model="m", brokers="b:1", input="in", group="g", instance="w")
    clock, figures = Clock(monkeypatch), Figures()
    strikes = Strikes(settings, figures)
    strikes.strike()
    clock.now += Strikes.SECONDS + 1
    strikes.strike()
    clock.now += 1
    with pytest.raises(TakenError, match="another worker of group g has the name w") as caught:
        strikes.strike()
    assert caught.value.exit_code == TAKEN
    assert figures.counts["transactions_fenced", None] == 3
