"""The journal: keys within the horizon, deletion of old segments, and damaged content at its end."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.http_service.journal import InstanceJournal, JournalLine, JournalSource
from stream_osr_connectors.json_fields import JsonFields


def line(n: int) -> JournalLine:
    return JournalLine(f"k{n}", float(n), {"a": 0.5}, {"label": f"of {n}"})


def test_old_segments_are_deleted_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = InstanceJournal(path, horizon=7, segment_bytes=200)
    for at in range(30):
        journal.append([line(at)], pytest.fail)
    assert len(journal.segments) == 10
    assert journal.immediate(journal.find("k24")) == {"label": "of 24"}
    assert journal.find("k22") is None
    source = JournalSource(journal, JsonFields("key", "time", features=["a"]))
    source.while_waiting(lambda: None)
    records = [next(source) for _ in range(30)]
    assert [each.position["row"] for each in records] == [*range(1, 31)]
    journal.forget(11)
    assert journal.segments[0].first == 10
    journal.forget(30)
    assert journal.segments[0].first == 22, "the last seven instances are within the horizon"
    for at in (20, 26, 29):  # at the end of a deleted segment, and within others
        source.seek(records[at].position)
        assert all(next(source).position == each.position for each in records[at + 1 :])
    for position in (None, records[7].position):
        with pytest.raises(ConnectorError, match=r"lacks instance \d+ of the journal"):
            source.seek(position)
    source.close()
    journal.close()
    journal.segments[1].path.unlink()
    with pytest.raises(ConnectorError, match=r"ends with instance 24, .* begin with 25. Restore the files"):
        InstanceJournal(path, horizon=7)


@pytest.mark.parametrize("damaged", [4, 1], ids=["last", "earlier"])
def test_damaged_content_is_cut_and_whole_lines_are_copied(
    tmp_path: Path, damaged: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = InstanceJournal(path, horizon=10)
    journal.append([line(n) for n in range(5)], pytest.fail)
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    kept, lost = b"".join(lines[:damaged]), lines[damaged][:7] + b"".join(lines[damaged + 1 :])
    path.write_bytes(kept + lost)
    with caplog.at_level(logging.WARNING, logger="stream_osr"):
        journal = InstanceJournal(path, horizon=10)
    assert journal.last == damaged
    assert journal.find(f"k{damaged}") is None
    assert path.read_bytes() == kept
    journal.append([line(9)], pytest.fail)
    journal.close()
    copies = [each.read_bytes() for each in tmp_path.glob("*.removed-*")]
    assert copies == ([] if damaged == 4 else [lost])
    assert [record.levelname for record in caplog.records] == ["WARNING" if damaged == 4 else "ERROR"]
