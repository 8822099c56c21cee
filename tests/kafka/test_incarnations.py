"""A topic that was deleted and made again is another one, whatever its name; ids of messages are never used twice."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.incarnations import Incarnations


def seen(folder: Path, topic_id: str, partitions: int = 2, *, keep: bool = True) -> tuple[Incarnations, bool]:
    """A worker that looks."""
    found = Incarnations(FolderStates(folder), "in")
    renewed = found.take(topic_id, partitions)
    if keep:
        found.keep()
    return found, renewed


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


def test_a_broker_without_ids_or_one_that_is_behind_is_no_news(tmp_path: Path) -> None:
    """The answer of a broker may be about the topic before."""
    for topic_id in ("a", "", "a"):
        assert seen(tmp_path, topic_id)[1] is False
    assert seen(tmp_path / "..", "")[0].name == "in"
    seen(tmp_path, "b")
    for topic_id in ("a", "b"):
        found, renewed = seen(tmp_path, topic_id)
        assert (found.name, renewed) == ("in+1", False)


def test_what_is_written_is_on_the_disk_with_its_name_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a full folder a worker that died comes back, because nothing is written again."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(stat.S_ISDIR(os.fstat(file).st_mode)))
    seen(tmp_path, "first")
    assert [path.name for path in tmp_path.iterdir()] == ["in.topic"]
    before = (tmp_path / "in.topic").stat().st_mtime_ns
    seen(tmp_path, "first")
    assert (tmp_path / "in.topic").stat().st_mtime_ns == before
    assert synced == [False, True]


def test_a_file_that_cannot_be_read_is_no_first_life(tmp_path: Path) -> None:
    (tmp_path / "in.topic").write_text("{")
    with pytest.raises(PersistenceError, match="which has the id of topic in"):
        seen(tmp_path, "a")
