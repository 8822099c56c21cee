"""One partition cannot go on, or one service does not fit: all others go on."""

from __future__ import annotations

import time

import pytest

from tests.kafka.brokers import Broker, SecondBroker
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.doing import configure, replicate
from tests.kafka.faults.test_snapshots import await_newer, snapshots
from tests.kafka.faults.trials import Site, Trial, until
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Worker, instances

PARTITIONS = 8
LONGEST_WAIT = 2.0
"""Seconds from a record to the next decision of its partition."""
ATTEMPTS = 3


def clocked(trial: Trial) -> None:
    """Let the decisions have the time at which the broker has got them."""
    topic = f"{trial.stream.topic}.decisions"
    configure(trial.stream.address, topic, {"message.timestamp.type": "LogAppendTime"})


def longest_waits(trial: Trial, fed: list[float], begin: float, end: float) -> list[float]:
    """Longest time from a moment at which a partition was fed to its next decision, by partition."""
    out = []
    for records in trial.stream.read("decisions"):
        moments = [*(record.timestamp / 1000 for record in records), end]
        between = (each for each in fed if begin < each < end)
        out.append(max(next(moment for moment in moments if moment >= each) - each for each in between))
    return out


def owned(worker: Worker) -> set[int]:
    """Partitions of a worker that are loaded."""
    return {int(labels["partition"]) for labels, _ in metrics(worker).get("stream_osr_replaying", ())}


@pytest.mark.fault("the state of one partition is lost, and its worker dies")
def test_a_partition_without_a_state_is_suspended_alone(site: Site) -> None:
    """The worker that gets it goes on with all others, and with it when its snapshots are back.

    Other tests run at the same time and can delay a decision; a wait that the service causes is in every attempt.
    """
    waits = []
    for attempt in range(ATTEMPTS):
        (folder := site.folder / str(attempt)).mkdir()
        waits.append(suspend_one(Site(site.broker, folder)))
        print(f"longest times from a record to the next decision: {waits[-1]}")
        if max(waits[-1].values()) <= LONGEST_WAIT:
            return
    pytest.fail(f"each attempt has a wait of more than {LONGEST_WAIT} s: {waits}")


def suspend_one(site: Site) -> dict[int, float]:
    """Take the state of one partition away; return the longest wait of each of the others, in seconds."""
    trial = Trial(site, PARTITIONS, snapshot_interval=1.0, state_topic=None)
    clocked(trial)
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
    fed: list[float] = []
    name = f"{trial.stream.topic}/{bad}"

    def suspended() -> bool:
        fed.append(time.time())
        trial.feed(3 * PARTITIONS)
        return total(metrics(second), "stream_osr_suspended", partition=str(bad)) == 1

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
    early, late = longest_waits(trial, fed, begin, end), longest_waits(trial, fed, since + 1, end)
    found = {n: early[n] if n in own else late[n] for n in range(PARTITIONS) if n != bad}
    assert len(found) == PARTITIONS - 1
    assert late[bad] == end - min(each for each in fed if each > since + 1), "what is suspended is not decided"
    trial.await_not_ready(name, "suspended", "no snapshot leads to offset")
    assert trial.is_healthy()
    assert 1 <= len(trial.lines("ERROR", name, "is suspended")) <= 4, trial.tail()
    for path in folder.iterdir():
        path.rename(snapshots(trial, min(own))[0].parent / path.name)
    trial.settle(90)
    trial.await_ready()
    trial.end_exactly_once()
    assert audit(trial.stream) == trial.fed
    return found


@pytest.mark.fault("a service with other settings is started in the group")
def test_a_service_with_other_settings_ends_before_it_joins(site: Site) -> None:
    """The healthy one keeps its partitions."""
    trial = Trial(site)
    trial.begin()
    healthy = trial.worker
    trial.stream.settings["seed"] = 99
    for _ in range(3):
        trial.fails_to_start("has run the model", "on_model_change", instance="other")
        assert not any("assigned" in line for line in trial.worker.lines())
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
    clocked(trial)
    trial.begin(160)  # the brokers' own topics are there from now on, and do not come to lie on the second
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
    fed: list[float] = []

    def feed() -> None:
        fed.append(time.time())
        trial.stream.send([(1 + n % (PARTITIONS - 1), sent) for n, (_, sent) in enumerate(instances(21, 1))])
        if of_output:
            trial.stream.send([(bad, sent) for _, sent in instances(3, 1)])

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
    assert trial.is_healthy()
    second.start()
    feed()
    trial.stream.send([(bad, sent) for _, sent in instances(40, 1)])
    trial.settle()
    trial.await_ready()
    found = [wait for number, wait in enumerate(longest_waits(trial, fed, since + 1, end)) if number != bad]
    print(f"longest times from a record to the next decision: {found}")
    assert max(found) <= LONGEST_WAIT, f"{found}\n{trial.tail()}"
    replicate(trial.stream.address, topic, bad + 1, Broker.NODE)
