"""State in a topic or below a URL: machines without a common folder continue each other's partitions, bit for bit."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr.support.state_store import UrlStore
from stream_osr_connectors.kafka import ServiceSettings, load_settings, stats
from stream_osr_connectors.kafka.client.consumers import read_all
from stream_osr_connectors.kafka.client.producer import PlainProducer
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import folder_copy, folder_states
from stream_osr_connectors.kafka.run.folder_copy import FolderCopy
from stream_osr_connectors.kafka.run.folder_states import FolderStates, StoreError
from stream_osr_connectors.kafka.run.group_states import PublishedStates, open_states
from stream_osr_connectors.kafka.run.incarnations import Incarnations
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.run.topic_store import TopicStore
from stream_osr_connectors.kafka.run.topics import WantedTopics, look_after
from stream_osr_connectors.kafka.stats import StorageStats
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.messages import Outgoing
from tests import test_state_store as stores
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import configure, delete_records
from tests.kafka.faults.trials import Site, Trial, until
from tests.kafka.streams import check_exactly_once, small_model

pytestmark = pytest.mark.needs("broker")


def settings_of(trial: Trial) -> ServiceSettings:
    return load_settings(trial.stream.config(), instance="w")


class Machine:
    """A machine with a folder of its own, which is a copy of the states of the group."""

    def __init__(self, trial: Trial, name: str) -> None:
        trial.stream.settings["state"] = str(trial.stream.folder / name)
        settings = settings_of(trial)
        self.folder = settings.state / settings.group
        self.storage = StorageStats()
        states = open_states(settings, self.storage)
        assert isinstance(states, PublishedStates)
        self.states, self.refresh, self.put, self.drop = states, states.refresh, states.write, states.drop

    def has(self) -> dict[str, bytes | None]:
        """States of the group, which each file name's partition number leads to."""
        return {name: self.states.read(name, number_of(name)) for name in self.states.names()}

    def files(self) -> dict[str, bytes]:
        """Files of the folder, when the thread has written all of them."""
        until(lambda: not self.storage.behind, 10, lambda: str(self.storage))
        return {path.name: path.read_bytes() for path in self.folder.iterdir()} if self.folder.exists() else {}


def number_of(name: str) -> int:
    return int(name.split("-")[1]) if name.endswith(".osr") else 0


def close(*machines: Machine) -> None:
    for machine in machines:
        machine.states.close()


@pytest.fixture
def trial(broker: Broker, tmp_path: Path) -> Trial:
    """A service with its state in a topic."""
    topic = f"state-{uuid.uuid4().hex[:8]}"
    trial = Trial(Site(broker, tmp_path), state_topic=topic, snapshot_interval=0.5)
    (line,) = (check for check in look_after(settings_of(trial), WantedTopics(None)) if check.role == "state_topic")
    assert (line.name, line.problems) == (topic, ())
    assert "2 partitions" in line.found
    return trial


@pytest.fixture
def url_trial(broker: Broker, tmp_path: Path) -> Trial:
    """A service with its state below a URL."""
    return Trial(Site(broker, tmp_path), state_url=(tmp_path / "all").as_uri(), snapshot_interval=0.5)


@pytest.fixture(params=["trial", "url_trial"])
def any_trial(request: pytest.FixtureRequest) -> Trial:
    return request.getfixturevalue(request.param)


@pytest.fixture
def open_store(trial: Trial) -> stores.OpenStore:
    """A store in a topic, for the tests of all stores."""
    return partial(TopicStore, settings_of(trial), trial.stream.settings["state_topic"])


test_states_are_returned_as_they_were_stored = stores.test_states_are_returned_as_they_were_stored
test_a_state_is_replaced_and_deleted = stores.test_a_state_is_replaced_and_deleted


