"""State in a topic or below a URL: machines without a common folder continue each other's partitions, bit for bit."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.kafka import load_settings
from stream_osr_connectors.kafka.client.consumers import read_all
from stream_osr_connectors.kafka.client.producer import PlainProducer
from stream_osr_connectors.kafka.run.state_copies import StateCopies, state_copies
from stream_osr_connectors.kafka.run.topic_store import TopicStore
from stream_osr_connectors.kafka.run.topics import WantedTopics, look_after
from stream_osr_connectors.kafka.wire.messages import Outgoing
from tests import test_state_store as stores
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import configure, delete_records
from tests.kafka.faults.trials import Site, Trial
from tests.kafka.streams import check_exactly_once


@pytest.fixture
def trial(broker: Broker, tmp_path: Path) -> Trial:
    """A service with its state in a topic."""
    topic = f"state-{uuid.uuid4().hex[:8]}"
    trial = Trial(Site(broker, tmp_path), state_topic=topic, snapshot_interval=0.5)
    checks = look_after(load_settings(trial.stream.config(), instance="w"), WantedTopics(None))
    (line,) = (check for check in checks if check.role == "state_topic")
    assert (line.name, line.problems) == (topic, ())
    assert "2 partitions" in line.found
    return trial


@pytest.fixture(params=["topic", "url"])
def any_trial(request: pytest.FixtureRequest) -> Trial:
    """A service with its state in a topic or below a URL."""
    if request.param == "topic":
        return request.getfixturevalue("trial")
    folder = request.getfixturevalue("tmp_path")
    return Trial(
        Site(request.getfixturevalue("broker"), folder), state_url=(folder / "all").as_uri(), snapshot_interval=0.5
    )


@pytest.fixture
def open_store(trial: Trial) -> stores.OpenStore:
    """A store in a topic, for the tests of all stores."""
    settings = load_settings(trial.stream.config(), instance="w")
    return partial(TopicStore, settings, trial.stream.settings["state_topic"])


test_states_are_returned_as_they_were_stored = stores.test_states_are_returned_as_they_were_stored
test_a_state_is_replaced_and_deleted = stores.test_a_state_is_replaced_and_deleted


Make = Callable[[str], StateCopies]


@pytest.fixture
def machine(trial: Trial, tmp_path: Path) -> Make:
    return machines_of(trial, tmp_path)


def machines_of(trial: Trial, folder: Path) -> Make:
    """What copies the files of a machine's folder, given its name."""
    settings = load_settings(trial.stream.config(), instance="w")

    def make(name: str) -> StateCopies:
        (folder / name).mkdir(exist_ok=True)
        log = state_copies(settings, folder / name)
        assert log is not None
        return log

    return make


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_travel_between_folders(any_trial: Trial, tmp_path: Path) -> None:
    machine = machines_of(any_trial, tmp_path)
    one, other = machine("one"), machine("other")
    files = {"in-0-7.osr": b"", "in-1-7.osr": b"small", "models": bytes(range(256)) * 4000, "ü": b"1"}
    for number, (name, content) in enumerate(files.items()):
        (tmp_path / "one" / name).write_bytes(content)
        one.put(name, number % 2)
    assert other.pull(0) == 2
    assert set(contents(tmp_path / "other")) == {"in-0-7.osr", "models"}
    assert other.pull() == 2
    assert contents(tmp_path / "other") == files
    assert other.pull() == 0
    (tmp_path / "other" / "models").write_bytes(b"other")
    other.put("models")
    one.drop("in-1-7.osr", 1)
    assert one.pull() >= 1
    assert other.pull() == 1
    assert "in-1-7.osr" not in contents(tmp_path / "one")
    assert contents(tmp_path / "one")["models"] == b"other"
    assert set(contents(tmp_path / "other")) == {"in-0-7.osr", "models", "ü"}
    new = machine("new")
    new.pull()
    assert contents(tmp_path / "new") == contents(tmp_path / "other")
    for log in (one, other, new):
        log.close()


def test_what_the_topic_has_is_not_sent_again(machine: Make, trial: Trial, tmp_path: Path) -> None:
    one, other = machine("one"), machine("other")
    (tmp_path / "one" / "models").write_bytes(b"abc")
    one.put("models")
    one.put("models")
    other.pull()
    other.put("models")
    settings = load_settings(trial.stream.config(), instance="w")
    assert len(list(read_all(settings, settings.state_topic))) == 2, "a part, and the whole"
    one.close()


def test_an_incomplete_file_is_left_aside(machine: Make, trial: Trial, tmp_path: Path, caplog: Any) -> None:
    one = machine("one")
    settings = load_settings(trial.stream.config(), instance="w")
    producer = PlainProducer.of(settings, 20.0)
    assert settings.state_topic is not None
    group = settings.group.encode() + b"\x00"
    part = Outgoing(settings.state_topic, 0, group + b"models\x000", bytes.fromhex("ab" * 16) + b"abc", [], None)
    strange = [
        Outgoing(settings.state_topic, 0, group + key, value, [], None)
        for key in (b"../up", b"/root", b".hidden", b"", b"\xff", b"a\x00b")
        for value in (json.dumps([1, "00", 1]).encode(), json.dumps([1, "00", 1 << 40]).encode(), b"{", b"[]", b"3")
    ]
    assert not producer.send([part, *strange]).refused
    whole = Outgoing(
        settings.state_topic, 0, group + b"models", json.dumps([600_000, "ab" * 32, 3]).encode(), [], None
    )
    assert not producer.send([whole]).refused
    other = machine("other")
    other.pull()
    assert not contents(tmp_path / "other"), "two of three parts are missing"
    assert "models is incomplete and left aside" in caplog.text
    assert "is no state and left aside" in caplog.text
    assert not (tmp_path / "up").exists()
    (tmp_path / "one" / "models").write_bytes(b"new")
    one.put("models")
    assert other.pull() == 1
    assert contents(tmp_path / "other") == {"models": b"new"}
    assert not producer.send([whole]).refused
    assert other.pull() == 0
    assert "has lost states. Number of files published again: 1 (models)" in caplog.text
    assert machine("third").pull() == 1, "of the other machine"
    producer.close(1.0)
    one.close()


