"""The right to write to an output is taken away from a running service, and given back."""

from __future__ import annotations

import time

import pytest

from tests.kafka.faults.doing import Rights
from tests.kafka.faults.trials import Site, Trial

SHORT = [("decisions", "deleted"), ("events", "denied"), ("dlq", "deleted")]
LONG = [("decisions", "denied"), ("events", "deleted"), ("dlq", "denied")]


@pytest.mark.beside
@pytest.mark.fault("the right to write to an output is taken away, and given back")
@pytest.mark.parametrize(("output", "way"), [*SHORT, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)])
def test_the_right_to_write_is_taken_away(site: Site, output: str, way: str) -> None:
    trial = Trial(site, guarded=True)
    topic = f"{trial.stream.topic}.{output}"
    rights = Rights(site.broker.address, topic)
    trial.begin(16)  # too few for a class to emerge: events come when the right has gone
    trial.mark()
    rights.take(way)
    trial.feed(200, poison=True)
    trial.await_not_ready(topic)
    trial.await_line(topic)
    for _ in range(10):
        trial.feed(6)
        time.sleep(0.4)
    trial.check_committed()
    assert trial.ready()[0] == 503
    trial.check_accounts()
    assert trial.is_healthy()
    assert len(trial.lines(topic)) < 30, "it says so over and over"
    rights.give_back(way)
    trial.goes_on()
