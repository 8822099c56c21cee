"""The command line as a person meets it: real processes, real files."""

from __future__ import annotations

import csv
import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.cli import garbage
from stream_osr_connectors.files.checkpoint import load_checkpoint, save_checkpoint
from tests.blobs import further
from tests.processes import COMMAND, Process, run

if TYPE_CHECKING:
    import pandas as pd


def call(*arguments: object, cwd: Path | None = None, **options) -> subprocess.CompletedProcess[str]:
    return run(*COMMAND, *arguments, cwd=cwd, env={**os.environ, "COLUMNS": "200"}, **options)


def succeeded(folder: Path | None, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder and check that it does what it is to do."""
    done = call(*arguments, cwd=folder, **options)
    assert done.returncode == 0, done.stderr
    return done


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


CENTRES = {"red": (0.0, 0.0, 0.0), "blue": (8.0, 0.0, 0.0), "green": (0.0, 8.0, 4.0)}


def table(colours: list[str], rng: np.random.Generator) -> pd.DataFrame:
    import pandas as pd

    rows = np.array([rng.normal(CENTRES[colour]) for colour in colours])
    ports = rng.choice([22, 80, 443], len(colours))
    return pd.DataFrame({
        "id": [f"i{n}" for n in range(len(colours))], "nr": range(len(colours)),
        "a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2], "port": ports, "colour": colours,
    })  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A folder with a training file, a stream of 600 with a new class from 300 on, and a fitted model."""
    folder, rng = tmp_path_factory.mktemp("cli"), np.random.default_rng(5)
    table(["red", "blue"] * 120, rng).to_csv(folder / "train.csv", index=False)
    stream = [("red", "blue", "green")[rng.integers(2 + (number >= 300))] for number in range(600)]
    table(stream, rng).to_csv(folder / "stream.csv", index=False)
    done = call("fit", "train.csv", "--label", "colour", "--features", "a,b,c", "-o", "model.osr", cwd=folder)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "trained on 240 instances of 2 classes" in done.stderr
    assert "model saved to model.osr" in done.stderr
    return folder


RUN = ("run", "-m", "model.osr", "-i", "stream.csv", "--features", "a,b,c", "--key", "id", "--time", "nr")


@pytest.fixture(scope="module")
def whole(work) -> list[dict]:
    """The decisions of an uninterrupted run."""
    succeeded(work, *RUN, "-o", "whole.jsonl", "--events", "whole-events.jsonl", "--batch-size", 32)
    return lines_of(work / "whole.jsonl")


def test_run_decides_every_instance_and_finds_the_new_class(work, whole):
    with (work / "stream.csv").open(newline="") as file:
        truth = {row["id"]: row["colour"] for row in csv.DictReader(file)}
    assert [d["key"] for d in whole] == list(truth)
    right = np.mean([d["label"] == truth[d["key"]].replace("green", "unknown") for d in whole])
    assert right > 0.95
    events = lines_of(work / "whole-events.jsonl")
    emerged = [event for event in events if event["type"] == "SubclassEmerged"]
    assert emerged
    assert all(truth[key] == "green" for event in emerged for key in event["exemplars"])


def test_a_run_says_how_many_events_were_summed_up(work, whole):
    checkpoint = load_checkpoint(work / "whole.jsonl.checkpoint")
    checkpoint.model.counters["events_summed"] = 3
    save_checkpoint(work / "flood.checkpoint", checkpoint)
    command = (*RUN, "-o", "whole.jsonl", "--events", "whole-events.jsonl", "--resume", "--checkpoint")
    assert "3 more events were summed up" in call(*command, "flood.checkpoint", cwd=work).stderr
    assert "summed up" not in call(*command, "whole.jsonl.checkpoint", cwd=work).stderr
    assert lines_of(work / "whole.jsonl") == whole


def test_a_label_of_the_unknown_that_is_only_like_a_number_is_text(work):
    succeeded(work, "fit", "train.csv", "-l", "colour", "--features", "a,b", "--unknown", "²", "-o", "two.osr")
    assert OpenSetRecognizer.load(work / "two.osr").unknown == "²"


def test_an_interrupted_run_resumes_to_the_same_output(work, whole, tmp_path):
    """Stopped by a signal in the middle of the input, and started again: byte for byte the same file."""
    output, events, stopped = tmp_path / "slow.jsonl", tmp_path / "events.jsonl", 0
    command = [*RUN, "-o", output, "--events", events, "--batch-size", 32, "--checkpoint-every", 50, "--resume"]
    checkpoint = Path(f"{output}.checkpoint")
    for attempt in range(4):
        with (tmp_path / "said").open("w") as file:
            process = Process([*COMMAND, *command], cwd=work, stderr=file.fileno())
        seen = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == seen):
            time.sleep(0.002)
        # a clean stop and a crash in turn
        process.send_signal(signal.SIGINT if attempt % 2 == 0 else signal.SIGKILL)
        if process.wait(60) == 0:
            break
        stopped += 1
        if process.returncode == 130:
            assert "run the same command with --resume to continue" in (tmp_path / "said").read_text()
    else:
        succeeded(work, *command)
    assert stopped >= 2, "the run was never caught in the middle"
    assert lines_of(output) == whole
    assert events.read_text() == (work / "whole-events.jsonl").read_text()


