"""One partition cannot go on, or one service does not fit: all others go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaConsumer

from tests.kafka.brokers import Broker, SecondBroker
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.doing import replicate
from tests.kafka.faults.test_snapshots import await_newer, snapshots
from tests.kafka.faults.trials import Site, Trial, until
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import CONSUMER, Stream, Worker, instances

PARTITIONS = 8
LONGEST_WAIT = 2.0
"""Seconds from a record to the next decision of its partition."""


class Waits:
    """Moments of the records fed and of the decisions of each partition, by the clock of the records."""

    def __init__(self, stream: Stream) -> None:
        self.fed: list[float] = []
        self.decided: dict[int, list[float]] = {number: [] for number in range(stream.partitions)}
        self._stream, self._stop = stream, threading.Event()

    def run(self) -> None:
        """Read the decisions until the end of :meth:`watched`."""
        consumer = KafkaConsumer(
            f"{self._stream.topic}.decisions", bootstrap_servers=self._stream.address, **CONSUMER
        )
        while not self._stop.is_set():
            for place, records in consumer.poll(timeout_ms=100).items():
                self.decided[place.partition] += [record.timestamp / 1000 for record in records]
        consumer.close()

    def longest(self, number: int, begin: float, end: float) -> float:
        """Longest time between a record and the next decision of a partition."""
        decided = [*self.decided[number], end]
        return max(next(moment for moment in decided if moment >= fed) - fed for fed in self.fed if begin < fed < end)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Read meanwhile."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


def owned(worker: Worker) -> set[int]:
    """Partitions of a worker that are loaded."""
    return {int(labels["partition"]) for labels, _ in metrics(worker).get("stream_osr_replaying", ())}


@pytest.mark.fault("the state of one partition is lost, and its worker dies")
def test_a_partition_without_a_state_is_suspended_alone(site: Site) -> None:
    """The worker that gets it goes on with all others, and with it when its snapshots are back."""
    trial = Trial(site, PARTITIONS, snapshot_interval=1.0)
    trial.begin(320)
    await_newer(trial)
    for _ in range(2):  # from the second snapshot on a partition cannot begin from nothing
        trial.decide(320)
        await_newer(trial)
    first, second = trial.worker, trial.start("v")
    until(lambda: len(owned(first)) == len(owned(second)) == PARTITIONS // 2, 40, trial.tail)
    own, bad = owned(second), min(owned(first))
    folder = site.folder / "aside"
    folder.mkdir()
    waits = Waits(trial.stream)
    name = f"{trial.stream.topic}/{bad}"

    def suspended() -> bool:
        waits.fed.append(time.time())
        trial.feed(3 * PARTITIONS)
        return total(metrics(second), "stream_osr_suspended", partition=str(bad)) == 1

    with waits.watched():
        for _ in range(5):
            suspended()
            time.sleep(0.3)
        begin = time.time()
        first.kill()
        for path in snapshots(trial, bad):
            path.rename(folder / path.name)
        until(suspended, 40, trial.tail)
        since = time.time()
        while time.time() - since < 12:
            assert suspended(), trial.tail()
            time.sleep(0.1)
        end = time.time()
    found = {number: waits.longest(number, begin, end) for number in own}
    found |= {
        number: waits.longest(number, since + 1, end) for number in range(PARTITIONS) if number not in {*own, bad}
    }
    print(f"longest times from a record to the next decision: {found}")
    assert len(found) == PARTITIONS - 1
    assert max(found.values()) <= LONGEST_WAIT, found
    assert waits.decided[bad][-1] < since, "what is suspended is not decided"
    trial.await_not_ready(name, "suspended", "no snapshot leads to offset")
    assert trial.is_healthy()
    assert 1 <= len(trial.lines("ERROR", name, "is suspended")) <= 4, trial.tail()
    for path in folder.iterdir():
        path.rename(snapshots(trial, min(own))[0].parent / path.name)
    trial.settle(90)
    trial.await_ready()
    trial.end_exactly_once()
    assert audit(trial.stream) == trial.fed


@pytest.mark.fault("a service with other settings is started in the group")
def test_a_service_with_other_settings_ends_before_it_joins(site: Site) -> None:
    """The healthy one keeps its partitions."""
    trial = Trial(site)
    trial.begin()
    healthy = trial.worker
    trial.stream.settings["seed"] = 99
    for _ in range(3):
        other = trial.start("other")
        last = trial.await_exit(1)
        assert "has run the model" in last
        assert "on_model_change" in last
        assert not any("assigned" in line for line in other.lines())
    trial.worker = healthy
    del trial.stream.settings["seed"]
    assert trial.figure("rebalances_total") == 0
    assert not trial.lines("is another worker's now")
    trial.decide(100)
    trial.end_exactly_once()


@pytest.mark.alone
@pytest.mark.fault("no broker leads a partition of the input or of an output")
@pytest.mark.parametrize("suffix", ["", pytest.param(".decisions", marks=pytest.mark.long)])
def test_a_partition_without_a_leader_holds_up_itself_alone(site: Site, suffix: str) -> None:
    """The only broker that has it dies; no other test makes topics meanwhile, which might come to lie there."""
    trial = Trial(site, PARTITIONS)
    trial.begin(
        160
    )  # the topics of the brokers themselves are there from now on, and do not come to lie on the second
    second = SecondBroker(site.folder, site.broker)
    second.start()
    try:
        hold_up(trial, second, f"{trial.stream.topic}{suffix}", 0)
    finally:
        second.stop()
    trial.end_exactly_once()


def hold_up(trial: Trial, second: SecondBroker, topic: str, bad: int) -> None:
    """Let the second broker alone have a partition of a topic, kill it, and start it again."""
    of_output = topic != trial.stream.topic
    replicate(trial.stream.address, topic, bad + 1, SecondBroker.NODE)
    waits = Waits(trial.stream)

    def feed() -> None:
        waits.fed.append(time.time())
        trial.stream.send([(1 + n % (PARTITIONS - 1), sent) for n, (_, sent) in enumerate(instances(21, 1))])
        if of_output:
            trial.stream.send([(bad, sent) for _, sent in instances(3, 1)])

    with waits.watched():
        for _ in range(5):
            feed()
            time.sleep(0.3)
        second.kill()
        trial.await_not_ready(f"no broker leads {topic}/{bad}")
        since = time.time()
        while time.time() - since < 8:
            feed()
            time.sleep(0.3)
        end = time.time()
    found = {number: waits.longest(number, since + 1, end) for number in range(PARTITIONS) if number != bad}
    print(f"longest times from a record to the next decision: {found}")
    assert max(found.values()) <= LONGEST_WAIT, f"{found}\n{trial.tail()}"
    assert trial.is_healthy()
    second.start()
    feed()
    trial.stream.send([(bad, sent) for _, sent in instances(40, 1)])
    trial.settle()
    trial.await_ready()
    replicate(trial.stream.address, topic, bad + 1, Broker.NODE)