def test_states_travel_between_machines(any_trial: Trial) -> None:
    """The folder has what its machine has read or written, and another machine drops it there, too."""
    first, second = Machine(any_trial, "first"), Machine(any_trial, "second")
    states = {"in-0-7.osr": b"", "in-1-7.osr": b"small", "models": bytes(range(256)) * 4000, "ü": b"1"}
    for name, content in states.items():
        first.put(name, content, number_of(name))
    assert first.files() == states
    second.refresh(0)
    assert set(second.states.names()) == {"in-0-7.osr", "models", "ü"}
    second.refresh()
    assert second.has() == states == second.files()
    second.put("models", b"other")
    first.drop("in-1-7.osr", 1)
    for machine in (first, second, new := Machine(any_trial, "new")):
        machine.refresh()
        assert machine.has() == {"in-0-7.osr": b"", "models": b"other", "ü": b"1"} == machine.files()
        assert abs((machine.states.modified("models") or 0) - time.time()) < 60
    close(first, second, new)


def test_what_the_topic_has_is_not_sent_again(trial: Trial) -> None:
    first, second = Machine(trial, "first"), Machine(trial, "second")
    first.put("models", b"abc")
    second.refresh()
    assert second.has() == {"models": b"abc"}
    assert len(list(read_all(settings_of(trial), trial.stream.settings["state_topic"]))) == 2, "a part, and the whole"
    close(first, second)


def test_what_only_the_folder_has_is_read_and_published(any_trial: Trial) -> None:
    """Of an earlier run without topic and URL."""
    machine = Machine(any_trial, "first")
    FolderStates(machine.folder).open().write("in-1-7.osr", b"of an earlier process")
    first, second = Machine(any_trial, "first"), Machine(any_trial, "second")
    second.refresh()
    assert not second.has()
    first.refresh()
    assert first.has() == {"in-1-7.osr": b"of an earlier process"}
    second.refresh()
    assert second.has() == first.has()
    close(machine, first, second)


