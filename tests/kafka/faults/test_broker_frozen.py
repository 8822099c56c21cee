"""The broker answers no client for a while: all of it is stopped, connections stay open, and then it goes on."""

from __future__ import annotations

import signal
import time

import pytest

from tests.kafka.faults.trials import Site, Trial, kill, until


@pytest.mark.alone
@pytest.mark.fault("the broker is frozen")
@pytest.mark.fault("a worker dies while the broker is frozen")
@pytest.mark.fault("SIGTERM while the broker is frozen")
@pytest.mark.parametrize("seconds", [14.0, pytest.param(60.0, marks=pytest.mark.long)])
def test_the_broker_is_frozen(site: Site, seconds: float) -> None:
    """In the middle of work; one of two workers has never been ready, and has to begin without any answer."""
    alone = Trial(site, name="alone")
    several = Trial(site, 4, name="several", workers=2)
    ended = Trial(site, name="ended", stop_timeout=10.0)
    trials = (alone, several)
    for trial in (*trials, ended):
        trial.feed(200)
        trial.start()

    def one_alone() -> bool:
        kill(several, "w-0")
        return several.figure("ready", worker="w-1") == 1

    until(one_alone, 60, several.tail)
    for trial in (*trials, ended):
        trial.settle()
    alone.await_ready()
    for trial in (*trials, ended):
        trial.feed(600)
    kill(several, "w-0")
    with site.broker.frozen():
        thaws = time.monotonic() + seconds
        for trial in trials:
            trial.await_not_ready(seconds=10)
            assert trial.ready()[1].strip(), "without a reason"
        ended.worker.process.send_signal(signal.SIGTERM)
        while time.monotonic() < thaws:
            for trial in trials:
                assert trial.worker.process.poll() is None, trial.tail()
                assert trial.is_healthy(), trial.tail()
                assert trial.ready()[0] == 503
            time.sleep(0.5)
        code = ended.worker.process.wait(10)
    begun = time.monotonic()
    for trial in trials:
        trial.settle()
        trial.await_ready(60)
    print(f"went on {time.monotonic() - begun:.1f} s after the broker")
    for trial in trials:
        assert len(trial.lines("WARNING")) < 60, "it says so over and over"
        trial.end_exactly_once()
    assert code == 0, ended.tail()
    ended.begin()
    ended.end_exactly_once()