def test_bad_records_are_set_aside_with_their_reason_and_the_stream_goes_on(work):
    good = '{"a": 0.5, "b": 0.1, "c": -0.2, "id": 1}'
    bad = ['{"a": 1, "b": ', '{"features": {"a": "hot", "b": 0, "c": 0}}', '{"a": 1e200, "b": 0, "c": 0}', "[1, 2]"]
    (work / "mixed.jsonl").write_text("".join(f"{good}\n{line}\n" for line in bad))
    arguments = ("-i", "mixed.jsonl", "-o", "mixed-out.jsonl", "--key", "id", "--errors", "bad.jsonl")
    done = succeeded(work, *RUN[:3], *arguments)
    assert len(lines_of(work / "mixed-out.jsonl")) == 4
    errors = lines_of(work / "bad.jsonl")
    assert [e["row"] for e in errors] == [2, 4, 6, 8]
    assert re.search("'a'.*'hot'", errors[1]["reason"])
    assert "1e+200" in errors[2]["reason"]
    for said in ("8 read, 4 decided", "4 set aside; kept in bad.jsonl", "data quality 4"):
        assert said in done.stderr
    done = call("inspect", "mixed-out.jsonl.checkpoint", cwd=work)
    assert re.search(r"data: bad_rows 4, .*refused 4", done.stdout)


def test_a_run_that_could_use_no_record_at_all_has_failed(work):
    (work / "none.jsonl").write_text('{"a": "x", "b": 1, "c": 2}\n')
    done = call("run", "-m", "model.osr", "-i", "none.jsonl", "-o", "none-out.jsonl", cwd=work)
    assert done.returncode == 1
    assert "error: no record of none.jsonl could be used" in done.stderr


def test_standard_input_to_standard_output(work):
    text = '{"a": 0.5, "b": 0.1, "c": -0.2}\n{"a": 8.5, "b": 0.1, "c": -0.2}\n{"a": 90, "b": -90, "c": 9}\n'
    done = succeeded(work, "run", "-m", "model.osr", "-i", "-", "--format", "jsonl", input=text)
    decisions = [json.loads(line) for line in done.stdout.splitlines()]
    assert [d["nearest_class"] for d in decisions[:2]] == ["red", "blue"]
    assert decisions[2]["label"] == "unknown"
    assert decisions[2]["p_unknown"] > 0.85  # three instances say little of what else the stream holds


def test_output_that_goes_to_a_file_is_plain_lines(work):
    done = call(*RUN, "-o", "quiet.jsonl", cwd=work)
    assert "\x1b" not in done.stderr
    first, *_, signals, outputs, following = done.stderr.splitlines()
    assert re.fullmatch(r"600 read, 600 decided, \d+ events", first)
    assert re.fullmatch(
        r"signals: novelty [1-9]\d*, drift 0, outliers \d+, data quality 0, recall drops 0, rate jumps \d+", signals
    )
    assert outputs == "written: decisions to quiet.jsonl"
    assert following == "next, to look at it: stream-osr inspect quiet.jsonl.checkpoint"


