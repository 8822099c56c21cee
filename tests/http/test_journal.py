"""The journal: keys within the horizon, deletion of old segments, and damaged content at its end."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.http_service.acceptor import Acceptor
from stream_osr_connectors.http_service.journal import InstanceJournal, JournalLine, JournalSource
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.page.live.file_commands import Conflict


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


def test_rows_from_memory_have_the_positions_of_the_file(tmp_path: Path) -> None:
    """The fifth line is no row, and a line in memory is not read twice."""
    journal = InstanceJournal(tmp_path / "journal.jsonl", horizon=20, segment_bytes=400)
    for at in range(0, 12, 2):
        lines = [line(at), line(at + 1)]
        for each in lines:
            each.row = None if each.key == "k4" else (0.5,)
        journal.append(lines, pytest.fail)
    fields = JsonFields("key", "time", features=["a"])
    with JournalSource(journal, fields) as earlier, JournalSource(journal, fields) as source:
        expected = [next(earlier) for _ in range(12)]
        found = list[object]()
        steps = []
        while len(found) < 12:
            rows = source.take_rows(["a"], 5)
            record = next(source) if rows is None else rows
            steps.append(1 if rows is None else len(rows.lines))
            found += [expected[4].key] if rows is None else rows.keys
            assert record.position == expected[len(found) - 1].position
            if rows is not None:
                assert rows.values.tolist() == len(rows.lines) * [[0.5]]
                own = expected[len(found) - steps[-1] : len(found)]
                assert [each.raw for each in rows.records()] == [each.raw for each in own]
        assert found == [each.key for each in expected]
        assert max(steps) > 1
        assert journal.recent(1, 99) == []
    journal.close()


def test_requests_that_wait_share_a_sync_and_fail_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = InstanceJournal(tmp_path / "journal.jsonl", horizon=9)
    answers: dict[int, object] = {}
    predicted, syncs = list[int](), list[int]()

    def unreadable() -> list[JournalLine]:
        raise ConnectorError("no instance")

    acceptor = Acceptor(journal, lambda lines: predicted.append(len(lines)))
    reads = [lambda: [line(1)], unreadable, lambda: [line(2), line(1)], lambda: [JournalLine("k1", 7.0, {"a": 0.5})]]
    for number, read in enumerate(reads):
        assert acceptor.submit(1, read, lambda outcome, number=number: answers.update({number: outcome}))
    monkeypatch.setattr("stream_osr_connectors.http_service.journal.os.fsync", syncs.append)
    acceptor.start()
    acceptor.stop()
    assert (predicted, len(syncs), acceptor.waiting) == ([2], 1, 0)
    assert [[each.n for each in answers[number]] for number in (0, 2)] == [[1], [2, 1]]  # type: ignore[attr-defined]
    assert (str(answers[1]), type(answers[3])) == ("no instance", Conflict)
    journal.close()
