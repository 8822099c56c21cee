"""The demonstration: its output, its files, and the commands that it prints, which run."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.cli import demo, demo_result
from stream_osr_connectors.cli.demo_files import DemoFiles
from stream_osr_connectors.cli.demo_result import ARROW, BLOCKS
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.terminal import Terminal
from tests.processes import COMMAND, run

ENVIRONMENT = {**os.environ, "COLUMNS": "80"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(folder) -> str:
    done = run(*COMMAND, "demo", cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^\d+ s: (\w+)", done.stderr, re.MULTILINE) == ["training", "deciding"]
    return done.stdout


@pytest.fixture(scope="module")
def truth(folder, printed) -> list[str]:
    with (folder / "demo-output" / "truth.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["key"] for row in rows] == [str(seq) for seq in range(len(rows))]
    return [row["label"] for row in rows]


def drawn(printed: str, name: str) -> tuple[str, str]:
    """Give the row of a class in the drawing of the stream, and the line below it."""
    lines = printed.splitlines()
    at = next(i for i, line in enumerate(lines) if re.fullmatch(rf"{name} +[{BLOCKS}]+", line))
    return lines[at], lines[at + 1]


def test_three_new_classes_are_found_and_each_is_announced(printed):
    found = re.search(r"Estimated number of new classes: (\d)(?: \((\d) to (\d)\))?, true number: 3", printed)
    assert found
    number, low, high = (int(each or found[1]) for each in found.groups())
    assert low <= 3 <= high
    assert abs(number - 3) <= 1
    for label in demo.NEW:
        assert re.search(rf"{label}: begins at instance \d+, announced at \d+, after \d+ {label} instances?", printed)


def test_it_fits_a_terminal_of_80_columns_without_colours(printed):
    assert max(map(len, printed.splitlines())) <= 80
    assert "\x1b" not in printed
    assert "…" not in printed


def test_a_narrow_terminal_cuts_no_table() -> None:
    table = demo_result._table("Number of instances", "true class", *["brickface"] * 6, right=range(1, 7))
    table.add_row("foliage (new)", *["1234"] * 6)
    out = Terminal()
    for width in (40, 80):
        out.console.width = width
        with out.console.capture() as said:
            demo_result._show(out, table)
        assert [said.get().count(text) for text in ("brickface", "1234", "foliage (new)")] == [6, 6, 1], width


def test_a_row_begins_where_its_class_does_and_an_arrow_points_at_its_announcement(printed, truth):
    for label in demo.NEW:
        row, below = drawn(printed, label)
        bars = row.removeprefix(label).lstrip()
        side, width = len(row) - len(bars), len(bars)
        assert next(i for i, bar in enumerate(bars) if bar != BLOCKS[0]) == truth.index(label) * width // len(truth)
        announced = re.search(rf"{label}: .*announced at (\d+)", printed)
        assert announced is not None
        assert below.index(ARROW) - side == int(announced[1]) * width // len(truth)
    assert drawn(printed, "known")[0].split()[1].startswith(BLOCKS[-1])


def commands(printed: str) -> list[list[str]]:
    lines = printed.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("stream-osr ")]


@pytest.mark.thorough
def test_the_commands_that_it_ends_with_run_as_they_are_printed(folder, printed):
    report, watch, promote = commands(printed)
    assert [report[0], watch[0], promote[0]] == ["report", "watch", "promote"]
    assert (folder / watch[1]).samefile(folder / "demo-output" / "decisions.jsonl")
    for command in (report, promote):
        done = run(*COMMAND, *command, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert "Confusion matrix" in (folder / "report.html").read_text()
    labels = load_checkpoint(folder / "demo-output" / "decisions.jsonl.checkpoint").model.value.running[1].labels
    assert promote[2] in labels


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").touch()
    done = run(*COMMAND, "demo", "-o", "taken", cwd=tmp_path)
    assert done.returncode == 1
    assert "error: cannot write into taken: File exists. Give another --output" in done.stderr


@pytest.mark.thorough
def test_files_of_a_person_are_not_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("of no concern")
    for name in ("labelled.csv", "stream.csv", "truth.csv", "model.osr", "decisions.jsonl"):
        (tmp_path / name).write_text("a,b,label\n1,2,mine\n")
        done = run(*COMMAND, "demo", "-o", ".", cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr == f"error: . holds {name}, which is not the demonstration's. Give another --output\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["notes.txt", name])
        assert (tmp_path / name).read_text() == "a,b,label\n1,2,mine\n"
        (tmp_path / name).unlink()


def test_its_own_folder_is_written_anew_unless_a_table_is_a_persons_now(folder, printed, tmp_path):
    output = tmp_path / "demo-output"
    shutil.copytree(folder / "demo-output", output)
    files, (training, stream) = DemoFiles.within(output), demo.split(3)
    files.write(training, stream)
    assert len((output / "truth.csv").read_text().splitlines()) == 1 + len(stream)
    (output / "truth.csv").write_text("id,kind\n0,mine\n")
    with pytest.raises(ConnectorError, match=r"demo-output holds truth\.csv, which is not"):
        files.write(training, stream)
    assert (output / "truth.csv").read_text() == "id,kind\n0,mine\n"
