"""The topic of the states is deleted, cut short, damaged or full of what another version wrote."""

from __future__ import annotations

import shutil
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

from stream_osr.archive.records import VERSION
from stream_osr_connectors.kafka import load_settings
from stream_osr_connectors.kafka.client.consumers import read_all
from stream_osr_connectors.kafka.client.producer import PlainProducer
from stream_osr_connectors.kafka.run.group_states import open_states
from stream_osr_connectors.kafka.wire.messages import Outgoing
from tests.kafka.faults.doing import configure, delete_records, delete_topic, set_quota
from tests.kafka.faults.trials import Site, Trial, until


class TopicTrial(Trial):
    """A service with its state in a topic."""

    def __init__(self, site: Site, **settings: Any) -> None:
        super().__init__(site, state_topic=f"state-{uuid.uuid4().hex[:8]}", snapshot_interval=0.5, **settings)

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return str(self.stream.settings["state_topic"])

    @property
    def folder(self) -> Path:
        """Folder of this machine."""
        return Path(self.stream.settings["state"]) / self.stream.settings["group"]

    def lose_the_machine(self) -> None:
        """Kill the service, and delete its folder."""
        self.worker.kill()
        shutil.rmtree(self.stream.settings["state"])

    def goes_on_elsewhere(self) -> None:
        """Lose the machine, and check that a new one goes on exactly once from the topic."""
        self.lose_the_machine()
        self.begin(100)
        self.end_exactly_once()

    def published(self) -> dict[str, int]:
        """Partition of each file in the topic."""
        files: dict[str, int] = {}
        for record in read_all(load_settings(self.stream.config(), instance="w"), self.topic):
            name, *part = (record.key or b"").decode().split("\0")[1:]
            if not part:
                files[name] = record.partition
                if record.value is None:
                    del files[name]
        return files

    def snapshots(self, number: int) -> list[str]:
        """Names of the snapshots of a partition in the topic, the oldest first."""
        return sorted(name for name in self.published() if name.startswith(f"{self.stream.topic}-{number}-"))

    def await_published(self) -> None:
        """Wait until a snapshot of each partition has all records."""
        ends = [f"-{len(sent):020}-" for sent in self.stream.sent]
        until(lambda: all(any(e in s for s in self.snapshots(n)) for n, e in enumerate(ends)), 30, self.tail)

    def grow(self) -> None:
        """Decide more, so that each partition has another snapshot."""
        self.decide(100)
        self.await_published()

    def begin_with_snapshots(self, n: int) -> None:
        """Start it, and wait for so many snapshots of each partition."""
        self.begin(100)
        for _ in range(n):
            self.grow()

    def cut(self) -> None:
        """Delete all records, which brokers do for topics with deletion only."""
        configure(self.broker.address, self.topic, {"cleanup.policy": "delete"})
        for number in range(2):
            delete_records(self.broker.address, self.topic, number, -1)
        configure(self.broker.address, self.topic, {"cleanup.policy": "compact"})

    def spoil(self, names: list[str]) -> None:
        """Publish all states anew, some of them without parts."""
        settings = load_settings(self.stream.config(), instance="w")
        wholes = {
            (record.key or b"").decode().partition("\0")[2]: record for record in read_all(settings, self.topic)
        }
        places = self.published()
        states, producer = open_states(settings), PlainProducer.of(settings, 20.0)
        states.refresh()
        others = {name: states.read(name, places[name]) for name in places.keys() - set(names)}
        self.cut()
        for name, content in others.items():
            states.write(name, content, places[name])
        own = [(places[each], f"{settings.group}\0{each}".encode(), wholes[each].value) for each in names]
        records = [Outgoing(self.topic, *each, [], None) for each in own]
        assert not producer.send(records).refused
        states.close()
        producer.close(1.0)


@pytest.mark.fault("the topic of states is deleted and made again")
def test_the_topic_is_deleted(site: Site) -> None:
    """Decisions go on, readiness ends, and all files that the machine has are published again."""
    trial = TopicTrial(site)
    trial.begin_with_snapshots(1)
    before = trial.published()
    assert {"models", f"{trial.stream.topic}.topic"} <= before.keys()
    delete_topic(site.broker.address, trial.topic)
    trial.decide(100)
    trial.await_not_ready("state_topic", trial.topic, "deleted")
    assert trial.await_line("ERROR", "no snapshot", trial.topic)
    trial.decide(100)
    trial.make_topics()
    trial.await_ready()
    trial.grow()
    assert trial.await_line("WARNING", trial.topic, "published again")
    group = {name for name in before if not name.endswith(".osr")}
    until(lambda: group <= trial.published().keys(), 20, trial.tail)
    trial.goes_on_elsewhere()


