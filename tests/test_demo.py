"""The demonstration: what it tells, what it leaves, and that the commands it ends with run as they are printed."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import time
from pathlib import Path

import httpx
import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.cli import demo, demo_result
from stream_osr_connectors.cli.demo_files import DemoFiles
from stream_osr_connectors.cli.demo_result import ARROW, BLOCKS
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.terminal import Terminal
from tests.live.watching import watching
from tests.processes import COMMAND, run
from tests.test_cli import lines_of

ENVIRONMENT = {**os.environ, "COLUMNS": "80"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def told(folder) -> str:
    done = run(*COMMAND, "demo", cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^\d+ s: (\w+)", done.stderr, re.MULTILINE) == ["training", "deciding"]
    return done.stdout


@pytest.fixture(scope="module")
def truth(folder, told) -> list[str]:
    with (folder / "demo-output" / "truth.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["key"] for row in rows] == [str(seq) for seq in range(len(rows))]
    return [row["label"] for row in rows]


def drawn(told: str, name: str) -> tuple[str, str]:
    """Give the row of a class in the drawing of the stream, and the line below it."""
    lines = told.splitlines()
    at = next(i for i, line in enumerate(lines) if re.fullmatch(rf"{name} +[{BLOCKS}]+", line))
    return lines[at], lines[at + 1]


def test_it_tells_three_new_classes_and_when_each_was_announced(told):
    assert re.search(r"Estimated number of new classes: 3( \(.*\))?, true number: 3", told)
    for label in demo.NEW:
        assert re.search(rf"{label}: begins at instance \d+, announced at \d+, after \d+ {label} instances?", told)


def test_it_fits_a_terminal_of_80_columns_without_colours(told):
    assert max(map(len, told.splitlines())) <= 80
    assert "\x1b" not in told
    assert "…" not in told


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_cuts_no_table(width) -> None:
    table = demo_result._table("Number of instances", "true class", *["brickface"] * 6, right=range(1, 7))
    table.add_row("foliage (new)", *["1234"] * 6)
    out = Terminal()
    out.console.width = width
    with out.console.capture() as said:
        demo_result._show(out, table)
    counts = [said.get().count(text) for text in ("brickface", "1234", "foliage (new)")]
    assert counts == [6, 6, 1]


def test_a_row_begins_where_its_class_does_and_an_arrow_points_at_its_announcement(told, truth):
    for label in demo.NEW:
        row, below = drawn(told, label)
        bars = row.removeprefix(label).lstrip()
        side, width = len(row) - len(bars), len(bars)
        assert next(i for i, bar in enumerate(bars) if bar != BLOCKS[0]) == truth.index(label) * width // len(truth)
        announced = re.search(rf"{label}: .*announced at (\d+)", told)
        assert announced is not None
        assert below.index(ARROW) - side == int(announced[1]) * width // len(truth)
    assert drawn(told, "known")[0].split()[1].startswith(BLOCKS[-1])


def test_a_subclass_of_several_classes_is_mixed_and_another_is_what_it_holds(folder, told, truth):
    found = load_checkpoint(folder / "demo-output" / "decisions.jsonl.checkpoint").model.new_classes()
    sizes = {each.name: (each.size, each.subclasses) for each in found.candidates}
    held: dict[int, list[str]] = {}
    for decision in lines_of(folder / "demo-output" / "decisions.jsonl"):
        if decision["label"] == "unknown":
            held.setdefault(decision["subclass_id"], []).append(truth[decision["seq"]])
    rows = re.findall(r"^ (S\d+.*?) +(\d+)   (mixed: )?(\w+) (\d+) %", told, re.MULTILINE)
    assert len(rows) >= 3
    for name, size, mixed, label, percent in rows:
        members = [truth for id in sizes[name][1] for truth in held.get(id, ())]
        share = members.count(label) / len(members)
        assert (int(size), int(percent)) == (sizes[name][0], round(100 * share))
        assert share == max(map(members.count, set(members))) / len(members)
        assert bool(mixed) == (share < 0.6)


def commands(told: str) -> list[list[str]]:
    lines = told.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("stream-osr ")]


def test_the_commands_that_it_ends_with_run_as_they_are_printed(folder, told):
    report, watch, promote = commands(told)
    assert [report[0], watch[0], promote[0]] == ["report", "watch", "promote"]
    for command in (report, promote):
        done = run(*COMMAND, *command, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert "Confusion matrix" in (folder / "report.html").read_text()
    labels = load_checkpoint(folder / "demo-output" / "decisions.jsonl.checkpoint").model.value.running[1].labels
    assert promote[2] in labels


def test_the_live_page_shows_all_of_it(folder, told):
    watch = commands(told)[1]
    assert (folder / watch[1]).samefile(folder / "demo-output" / "decisions.jsonl")
    with watching(folder / "demo-output") as address:
        decided, until = 0, time.monotonic() + 60
        while decided < 1518 and time.monotonic() < until:
            decided = httpx.get(f"{address}/api/state", timeout=30).json()["stream"]["decided"]
            time.sleep(0.1)
        assert decided == 1518


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").touch()
    done = run(*COMMAND, "demo", "-o", "taken", cwd=tmp_path)
    assert done.returncode == 1
    assert "error: cannot write into taken: File exists. Give another --output" in done.stderr


@pytest.mark.parametrize("name", ["labelled.csv", "stream.csv", "truth.csv", "model.osr", "decisions.jsonl"])
def test_what_a_person_has_is_not_overwritten(tmp_path, name):
    (tmp_path / "notes.txt").write_text("of no concern")
    (tmp_path / name).write_text("a,b,label\n1,2,mine\n")
    done = run(*COMMAND, "demo", "-o", ".", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"error: . holds {name}, which is not the demonstration's. Give another --output\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["notes.txt", name])
    assert (tmp_path / name).read_text() == "a,b,label\n1,2,mine\n"


def test_its_own_folder_is_written_anew_unless_a_table_is_a_persons_now(folder, told, tmp_path):
    output = tmp_path / "demo-output"
    shutil.copytree(folder / "demo-output", output)
    files, (training, stream) = DemoFiles.within(output), demo.split(3)
    files.write(training, stream)
    assert len((output / "truth.csv").read_text().splitlines()) == 1 + len(stream)
    (output / "truth.csv").write_text("id,kind\n0,mine\n")
    with pytest.raises(ConnectorError, match=r"demo-output holds truth\.csv, which is not"):
        files.write(training, stream)
    assert (output / "truth.csv").read_text() == "id,kind\n0,mine\n"
