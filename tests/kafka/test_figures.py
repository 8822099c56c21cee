"""Figures of a worker: the lag, copies that others read meanwhile, and latencies."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from stream_osr_connectors.kafka import stats
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.stats import Histogram, PartitionStats, ServiceStats
from tests.kafka.brokers import Broker
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Sent, Stream, Worker, instances, small_model, until


def test_lag_is_measured_between_the_end_and_the_commit() -> None:
    for known, lag in (
        ({}, None),  # the end is not known
        ({"read": 7}, None),
        ({"end": 10, "read": 10}, 0),  # marks of transactions only
        ({"end": 10, "read": 10, "pending": 2}, 3),  # read, and the transaction is stuck
        ({"end": 10, "read": 9}, 3),
        ({"end": 10}, 3),  # where the consumer is, is not known
        ({"end": 3, "read": 7, "pending": 1}, 0),  # an end that was lost with its leader
        ({"end": 10, "read": 10, "unstable": 5}, 5),  # behind an open transaction upstream
        ({"end": 10, "read": 9, "unstable": 5}, 8),
    ):
        assert PartitionStats(position=7, **known).lag == lag, known


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


NOW = 1_700_000_000.0


def test_what_has_no_timestamp_or_one_from_the_future_is_left_out() -> None:
    figures = ServiceStats()
    figures.observe_latency(np.array([], dtype=np.int64), NOW)
    ages = [0.0, 0.2, 700.0, -0.001, -3600.0]
    figures.observe_latency(np.array([-1, *(int(1000 * (NOW - age)) for age in ages)]), NOW)
    histogram = figures.histogram("latency")
    assert histogram.seconds == pytest.approx(700.2)
    assert histogram.cumulative()[-1] == 3
    assert histogram.cumulative()[stats.LATENCY_BOUNDS.index(600.0)] == 2


def test_a_service_shows_how_old_records_are_when_they_are_decided(broker: Broker, tmp_path: Path) -> None:
    """New ones, some from a backlog, and some from the future, which have no latency; a replay counts none again."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), metrics_port=0, snapshot_interval=3600.0)
    worker = Worker(stream)
    worker.await_line("ready: ")
    begun = time.time()

    def aged(n: int, age: float) -> list[tuple[int, Sent]]:
        return [(at, sent._replace(timestamp=int(1000 * (begun - age)))) for at, sent in instances(n, 2)]

    stream.send([*aged(100, 0.0), *aged(10, 700.0), *aged(20, -1800.0)])
    stream.wait()
    taken = time.time() - begun
    until(lambda: total(metrics(worker), "stream_osr_latency_seconds_count") >= 110, 10, lambda: str(metrics(worker)))
    shown = metrics(worker)
    assert total(shown, "stream_osr_decisions_total") == 130
    assert total(shown, "stream_osr_latency_seconds_count", worker="w") == 110
    assert total(shown, "stream_osr_latency_seconds_bucket", le="600.0") == 100
    assert total(shown, "stream_osr_latency_seconds_bucket", le="1800.0") == 110
    whole = total(shown, "stream_osr_latency_seconds_sum")
    assert 7000 < whole < 7000 + 110 * taken
    worker.kill()
    worker = Worker(stream)
    worker.await_line("ready: ")
    shown = metrics(worker)
    assert total(shown, "stream_osr_replayed_total") == 130
    assert total(shown, "stream_osr_latency_seconds_count") == 0
