"""What the journal does with damaged content at its end."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stream_osr_connectors.http_service.journal import InstanceJournal, JournalLine


def line(n: int) -> JournalLine:
    return JournalLine(f"k{n}", float(n), {"a": 0.5}, {"label": "left"})


def written(path: Path) -> list[bytes]:
    journal = InstanceJournal(path, horizon=10)
    journal.append([line(n) for n in range(5)], lambda trouble: None)
    journal.close()
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("damaged", [4, 1], ids=["last", "earlier"])
def test_damaged_content_is_cut_and_whole_lines_are_copied(
    tmp_path: Path, damaged: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.jsonl"
    lines = written(path)
    kept, lost = b"".join(lines[:damaged]), lines[damaged][:7] + b"".join(lines[damaged + 1 :])
    path.write_bytes(kept + lost)
    with caplog.at_level(logging.WARNING, logger="stream_osr"):
        journal = InstanceJournal(path, horizon=10)
    assert journal.last == damaged
    assert journal.find(f"k{damaged}") is None
    assert path.read_bytes() == kept
    journal.append([line(9)], lambda trouble: None)
    journal.close()
    copies = [each.read_bytes() for each in tmp_path.glob("*.removed-*")]
    assert copies == ([] if damaged == 4 else [lost])
    assert [record.levelname for record in caplog.records] == ["WARNING" if damaged == 4 else "ERROR"]
