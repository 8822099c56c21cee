"""A Kafka broker at its usual port, for pages whose reader has one there."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import pytest

from tests.documents.reading import BROKER, ROOT, starts_broker
from tests.tiers import do_without

PORTS = {9092: "the broker", 9093: "its controller", 9464: "the metrics of the service"}
"""What the pages and the examples say."""


@contextmanager
def usual_broker(page: str, config: pytest.Config, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a broker at 127.0.0.1:9092 while a page is run, with its data in a folder of its own.

    The page may start it itself: its commands find the jars of the other tests, and the folder. Pages take turns,
    also those of other processes.
    """
    with _turn(), TemporaryDirectory(prefix="broker-") as folder:
        if (reason := _taken()) is not None:
            do_without("broker", reason)
        patch.setenv("WORK", folder)
        patch.setenv("LIBS", str(Path(config.cache.mkdir("kafka-jars")) / "libs"))
        try:
            if not starts_broker(page):
                _call("start")
            yield
        finally:
            _call("stop")


@contextmanager
def _turn() -> Iterator[None]:
    """Wait until no other page has the ports."""
    with (Path(gettempdir()) / "stream-osr-pages-with-a-broker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        yield


def _taken() -> str | None:
    for port, what in PORTS.items():
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            return f"port {port}, of {what}, is taken"
    return None


def _call(command: str) -> None:
    subprocess.run([str(ROOT / BROKER), command], env=os.environ, check=True, capture_output=True, timeout=300)
