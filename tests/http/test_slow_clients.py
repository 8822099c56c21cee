"""A thousand clients that send or read slowly do not stop a fast one."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.http.serving import LINES, await_decisions, instances, lines_of, service

SLOW = 1000
PARTS = (
    b"",
    b"POST /v1/instances HTTP/1.1\r\nHost: loc",
    b"POST /v1/instances HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: application/json\r\n"
    b'Content-Length: 200000\r\n\r\n{"key"',
    b"GET /v1/decisions HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" * 3,
    b"GET /v1/decisions HTTP/1.1\r\nHost: localhost:%d\r\nAccept: text/event-stream\r\n\r\n",
)
"""Beginnings of requests, and requests whose answers are not read."""


@pytest.mark.long
def test_slow_clients_do_not_stop_a_fast_one(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < SLOW + 200:
        pytest.skip("too few files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, SLOW + 200), hard))
    with service(tmp_path) as one, one.client() as client, ExitStack() as stack:
        client.post("/v1/instances", content=lines_of(instances(960)), headers=LINES).raise_for_status()
        await_decisions(client, 960)
        port, received = int(one.address.rstrip("/").rpartition(":")[2]), 0
        for number in range(SLOW):
            slow = stack.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.settimeout(10)
            slow.connect(("127.0.0.1", port))
            part = PARTS[number % len(PARTS)]
            with suppress(OSError):
                slow.sendall(part.replace(b"%d", str(port).encode()))
            if number % 10 == 0:
                each = {"key": number, "features": instances(1)[0]["features"]}
                assert client.post("/v1/instances", json=each).status_code == 200
                received += 1
        assert received == SLOW // 10
        assert client.get("/healthz").text == "ok\n"
        with one.client() as new:
            assert new.post("/v1/instances", json={"key": "new", "features": {"a": 1, "b": 2}}).status_code == 200
        assert "stream_osr_ready 1" in client.get("/metrics").text
