"""Waits that get longer, log lines that get rarer, and which of two processes with one name ends."""

from __future__ import annotations

import itertools
import logging
import re

import pytest

from stream_osr_connectors.kafka import ServiceSettings, exits, log
from stream_osr_connectors.kafka.backoff import Backoff
from stream_osr_connectors.kafka.client.interface import ErrorKind
from stream_osr_connectors.kafka.log import CALM_SECONDS, FEW_LINES, LONGEST_SILENCE, Seldom
from stream_osr_connectors.kafka.run.reading import FENCED_AGAIN_SECONDS, Reader
from stream_osr_connectors.kafka.run.transactions import Rivalry
from stream_osr_connectors.kafka.stats import ServiceStats

HOUR = 3600.0
STEPS = (0.5, 2.9, 3, 10, 60, 299, 300, 599, 601, 1799, 3599)
SETTINGS = ServiceSettings(model="m", brokers="b:1", input="in", group="g", instance="w")


class Clock:
    """The time of the library, set by the test."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level(logging.INFO)
    clock = Clock()
    monkeypatch.setattr(log.time, "monotonic", lambda: clock.now)
    return clock


def test_waits_double_up_to_the_longest_and_begin_again(clock: Clock) -> None:
    backoff = Backoff(1.0, 8.0)
    assert backoff.due
    for most in (1, 2, 4, 8, 8, 8):
        assert most / 2 <= backoff.fail() <= most
    assert not backoff.due
    clock.now += 8
    assert backoff.due
    backoff.succeed()
    assert backoff.fail() <= 1.0
    assert len({Backoff().fail() for _ in range(20)}) == 20, "workers do not wait in step"


@pytest.mark.parametrize("ends", [False, True], ids=["it stands", "it comes and goes"])
def test_a_condition_has_at_most_20_lines_an_hour(clock: Clock, caplog: pytest.LogCaptureFixture, ends: bool) -> None:
    """In every hour of three, whatever the time between two attempts; no condition is silent for long."""
    for step in STEPS:
        caplog.clear()
        seldom, moments, begun = Seldom(), [], clock.now
        while clock.now < begun + 3 * HOUR:
            if seldom.say("brokers", "no broker"):
                moments.append(clock.now)
            if ends:
                seldom.forget("brokers")
            clock.now += step
        assert len(caplog.records) == len(moments), step
        assert moments[0] == begun, "the first line is logged at once"
        assert all(sum(first <= each < first + HOUR for each in moments) <= 20 for first in moments), step
        assert max(after - before for before, after in itertools.pairwise(moments)) <= LONGEST_SILENCE + step
        more = [int(each[1]) for line in caplog.messages if (each := re.search(r"\((\d+) times more", line))]
        last = round((moments[-1] - begun) / step)
        assert ends or sum(more) + len(moments) == last + 1, f"the repeats in between are counted, {step}"


def test_what_ends_and_comes_again_is_said_at_once_a_few_times(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    seldom = Seldom()
    for incident in range(FEW_LINES):
        assert seldom.say("ready", f"not ready {incident}")
        seldom.forget("ready", "ready")
        clock.now += 0.5
    assert not seldom.say("ready", "once more")
    seldom.forget("ready", "ready")
    assert caplog.messages == [line for incident in range(FEW_LINES) for line in (f"not ready {incident}", "ready")]


def test_what_comes_again_after_a_calm_of_an_hour_is_new(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """The longest silence ends, and ten incidents in months do not delay the line of the eleventh."""
    seldom = Seldom()
    for _ in range(2000):
        seldom.say("brokers", "no broker")
        clock.now += 5
    caplog.clear()
    for calm in (CALM_SECONDS, *[24 * HOUR] * 20):
        clock.now += calm
        assert seldom.say("brokers", "another outage")
        clock.now += 1
        assert seldom.say("brokers", "another outage")
    assert caplog.messages == ["another outage"] * 42


def test_fenced_twice_in_a_short_time_is_another_process(clock: Clock) -> None:
    figures = ServiceStats()
    reader = Reader(SETTINGS, ["in"], 1, figures)
    reader._note_fencing()
    clock.now += FENCED_AGAIN_SECONDS + 1
    reader._note_fencing()
    clock.now += 1
    with pytest.raises(exits.TakenError, match="another worker of group g has the name w") as caught:
        reader._note_fencing()
    assert caught.value.exit_code == exits.TAKEN
    assert figures.counts["transactions_fenced", None] == 3


class Fight:
    """Two processes with one transactional id, which fence each other in turn."""

    def __init__(self, clock: Clock, *ages: float) -> None:
        self.said, self.code, self.clock = "", 0, clock
        self.sides = [Rivalry(SETTINGS, "g-:w", ServiceStats()) for _ in ages]
        now = clock.now
        for side, age in zip(self.sides, ages, strict=True):
            clock.now = now - age
            side.open()
        clock.now = now

    def winner(self, seconds: float, commits: int = 1) -> int | None:
        """Let them fence each other at this interval, the first one first; return the place of the one that stays."""
        for turn in range(1000):
            side = turn % 2
            try:
                self.sides[side].judge(ErrorKind.FENCED, 0.1)
            except exits.TakenError as error:
                self.said, self.code = str(error), error.exit_code
                return 1 - side
            for _ in range(commits):
                self.clock.now += seconds / (commits + 1)
                self.sides[side].commit()
            self.clock.now += seconds / (commits + 1)
        return None


def test_of_two_producers_the_younger_ends(clock: Clock) -> None:
    for age, seconds in itertools.product((61.0, 3600.0, 1e6), (0.5, 2.0, 5.0, 14.0)):
        fight = Fight(clock, age, 0.0)
        assert fight.winner(seconds, commits=3) == 0, (age, seconds)
        assert "another producer uses the transactional id g-:w" in fight.said
        assert fight.code == exits.TAKEN


def test_of_two_producers_of_one_age_one_ends(clock: Clock) -> None:
    for ages in ((0.0, 0.0), (2.0, 1.0), (1e6, 1e5), (100.0, 90.0)):
        assert Fight(clock, *ages).winner(3.0) is not None, ages


def test_an_old_process_outlives_rivals_that_come_again_and_again(clock: Clock) -> None:
    fight = Fight(clock, 3600.0, 0.0)
    for _ in range(100):
        assert fight.winner(3.0) == 0
        for _ in range(20):
            clock.now += 1.0
            fight.sides[0].commit()
        fight.sides[1] = Fight(clock, 0.0).sides[0]


def test_a_fencing_by_a_late_request_of_our_own_does_not_count(clock: Clock) -> None:
    """After each outage the request of a producer that was given up may come late, and fence the next one."""
    (side,) = Fight(clock, 0.0).sides
    for _ in range(50):
        side.judge(ErrorKind.AGAIN, 3.0)
        assert side.judge(ErrorKind.FENCED, 0.1) == ""
        clock.now += 5.0
        side.commit()