def test_a_disk_that_is_full_or_slow_holds_nothing_up(
    any_trial: Trial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What waits for the disk can be read, is deleted without being written, and is written when it can be."""
    monkeypatch.setattr(folder_copy, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(stats, "HANGS_SECONDS", 0.2)
    released, write_whole = threading.Event(), folder_states.write_whole

    def slow(*arguments: Any) -> None:
        released.wait()
        write_whole(*arguments)

    monkeypatch.setattr(folder_states, "write_whole", slow)
    machine = Machine(any_trial, "first")
    begun = time.monotonic()
    for number in range(3):
        machine.put(f"in-{number}-7.osr", b"1", number)
    machine.drop("in-1-7.osr", 1)
    assert time.monotonic() - begun < 5
    assert set(machine.has()) == {"in-0-7.osr", "in-2-7.osr"}
    until(lambda: " takes " in machine.storage.copy_trouble, 5, lambda: str(machine.storage))
    assert re.search(r"lacks \d files: writing \S+/in-\d-7.osr takes \d s", machine.storage.copy_trouble)
    assert not machine.storage.loop.hangs
    released.set()
    assert machine.files() == {"in-0-7.osr": b"1", "in-2-7.osr": b"1"}
    assert not machine.storage.copy_trouble

    monkeypatch.setattr(folder_states, "write_whole", full)
    machine.put("models", b"abc")
    until(lambda: "No space left" in machine.storage.copy_trouble, 5, lambda: str(machine.storage))
    monkeypatch.setattr(folder_states, "write_whole", write_whole)
    assert machine.files()["models"] == b"abc"
    assert not machine.storage.copy_trouble
    other = Machine(any_trial, "other")
    other.refresh()
    assert other.has() == machine.has()
    close(machine, other)


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_oldest_of_too_many_files_are_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folder_states, "write_whole", full)
    monkeypatch.setattr(folder_copy, "MOST_WAITING", 100)
    copy = FolderCopy(tmp_path, storage := StorageStats())
    copy.put("models", bytes(30))
    for number in range(10):
        copy.put(f"{number}.osr", bytes(30))
    assert storage.behind == 3
    names = ["models", *(f"{number}.osr" for number in range(10))]
    assert [name for name in names if copy.read(name) is not None] == ["models", "8.osr", "9.osr"]
    assert copy.names() == {"models", "8.osr", "9.osr"}
    copy.close()


def test_an_incomplete_file_is_left_aside(trial: Trial, caplog: Any) -> None:
    settings = settings_of(trial)
    producer = PlainProducer.of(settings, 20.0)

    def record(key: bytes, value: bytes) -> Outgoing:
        return Outgoing(str(settings.state_topic), 0, settings.group.encode() + b"\x00" + key, value, [], None)

    strange = [
        record(key, value)
        for key in (b"../up", b"/root", b".hidden", b"", b"\xff", b"a\x00b")
        for value in (json.dumps([1, "00", 1]).encode(), json.dumps([1, "00", 1 << 40]).encode(), b"{", b"[]", b"3")
    ]
    part = record(b"models\x000", bytes.fromhex("ab" * 16) + b"abc")
    whole = record(b"models", json.dumps([600_000, "ab" * 32, 3]).encode())
    for messages in ([part, *strange], [whole]):
        assert not producer.send(messages).refused
    second = Machine(trial, "second")
    second.refresh()
    assert not second.has(), "two of three parts are missing"
    assert "models is incomplete and left aside" in caplog.text
    assert "is no state and left aside" in caplog.text
    assert not (second.folder.parent / "up").exists()
    first = Machine(trial, "first")
    first.put("models", b"new")
    second.refresh()
    assert second.has() == {"models": b"new"} == second.files()
    assert not producer.send([whole]).refused
    second.refresh()
    assert "has lost states. Number of states published again: 1 (models)" in caplog.text
    third = Machine(trial, "third")
    third.refresh()
    assert third.has() == {"models": b"new"}, "of the other machine"
    producer.close(1.0)
    close(first, second, third)


def test_records_of_one_partition_are_lost(trial: Trial, caplog: Any) -> None:
    """States are published again that the folder still has. A snapshot that another machine dropped is deleted."""
    first, second = Machine(trial, "first"), Machine(trial, "second")
    for number, name in enumerate(("models", "in-1-7.osr", "in-2-7.osr", "in-3-7.osr")):
        first.put(name, name.encode(), number)
    second.refresh()
    assert len(second.has()) == 4 == len(second.files())
    first.drop("in-2-7.osr", 2)
    topic = trial.stream.settings["state_topic"]
    configure(trial.broker.address, topic, {"cleanup.policy": "delete"})
    delete_records(trial.broker.address, topic, 1, -1)
    (second.folder / "in-3-7.osr").unlink()
    second.refresh(2)
    assert set(second.files()) == {"models", "in-1-7.osr"}
    second.refresh(1)
    assert "has lost states. Number of states published again: 1 (in-1-7.osr)" in caplog.text
    new = Machine(trial, "new")
    new.refresh()
    assert set(new.has()) == {"models", "in-1-7.osr"}
    close(first, second, new)


def test_groups_use_one_topic(trial: Trial) -> None:
    """The states of one group are neither read nor deleted by another."""
    first = Machine(trial, "first")
    first.put("models", b"abc")
    group = trial.stream.settings["group"]
    trial.stream.settings["group"] = "other"
    other = Machine(trial, "other")
    other.refresh()
    assert not other.has()
    other.put("models", b"other")
    other.drop("models")
    trial.stream.settings["group"] = group
    new = Machine(trial, "new")
    new.refresh()
    assert new.has() == {"models": b"abc"}
    close(first, other, new)


def test_a_topic_that_does_not_exist_is_named(trial: Trial) -> None:
    trial.stream.settings["state_topic"] = "nowhere"
    with pytest.raises(ConnectorError, match=r"state_topic: topic nowhere does not exist .* topics --create"):
        Machine(trial, "first").refresh()


def test_files_below_a_url_are_lost(url_trial: Trial, tmp_path: Path, caplog: Any) -> None:
    """All files are published again. A snapshot that another worker has dropped is dropped here."""
    first, second = Machine(url_trial, "first"), Machine(url_trial, "second")
    for number, name in enumerate(("models", "in-1-7.osr", "in-2-7.osr")):
        first.put(name, name.encode(), number)
    second.refresh()
    assert len(second.has()) == 3 == len(second.files())
    first.drop("in-2-7.osr", 2)
    second.refresh(2)
    states = {"models": b"models", "in-1-7.osr": b"in-1-7.osr"}
    assert second.has() == states == second.files()
    assert not caplog.text
    shutil.rmtree(tmp_path / "all")
    second.refresh(0)
    assert second.has() == states == second.files()
    assert f"{url_trial.stream.settings['state_url']}/" in caplog.text
    assert "has lost states. Number of states published again: 2 (in-1-7.osr, models)" in caplog.text
    new = Machine(url_trial, "new")
    new.refresh()
    assert new.has() == states
    close(first, second, new)


def test_lost_states_are_published_when_the_store_takes_them(
    url_trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """A failure is logged, stops nothing, and is repeated with the next state."""
    first, second = Machine(url_trial, "first"), Machine(url_trial, "second")
    first.put("models", b"models")
    first.refresh()
    shutil.rmtree(tmp_path / "all")

    def fails(*_: Any) -> None:
        raise PersistenceError("503 Slow Down")

    with monkeypatch.context() as patch:
        patch.setattr(UrlStore, "put", fails)
        first.refresh()
    assert "has lost states, which wait for it: 503 Slow Down" in caplog.text
    assert "published again" not in caplog.text
    first.put("in-1-7.osr", b"next", 1)
    second.refresh()
    assert second.has() == {"models": b"models", "in-1-7.osr": b"next"}
    assert "Number of states published again: 1 (models)" in caplog.text
    close(first, second)


def test_a_store_that_fails_for_a_moment_has_lost_nothing(
    url_trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the settings allow for a lost state: a snapshot, an earlier model, and the ids of an input."""
    machine = Machine(url_trial, "first")
    for name in ("in-0-7-0-aa.osr", f"{'0' * 16}.model", "in.topic"):
        machine.put(name, b"{}")
    machine.refresh()

    def fails(*_: Any) -> None:
        raise PersistenceError("503 Slow Down")

    monkeypatch.setattr(UrlStore, "get", fails)
    with pytest.raises(StoreError, match="503"):
        Snapshots(machine.states, 2).read(Place("in", 0), "aa", Boundary(7), small_model().trained)
    with pytest.raises(StoreError, match="503"):
        ModelFile.kept(machine.states, "0" * 16)
    with pytest.raises(StoreError, match="503"):
        Incarnations(machine.states, "in").take("id", 2)
    close(machine)


def test_a_machine_that_is_lost_with_its_disk_loses_nothing(any_trial: Trial, tmp_path: Path) -> None:
    """Two machines with a folder each; one is killed for ever, and a third one comes."""
    trial = any_trial
    folders = {name: tmp_path / f"state-{name}" for name in "abc"}

    def start(name: str) -> Any:
        return trial.start(name, STREAM_OSR_STATE=str(folders[name]))

    def feed(times: int) -> None:
        for _ in range(times):
            trial.feed(60)
            time.sleep(0.4)
        trial.settle()

    trial.feed(200)
    first = start("a")
    trial.settle()
    trial.await_ready()
    second = start("b")
    feed(8)
    first.kill()
    shutil.rmtree(folders["a"])
    feed(4)
    begun = time.monotonic()
    start("c")
    second.kill()
    shutil.rmtree(folders["b"])
    feed(1)
    print(f"the partitions were decided again after {time.monotonic() - begun:.1f} s")
    trial.await_ready()
    assert trial.figure("lost_records_total") == trial.figure("repeated_records_total") == 0
    trial.end()
    check_exactly_once(trial.stream)
