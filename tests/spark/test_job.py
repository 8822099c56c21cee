"""A real Spark job, killed in the middle of a micro-batch and started again from its checkpoint."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="needs pyspark: make spark", exc_type=ImportError)

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.files.json_lines import as_text
from tests.spark.streams import ARGUMENTS, decided, expected, loop, rows_of, saved_model

pytestmark = [
    pytest.mark.needs("pyspark", "java"),
    pytest.mark.long,
]
ROOT = Path(__file__).parents[2]
KEYS = ("pump 1", "pump 22", "pump 333", "pump 4444")
FILES, PER_FILE = 10, 30


Jobs = list[subprocess.Popen[str]]


def job(jobs: Jobs, command: str, folder: Path, *rest: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "connectors")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / f"{command}.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.job", command, str(folder), *rest],
            cwd=ROOT, env=environment, start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    jobs.append(process)
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the driver and its Java process at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    """Kill the jobs that a failed test leaves behind."""
    started: Jobs = []
    yield started
    for each in started:
        if each.poll() is None:
            kill(each)


def written(jobs: Jobs, folder: Path) -> list[dict[str, Any]]:
    reading = job(jobs, "read", folder)
    lines, _ = reading.communicate(timeout=200)
    assert reading.returncode == 0, (folder / "read.log").read_text()[-4000:]
    return [json.loads(line) for line in lines.splitlines()]


def until(condition: Callable[[], bool], process: subprocess.Popen[str], log: Path, seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < end, log.read_text()[-4000:]
        time.sleep(0.005)


def write_file(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Write one input file, the later the number, the later its time."""
    (folder / "in").mkdir(exist_ok=True)
    path = folder / "in" / f"{number:03}.json"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    os.utime(path, (1e9 + number, 1e9 + number))


def numbers(folder: Path, name: str) -> set[int]:
    return {int(path.name) for path in (folder / "checkpoint" / name).glob("*") if path.name.isdigit()}


def events(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["content"] for row in rows if row["kind"] == "event")


def rows_in_order(found: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return sorted((row for row in found if row["key"] == key), key=lambda row: row["seq"] or 0)


def test_a_killed_job_continues_bit_for_bit(jobs: Jobs, tmp_path: Path) -> None:
    rng = random.Random(5)
    trained = OpenSetRecognizer.load(saved_model(tmp_path)).trained
    rows = {key: rows_of(key, FILES * PER_FILE) for key in KEYS}
    late = rows[KEYS[0]].pop(3 * PER_FILE)
    for number in range(FILES):
        mixed = [row for key in KEYS for row in rows[key] if row["order"] // (10 * PER_FILE) == number]
        if number == 6:
            mixed += [late, {**late, "order": 10**6, "b": "high"}, {**late, "key": None}, {**late, "order": None}]
        write_file(tmp_path, number, rng.sample(mixed, len(mixed)))

    def open_batches() -> set[int]:
        return numbers(tmp_path, "offsets") - numbers(tmp_path, "commits")

    first = job(jobs, "run", tmp_path)
    log = tmp_path / "run.log"
    until(lambda: len(numbers(tmp_path, "commits")) >= 3 and bool(open_batches()), first, log)
    kill(first)
    assert len(numbers(tmp_path, "commits")) < FILES
    assert open_batches(), "killed between two micro-batches"
    second = job(jobs, "run", tmp_path)
    second.communicate(timeout=300)
    assert second.returncode == 0, log.read_text()[-4000:]
    assert len(numbers(tmp_path, "commits")) >= FILES

    found = written(jobs, tmp_path)
    total = 0
    for key in KEYS:
        own = rows_in_order(found, key)
        decisions, emitted = loop(trained, rows[key])
        assert decided(own) == expected(decisions)
        assert events(own) == Counter(as_text(event.as_dict()) for event in emitted)
        total += len(decisions)
    assert total > 0.9 * FILES * PER_FILE * len(KEYS)
    assert sorted(row["reason"].partition(":")[0] for row in found if row["kind"] == "rejected") == [
        "column 'order' is 900",
        "column 'order' is null",
        "feature 'b' is 'high' (str)",
        "the column of the key is null",
    ]


def test_a_timer_closes_the_last_micro_batch(jobs: Jobs, tmp_path: Path) -> None:
    """The job gets no further row, and the timer decides those that wait."""
    trained = OpenSetRecognizer.load(saved_model(tmp_path)).trained
    rows = {key: rows_of(key, 40) for key in KEYS}
    write_file(tmp_path, 0, [row for key in KEYS for row in reversed(rows[key])])
    wait = 20.0
    running = job(jobs, "run", tmp_path, str(wait))
    until(lambda: len(numbers(tmp_path, "commits")) >= 1, running, tmp_path / "run.log")
    began = time.monotonic()
    until(lambda: time.monotonic() - began > wait + 15, running, tmp_path / "run.log")
    kill(running)
    found = written(jobs, tmp_path)
    for key in KEYS:
        own = rows_in_order(found, key)
        decisions, _ = loop(trained, [*rows[key], None], **{**ARGUMENTS, "max_wait": wait})
        assert len(decisions) == 36, "four are in the delay"
        assert decided(own) == expected(decisions)
