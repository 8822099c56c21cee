"""Answers of the port about workers that are well, ill, dead or silent, to clients of every kind."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.stream import MenuSize
from stream_osr.trust.recall import ExpectedRecall
from stream_osr_connectors.kafka import load_settings, stats
from stream_osr_connectors.kafka.ops import monitor as module
from stream_osr_connectors.kafka.ops.logs import begin_logging
from stream_osr_connectors.kafka.ops.metrics import Overview
from stream_osr_connectors.kafka.ops.monitor import Monitor
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.stats import BOUNDS, PartitionRecall, PartitionStats, ServiceStats, StorageStats
from tests.kafka.scraping import samples_of, total
from tests.tiers import examples

PLACE, OTHER = Place("sensors", 3), Place("sensors", 4)
WATCHDOG = 300.0


def test_a_worker_in_each_condition() -> None:
    silent = replace(live(), loop=time.monotonic() - 100)
    workers = {
        "busy": live(),
        "reserve": replace(live(), partitions={}, progress=None),
        "waiting": replace(live(), obstacles=("sensors/3 is replayed", "no snapshot can be written")),
        "new": ServiceStats(),
        "dead": live().ended("its process ended with signal 9"),
        "silent": silent,
    }
    reasons = [
        "waiting: sensors/3 is replayed, no snapshot can be written",
        "new: starting",
        "dead: its process ended with signal 9",
        "silent: its loop has not turned for 100 s",
    ]
    with port(workers) as address:
        assert ask(address, "/readyz") == (503, "; ".join(reasons) + "\n")
        assert ask(address, "/healthz") == (200, "every loop turns\n")
        for name, values in {
            "ready": [1, 1, 0, 0, 0, 0],
            "assigned_partitions": [1, 0, 1, 0, 0, 1],
            "records_total": [100, 100, 100, None, 100, 100],
        }.items():
            expected = {worker: value for worker, value in zip(workers, values, strict=True) if value is not None}
            assert by_worker(address, f"stream_osr_{name}") == expected, name
        for name in ("progress_age_seconds", "lag_records"):
            assert by_worker(address, f"stream_osr_{name}").keys() == {"busy", "waiting", "silent"}, name
        assert by_worker(address, "stream_osr_model_info").keys() == {"busy", "reserve", "waiting", "silent"}
        workers["silent"] = replace(silent, loop=time.monotonic() - WATCHDOG - 5)
        assert ask(address, "/healthz") == (503, "the loop of silent has not turned for 305 s\n")
        workers.clear()
        assert ask(address, "/readyz") == (503, "there is no worker\n")


def test_the_figures_of_partitions() -> None:
    figures = live()
    with port({"osr-0": figures}) as address:
        samples = scrape(address)
        figures.partitions[PLACE].end = None
        without_end = scrape(address)
    place = {"worker": "osr-0", "topic": "sensors", "partition": "3"}
    expected = {"records_total": 100, "features_missing_total": 30, "features_expected_total": 600}
    expected |= {"timestamps_replaced_total": 4, "unaccounted_records_total": 2, "held_decisions": 6}
    expected |= {"committed_offset": 107, "end_offset": 110, "lag_records": 3}
    for name, value in expected.items():
        assert samples[f"stream_osr_{name}"] == [(place, value)], name
    unknown = {"stream_osr_lag_records", "stream_osr_end_offset"}
    assert samples.keys() - without_end.keys() == unknown, "an end that is not known is no lag of 0"


def test_the_recall_of_a_partition_and_whether_it_is_dependent() -> None:
    figures = live()
    figures.partitions[PLACE].menu = MenuSize(1, 2, 3, 4.0, 5.0, references=400)
    figures.partitions[PLACE].recall = PartitionRecall(ExpectedRecall(0.97, 0.95, 0.98, 0.01), 0.96)
    figures.partitions[PLACE].dependent = True
    figures.partitions[OTHER] = PartitionStats(menu=MenuSize(1, 2, 3, 4.0, 5.0), dependent=False)
    figures.partitions[Place("sensors", 5)] = PartitionStats()
    with port({"osr-0": figures}) as address:
        samples = scrape(address)
        assert ask(address, "/readyz") == (200, "every worker is ready\n")
    three, four = ({"worker": "osr-0", "topic": "sensors", "partition": number} for number in "34")
    expected = {"expected_recall": 0.97, "expected_recall_low": 0.95, "expected_recall_high": 0.98}
    for name, value in {**expected, "false_unknown": 0.01, "promised_recall": 0.96, "recall_dropped": 0}.items():
        assert samples[f"stream_osr_{name}"] == [(three, value)], "partition 4 has no references: nothing is known"
    assert samples["stream_osr_references"] == [(three, 400), (four, 0)]
    assert samples["stream_osr_dependent"] == [(three, 1), (four, 0)], "partition 5 has no recognizer"


def test_a_moved_frame_is_a_metric_and_named_beside_readiness() -> None:
    figures, menu = live(), MenuSize(1, 2, 3, 4.0, 5.0)
    figures.partitions[PLACE].menu = menu
    figures.partitions[PLACE].frame = "the stream differs from training in a"
    figures.partitions[OTHER] = PartitionStats(menu=menu)
    figures.partitions[Place("sensors", 5)] = PartitionStats()
    with port({"osr-0": figures}) as address:
        assert [value for _, value in scrape(address)["stream_osr_frame_moved"]] == [1, 0], "partition 5 has no model"
        line = "every worker is ready; sensors/3: the stream differs from training in a\n"
        assert ask(address, "/readyz") == (200, line)


def test_a_disk_that_hangs_is_named_while_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the states beside readiness, and what the loop waits for as the reason why it is not ready."""
    its = ServiceStats(obstacles=(), storage=StorageStats(place=("topic s", "/state/g")))
    overview = Overview(lambda: {"w": its}, 60.0)
    storage, now = its.storage, time.monotonic()
    monkeypatch.setattr(stats.time, "monotonic", lambda: now)
    storage.copying.running, storage.behind = ("writing in-0-7.osr", now - 2.0), 3
    assert overview.ready() == (True, "every worker is ready")
    storage.copying.running = "writing in-0-7.osr", now - 4.0
    lacks = "/state/g, the copy of topic s on this machine, lacks 3 files: writing in-0-7.osr takes 4 s"
    assert overview.ready() == (True, f"every worker is ready; w: {lacks}")
    storage.copying.running, storage.failure = None, "cannot write /state/g/in-0-7.osr: No space left on device"
    assert "lacks 3 files: cannot write /state/g/in-0-7.osr: No space left" in overview.ready().message
    found = {sample.name: sample.value for family in overview.collect() for sample in family.samples}
    assert (found["stream_osr_state_copy_behind"], found["stream_osr_state_wait_seconds"]) == (3.0, 0.0)
    with storage.loop.doing("writing /state/g/in-1-7.osr"):
        assert overview.ready().well
        now += 10.0
        assert overview.ready()[0] is False
        assert overview.ready().message.startswith("w: writing /state/g/in-1-7.osr takes 10 s")
    assert overview.ready().well


