"""Several workers: throughput, processor time a record, and latency at shares of what they can do.

The service runs as people run it (`stream-osr run`, with the setting ``workers``), with the defaults of a model and
one thread for matrix products in each process. First it works off a backlog. This gives records a second by the clock
of the wall (its capacity here) and the processor time of all its processes, the parent too. Then a producer in a
process of its own sends records at shares of the capacity, and this process reads decisions as a ``read_committed``
consumer does. The latency of a record is from the moment when it was due to be sent, which is its timestamp, to the
moment when its decision was read: on one machine, by one clock. Decisions of some partitions alone are read, to take
little of the processor.

Broker, producer and consumer share the machine with the workers: with as many workers as there are cores none is free
for them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import yaml
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.kafka.ground import DEFAULTS, make_topics, send, values
from benchmarks.kafka.processor import seconds_of
from benchmarks.written import table
from stream_osr_connectors.kafka.client.admin import TopicAdmin
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.settings import ServiceSettings
from tests.kafka.scraping import samples_of

SHARES = 0.25, 0.5, 0.9
"""Of the capacity, at which latency is measured."""

BEGIN, END = 0.2, 0.9
"""Shares of the backlog between which it is timed: afterwards a worker may have nothing left."""

LEAST = 10
"""Looks at a backlog that have to be timed at least."""

WARM_UP = 300
"""Records of each partition before anything is measured."""

STEP = 4
"""Decisions of every so many partitions are read."""

WARM = 0.25
"""Share of a measurement of latency at its beginning that is left out."""

PATIENCE = 120.0
"""Seconds that anything may take."""

DISTINCT = 5000
"""Instances that the producer sends again and again."""

TICK = 0.005
"""Seconds between two looks of the producer at what is due."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Running:
    """A service that runs.

    Parameters
    ----------
    address
        Of the broker.
    folder
        Of the model; it makes one of its own in it.
    topic
        Its input.
    workers, partitions
        How many.
    """

    def __init__(self, address: str, folder: Path, topic: str, workers: int, partitions: int) -> None:
        self.address, self.topic, self.partitions, self._workers = address, topic, partitions, workers
        own = folder / topic
        own.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        settings = {
            "model": str(folder / f"{DEFAULTS}.osr"),
            "brokers": address,
            "input": self.topic,
            "group": self.topic,
            "instance": "w",
            "state": str(own / "state"),
            "workers": workers,
            "metrics_port": self._port,
        }
        config = own / "service.yaml"
        config.write_text(yaml.safe_dump(settings))
        self._log = own / "service.log"
        self._admin = TopicAdmin(ServiceSettings(**settings))
        command = [sys.executable, "-m", "stream_osr_connectors", "run", "--config", str(config)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **ONE_THREAD})

    @property
    def _places(self) -> list[Place]:
        return [Place(self.topic, number) for number in range(self.partitions)]

    def committed(self) -> int:
        """Count the records that the group has done."""
        done = self._admin.committed(self.topic)
        return sum(done[place].offset for place in self._places if place in done)

    def left(self) -> int:
        """Count the records that it has not done."""
        return sum(self._admin.ends(self._places).values()) - self.committed()

    def processor(self) -> float:
        """Sum the seconds of the processor that its processes have taken, as far as they run."""
        ids = [self._process.pid]
        for id in ids:
            ids += [
                int(child)
                for task in Path(f"/proc/{id}/task").glob("*/children")
                for child in task.read_text().split()
            ]
        return sum(seconds_of(Path(f"/proc/{id}")) for id in ids)

    def has_begun(self) -> bool:
        """Say whether each worker is ready, and has its partitions."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
                samples = samples_of(answer.read().decode())
        except OSError:
            return False
        owned = [int(value) for _, value in samples.get("stream_osr_assigned_partitions", ())]
        ready = [value for _, value in samples.get("stream_osr_ready", ())]
        return len(owned) == sum(ready) == self._workers and sum(owned) == self.partitions and min(owned) > 0

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait for something.

        Raises
        ------
        RuntimeError
            If it does not come, or the service ends.
        """
        ends = time.monotonic() + PATIENCE
        while not done():
            if self._process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"the service has not {what} in {PATIENCE:g} s:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it as people do."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._admin.close()


