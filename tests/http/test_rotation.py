"""Old segments of the journal are deleted, and kills at each step lose and repeat nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import processes
from tests.blobs import fitted_once
from tests.http import rotating
from tests.http.serving import MODEL, Service, await_decisions, check_against_files, instances, lines_of

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
def test_kills_at_each_step_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """The file loop gets the instances in the order of their numbers, as the client knows them."""
    state, n = tmp_path / "state", 240
    state.mkdir()
    fitted_once(**MODEL).save(state / "model.osr")
    done = processes.run("-m", "tests.http.rotating", state, n, cwd=ROOT)
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
                one.send(client, sent[:160])
                accepted = one.send(client, sent[160:])[-60:]
                await_decisions(client, 320)
            for first, second in zip(accepted, one.send(client, sent[-60:]), strict=True):
                assert (first["n"], first["immediate"]) == (second["n"], second["immediate"])
            metrics = dict(re.findall(r"^stream_osr_(\w+) (\d+)$", client.get("/metrics").text, re.MULTILINE))
            files = [*one.state.glob("journal*.jsonl")]
            if start:
                assert int(metrics["journal_bytes"]) == sum(path.stat().st_size for path in files)
                assert int(metrics["journal_files"]) == len(files)
                assert one.state / "journal.jsonl" not in files
        one.stop()
