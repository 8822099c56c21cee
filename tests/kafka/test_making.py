"""A client that cannot be made leaves nothing behind: an outage is a long row of them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.admin import TopicAdmin
from stream_osr_connectors.kafka.client.consumers import GroupConsumer, TopicFollower
from stream_osr_connectors.kafka.client.errors import quieten
from stream_osr_connectors.kafka.client.interface import ClientError
from stream_osr_connectors.kafka.client.producer import TransactionalProducer

SETTINGS = ServiceSettings(model="m", brokers="127.0.0.1:1", input="in", transaction_deadline=1.0)

MAKERS: dict[str, Callable[[], object]] = {
    "admin": lambda: TopicAdmin(SETTINGS),
    "consumer": lambda: GroupConsumer(SETTINGS, "in", 10, lambda *told: None),
    "follower": lambda: TopicFollower.of(SETTINGS, "in"),
    "producer": lambda: TransactionalProducer(SETTINGS),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_client_that_finds_no_broker_leaves_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quieten()  # what is logged would be kept, and sockets with it
    monkeypatch.setattr("stream_osr_connectors.kafka.client.options.BOOTSTRAP_SECONDS", 0.3)
    others = set(threading.enumerate())  # what ran before may end at any time: only what is new counts
    threads, files = [], []
    for _ in range(4):
        with pytest.raises(ClientError):
            MAKERS[kind]()
        gc.collect()  # the client leaves sockets of failed connections to it, and the service calls it now and then
        threads.append(len(set(threading.enumerate()) - others))
        files.append(len(list(Path("/proc/self/fd").iterdir())))
    assert threads[-1] <= threads[0], "threads"
    assert files[-1] <= files[0] + 3, "open files"