def test_a_recall_that_has_dropped_is_named_beside_readiness() -> None:
    figures = live()
    figures.partitions[PLACE].recall = PartitionRecall(ExpectedRecall(0.8, 0.76, 0.84, 0.19), 0.97, dropped=True)
    says = (
        "sensors/3: recall of the known classes 0.800 (0.760 to 0.840), 19.0 % of the known called unknown, "
        "below the 0.970 promised"
    )
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
    for seconds in (0.02, 0.025, 7.0, 100.0):
        figures.observe("transaction", seconds)
    with port({"osr-0": figures, "osr-1": ServiceStats()}) as address:
        samples = scrape(address)
    first, second = {"worker": "osr-0"}, {"worker": "osr-1"}
    assert samples["stream_osr_model_info"] == [({**first, "identity": "m1", "fingerprint": "f1"}, 1)]
    for name, count in (("fenced", 2), ("retried", 5), ("failed", 0)):
        assert samples[f"stream_osr_transactions_{name}_total"] == [(first, count), (second, 0)]
    name = "stream_osr_transaction_seconds"
    buckets = {labels["le"]: value for labels, value in samples[f"{name}_bucket"] if labels.items() >= first.items()}
    assert [float(end) for end in buckets] == [*BOUNDS, float("inf")]
    assert (buckets["0.01"], buckets["0.025"], buckets["5.0"], buckets["10.0"], buckets["+Inf"]) == (0, 2, 2, 3, 4)
    assert total(samples, f"{name}_count", **first) == 4
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
def opened(workers: Mapping[str, ServiceStats]) -> Iterator[Monitor]:
    monitor = Monitor("127.0.0.1", 0, Overview(lambda: workers, WATCHDOG))
    try:
        yield monitor
    finally:
        monitor.close()


@contextmanager
def port(workers: Mapping[str, ServiceStats], topic: str = "sensors") -> Iterator[str]:
    """The address of a port that shows these workers."""
    with opened(workers) as monitor:
        yield f"http://{monitor.address}"


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


# Clients of every kind

TRICKLERS = 200


@contextmanager
def of_one(*obstacles: str) -> Iterator[Monitor]:
    """The port of a worker that is ready, unless it has obstacles."""
    with opened({"osr-0": replace(live(), obstacles=obstacles)}) as monitor:
        yield monitor


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    with of_one() as made:
        yield made


@pytest.fixture(scope="module")
def lasting() -> Iterator[Monitor]:
    with of_one() as made:
        yield made


def answered(monitor: Monitor, path: str) -> tuple[int, str]:
    return ask(f"http://{monitor.address}", path)


