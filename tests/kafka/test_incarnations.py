"""A topic that was deleted and made again is another one, whatever its name; ids of messages are never used twice."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.snapshots import Incarnations


def seen(folder: Path, topic_id: str, partitions: int = 2, *, keep: bool = True) -> tuple[Incarnations, bool]:
    """A worker that looks."""
    found = Incarnations(folder, "in")
    renewed = found.take(topic_id, partitions)
    if keep:
        found.keep()
    return found, renewed


def test_the_first_life_has_the_name_of_the_topic(tmp_path: Path) -> None:
    found, renewed = seen(tmp_path, "a")
    assert (found.name, renewed, found.now) == ("in", False, 0)
    again, renewed = seen(tmp_path, "a", partitions=5)
    assert (again.name, renewed, again.partitions) == ("in", False, 2), "what came later came later"
    assert again.mark == ""


def test_another_id_is_another_life(tmp_path: Path) -> None:
    seen(tmp_path, "a")
    found, renewed = seen(tmp_path, "b")
    assert (found.name, renewed) == ("in+1", True)
    assert seen(tmp_path, "b")[1] is False, "the other workers, and the next start"
    assert seen(tmp_path, "c")[0].name == "in+2"
    first, second = f"0123abcd{found.mark}", f"0123abcd{seen(tmp_path, 'c')[0].mark}"
    assert len({"0123abcd", first, second}) == 3
    assert found.is_of_now(first)
    assert not found.is_of_now("0123abcd")
    assert not found.is_of_now(second)


def test_what_was_not_accepted_is_another_one_at_the_next_start_too(tmp_path: Path) -> None:
    """With on_lost_state fail the service ends each time, and never goes on in silence."""
    seen(tmp_path, "a")
    for _ in range(2):
        found, renewed = seen(tmp_path, "b", keep=False)
        assert renewed
        with pytest.raises(ConnectorError, match=r"made again. Records of the previous topic.* 300 of partition 1"):
            found.tell({Place("in", 1): 300}, "fail")


def test_what_is_gone_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen(tmp_path, "a")
    found, _ = seen(tmp_path, "b")
    with caplog.at_level(logging.WARNING):
        found.tell({Place("in", 0): 12, Place("in", 1): 34}, "cold")
    assert "up to 12 of partition 0, 34 of partition 1" in caplog.text
    assert "ids go on as in+1-" in caplog.text


def test_brokers_that_tell_no_ids(tmp_path: Path) -> None:
    seen(tmp_path, "a")
    assert seen(tmp_path, "")[1] is False
    assert seen(tmp_path, "a")[1] is False
    assert seen(tmp_path / "..", "")[0].name == "in"


def test_a_broker_that_is_behind_is_no_news(tmp_path: Path) -> None:
    """What a worker is told may be of the topic before."""
    seen(tmp_path, "a")
    seen(tmp_path, "b")
    behind, renewed = seen(tmp_path, "a")
    assert (behind.name, renewed) == ("in+1", False)
    assert (seen(tmp_path, "b")[0].name, seen(tmp_path, "b")[1]) == ("in+1", False)


def test_what_is_as_it_was_is_not_written_again(tmp_path: Path) -> None:
    """With a full folder a worker that died comes back."""
    seen(tmp_path, "a")
    before = (tmp_path / "in.topic").stat().st_mtime_ns
    seen(tmp_path, "a")
    assert (tmp_path / "in.topic").stat().st_mtime_ns == before


def test_a_file_that_cannot_be_read_is_no_first_life(tmp_path: Path) -> None:
    (tmp_path / "in.topic").write_text("{")
    with pytest.raises(PersistenceError, match="which has the id of topic in"):
        seen(tmp_path, "a")


def test_what_is_written_down_is_on_the_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(stat.S_ISDIR(os.fstat(file).st_mode)))
    seen(tmp_path, "first")
    assert synced == [False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["in.topic"]
