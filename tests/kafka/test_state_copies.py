"""State in a topic or below a URL: machines without a common folder continue each other's partitions, bit for bit."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.kafka import ServiceSettings, load_settings
from stream_osr_connectors.kafka.client.consumers import read_all
from stream_osr_connectors.kafka.client.producer import PlainProducer
from stream_osr_connectors.kafka.run.state_copies import state_copies
from stream_osr_connectors.kafka.run.topic_store import TopicStore
from stream_osr_connectors.kafka.run.topics import WantedTopics, look_after
from stream_osr_connectors.kafka.wire.messages import Outgoing
from tests import test_state_store as stores
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import configure, delete_records
from tests.kafka.faults.trials import Site, Trial
from tests.kafka.streams import check_exactly_once

pytestmark = pytest.mark.needs("broker")


def settings_of(trial: Trial) -> ServiceSettings:
    return load_settings(trial.stream.config(), instance="w")


class Machine:
    """A machine with a folder of its own, and what copies the files in it."""

    def __init__(self, trial: Trial, name: str) -> None:
        self.folder = trial.stream.folder / name
        self.folder.mkdir(exist_ok=True)
        copies = state_copies(settings_of(trial), self.folder)
        assert copies is not None
        self.copies, self.pull = copies, copies.pull

    def put(self, name: str, content: bytes, partition: int = 0) -> None:
        (self.folder / name).write_bytes(content)
        self.copies.put(name, partition)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


def close(*machines: Machine) -> None:
    for machine in machines:
        machine.copies.close()


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


def test_files_travel_between_folders(any_trial: Trial) -> None:
    first, second = Machine(any_trial, "first"), Machine(any_trial, "second")
    files = {"in-0-7.osr": b"", "in-1-7.osr": b"small", "models": bytes(range(256)) * 4000, "ü": b"1"}
    for number, (name, content) in enumerate(files.items()):
        first.put(name, content, number % 2)
    assert second.pull(0) == 2
    assert set(second.files()) == {"in-0-7.osr", "models"}
    assert second.pull() == 2
    assert second.files() == files
    assert second.pull() == 0
    second.put("models", b"other")
    first.copies.drop("in-1-7.osr", 1)
    assert first.pull() >= 1
    assert second.pull() == 1
    assert first.files() == second.files() == {"in-0-7.osr": b"", "models": b"other", "ü": b"1"}
    new = Machine(any_trial, "new")
    new.pull()
    assert new.files() == second.files()
    close(first, second, new)


def test_what_the_topic_has_is_not_sent_again(trial: Trial) -> None:
    first, second = Machine(trial, "first"), Machine(trial, "second")
    first.put("models", b"abc")
    first.copies.put("models")
    second.pull()
    second.copies.put("models")
    assert len(list(read_all(settings_of(trial), trial.stream.settings["state_topic"]))) == 2, "a part, and the whole"
    close(first)


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
    second.pull()
    assert not second.files(), "two of three parts are missing"
    assert "models is incomplete and left aside" in caplog.text
    assert "is no state and left aside" in caplog.text
    assert not (second.folder.parent / "up").exists()
    first = Machine(trial, "first")
    first.put("models", b"new")
    assert second.pull() == 1
    assert second.files() == {"models": b"new"}
    assert not producer.send([whole]).refused
    assert second.pull() == 0
    assert "has lost states. Number of files published again: 1 (models)" in caplog.text
    assert Machine(trial, "third").pull() == 1, "of the other machine"
    producer.close(1.0)
    close(first)


def test_records_of_one_partition_are_lost(trial: Trial, caplog: Any) -> None:
    """Files are published again that the folder still has. A snapshot that another machine dropped is deleted."""
    first, second = Machine(trial, "first"), Machine(trial, "second")
    for number, name in enumerate(("models", "in-1-7.osr", "in-2-7.osr", "in-3-7.osr")):
        first.put(name, name.encode(), number)
    assert second.pull() == 4
    first.copies.drop("in-2-7.osr", 2)
    topic = trial.stream.settings["state_topic"]
    configure(trial.broker.address, topic, {"cleanup.policy": "delete"})
    delete_records(trial.broker.address, topic, 1, -1)
    (second.folder / "in-3-7.osr").unlink()
    assert second.pull(2) == 1
    assert set(second.files()) == {"models", "in-1-7.osr"}
    assert second.pull(1) == 0
    assert "has lost states. Number of files published again: 1 (in-1-7.osr)" in caplog.text
    new = Machine(trial, "new")
    (new.folder / "in-2-7.osr").write_bytes(b"of an earlier process")
    assert new.pull() == 3
    assert set(new.files()) == {"models", "in-1-7.osr"}
    close(first, second, new)


def test_groups_use_one_topic(trial: Trial) -> None:
    """The files of one group are neither read nor deleted by another."""
    first = Machine(trial, "first")
    first.put("models", b"abc")
    group = trial.stream.settings["group"]
    trial.stream.settings["group"] = "other"
    other = Machine(trial, "other")
    assert other.pull() == 0
    other.put("models", b"other")
    other.copies.drop("models")
    trial.stream.settings["group"] = group
    new = Machine(trial, "new")
    assert new.pull() == 1
    assert new.files() == {"models": b"abc"}
    close(first, other, new)


def test_a_topic_that_does_not_exist_is_named(trial: Trial) -> None:
    trial.stream.settings["state_topic"] = "nowhere"
    with pytest.raises(ConnectorError, match=r"state_topic: topic nowhere does not exist .* topics --create"):
        Machine(trial, "first").pull()


def test_files_below_a_url_are_lost(url_trial: Trial, tmp_path: Path, caplog: Any) -> None:
    """All files are published again. A snapshot that another worker has dropped is dropped here."""
    first, second = Machine(url_trial, "first"), Machine(url_trial, "second")
    for number, name in enumerate(("models", "in-1-7.osr", "in-2-7.osr")):
        first.put(name, name.encode(), number)
    assert second.pull() == 3
    first.copies.drop("in-2-7.osr", 2)
    assert second.pull(2) == 1
    files = {"models": b"models", "in-1-7.osr": b"in-1-7.osr"}
    assert second.files() == files
    assert not caplog.text
    shutil.rmtree(tmp_path / "all")
    assert second.pull(0) == 0
    assert second.files() == files
    assert f"{url_trial.stream.settings['state_url']}/" in caplog.text
    assert "has lost states. Number of files published again: 2 (in-1-7.osr, models)" in caplog.text
    assert Machine(url_trial, "new").pull() == 2


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
