"""The latency: from the timestamp of a record to the commit of its decision."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr_connectors.kafka import stats
from stream_osr_connectors.kafka.stats import BOUNDS, Histogram, ServiceStats
from tests.kafka.brokers import Broker
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Sent, Stream, Worker, instances, small_model

NOW = 1_700_000_000.0

seconds = st.floats(0, 1e6) | st.sampled_from([0.0, *stats.LATENCY_BOUNDS])


@given(st.lists(st.lists(seconds, max_size=20), max_size=4), st.sampled_from([BOUNDS, stats.LATENCY_BOUNDS]))
def test_several_times_at_once_count_as_one_by_one(several: list[list[float]], bounds: tuple[float, ...]) -> None:
    at_once = one_by_one = Histogram.over(bounds)
    for each in several:
        at_once = at_once.observed(np.array(each))
        for one in each:
            one_by_one = one_by_one.observed(one)
    assert (at_once.counts, at_once.bounds) == (one_by_one.counts, one_by_one.bounds)
    assert at_once.seconds == pytest.approx(one_by_one.seconds)
    assert {*map(type, at_once.counts)} == {int}, "they go through a pipe and into Prometheus' text"


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
    ends = time.monotonic() + 10
    while total(shown := metrics(worker), "stream_osr_latency_seconds_count") < 110 and time.monotonic() < ends:
        time.sleep(0.1)
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
