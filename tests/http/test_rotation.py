"""Old segments of the journal are deleted, and kills at each step lose and repeat nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.http_service.journal import InstanceJournal, JournalLine, JournalSource
from tests.blobs import fitted_once
from tests.http import rotating
from tests.http.serving import LINES, MODEL, Service, await_decisions, check_against_files, instances, lines_of

ROOT = Path(__file__).parents[2]


def test_kills_at_each_step_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """The file loop gets the instances in the order of their numbers, as the client knows them."""
    state, n = tmp_path / "state", 240
    state.mkdir()
    fitted_once(**MODEL).save(state / "model.osr")
    command = [sys.executable, "-m", "tests.http.rotating", state, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    steps = (state / "steps").read_text().split()
    assert {*steps} == {*rotating.STEPS}
    noted = [json.loads(line) for line in (state / "client").read_text().splitlines()]
    assert [(each["n"], each["key"]) for each in noted] == [(at + 1, f"k{at}") for at in range(n)]
    kept = sorted(state.glob("journal*.jsonl"), key=lambda path: int(re.sub(r"\D", "", path.stem) or 1))
    numbers = [json.loads(line)["n"] for path in kept for line in path.read_text().splitlines()]
    assert numbers == [*range(numbers[0], n + 1)]
    assert rotating.HORIZON <= len(numbers) <= 120
    lines = [{"n": at, **each} for at, each in enumerate(instances(n), start=1)]
    (state / "journal.jsonl").write_bytes(lines_of(lines))
    check_against_files(tmp_path, n - n % MODEL["batch_size"])


def test_a_service_deletes_segments_and_shows_their_size(tmp_path: Path) -> None:
    """Each key within the horizon is accepted once, also if its segment is closed and after another start."""
    sent = instances(320)
    given = ("--segment-bytes", 3000, "--horizon", 60, "--checkpoint-every", 40)
    for start in range(2):
        one = Service(tmp_path, *given)
        with one.client() as client:
            if not start:
                client.post("/v1/instances", content=lines_of(sent[:160]), headers=LINES).raise_for_status()
                accepted = client.post("/v1/instances", content=lines_of(sent[160:]), headers=LINES).text
                await_decisions(client, 320)
            again = [json.loads(line) for line in accepted.splitlines()][-60:]
            repeated = client.post("/v1/instances", content=lines_of(sent[-60:]), headers=LINES).text
            for first, second in zip(again, map(json.loads, repeated.splitlines()), strict=True):
                assert (first["n"], first["immediate"]) == (second["n"], second["immediate"])
            metrics = dict(re.findall(r"^stream_osr_(\w+) (\d+)$", client.get("/metrics").text, re.MULTILINE))
            files = [*one.state.glob("journal*.jsonl")]
            if start:
                assert int(metrics["journal_bytes"]) == sum(path.stat().st_size for path in files)
                assert int(metrics["journal_files"]) == len(files)
                assert one.state / "journal.jsonl" not in files
        one.stop()


def line(n: int) -> JournalLine:
    return JournalLine(f"k{n}", float(n), {"a": 0.5}, {"label": f"of {n}"})


def written(path: Path, n: int) -> InstanceJournal:
    """A journal of ten segments with three instances each."""
    journal = InstanceJournal(path, horizon=7, segment_bytes=200)
    for at in range(n):
        journal.append([line(at)], pytest.fail)
    return journal


def test_what_is_missing_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = written(path, 30)
    assert len(journal.segments) == 10
    entry = journal.find("k24")
    assert entry is not None
    assert journal.immediate(entry) == {"label": "of 24"}
    assert journal.find("k22") is None
    source = JournalSource(journal, ["a"])
    source.while_waiting(lambda: None)
    records = [next(source) for _ in range(30)]
    assert [each.position["row"] for each in records] == [*range(1, 31)]
    journal.forget(11)
    assert journal.segments[0].first == 10
    journal.forget(30)
    assert journal.segments[0].first == 22, "the last seven instances are within the horizon"
    for at in (20, 26, 29):  # at the end of a deleted segment, and within others
        source.seek(records[at].position)
        assert [each.position for each in source_rest(source, 29 - at)] == [
            each.position for each in records[at + 1 :]
        ]
    for position in (None, records[7].position):
        with pytest.raises(ConnectorError, match=r"lacks instance \d+ of the journal"):
            source.seek(position)
    source.close()
    journal.close()
    journal.segments[1].path.unlink()
    with pytest.raises(ConnectorError, match=r"ends with instance 24, .* begin with 25. Restore the files"):
        InstanceJournal(path, horizon=7)


def source_rest(source: JournalSource, n: int) -> list[Any]:
    return [next(source) for _ in range(n)]
