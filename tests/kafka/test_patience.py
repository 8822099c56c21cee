"""Waits that get longer, lines that get rarer, and who is fenced twice."""

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


class Clock:
    """Moments that pass when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(log.time, "monotonic", lambda: self.now)


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


HOUR = 3600.0
STEPS = (0.1, 0.5, 1, 2.9, 3, 3.1, 5, 10, 30, 60, 100, 170, 299, 300, 599, 600, 601, 900, 1799, 3599)


@pytest.mark.parametrize("ends", [False, True], ids=["it stands", "it comes and goes"])
@pytest.mark.parametrize("step", STEPS)
def test_a_condition_has_at_most_20_lines_an_hour(
    step: float, ends: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In every hour of three, whatever the time between two attempts; none of them is silent for long."""
    clock, seldom = Clock(monkeypatch), Seldom()
    moments = []
    with caplog.at_level(logging.INFO):
        begun = clock.now
        while clock.now < begun + 3 * HOUR:
            if seldom.say("brokers", "no broker"):
                moments.append(clock.now)
            if ends:
                seldom.forget("brokers")
            clock.now += step
    assert len(caplog.records) == len(moments)
    assert moments[0] == begun, "the first line is logged at once"
    assert all(sum(first <= each < first + HOUR for each in moments) <= 20 for first in moments)
    assert max(after - before for before, after in itertools.pairwise(moments)) <= LONGEST_SILENCE + step
    more = [int(each[1]) for line in caplog.messages if (each := re.search(r"\((\d+) times more", line))]
    if not ends:
        last = round((moments[-1] - begun) / step)
        assert sum(more) + len(moments) == last + 1, "the repeats in between are counted"


def test_what_ends_and_comes_again_is_said_at_once_a_few_times(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, seldom = Clock(monkeypatch), Seldom()
    with caplog.at_level(logging.INFO):
        for incident in range(FEW_LINES):
            assert seldom.say("ready", f"not ready {incident}")
            seldom.forget("ready", "ready")
            clock.now += 0.5
        assert not seldom.say("ready", "once more")
        seldom.forget("ready", "ready")
    assert caplog.messages == [line for incident in range(FEW_LINES) for line in (f"not ready {incident}", "ready")]


def test_what_comes_again_after_a_calm_is_new(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten incidents in months must not make the eleventh a line too late."""
    clock, seldom = Clock(monkeypatch), Seldom()
    with caplog.at_level(logging.INFO):
        for incident in range(20):
            seldom.say("ready", f"not ready {incident}")
            clock.now += 86_400
    assert len(caplog.records) == 20


def test_a_calm_of_an_hour_ends_the_longest_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, seldom = Clock(monkeypatch), Seldom()
    for _ in range(2000):
        seldom.say("brokers", "no broker")
        clock.now += 5
    clock.now += CALM_SECONDS
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert seldom.say("brokers", "another outage")
        clock.now += 1
        assert seldom.say("brokers", "another outage")
    assert caplog.messages == ["another outage"] * 2


def test_fenced_twice_in_a_short_time_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServiceSettings(model="m", brokers="b:1", input="in", group="g", instance="w")
    clock, figures = Clock(monkeypatch), ServiceStats()
    reader = Reader(settings, ["in"], 1, figures)
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
        self.said, self.code = "", 0
        self.clock, settings = clock, ServiceSettings(model="m", brokers="b:1", input="in", group="g", instance="w")
        self.sides = [Rivalry(settings, "g-:w", ServiceStats()) for _ in ages]
        now = clock.now
        for side, age in zip(self.sides, ages, strict=True):
            clock.now = now - age
            side.open()
        clock.now = now

    def winner(self, seconds: float, commits: int = 1) -> int | None:
        """Let them fence each other with so many seconds between, the first one first; say who goes on."""
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


@pytest.mark.parametrize("seconds", [0.5, 2.0, 5.0, 14.0])
@pytest.mark.parametrize("age", [61.0, 3600.0, 1e6])
def test_of_two_producers_the_younger_ends(age: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    fight = Fight(clock, age, 0.0)
    assert fight.winner(seconds, commits=3) == 0
    assert "another producer uses the transactional id g-:w" in fight.said
    assert fight.code == exits.TAKEN


@pytest.mark.parametrize("ages", [(0.0, 0.0), (2.0, 1.0), (1e6, 1e5), (100.0, 90.0)])
def test_of_two_producers_of_one_age_one_ends(ages: tuple[float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    assert Fight(Clock(monkeypatch), *ages).winner(3.0) is not None


def test_an_old_process_outlives_rivals_that_come_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts the younger one again and again must not end the older one in the long run."""
    clock = Clock(monkeypatch)
    fight = Fight(clock, 3600.0, 0.0)
    for _ in range(100):
        assert fight.winner(3.0) == 0
        for _ in range(20):
            clock.now += 1.0
            fight.sides[0].commit()
        fight.sides[1] = Fight(clock, 0.0).sides[0]


def test_a_fencing_by_a_late_request_of_our_own_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each outage the request of a producer that was given up may come late, and fence the next one."""
    clock = Clock(monkeypatch)
    (side,) = Fight(clock, 0.0).sides
    for _ in range(50):
        side.judge(ErrorKind.AGAIN, 3.0)
        assert side.judge(ErrorKind.FENCED, 0.1) == ""
        clock.now += 5.0
        side.commit()
