"""More records than usual come at once, and SIGTERM comes before the service has begun."""

from __future__ import annotations

import signal
import time

import pytest

from tests.kafka.faults.trials import Site, Trial, until
from tests.kafka.streams import instances

USUAL = 20
"""Records a second."""


@pytest.mark.fault("a burst of a hundred times the usual rate")
@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.long)])
def test_a_burst(site: Site, seconds: int) -> None:
    trial = Trial(site)
    trial.begin(2 * USUAL)
    for number in range(seconds):
        begun = time.monotonic()
        trial.stream.send(instances(100 * USUAL, 2, seed=1000 + number, begin=10_000 + 2000 * number))
        time.sleep(max(0.0, begun + 1 - time.monotonic()))
    assert trial.is_healthy()
    trial.settle(60 + 2 * seconds)
    trial.await_ready()
    trial.decide(USUAL)
    until(lambda: trial.figure("lag_records") == 0, 10, trial.tail)
    trial.end_exactly_once()


@pytest.mark.fault("SIGTERM in the first seconds")
@pytest.mark.parametrize(
    ("workers", "seconds"),
    [
        (1, (1, 2, 3, 4, 6)),
        (2, (1, 3)),
        pytest.param(1, tuple(range(1, 13)), marks=pytest.mark.long),
        pytest.param(2, tuple(range(1, 13)), marks=pytest.mark.long),
    ],
)
def test_sigterm_in_the_first_seconds(site: Site, workers: int, seconds: tuple[int, ...]) -> None:
    """Each start goes on where the one before has left off."""
    trial = Trial(site, workers=workers)
    codes = {}
    for each in seconds:
        trial.feed(100)
        trial.start(anew=True)
        time.sleep(each)
        trial.worker.process.send_signal(signal.SIGTERM)
        codes[each] = trial.worker.process.wait(40)
        assert not any("Traceback" in line for line in trial.worker.lines()), trial.tail()
        trial.check_committed()
    trial.begin(100)
    trial.end_exactly_once()
    assert codes == dict.fromkeys(seconds, 0)
