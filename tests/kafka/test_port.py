"""The port against clients of every kind: whoever asks is answered at once, whatever the others do."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_osr_connectors.kafka.figures import Figures
from stream_osr_connectors.kafka.ops import port as module
from stream_osr_connectors.kafka.ops.logs import begin_logging
from stream_osr_connectors.kafka.ops.metrics import Overview
from stream_osr_connectors.kafka.ops.monitor import Monitor
from stream_osr_connectors.kafka.ops.port import HEAD_BYTES, Answer, Port
from stream_osr_connectors.kafka.settings import load_settings
from tests.kafka.scraping import samples_of
from tests.kafka.test_monitor import ask, get, live

TRICKLERS = 200


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    with opened({"osr-0": live()}) as made:
        yield made


@pytest.fixture(scope="module")
def lasting() -> Iterator[Monitor]:
    with opened({"osr-0": live()}) as made:
        yield made


@contextmanager
def opened(workers: dict[str, Figures]) -> Iterator[Monitor]:
    made = Monitor("127.0.0.1", 0, Overview(lambda: workers, 300.0))
    try:
        yield made
    finally:
        made.close()


def test_health_is_told_at_once_while_many_trickle(monitor: Monitor) -> None:
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
                assert ask(f"http://{monitor.address}", "/healthz") == (200, "every loop turns\n")
                assert time.monotonic() - begin < 1.0
                assert threading.active_count() == before + 1, "the trickling thread of this test"
                time.sleep(0.1)
        finally:
            ended.set()
            thread.join()
    assert refused(monitor)["crowd"] >= TRICKLERS // 2


def test_a_client_that_trickles_is_let_go_at_its_deadline(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 1.0)
    with connected(monitor) as client:
        begin, got = time.monotonic(), b""
        client.settimeout(0.1)
        while time.monotonic() - begin < 5.0:
            with suppress(TimeoutError):
                if not got:
                    client.send(b"x")
                if not (part := client.recv(4096)):
                    break
                got += part
        assert 0.4 < time.monotonic() - begin < 4.0
    assert got.startswith(b"HTTP/1.1 408 ")
    assert refused(monitor)["slow"] == 1


def test_a_client_that_does_not_read_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 1.0)
    long = Answer(HTTPStatus.OK, "text/plain", b"x" * (1 << 25))  # more than sockets take in
    port = Port("127.0.0.1", 0, lambda path, accept: long, lambda about, what: None)
    try:
        with socket.create_connection(("127.0.0.1", port.number)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            deadline = time.monotonic() + 10
            while port.refused["slow"] == 0:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        port.close()


@pytest.mark.parametrize(
    ("request_", "status", "has"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200, b"every loop turns\n"),
        (b"GET /healthz?a=b HTTP/1.0\n\n", 200, b"every loop turns\n"),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404, b"/metrics, /healthz, /readyz\n"),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405, b"Allow: GET, HEAD\r\n"),
        (b"BREW /healthz HTTP/1.1\r\n\r\n", 405, b"Allow: GET, HEAD\r\n"),
        (b"PUT /healthz HTTP/1.1\r\n\r\n" + b"x" * 5_000_000, 405, b"Method Not Allowed\n"),
        (b"nonsense\r\n\r\n", 400, b"Bad Request\n"),
        (b"GET /\x1b[2J HTTP/1.1\r\n\r\n", 400, b"Bad Request\n"),
        (b"\x16\x03\x01 TLS\r\n\r\n", 400, b"Bad Request\n"),
        (b"GET /" + b"x" * HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 431, b"Request Header Fields Too Large\n"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * HEAD_BYTES, 431, b"Request Header Fields Too Large\n"),
    ],
)
def test_what_is_answered(monitor: Monitor, request_: bytes, status: int, has: bytes) -> None:
    got = answer(monitor, request_)
    assert got.startswith(b"HTTP/1.1 %d " % status)
    assert has in got
    head, _, content = got.partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(content) in head
    assert refused(monitor)["malformed"] == (status in (400, 431))


def test_headers_alone_are_given_to_who_asks_for_them(monitor: Monitor) -> None:
    whole, head = (answer(monitor, b"%s /readyz HTTP/1.1\r\n\r\n" % method) for method in (b"GET", b"HEAD"))
    assert head == whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    assert b"Content-Length: 22\r\n" in head


def test_a_request_in_pieces_is_answered(monitor: Monitor) -> None:
    with connected(monitor) as client:
        for byte in b"GET /healthz HTTP/1.1\r\nAccept: */*\r\n\r\n":
            client.send(bytes([byte]))
            time.sleep(0.002)
        assert received(client).endswith(b"every loop turns\n")


def test_what_is_said_of_health_steers_no_terminal() -> None:
    figures = live()
    figures.obstacles = ("topic \x1b[2J\u202e\nis gone",)
    with opened({"osr-0": figures}) as monitor:
        assert ask(f"http://{monitor.address}", "/readyz")[1] == "osr-0: topic \\x1b[2J\\u202e\\nis gone\n"


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda some: b"GET /metrics HTTP/1.1\r\nAccept:" + some))
def test_any_bytes_are_answered_or_let_go(lasting: Monitor, some: bytes) -> None:
    got = answer(lasting, some + b"\r\n\r\n")
    assert got.startswith((b"HTTP/1.1 200", b"HTTP/1.1 4"))


def test_clients_that_leave_are_no_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither raw text nor a line for each in the JSON log, whatever they do before they go."""
    kept = logging.getLogger().handlers[:]
    given = {"brokers": "b", "input": "i", "group": "g", "instance": "w", "state": tmp_path, "log_format": "json"}
    begin_logging(load_settings(None, [], model=tmp_path, **given))
    try:
        with opened({"osr-0": live()}) as monitor:
            for number in range(60):
                with connected(monitor) as client:
                    client.send((b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n", b"\r\n\r\n")[number % 4])
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset, at once
            assert ask(f"http://{monitor.address}", "/healthz")[0] == 200
    finally:
        logging.basicConfig(handlers=kept, force=True)
        logging.captureWarnings(capture=False)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["level"] for line in lines].count("warning") <= 1
    assert {line["level"] for line in lines} <= {"info", "warning"}, lines


def test_an_error_of_ours_is_answered_and_told_seldom(caplog: pytest.LogCaptureFixture) -> None:
    figures = live()
    figures.obstacles = (1,)  # type: ignore[assignment]  # what cannot be joined
    with opened({"osr-0": figures}) as monitor:
        for _ in range(20):
            assert ask(f"http://{monitor.address}", "/readyz")[0] == 500
        assert ask(f"http://{monitor.address}", "/healthz")[0] == 200
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert told[0].startswith("the metrics port cannot answer: TypeError: ")


def test_closing_lets_go_of_whoever_is_there() -> None:
    with opened({"osr-0": live()}) as monitor, connected(monitor) as client:
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


def answer(monitor: Monitor, request_: bytes) -> bytes:
    """What comes back for these bytes."""
    with connected(monitor) as client:
        client.sendall(request_)
        return received(client)


def received(client: socket.socket) -> bytes:
    got = b""
    while part := client.recv(65536):
        got += part
    return got


def refused(monitor: Monitor) -> dict[str, float]:
    """Connections let go, by the reason, as Prometheus is told."""
    samples = samples_of(get(f"http://{monitor.address}", "/metrics", "text/plain")[1])
    return {labels["reason"]: value for labels, value in samples["stream_osr_port_refused_total"]}
