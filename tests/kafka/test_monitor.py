"""What the port says, asked over HTTP: the truth about workers that are well, ill, dead or not heard of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from stream_osr.stream import MenuSize
from stream_osr.trust.recall import ExpectedRecall
from stream_osr_connectors.kafka import stats
from stream_osr_connectors.kafka.ops.metrics import Overview
from stream_osr_connectors.kafka.ops.monitor import Monitor
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.stats import BOUNDS, PartitionStats, ServiceStats
from tests.kafka.scraping import samples_of, total

PLACE, OTHER = Place("sensors", 3), Place("sensors", 4)
WATCHDOG = 300.0


def test_ready_with_the_reasons_of_every_worker_that_is_not() -> None:
    workers = {
        "osr-0": replace(live(), obstacles=("input topic sensors was deleted",)),
        "osr-1": live(),
        "osr-2": replace(live(), obstacles=("sensors/3 is replayed", "no snapshot can be written")),
    }
    with port(workers) as address:
        assert ask(address, "/readyz") == (
            503,
            "osr-0: input topic sensors was deleted; osr-2: sensors/3 is replayed, no snapshot can be written\n",
        )
        assert ask(address, "/healthz") == (200, "every loop turns\n")
        assert by_worker(address, "stream_osr_ready") == {"osr-0": 0, "osr-1": 1, "osr-2": 0}
        del workers["osr-0"], workers["osr-2"]
        assert ask(address, "/readyz") == (200, "every worker is ready\n")


def test_a_worker_in_reserve_is_ready_and_has_no_progress() -> None:
    with port({"osr-0": live(), "osr-1": replace(live(), partitions={}, progress=None)}) as address:
        assert ask(address, "/readyz")[0] == 200
        assert by_worker(address, "stream_osr_assigned_partitions") == {"osr-0": 1, "osr-1": 0}
        assert by_worker(address, "stream_osr_progress_age_seconds").keys() == {"osr-0"}


def test_no_worker_is_not_ready() -> None:
    with port({}) as address:
        assert ask(address, "/readyz") == (503, "there is no worker\n")


def test_a_worker_never_heard_of_is_not_ready_and_neither_fresh_nor_of_a_model() -> None:
    with port({"osr-0": ServiceStats(), "osr-1": live()}) as address:
        assert ask(address, "/readyz") == (503, "osr-0: starting\n")
        assert by_worker(address, "stream_osr_ready") == {"osr-0": 0, "osr-1": 1}
        for name in ("stream_osr_progress_age_seconds", "stream_osr_model_info"):
            assert by_worker(address, name).keys() == {"osr-1"}, name


def test_a_worker_that_has_died_is_not_ready_and_owns_nothing_and_its_counts_stay() -> None:
    with port({"osr-0": live().ended("its process ended with signal 9"), "osr-1": live()}) as address:
        assert ask(address, "/readyz") == (503, "osr-0: its process ended with signal 9\n")
        assert by_worker(address, "stream_osr_assigned_partitions") == {"osr-0": 0, "osr-1": 1}
        for name in ("stream_osr_progress_age_seconds", "stream_osr_model_info", "stream_osr_lag_records"):
            assert by_worker(address, name).keys() == {"osr-1"}, name
        assert by_worker(address, "stream_osr_records_total") == {"osr-0": 100, "osr-1": 100}


def test_a_worker_that_said_it_was_ready_and_fell_silent_is_not() -> None:
    silent = replace(live(), loop=time.monotonic() - 100)
    with port({"osr-0": silent}) as address:
        assert ask(address, "/readyz") == (503, "osr-0: its loop has not turned for 100 s\n")
        assert by_worker(address, "stream_osr_ready") == {"osr-0": 0}
        assert ask(address, "/healthz")[0] == 200
    with port({"osr-0": replace(silent, loop=time.monotonic() - WATCHDOG - 5)}) as address:
        assert ask(address, "/healthz") == (503, "the loop of osr-0 has not turned for 305 s\n")


def test_the_figures_of_partitions() -> None:
    with port({"osr-0": live()}) as address:
        samples = scrape(address)
    place = {"worker": "osr-0", "topic": "sensors", "partition": "3"}
    expected = {
        "stream_osr_records_total": 100,
        "stream_osr_features_missing_total": 30,
        "stream_osr_features_expected_total": 600,
        "stream_osr_timestamps_replaced_total": 4,
        "stream_osr_unaccounted_records_total": 2,
        "stream_osr_committed_offset": 107,
        "stream_osr_end_offset": 110,
        "stream_osr_lag_records": 3,
        "stream_osr_held_decisions": 6,
    }
    assert {name: samples[name] for name in expected} == {name: [(place, value)] for name, value in expected.items()}


def test_an_end_that_is_not_known_is_no_lag_of_nought() -> None:
    figures = live()
    figures.partitions[PLACE].end = None
    with port({"osr-0": figures}) as address:
        samples = scrape(address)
    assert "stream_osr_lag_records" not in samples
    assert "stream_osr_end_offset" not in samples
    assert "stream_osr_committed_offset" in samples


def test_the_recall_of_a_partition_and_whether_it_is_dependent() -> None:
    figures = live()
    figures.partitions[PLACE].menu = MenuSize(1, 2, 3, 4.0, 5.0, references=400)
    figures.partitions[PLACE].recall = stats.PartitionRecall(ExpectedRecall(0.97, 0.95, 0.98, 0.01), 0.96)
    figures.partitions[PLACE].dependent = True
    figures.partitions[OTHER] = PartitionStats(menu=MenuSize(1, 2, 3, 4.0, 5.0), dependent=False)
    figures.partitions[Place("sensors", 5)] = PartitionStats()
    with port({"osr-0": figures}) as address:
        samples = scrape(address)
        assert ask(address, "/readyz") == (200, "every worker is ready\n")
    three, four = ({"worker": "osr-0", "topic": "sensors", "partition": number} for number in "34")
    expected = {"expected_recall": 0.97, "expected_recall_low": 0.95, "false_unknown": 0.01}
    for name, value in {**expected, "promised_recall": 0.96, "recall_dropped": 0}.items():
        assert samples[f"stream_osr_{name}"] == [(three, value)], "partition 4 has no references: nothing is known"
    assert samples["stream_osr_references"] == [(three, 400), (four, 0)]
    assert samples["stream_osr_dependent"] == [(three, 1), (four, 0)], "partition 5 has no recognizer"


def test_a_recall_that_has_dropped_is_told_beside_readiness() -> None:
    figures = live()
    figures.partitions[PLACE].recall = stats.PartitionRecall(
        ExpectedRecall(0.8, 0.76, 0.84, 0.19), 0.97, dropped=True
    )
    now = "0.800 (0.760 to 0.840), 19.0 % of the known called unknown"
    says = f"sensors/3: recall of the known classes {now}, below the 0.970 promised"
    workers = {"osr-0": figures}
    with port(workers) as address:
        assert ask(address, "/readyz") == (200, f"every worker is ready; {says}\n")
        assert scrape(address)["stream_osr_recall_dropped"][0][1] == 1
        workers["osr-1"] = replace(live(), obstacles=("sensors/5 is replayed",))
        assert ask(address, "/readyz") == (503, f"osr-1: sensors/5 is replayed; {says}\n")


def test_the_figures_of_workers() -> None:
    figures = live()
    figures.add("transactions_fenced", by=2)
    figures.add("transactions_retried", by=5)
    with port({"osr-0": figures, "osr-1": ServiceStats()}) as address:
        samples = scrape(address)
    assert samples["stream_osr_model_info"] == [({"worker": "osr-0", "identity": "m1", "fingerprint": "f1"}, 1)]
    for name, count in (("fenced", 2), ("retried", 5), ("failed", 0)):
        metric = f"stream_osr_transactions_{name}_total"
        assert samples[metric] == [({"worker": "osr-0"}, count), ({"worker": "osr-1"}, 0)]


def test_histograms_are_what_the_summaries_were_and_have_buckets() -> None:
    figures = live()
    for seconds in (0.02, 0.025, 7.0, 100.0):
        figures.observe("transaction", seconds)
    with port({"osr-0": figures}) as address:
        samples = scrape(address)
    name = "stream_osr_transaction_seconds"
    buckets = {labels["le"]: value for labels, value in samples[f"{name}_bucket"]}
    assert [float(end) for end in buckets] == [*BOUNDS, float("inf")]
    assert (buckets["0.01"], buckets["0.025"], buckets["5.0"], buckets["10.0"], buckets["+Inf"]) == (0, 2, 2, 3, 4)
    assert samples[f"{name}_count"] == [({"worker": "osr-0"}, 4)]
    assert total(samples, f"{name}_sum") == 107.045
    assert total(samples, "stream_osr_snapshot_seconds_count") == 0


def live() -> ServiceStats:
    """Figures of a worker that is ready and has a partition."""
    now = time.monotonic()
    figures = ServiceStats(progress=now, loop=now, obstacles=(), model="m1", fingerprint="f1", opened_at=True)
    figures.partitions[PLACE] = PartitionStats(
        107, end=110, read=110, pending=3, paused=6, menu=MenuSize(1, 2, 3, 4.0, 5.0)
    )
    counts = {"records": 100, "features_missing": 30, "features_expected": 600, "timestamps_replaced": 4}
    for name, count in (counts | {"unaccounted_records": 2}).items():
        figures.add(name, PLACE, count)
    figures.observe("batch", 0.2)
    return figures


@contextmanager
def port(workers: Mapping[str, ServiceStats], topic: str = "sensors") -> Iterator[str]:
    """A port that tells of these workers."""
    monitor = Monitor("127.0.0.1", 0, Overview(lambda: workers, WATCHDOG))
    try:
        yield f"http://{monitor.address}"
    finally:
        monitor.close()


def ask(address: str, path: str) -> tuple[int, str]:
    """Status and text of an answer."""
    try:
        with urlopen(address + path, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def get(address: str, path: str, accept: str) -> tuple[str, str]:
    """Kind and text of an answer."""
    with urlopen(Request(address + path, headers={"Accept": accept}), timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def scrape(address: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """All samples, by name."""
    return samples_of(get(address, "/metrics", "text/plain")[1])


def by_worker(address: str, name: str) -> dict[str, float]:
    """Values of a metric."""
    return {labels["worker"]: value for labels, value in scrape(address).get(name, ())}
