"""What a worker tells about itself: nothing well that is not known, and a copy that others can read meanwhile."""

from __future__ import annotations

import pickle
import threading

import pytest

from stream_osr.stream import MenuSize
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.stats import BOUNDS, Histogram, PartitionStats, ServiceStats


def test_one_that_has_ended_keeps_its_counts_and_nothing_else() -> None:
    figures = live()
    left = figures.ended("its process ended with signal 9")
    assert left.obstacles == ("its process ended with signal 9",)
    assert (left.progress, left.partitions, left.model, left.fingerprint) == (None, {}, "", "")
    assert (left.counts, left.times, left.loop) == (figures.counts, figures.times, figures.loop)
    assert figures.ready


@pytest.mark.parametrize(
    ("figures", "lag"),
    [
        (PartitionStats(position=7), None),  # the end is not known
        (PartitionStats(position=7, read=7), None),
        (PartitionStats(position=7, end=10, read=10), 0),  # marks of transactions only
        (PartitionStats(position=7, end=10, read=10, pending=2), 3),  # read, and the transaction is stuck
        (PartitionStats(position=7, end=10, read=9), 3),
        (PartitionStats(position=7, end=10), 3),  # where the consumer is, is not known
        (PartitionStats(position=7, end=3, read=7, pending=1), 0),  # an end that was lost with its leader
        (PartitionStats(position=7, end=10, read=10, unstable=5), 5),  # behind an open transaction upstream
        (PartitionStats(position=7, end=10, read=9, unstable=5), 8),
    ],
)
def test_lag_is_measured_between_the_end_and_the_commit(figures: PartitionStats, lag: int | None) -> None:
    assert figures.lag == lag


def test_a_histogram_counts_a_bound_with_the_bucket_that_it_ends() -> None:
    histogram = Histogram()
    for seconds in (*BOUNDS, 0.0, 61.0):
        histogram = histogram.observed(seconds)
    assert histogram.counts == (2, *[1] * len(BOUNDS))
    assert histogram.cumulative()[-1] == len(BOUNDS) + 2
    assert histogram.seconds == pytest.approx(sum(BOUNDS) + 61)


def test_a_copy_is_one_of_its_own_and_goes_through_a_pipe() -> None:
    figures = live()
    copy = figures.copy()
    assert pickle.loads(pickle.dumps(copy)) == copy == figures
    figures.add("records", Place("in", 0))
    figures.observe("batch", 1.0)
    figures.partitions[Place("in", 0)].position = 9
    figures.partitions[Place("in", 1)] = PartitionStats()
    assert copy == live(copy.loop)


def test_copies_are_made_while_the_loop_writes() -> None:
    figures, stop, copies = ServiceStats(), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            copies.append(figures.copy().times.get("batch", Histogram()))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20000):
        figures.add("records", Place("in", number % 500))
        figures.observe("batch", 1.0)
        figures.partitions[Place("in", number % 50)] = PartitionStats(number)
        figures.partitions.pop((number + 7) % 50, None)
    stop.set()
    reader.join()
    assert figures.copy() == figures
    assert copies
    assert all(each.seconds == sum(each.counts) for each in copies)


def live(loop: float = 5.0) -> ServiceStats:
    """Figures of a worker that has done something."""
    figures = ServiceStats(progress=4.0, loop=loop, obstacles=(), model="m", fingerprint="f", opened_at=True)
    figures.partitions[Place("in", 0)] = PartitionStats(
        7, end=8, read=8, pending=1, paused=2, menu=MenuSize(1, 2, 3, 4.0, 5.0)
    )
    figures.add("records", Place("in", 0), 7)
    figures.observe("batch", 0.2)
    return figures
