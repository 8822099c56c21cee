"""A worker stops beside others: its partitions move at once, or wait for its successor."""

from __future__ import annotations

import pytest

from tests.kafka.faults.doing import members
from tests.kafka.faults.trials import Site, Trial, assigned, until
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Worker

WITHIN = 3.0
"""Seconds in which the other worker decides what comes to the partitions of the one that has stopped."""

SESSION = 12.0


def pair(site: Site, **settings: object) -> tuple[Trial, Worker, Worker]:
    """Two services of one group, each with one of two partitions."""
    trial = Trial(site, session_timeout=SESSION, **settings)
    trial.feed(80)
    both = trial.start("one"), trial.start("two")
    until(lambda: [assigned(each) for each in both] == [1, 1], 30, trial.tail)
    trial.settle()
    trial.await_ready()
    return trial, *both


def rebalances(worker: Worker) -> float:
    """Count the times that partitions went from a worker."""
    return total(metrics(worker), "stream_osr_rebalances_total")


@pytest.mark.fault("a worker is stopped beside others")
def test_the_other_worker_gets_the_partitions_at_once(site: Site) -> None:
    trial, one, two = pair(site)
    assert one.stop() == 0
    trial.feed(20)
    trial.settle(WITHIN)
    assert members(site.broker.address, trial.stream.settings["group"]) == ["two"]
    trial.worker = two
    trial.end_exactly_once()


@pytest.mark.fault("a worker is stopped beside others")
def test_a_worker_that_keeps_its_place_comes_back_to_its_partitions(site: Site) -> None:
    trial, one, two = pair(site, on_stop="keep")
    before, said = rebalances(two), len(two.lines())
    assert one.stop() == 0
    trial.feed(20)
    with pytest.raises(AssertionError, match="not within 3 s"):
        trial.settle(WITHIN)  # then its partitions went elsewhere
    again = trial.start("one")
    trial.settle()
    trial.await_ready()
    assert [assigned(each) for each in (again, two)] == [1, 1]
    assert rebalances(two) == before
    assert not [line for line in two.lines()[said:] if "not ready" in line or "is another worker's" in line]
    trial.end()
    trial.worker = two
    trial.end_exactly_once()
