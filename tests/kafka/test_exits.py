"""Which end of a worker ends the service, and how long the next one is waited for."""

from __future__ import annotations

import logging
import math
import signal
import time

import pytest

from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr_connectors.kafka import ServiceSettings, exits
from stream_osr_connectors.kafka.ops.command import _errors_logged
from stream_osr_connectors.kafka.ops.workers import FIRST_DELAY, LONGEST_DELAY, StartOrder, pause
from stream_osr_connectors.kafka.run.models import ModelName
from stream_osr_connectors.kafka.run.recovery import LaterModelError
from stream_osr_connectors.kafka.stats import ServiceStats

SETTINGS = ServiceSettings(model="m", brokers="b:1", input="in")
MODEL = ModelName("m", 32, 0.0, None)


@pytest.mark.parametrize(
    ("code", "first", "later"),
    [
        (0, False, False),
        (exits.REFUSED, True, True),
        (exits.NO_BROKER, True, False),
        (exits.HUNG, False, False),
        (exits.TAKEN, True, True),
        (exits.AGAIN, False, False),
        (exits.NO_TOPIC, True, False),
        (exits.NO_RIGHT, True, False),
        (-signal.SIGKILL, False, False),
        (-signal.SIGSEGV, False, False),
        (-signal.SIGTERM, False, False),
        (2, False, False),
        (None, False, False),
    ],
)
def test_what_ends_the_service(code: int | None, first: bool, later: bool) -> None:
    assert exits.ends_service(code, was_open=False) == first
    assert exits.ends_service(code, was_open=True) == later


def test_which_of_two_services_of_one_name_ends_only_the_first_workers_settle() -> None:
    assert not exits.ends_service(exits.TAKEN, was_open=True, first=False)
    assert exits.ends_service(exits.REFUSED, was_open=True, first=False)


@pytest.mark.parametrize(
    ("error", "code", "forgiven"),
    [
        (ConnectorError("x"), exits.REFUSED, False),
        (PersistenceError("x"), exits.REFUSED, False),
        (ValueError("x"), exits.REFUSED, False),
        (exits.NoBrokerError("x"), exits.NO_BROKER, True),
        (exits.TakenError("x"), exits.TAKEN, False),
        (exits.StartAgainError("x"), exits.AGAIN, True),
        (LaterModelError("x"), exits.AGAIN, True),
        (exits.NoTopicError("x"), exits.NO_TOPIC, True),
        (exits.NoRightError("x"), exits.NO_RIGHT, False),
        (exits.EndedError("x", 77), exits.NO_RIGHT, False),
    ],
)
def test_each_error_has_its_code(error: Exception, code: int, forgiven: bool) -> None:
    assert exits.exit_code(error) == code
    assert exits.passes(error) == forgiven, "when the process was told to stop"


@pytest.mark.parametrize("kind", [exits.NoBrokerError, exits.NoTopicError, exits.NoRightError])
def test_what_may_come_back_is_told_of_less_and_less_often(
    kind: type[ConnectorError], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    now = time.monotonic()
    for silent in (-math.inf, now + 100, now - 1):
        with pytest.raises(SystemExit), _errors_logged(ServiceStats(), StartOrder(SETTINGS, MODEL, silent=silent)):
            raise kind(f"silent until {silent - now:.0f}")
    assert caplog.messages == ["silent until -inf", "silent until -1"]


@pytest.mark.parametrize(
    ("kind", "first", "told"),
    [
        (ConnectorError, False, True),
        (exits.TakenError, True, True),
        (exits.TakenError, False, False),
        (LaterModelError, True, False),
    ],
)
def test_what_ends_the_service_is_always_said(
    kind: type[ConnectorError], first: bool, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(SystemExit), _errors_logged(ServiceStats(), StartOrder(SETTINGS, MODEL, first, math.inf)):
        raise kind("why")
    assert caplog.messages == ["why"] * told


def test_waits_get_longer_and_are_spread() -> None:
    assert pause(1, 0.0) < FIRST_DELAY < pause(1, 0.999) < pause(2, 0.0)
    assert all(pause(n, 0.5) == LONGEST_DELAY for n in (7, 50, 10_000))
