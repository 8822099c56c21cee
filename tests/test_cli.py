"""The command line as a person meets it: real processes, real files."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.files.checkpoint import load_checkpoint, save_checkpoint
from tests.processes import COMMAND, Process, run

COMMANDS = ("demo", "fit", "run", "report", "inspect", "warmup")


def call(*arguments: object, cwd: Path | None = None, **options) -> subprocess.CompletedProcess[str]:
    return run(*COMMAND, *arguments, cwd=cwd, env={**os.environ, "COLUMNS": "200"}, **options)


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_csv(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A folder with a training file, a stream of 600 with a new class from 300 on, and a fitted model."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(5)

    def instance(centre: tuple[float, float, float], number: int, **more: object) -> dict:
        x = rng.normal(centre, 1.0)
        return {"id": f"i{number}", "at": number / 10, "a": x[0], "b": x[1], "c": x[2], **more}

    centres = {"red": (0, 0, 0), "blue": (8, 0, 0), "green": (0, 8, 4)}
    labelled = [instance(centres[c], i, colour=c) for i in range(120) for c in ("red", "blue")]
    write_csv(folder / "train.csv", labelled)
    stream = []
    for number in range(600):
        colour = ("red", "blue", "green")[rng.integers(3 if number >= 300 else 2)]
        stream.append(instance(centres[colour], number) | {"truth": colour})
    write_csv(folder / "stream.csv", stream)
    done = call("fit", "train.csv", "--label", "colour", "--features", "a,b,c", "-o", "model.osr", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


RUN = ("run", "-m", "model.osr", "-i", "stream.csv", "--features", "a,b,c", "--key", "id", "--time", "at")


@pytest.fixture(scope="module")
def whole(work) -> list[dict]:
    """The decisions of an uninterrupted run."""
    done = call(*RUN, "-o", "whole.jsonl", "--events", "whole-events.jsonl", "--batch-size", 32, cwd=work)
    assert done.returncode == 0, done.stderr
    return lines_of(work / "whole.jsonl")


def test_fit_reports_what_training_found(work):
    done = call("fit", "train.csv", "-l", "colour", "--features", "a,b,c", "-o", "again.osr", cwd=work)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "trained on 240 instances of 2 classes" in done.stderr
    assert "model saved to again.osr" in done.stderr
    assert OpenSetRecognizer.load(work / "again.osr").trained.labels == ("red", "blue")


def test_run_decides_every_instance_and_finds_the_new_class(work, whole):
    with (work / "stream.csv").open() as file:
        truth = {row["id"]: row["truth"] for row in csv.DictReader(file)}
    assert [d["key"] for d in whole] == list(truth)
    right = np.mean([d["label"] == truth[d["key"]].replace("green", "unknown") for d in whole])
    assert right > 0.95
    events = lines_of(work / "whole-events.jsonl")
    emerged = [event for event in events if event["type"] == "SubclassEmerged"]
    assert emerged
    assert all(truth[key] == "green" for event in emerged for key in event["exemplars"])


def test_inspect_prints_the_discovery_table_of_a_model_and_of_a_checkpoint(work, whole):
    model = call("inspect", "model.osr", cwd=work)
    assert model.returncode == 0
    assert "red" in model.stdout
    assert "0 instances of the stream decided" in model.stdout
    checkpoint = call("inspect", "whole.jsonl.checkpoint", cwd=work)
    unknown = sum(d["label"] == "unknown" for d in whole)
    assert f"{100 * unknown / 600:.2f} %" in checkpoint.stdout
    assert "600 instances of the stream decided" in checkpoint.stdout


def test_a_run_says_how_many_events_were_summed_up(work, whole):
    checkpoint = load_checkpoint(work / "whole.jsonl.checkpoint")
    checkpoint.model.counters["events_summed"] = 3
    save_checkpoint(work / "flood.checkpoint", checkpoint)
    told = (*RUN, "-o", "whole.jsonl", "--events", "whole-events.jsonl", "--checkpoint")
    assert "3 more events were summed up" in call(*told, "flood.checkpoint", "--resume", cwd=work).stderr
    assert "summed up" not in call(*told, "whole.jsonl.checkpoint", "--resume", cwd=work).stderr
    assert lines_of(work / "whole.jsonl") == whole


def test_a_class_of_the_table_is_no_label_of_the_unknown(work):
    done = call("fit", "train.csv", "-l", "colour", "--features", "a,b", "--unknown", "red", "-o", "no.osr", cwd=work)
    assert done.returncode == 1
    assert done.stderr.count("red") == 1
    assert "--unknown red is a class of the table; give unknown instances another name" in done.stderr
    assert not (work / "no.osr").exists()


def test_a_label_of_the_unknown_that_is_only_like_a_number_is_text(work):
    done = call("fit", "train.csv", "-l", "colour", "--features", "a,b", "--unknown", "²", "-o", "two.osr", cwd=work)
    assert done.returncode == 0, done.stderr
    assert OpenSetRecognizer.load(work / "two.osr").unknown == "²"


def test_fit_asks_whether_a_column_of_numbers_is_the_label(work):
    rows = "".join(f"{i},{i % 7},{i * i % 11}\n" for i in range(120))
    (work / "prices.csv").write_text(f"price,a,b\n{rows}")
    command = ("fit", "prices.csv", "-l", "price", "--covariance", "tied", "-o", "prices.osr")
    done = call(*command, cwd=work)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "error: --label price: there are 120 classes with 1.0 instances each: are these the classes, or numbers, "
        "keys, times? Give another column, or --yes to train all the same"
    )
    assert not (work / "prices.osr").exists()
    done = call(*command, "--yes", cwd=work)
    assert done.returncode == 0, done.stderr
    assert "there are 120 classes" in done.stderr


def test_an_interrupted_run_resumes_to_the_same_output(work, whole, tmp_path):
    """Stopped by a signal in the middle of the input, and started again: byte for byte the same file."""
    fifo_free = tmp_path / "slow.jsonl"
    command = [*RUN, "-o", str(fifo_free), "--events", str(tmp_path / "events.jsonl")]
    command += ["--batch-size", "32", "--checkpoint-every", "50", "--resume"]
    stopped = 0
    for attempt in range(4):
        with (tmp_path / "said").open("w") as file:
            process = Process([*COMMAND, *command], cwd=work, stderr=file.fileno())
        checkpoint = Path(f"{fifo_free}.checkpoint")
        seen = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == seen):
            time.sleep(0.002)
        # a clean stop and a crash in turn
        process.send_signal(signal.SIGINT if attempt % 2 == 0 else signal.SIGKILL)
        if process.wait(60) == 0:
            break
        stopped += 1
        if process.returncode == 130:
            assert "--resume goes on" in (tmp_path / "said").read_text()
    else:
        done = call(*command, cwd=work)
        assert done.returncode == 0, done.stderr
    assert stopped >= 2, "the run was never caught in the middle"
    assert lines_of(fifo_free) == whole
    assert (tmp_path / "events.jsonl").read_text() == (work / "whole-events.jsonl").read_text()


def test_bad_records_are_set_aside_with_their_reason_and_the_stream_goes_on(work):
    good = '{"a": 0.5, "b": 0.1, "c": -0.2, "id": 1}'
    bad = ['{"a": 1, "b": ', '{"features": {"a": "hot", "b": 0, "c": 0}}', '{"a": 1e200, "b": 0, "c": 0}', "[1, 2]"]
    text = "\n".join([good, bad[0], good, bad[1], bad[2], good, bad[3], good]) + "\n"
    (work / "mixed.jsonl").write_text(text)
    done = call(
        "run", "-m", "model.osr", "-i", "mixed.jsonl", "-o", "mixed-out.jsonl", "--key", "id",
        "--errors", "bad.jsonl", cwd=work,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(lines_of(work / "mixed-out.jsonl")) == 4
    errors = lines_of(work / "bad.jsonl")
    assert [e["row"] for e in errors] == [2, 4, 5, 7]
    assert "'a'" in errors[1]["reason"]
    assert "'hot'" in errors[1]["reason"]
    assert "1e+200" in errors[2]["reason"]
    assert "8 read, 4 decided" in done.stderr
    assert "4 set aside; kept in bad.jsonl" in done.stderr
    assert "data quality 4" in done.stderr
    done = call("inspect", "mixed-out.jsonl.checkpoint", cwd=work)
    assert re.search(r"data: bad_rows 4, .*refused 4", done.stdout)


def test_lines_with_other_names_are_set_aside_with_both_names(work):
    lines = ['{"a": 0.5, "b": 0.1, "c": -0.2}', '{"a": 0.5, "B": 0.1, "C": -0.2}', '{"a": 0.5, "b": 0.1}']
    (work / "renamed.jsonl").write_text("\n".join(lines) + "\n")
    done = call("run", "-m", "model.osr", "-i", "renamed.jsonl", "-o", "renamed-out.jsonl", cwd=work)
    assert done.returncode == 0, done.stderr
    assert "expected 'b', 'c' as well, found 'B', 'C', 'a'" in " ".join(done.stderr.split())
    assert "3 read, 2 decided" in done.stderr


def test_a_resumed_run_needs_the_model_of_its_checkpoint(work, whole):
    done = call("fit", "train.csv", "-l", "colour", "--features", "a,b", "-o", "other.osr", cwd=work)
    assert done.returncode == 0
    before = (work / "whole.jsonl").read_bytes()
    done = call("run", "-m", "other.osr", *RUN[3:], "-o", "whole.jsonl", "--resume", cwd=work)
    assert done.returncode == 1
    assert "other.osr is not the model of the checkpoint" in done.stderr
    assert (work / "whole.jsonl").read_bytes() == before


def test_text_in_a_feature_of_the_model_is_set_aside_in_json_lines_too(work):
    (work / "text.jsonl").write_text(
        '{"a": "x", "b": 1, "c": 2, "note": "n"}\n{"a": 1, "b": 1, "c": 2, "note": "n"}\n'
    )
    done = call("run", "-m", "model.osr", "-i", "text.jsonl", "-o", "text-out.jsonl", cwd=work)
    assert "2 read, 1 decided" in done.stderr
    assert "row 1 set aside" in done.stderr


def test_a_run_that_could_use_no_record_at_all_has_failed(work):
    (work / "none.jsonl").write_text('{"a": "x", "b": 1, "c": 2}\n')
    done = call("run", "-m", "model.osr", "-i", "none.jsonl", "-o", "none-out.jsonl", cwd=work)
    assert done.returncode == 1
    assert "error: no record of none.jsonl could be used" in done.stderr


def test_standard_input_to_standard_output(work):
    text = '{"a": 0.5, "b": 0.1, "c": -0.2}\n{"a": 8.5, "b": 0.1, "c": -0.2}\n{"a": 90, "b": -90, "c": 9}\n'
    done = call("run", "-m", "model.osr", "-i", "-", "--format", "jsonl", input=text, cwd=work)
    assert done.returncode == 0, done.stderr
    decisions = [json.loads(line) for line in done.stdout.splitlines()]
    assert [d["nearest_class"] for d in decisions[:2]] == ["red", "blue"]
    assert decisions[2]["label"] == "unknown"
    assert decisions[2]["p_unknown"] > 0.85  # three instances say little of what else the stream holds


def test_nothing_but_plain_lines_when_nobody_watches(work):
    done = call(*RUN, "-o", "quiet.jsonl", cwd=work)
    assert "\x1b" not in done.stderr
    first, *account, signals, following = done.stderr.splitlines()
    assert re.fullmatch(r"600 read, 600 decided, \d+ events", first)
    assert re.fullmatch(r"600 instances decided in all: \d+ known, \d+ unknown \([\d.]+ %\)", account[0])
    assert re.fullmatch(
        r"signals: novelty [1-9]\d*, drift 0, outliers \d+, data quality 0, recall drops 0, rate jumps \d+", signals
    )
    recall = r"of the known instances alone, estimated share labelled right: [\d.]+ \([\d.]+ to [\d.]+\), .*"
    assert any(re.fullmatch(recall, line) for line in account)
    assert following == "next, to look at it: stream-osr inspect quiet.jsonl.checkpoint"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "-m", "none.osr", "-i", "stream.csv"), "there is no file none.osr"),
        (("run", "-m", "train.csv", "-i", "stream.csv"), "train.csv is damaged, or not a saved stream-osr model"),
        (("run", "-m", "model.osr", "-i", "none.csv"), "none.csv"),
        (("run", "-m", "model.osr", "-i", "stream.csv", "--key", "idd"), "'id'"),
        (("run", "-m", "model.osr", "-i", "-"), "say its format"),
        (("run", "-m", "model.osr", "-i", "stream.csv", "--features", "a,b,c", "-o", "full.jsonl"), "No space left"),
        (("run", "-m", "model.osr", "-i", "stream.csv", "--batch-size", "0"), "batch_size is 0"),
        (("fit", "empty.csv", "-l", "colour", "-o", "x.osr"), "empty.csv"),
        (("fit", "train.csv", "-l", "color", "-o", "x.osr"), "'colour'"),
        (("fit", "header.csv", "-l", "colour", "-o", "x.osr"), "no usable labelled instance"),
        (("fit", "train.csv", "-l", "colour", "-o", "missing/x.osr", "--features", "a,b,c"), "missing/x.osr"),
        (("fit", "train.csv", "-l", "colour", "-o", "x.osr", "--pca", "0"), "pca is 0"),
        (("fit", "train.csv", "-l", "colour", "-o", "x.osr", "--covariance", "round"), "covariance is 'round'"),
        (("inspect", "stream.csv"), "not a saved stream-osr model"),
        (
            ("run", "-m", "model.osr", "-i", "stream.csv", "-o", "./stream.csv"),
            "--output and --input are the same file",
        ),
        (("run", "-m", "model.osr", "-i", "stream.csv", "-o", "o.jsonl", "-e", "o.jsonl"), "--events and --output"),
        (("fit", "train.csv", "-l", "colour", "-o", "train.csv"), "--output and --input are the same file"),
        (("run", "-m", "model.osr", "-i", "narrow.csv", "-o", "o.jsonl"), "no column 'b'"),
    ],
)
def test_errors_are_a_line_or_two_and_a_non_zero_exit(work, arguments, says):
    (work / "empty.csv").write_text("")
    (work / "header.csv").write_text("a,b,c,colour\n")
    (work / "narrow.csv").write_text("a,c\n1,2\n")
    full = work / "full.jsonl"  # a disk without room
    if not full.is_symlink():
        full.symlink_to("/dev/full")
    done = call(*arguments, cwd=work)
    assert done.returncode not in (0, 130)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2


def test_warmup_compiles_every_covariance_and_says_so():
    done = call("warmup")
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if not line.startswith("compiling")]  # said only when it does
    assert [line.split()[0] for line in told] == ["full", "diagonal", "tied"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_with_an_example(command):
    done = call(command, "--help")
    assert done.returncode == 0
    assert f"Example: stream-osr {command}" in " ".join(done.stdout.split())


def test_demo_shows_the_main_job_and_leaves_its_files(tmp_path):
    done = call("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    decisions = lines_of(tmp_path / "demo-output" / "decisions.jsonl")
    events = lines_of(tmp_path / "demo-output" / "events.jsonl")
    assert len(decisions) == 1518
    assert OpenSetRecognizer.load(tmp_path / "demo-output" / "model.osr").summary().stream_size == 1518
    assert {e["type"] for e in events} >= {"SubclassEmerged", "NewClassesChanged"}
    for name in ("sky", "grass", "path"):
        assert re.search(rf"{name}: first instance at \d+, announced at \d+", done.stdout)
    found = re.search(r"micro-F over the known classes +(\d\.\d+)", done.stdout)
    assert found is not None
    assert float(found[1]) > 0.85
    told = re.search(r"estimated number of new classes: (\d+)( \(\d+ to \d+\))? \(the paper's Delta: ", done.stdout)
    assert told is not None
    assert int(told[1]) == 3  # sky, grass and path
    assert "\x1b" not in done.stdout


def test_memory_stays_constant_however_long_the_stream(work):
    """Peak memory of a stream of 24 000 instances is that of 3 000, but for a few MB."""
    program = (
        "import resource, sys; sys.argv[1:] = sys.argv[1:]\n"
        "from stream_osr_connectors.cli.app import main\n"
        "try:\n    main()\n"
        "finally:\n    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stdout)\n"
    )
    rng = np.random.default_rng(0)
    peaks = []
    for size in (3_000, 24_000):
        path = work / f"long{size}.jsonl"
        rows = rng.normal(size=(size, 3)) + 8 * rng.integers(2, size=(size, 1)) * [1, 0, 0]
        path.write_text("".join(json.dumps(dict(zip("abc", row, strict=True))) + "\n" for row in rows.tolist()))
        arguments = ["run", "-m", "model.osr", "-i", path.name, "-o", f"out{size}.jsonl"]
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=work, capture_output=True, text=True, timeout=300,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout.split()[-1]) / 1024)
    assert peaks[1] - peaks[0] < 25, f"{peaks[0]:.0f} MB grew to {peaks[1]:.0f} MB"
