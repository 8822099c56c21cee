"""A real broker for all tests of the service in a process, and what they need around it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.brokers import Broker
from tests.kafka.streams import Worker
from tests.tiers import do_without


@pytest.fixture(scope="session")
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this test run."""
    from stream_osr_connectors.cli.warmup import warm_up
    from stream_osr_connectors.kafka.client.errors import quieten

    quieten()  # the log of a failure is read without thousands of lines about reconnections
    broker = Broker(tmp_path_factory.mktemp("broker"), Path(request.config.cache.mkdir("kafka-jars")))
    try:
        broker.start()
    except subprocess.CalledProcessError as error:
        do_without("broker", f"it did not start: {(error.stderr or error.stdout or '').strip()[-600:]}")
    warm_up()  # workers that have to compile the sampler first would seem to hang
    yield broker
    broker.stop()


@pytest.fixture
def broker(started: Broker) -> Iterator[Broker]:
    """The broker, up: a failed test may have stopped it or left workers behind."""
    started.start()
    yield started
    for worker in Worker.started:
        if worker.process.poll() is None:
            worker.kill()
    Worker.started.clear()