@pytest.mark.fault("the topic of states loses records by retention or deletion")
def test_records_of_the_topic_are_deleted(site: Site) -> None:
    """A start publishes what the folder has. Without folder and topic the setting on_lost_state applies."""
    trial = TopicTrial(site)
    trial.begin_with_snapshots(1)
    trial.end()
    before = trial.published()
    trial.cut()
    assert not trial.published()
    trial.start()
    trial.await_ready()
    until(lambda: {name for name in before if not name.endswith(".osr")} <= trial.published().keys(), 20, trial.tail)
    assert all(trial.snapshots(number) for number in range(2)), "without a new record"
    trial.goes_on_elsewhere()
    trial.cut()
    shutil.rmtree(trial.folder)
    trial.fails_to_start("no snapshot leads to offset", "on_lost_state")


@pytest.mark.fault("the topic of states is not compacted")
def test_the_topic_is_not_compacted(site: Site) -> None:
    """Retention would delete the snapshots of a quiet partition."""
    trial = TopicTrial(site)
    configure(site.broker.address, trial.topic, {"cleanup.policy": "delete"})
    trial.fails_to_start(trial.topic, "cleanup.policy=compact")
    configure(site.broker.address, trial.topic, {"cleanup.policy": "compact"})
    trial.begin(60)
    configure(site.broker.address, trial.topic, {"cleanup.policy": "compact,delete"})
    trial.await_not_ready(trial.topic, "cleanup.policy=compact")
    configure(site.broker.address, trial.topic, {"cleanup.policy": "compact"})
    trial.goes_on()


@pytest.mark.fault("a quota of the brokers throttles the topic of states")
def test_a_quota(site: Site) -> None:
    """What is decided waits for the brokers, nothing is lost, and snapshots come when the quota is raised."""
    trial = TopicTrial(site)
    trial.begin(100)
    client = f"stream-osr-{trial.stream.settings['group']}-w"
    set_quota(site.broker.address, client, 1.0)
    trial.feed(200)
    trial.await_not_ready("throttles us by a quota, for", client)
    set_quota(site.broker.address, client, None)
    trial.settle()
    trial.await_published()
    trial.goes_on_elsewhere()


@pytest.mark.fault("a snapshot in the topic of states is incomplete")
@pytest.mark.fault("every snapshot in the topic of states is incomplete")
def test_a_part_is_missing(site: Site) -> None:
    """An earlier snapshot and a longer replay lead to the same bits."""
    trial = TopicTrial(site)
    trial.begin_with_snapshots(2)
    trial.worker.kill()
    newest = [trial.snapshots(number)[-1] for number in range(2)]
    trial.spoil(newest)
    trial.lose_the_machine()
    trial.begin(100)
    for name in newest:
        assert trial.lines(trial.topic, name, "incomplete")
    trial.await_published()
    trial.end_exactly_once()
    trial.spoil([name for number in range(2) for name in trial.snapshots(number)])
    shutil.rmtree(trial.folder)
    trial.fails_to_start("no snapshot leads to offset", "on_lost_state")


@pytest.mark.fault("a snapshot in the topic of states is of a newer version")
def test_a_newer_version_has_written(site: Site) -> None:
    """This version names the other one, and takes a snapshot that it can read."""
    trial = TopicTrial(site)
    trial.begin_with_snapshots(2)
    trial.worker.kill()
    states = open_states(load_settings(trial.stream.config(), instance="w"))
    states.refresh()
    for number in range(2):
        newest = trial.snapshots(number)[-1]
        content, version = bytearray(states.read(newest, number) or b""), struct.pack("<Q", VERSION)
        at = content.index(version)
        content[at : at + 8] = struct.pack("<Q", VERSION + 1)
        states.write(newest, bytes(content), number)
    states.close()
    trial.lose_the_machine()
    trial.begin(100)
    assert trial.lines("WARNING", "left aside", f"version {VERSION + 1}")
    trial.end_exactly_once()
