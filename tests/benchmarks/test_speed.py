"""What measures the cost: figures of short streams, two trees in turn, and tables that get into their page."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
from pathlib import Path

import pytest

import stream_osr.evaluation
from benchmarks import before, speed, streams, written
from tests.data import need_data


@pytest.mark.needs("data")
def test_a_short_stream_has_figures():
    need_data("LETTER")
    name = "LETTER, batch 64, one chain, window 0"
    found = streams.measure(name, 256)
    assert found.pop("row") == name
    assert found.pop("instances") == 256
    assert all(value > 0 for value in found.values())
    assert found["floors"] == pytest.approx(found["processor_us"] / found["floor_us"])


def test_the_script_of_the_streams_needs_public_names_alone():
    nodes = list(ast.walk(ast.parse(before.SCRIPT.read_text())))
    handlers = [node for node in nodes if isinstance(node, ast.ExceptHandler)]
    of_earlier_commits = {node for handler in handlers for node in ast.walk(handler)}
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node not in of_earlier_commits]
    imported = {str(node.module): {alias.name for alias in node.names} for node in imports}
    assert imported.pop("stream_osr") <= set(stream_osr.__all__)
    assert imported.pop("stream_osr.config") == {"grouped"}
    assert not [module for module in imported if "stream_osr" in module]


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One whose package takes 8 microseconds in its commit, and 2 in the tree; it compiles for a while."""
    root = tmp_path / "repository"
    package, connectors = root / "stream_osr" / "__init__.py", root / "connectors" / "stream_osr_connectors"
    for folder in (package.parent, connectors):
        folder.mkdir(parents=True)
    package.write_text("COST = 8.0\n")
    (connectors / "__init__.py").touch()
    (connectors / "cli.py").write_text(
        "import os, pathlib, time\n"
        "def main():\n"
        "    kept = pathlib.Path(os.environ['NUMBA_CACHE_DIR'])\n"
        "    while not kept.exists() and time.process_time() < 0.5: pass\n"
        "    kept.mkdir(exist_ok=True)\n"
    )
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        git(root, *command)
    package.write_text("COST = 2.0\n")
    return root


def test_two_trees_are_measured_in_turn(repository, tmp_path, monkeypatch):
    log, script = tmp_path / "log", tmp_path / "script.py"
    script.write_text(
        "import json, sys, stream_osr\n"
        f"open({str(log)!r}, 'a').write(f'{{stream_osr.COST}} {{sys.argv[1:]}}\\n')\n"
        "print(json.dumps(dict.fromkeys(['processor_us', 'floors', 'ask_us'], stream_osr.COST)))\n"
    )
    monkeypatch.setattr(before, "SCRIPT", script)
    with before.both("HEAD", repository) as trees:
        rows = list(before.compare(trees, ["a row"], 100, 2))
        name, earlier, now, *_ = before.compiling(trees)
    assert log.read_text().splitlines() == [f"{cost} ['a row', '100']" for cost in (8.0, 2.0, 8.0, 2.0)]
    assert rows[0] == ["a row: us", 8.0, 2.0, 0.25, 0.25, 0.25]
    assert len(rows) == 3
    assert name == "compiling, s"
    assert min(earlier, now) > 0.2
    assert not trees[0].path.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "stream_osr" / "__init__.py").read_text() == "COST = 2.0\n"


@pytest.mark.needs("data")
def test_step_is_measured_against_the_floor(monkeypatch):
    need_data("LETTER")
    monkeypatch.setattr(speed, "STEPS", {"LETTER-64": speed.STEPS["LETTER-64"]})
    name, *figures = speed.measure_step(128, 1).splitlines()[-1].strip("| ").split(" | ")
    assert name == "LETTER-64"
    floor, step, floors, plain, window, floors_of_window = map(float, figures)
    assert min(floor, step, plain, window) > 0
    assert [floors, floors_of_window] == pytest.approx([step / floor, window / floor], rel=0.1)


def test_page_has_a_place_for_every_table_and_other_benchmarks_can_be_imported(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(written.PAGE.read_text())
    for name in (*speed.TABLES, "growth", "active", "state", "keyed", "peers"):
        written.write(name, json.dumps(name), page)
        assert json.dumps(name) in page.read_text()
    page.write_text((written.RECORDS / "before.md").read_text())
    written.write("before", "now", page)
    for name in ("growth", "active", "peers", "discovery.ageing"):  # no other test runs them
        importlib.import_module(f"benchmarks.{name}")