@contextmanager
def running(address: str, folder: Path, workers: int, partitions: int) -> Iterator[Running]:
    """Run a service that has decided something in each partition."""
    topic = make_topics(address, partitions)
    send(address, topic, WARM_UP * partitions, partitions)
    service = Running(address, folder, topic, workers, partitions)
    try:
        service.wait(lambda: service.has_begun() and service.left() == 0, "begun")
        yield service
    finally:
        service.stop()


def work_off(service: Running, records: int) -> tuple[float, float]:
    """Have a backlog worked off; return records a second, and microseconds of the processor a record."""
    before = service.committed()
    send(service.address, service.topic, records, service.partitions, at_once=True)
    moments: list[tuple[int, float, float]] = []

    def done() -> bool:
        moments.append((service.committed() - before, time.perf_counter(), service.processor()))
        return moments[-1][0] >= records

    service.wait(done, "worked off its backlog")
    timed = [moment for moment in moments if BEGIN * records <= moment[0] <= END * records]
    if len(timed) < LEAST:
        raise RuntimeError(f"{records} records were done in too short a time to be timed; give more (--records)")
    count, seconds, processor = (later - earlier for earlier, later in zip(timed[0], timed[-1], strict=True))
    return count / seconds, 1e6 * processor / count


# Latency.


def pace(address: str, topic: str, partitions: int, rate: float, seconds: float, pipe: Connection) -> None:
    """Send records, each when it is due, which is its timestamp; say when the first one was."""
    contents = cycle(list(values(DISTINCT)))
    producer = KafkaProducer(bootstrap_servers=address, linger_ms=2, batch_size=1 << 16)
    sent, begun, wanted = 0, time.time() + 0.5, int(rate * seconds)
    while sent < wanted:
        due = min(wanted, int((time.time() - begun) * rate))
        for number in range(sent, due):
            moment = int(1000 * (begun + number / rate))
            producer.send(
                topic, key=b"%d" % number, value=next(contents), partition=number % partitions, timestamp_ms=moment
            )
        sent = max(sent, due)
        time.sleep(TICK)
    producer.flush()
    pipe.send(begun)
    producer.close()


def latency_at(service: Running, rate: float, seconds: float) -> str:
    """Measure the latency at a rate; its median and 99 % quantile in milliseconds."""
    consumer = KafkaConsumer(
        bootstrap_servers=service.address, isolation_level="read_committed", enable_auto_commit=False, group_id=None
    )
    places = [TopicPartition(f"{service.topic}.decisions", n) for n in range(0, service.partitions, STEP)]
    consumer.assign(places)
    consumer.seek_to_end(*places)
    for place in places:
        consumer.position(place)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    asked = service.address, service.topic, service.partitions, rate, seconds, there
    producer = context.Process(target=pace, args=asked)
    producer.start()
    seen: list[tuple[float, float]] = []  # the moment when it was due, and its latency

    def read() -> None:
        for records in consumer.poll(timeout_ms=100).values():
            now = time.time()
            seen.extend((record.timestamp / 1000, now - record.timestamp / 1000) for record in records)

    while not here.poll():
        read()
    begun = here.recv()
    producer.join()

    def done() -> bool:
        read()
        return service.left() == 0

    service.wait(done, "decided what was sent")
    read()
    consumer.close()
    found = [latency for due, latency in seen if due >= begun + WARM * seconds]
    return " / ".join(f"{1000 * each:.0f}" for each in np.quantile(found, [0.5, 0.99]))


def measure(address: str, folder: Path, counts: Sequence[int], records: int, partitions: int, seconds: float) -> str:
    """Measure each number of workers: capacity, processor time, and latencies at shares of the capacity."""
    rows = []
    for count in counts:
        with running(address, folder, count, partitions) as service:
            rate, processor = work_off(service, records)
            latencies = [latency_at(service, share * rate, seconds) for share in SHARES]
        rows.append([count, f"{rate:.0f}", f"{processor:.0f}", *latencies])
    heads = ["workers", "records/s", "processor us a record", *(f"p50 / p99 ms at {share:.0%}" for share in SHARES)]
    about = f"{partitions} partitions, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    return f"{table(heads, rows)}\n\n{about}"