def test_health_is_answered_at_once_while_many_trickle(monitor: Monitor) -> None:
    before = threading.active_count()
    ended = threading.Event()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(monitor)) for _ in range(TRICKLERS)]

        def trickle() -> None:
            while not ended.wait(0.05):
                for client in clients:
                    with suppress(OSError):
                        client.send(b"G")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            for _ in range(10):
                begin = time.monotonic()
                assert answered(monitor, "/healthz") == (200, "every loop turns\n")
                assert time.monotonic() - begin < 1.0
                assert threading.active_count() < before + 2 * module.MOST_CONNECTIONS, "some are about to end"
                time.sleep(0.1)
        finally:
            ended.set()
            thread.join()


def test_a_client_that_trickles_is_let_go_at_its_deadline(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTION_SECONDS", 1.0)
    with connected(monitor) as client:
        begin, got = time.monotonic(), b"x"
        client.settimeout(0.1)
        while got and time.monotonic() - begin < 5.0:
            with suppress(TimeoutError, ConnectionError):
                client.send(b"x")
                got = client.recv(4096)
        assert 0.4 < time.monotonic() - begin < 4.0
    assert got == b""


def test_what_is_answered(monitor: Monitor) -> None:
    for sent, status, has in (
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200, b"every loop turns\n"),
        (b"GET /healthz?a=b HTTP/1.0\n\n", 200, b"every loop turns\n"),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404, b"/metrics, /healthz, /readyz\n"),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 501, b"Unsupported method"),
        (b"nonsense\r\n\r\n", 400, b"Bad request"),
        (b"\x16\x03\x01 TLS\r\n\r\n", 400, b"Bad HTTP/0.9 request"),
        (b"GET /\x1b[2J HTTP/1.1\r\n\r\n", 404, b"/metrics, /healthz, /readyz\n"),
    ):
        head, _, content = answer(monitor, sent).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 %d " % status), sent
        assert has in content, sent
        assert b"Content-Length: %d" % len(content) in head, sent
    whole, head = (
        re.sub(rb"Date: [^\r]+", b"Date: now", answer(monitor, b"%s /readyz HTTP/1.1\r\n\r\n" % method))
        for method in (b"GET", b"HEAD")
    )
    assert head == whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    assert b"Content-Length: 22\r\n" in head


def test_an_answer_about_health_has_no_control_characters() -> None:
    with of_one("topic \x1b[2J\u202e\nis gone") as monitor:
        assert answered(monitor, "/readyz")[1] == "osr-0: topic \\x1b[2J\\u202e\\nis gone\n"


@examples(150)
@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda some: b"GET /metrics HTTP/1.1\r\nAccept:" + some))
def test_any_bytes_are_answered_or_the_connection_ends(lasting: Monitor, some: bytes) -> None:
    got = answer(lasting, some + b"\r\n\r\n")
    assert not got or got.startswith((b"HTTP/1.0 200", b"HTTP/1.0 4", b"HTTP/1.0 5"))


def test_clients_that_leave_are_no_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither raw text nor a line for each in the JSON log, whatever they do before they go."""
    kept = logging.getLogger().handlers[:]
    given = {"brokers": "b", "input": "i", "group": "g", "instance": "w", "state": tmp_path, "log_format": "json"}
    begin_logging(load_settings(model=tmp_path, **given))
    try:
        with of_one() as monitor:
            for number in range(60):
                with connected(monitor) as client:
                    client.send((b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n", b"\r\n\r\n")[number % 4])
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset, at once
            assert answered(monitor, "/healthz")[0] == 200
    finally:
        logging.basicConfig(handlers=kept, force=True)
        logging.captureWarnings(capture=False)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["level"] for line in lines].count("warning") <= 1
    assert {line["level"] for line in lines} <= {"info", "warning"}, lines


def test_an_internal_error_is_answered_and_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    with of_one(1) as monitor:  # type: ignore[arg-type]  # what cannot be joined
        for _ in range(20):
            assert answered(monitor, "/readyz")[0] == 500
        assert answered(monitor, "/healthz")[0] == 200
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert line.startswith("the metrics port cannot answer: TypeError: ")


def test_closing_ends_all_connections(monitor: Monitor) -> None:
    with connected(monitor) as client:
        client.send(b"GET /")
        begin = time.monotonic()
        monitor.close()
        assert time.monotonic() - begin < 2.0
        with suppress(ConnectionError):
            assert client.recv(1) == b""
        with pytest.raises(OSError, match="refused"):
            connected(monitor)


def connected(monitor: Monitor) -> socket.socket:
    host, _, number = monitor.address.rpartition(":")
    return socket.create_connection((host, int(number)), timeout=10)


def answer(monitor: Monitor, request: bytes) -> bytes:
    """What comes back for these bytes."""
    got = b""
    with connected(monitor) as client:
        client.sendall(request)
        with suppress(ConnectionResetError):  # it was closed with bytes unread
            while part := client.recv(65536):
                got += part
    return got
