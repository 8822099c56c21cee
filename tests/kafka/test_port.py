"""The port against clients of every kind: whoever asks is answered at once, whatever the others do."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr_connectors.kafka import load_settings
from stream_osr_connectors.kafka.ops import monitor as module
from stream_osr_connectors.kafka.ops.logs import begin_logging
from stream_osr_connectors.kafka.ops.metrics import Overview
from stream_osr_connectors.kafka.ops.monitor import Monitor
from stream_osr_connectors.kafka.stats import ServiceStats
from tests.kafka.test_monitor import ask, live
from tests.tiers import examples

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
def opened(workers: dict[str, ServiceStats]) -> Iterator[Monitor]:
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


def test_a_client_that_does_not_read_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTION_SECONDS", 1.0)
    monkeypatch.setattr(module, "LONGEST", 1 << 25)  # more than sockets take in
    figures = live()
    figures.obstacles = ("x" * (1 << 25),)
    with opened({"osr-0": figures}) as monitor:
        before = threading.active_count()  # the thread of a connection can start before `connected` returns
        with connected(monitor) as client:
            client.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
            deadline = time.monotonic() + 10
            while threading.active_count() <= before:
                assert time.monotonic() < deadline
            while threading.active_count() > before:
                assert time.monotonic() < deadline
                time.sleep(0.1)


@pytest.mark.parametrize(
    ("request_", "status", "has"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200, b"every loop turns\n"),
        (b"GET /healthz?a=b HTTP/1.0\n\n", 200, b"every loop turns\n"),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404, b"/metrics, /healthz, /readyz\n"),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 501, b"Unsupported method"),
        (b"nonsense\r\n\r\n", 400, b"Bad request"),
        (b"\x16\x03\x01 TLS\r\n\r\n", 400, b"Bad HTTP/0.9 request"),
        (b"GET /\x1b[2J HTTP/1.1\r\n\r\n", 404, b"/metrics, /healthz, /readyz\n"),
    ],
)
def test_what_is_answered(monitor: Monitor, request_: bytes, status: int, has: bytes) -> None:
    got = answer(monitor, request_)
    head, _, content = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 %d " % status)
    assert has in content
    assert b"Content-Length: %d" % len(content) in head


def test_headers_alone_are_given_to_who_asks_for_them(monitor: Monitor) -> None:
    whole, head = (answer(monitor, b"%s /readyz HTTP/1.1\r\n\r\n" % method) for method in (b"GET", b"HEAD"))
    assert head == whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    assert b"Content-Length: 22\r\n" in head


def test_what_is_said_of_health_steers_no_terminal() -> None:
    figures = live()
    figures.obstacles = ("topic \x1b[2J\u202e\nis gone",)
    with opened({"osr-0": figures}) as monitor:
        assert ask(f"http://{monitor.address}", "/readyz")[1] == "osr-0: topic \\x1b[2J\\u202e\\nis gone\n"


@examples(150)
@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda some: b"GET /metrics HTTP/1.1\r\nAccept:" + some))
def test_any_bytes_are_answered_or_let_go(lasting: Monitor, some: bytes) -> None:
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
    with suppress(ConnectionResetError):  # it was let go with bytes unread
        while part := client.recv(65536):
            got += part
    return got