def test_records_of_one_partition_are_lost(machine: Make, trial: Trial, tmp_path: Path, caplog: Any) -> None:
    """Files are published again that the folder still has. A snapshot that another machine dropped is deleted."""
    one, other = machine("one"), machine("other")
    for number, name in enumerate(("models", "in-1-7.osr", "in-2-7.osr", "in-3-7.osr")):
        (tmp_path / "one" / name).write_bytes(name.encode())
        one.put(name, number)
    assert other.pull() == 4
    one.drop("in-2-7.osr", 2)
    topic = trial.stream.settings["state_topic"]
    configure(trial.broker.address, topic, {"cleanup.policy": "delete"})
    delete_records(trial.broker.address, topic, 1, -1)
    (tmp_path / "other" / "in-3-7.osr").unlink()
    assert other.pull(2) == 1
    assert set(contents(tmp_path / "other")) == {"models", "in-1-7.osr"}
    assert other.pull(1) == 0
    assert "has lost states. Number of files published again: 1 (in-1-7.osr)" in caplog.text
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "in-2-7.osr").write_bytes(b"of an earlier process")
    new = machine("new")
    assert new.pull() == 3
    assert set(contents(tmp_path / "new")) == {"models", "in-1-7.osr"}
    for each in (one, other, new):
        each.close()


def test_groups_share_a_topic(machine: Make, trial: Trial, tmp_path: Path) -> None:
    """The files of one group are neither read nor deleted by another."""
    one = machine("one")
    (tmp_path / "one" / "models").write_bytes(b"abc")
    one.put("models")
    trial.stream.settings["group"] = "other"
    log = state_copies(load_settings(trial.stream.config(), instance="w"), tmp_path / "other")
    assert log is not None
    (tmp_path / "other").mkdir()
    assert log.pull() == 0
    (tmp_path / "other" / "models").write_bytes(b"other")
    log.put("models")
    log.drop("models")
    new = machine("new")
    assert new.pull() == 1
    assert contents(tmp_path / "new") == {"models": b"abc"}
    for each in (one, log, new):
        each.close()


def test_a_topic_that_does_not_exist_is_named(machine: Make, trial: Trial, tmp_path: Path) -> None:
    trial.stream.settings["state_topic"] = "nowhere"
    log = state_copies(load_settings(trial.stream.config(), instance="w"), tmp_path)
    assert log is not None
    with pytest.raises(ConnectorError, match=r"state_topic: topic nowhere does not exist .* topics --create"):
        log.pull()


def test_files_below_a_url_are_lost(broker: Broker, tmp_path: Path, caplog: Any) -> None:
    """All files are published again. A snapshot that another worker has dropped is dropped here."""
    url = (tmp_path / "all").as_uri()
    machine = machines_of(Trial(Site(broker, tmp_path), state_url=url), tmp_path)
    one, other = machine("one"), machine("other")
    for number, name in enumerate(("models", "in-1-7.osr", "in-2-7.osr")):
        (tmp_path / "one" / name).write_bytes(name.encode())
        one.put(name, number)
    assert other.pull() == 3
    one.drop("in-2-7.osr", 2)
    assert other.pull(2) == 1
    files = {"models": b"models", "in-1-7.osr": b"in-1-7.osr"}
    assert contents(tmp_path / "other") == files
    assert not caplog.text
    shutil.rmtree(tmp_path / "all")
    assert other.pull(0) == 0
    assert contents(tmp_path / "other") == files
    assert f"{url}/" in caplog.text
    assert "has lost states. Number of files published again: 2 (in-1-7.osr, models)" in caplog.text
    new = machine("new")
    assert new.pull() == 2


def test_a_machine_that_is_lost_with_its_disk_loses_nothing(any_trial: Trial, tmp_path: Path) -> None:
    """Two machines with a folder each; one is killed for ever, and a third one comes."""
    trial = any_trial
    folders = {name: tmp_path / f"state-{name}" for name in "abc"}

    def start(name: str) -> Any:
        return trial.start(name, STREAM_OSR_STATE=str(folders[name]))

    trial.feed(200)
    first = start("a")
    trial.settle()
    trial.await_ready()
    second = start("b")
    for _ in range(8):
        trial.feed(60)
        time.sleep(0.4)
    trial.settle()
    first.kill()
    shutil.rmtree(folders["a"])
    for _ in range(4):
        trial.feed(60)
        time.sleep(0.4)
    trial.settle()
    begun = time.monotonic()
    start("c")
    second.kill()
    shutil.rmtree(folders["b"])
    trial.feed(60)
    trial.settle()
    print(f"the partitions were decided again after {time.monotonic() - begun:.1f} s")
    trial.await_ready()
    assert trial.figure("lost_records_total") == trial.figure("repeated_records_total") == 0
    trial.end()
    check_exactly_once(trial.stream)