ERRORS = (
    ("run -m none.osr -i stream.csv", "there is no file none.osr"),
    ("run -m train.csv -i stream.csv", "train.csv is damaged, or not a saved stream-osr model"),
    ("run -m model.osr -i stream.csv --key idd", "'id'"),
    ("run -m model.osr -i -", "Give its format"),
    ("run -m model.osr -i stream.csv --features a,b,c -o full.jsonl", "No space left"),
    ("fit empty.csv -l colour -o x.osr", "empty.csv"),
    ("fit train.csv -l color -o x.osr", "'colour'"),
    ("fit header.csv -l colour -o x.osr", "no usable labelled instance"),
    ("fit train.csv -l colour -o missing/x.osr --features a,b,c", "missing/x.osr"),
    ("fit train.csv -l colour -o x.osr --pca 0", "pca is 0"),
    ("fit train.csv -l colour -o train.csv", "--output and --input are the same file"),
    ("fit train.csv -l colour --features a,b --unknown red -o x.osr", "--unknown red is a class of the table. Give"),
    ("run -m model.osr -i narrow.csv -o o.jsonl", "no column 'b'"),
)


def test_errors_are_a_line_or_two_and_a_non_zero_exit(work):
    for name, text in (("empty", ""), ("header", "a,b,c,colour\n"), ("narrow", "a,c\n1,2\n")):
        (work / f"{name}.csv").write_text(text)
    (work / "full.jsonl").symlink_to("/dev/full")  # a disk without room
    for command, message in ERRORS:
        done = call(*command.split(), cwd=work)
        assert done.returncode not in (0, 130), command
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) <= 2, command


def test_a_model_goes_to_the_usual_file_unless_there_is_one(work, tmp_path):
    command = ("fit", work / "train.csv", "--label", "colour", "--features", "a,b", "--chains", 1)
    done = call(*command, cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "model saved to model.osr")
    before = (tmp_path / "model.osr").read_bytes()
    done = call(*command, "--seed", 9, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: model.osr exists. Give --output model.osr to replace it")
    assert (tmp_path / "model.osr").read_bytes() == before
    assert call(*command, "--seed", 9, "-o", "model.osr", cwd=tmp_path).returncode == 0
    assert (tmp_path / "model.osr").read_bytes() != before


def test_warmup_compiles_and_says_so():
    done = succeeded(None, "warmup")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("compiling")]  # said only when it does
    assert [line.split()[0] for line in lines] == ["ready"]


def test_garbage_is_collected_often_after_the_imports():
    usual, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        gc.set_threshold(700)
        garbage.end_imports()
        assert gc.get_threshold()[0] == 700, "only in a process of the command line"
        garbage.begin_imports()
        garbage.end_imports()
        assert gc.get_threshold()[0] < garbage.FIRST_COLLECTION / 10
        assert gc.get_freeze_count() > frozen
    finally:
        gc.set_threshold(*usual)
        if not frozen:
            gc.unfreeze()


@pytest.mark.parametrize("given", [{}, *further({"OPENBLAS_NUM_THREADS": "2"})])
def test_matrix_products_of_a_command_have_one_thread_unless_the_environment_says_more(given: dict[str, str]) -> None:
    program = (
        "import sys; from stream_osr_connectors.cli import main; sys.argv = ['stream-osr', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "import sys, scipy.linalg; from threadpoolctl import threadpool_info\n"
        "print({pool['num_threads'] for pool in threadpool_info() if pool['internal_api'] == 'openblas'})"
    )
    usual = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=usual | given, timeout=60)
    assert done.stdout.splitlines()[-1] == f"{{{given.get('OPENBLAS_NUM_THREADS', 1)}}}", done.stderr
