"""What measures the cost: figures of short streams, two trees in turn, and tables that get into their page."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import stream_osr.evaluation
from benchmarks import before, growth, peers, speed, streams, written
from benchmarks.paper.protocol import Split
from tests.data import need_data

QUICK = {**streams.ONE_CHAIN, "training_sweeps": 2}
train = growth.train


# The streams, and the script that runs in an earlier tree.


def test_a_short_stream_has_figures():
    need_data("LETTER")
    name = "LETTER, batch 64, one chain, window 0"
    found = streams.measure(name, 256)
    assert found.pop("row") == name
    assert found.pop("instances") == 256
    assert all(value > 0 for value in found.values())
    assert found["floors"] == pytest.approx(found["processor_us"] / found["floor_us"])


def test_the_script_of_the_streams_needs_public_names_alone():
    tree = ast.parse(before.SCRIPT.read_text())
    ours = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "stream_osr" in str(node.module)]
    imported = {str(node.module): {alias.name for alias in node.names} for node in ours}
    assert imported.pop("stream_osr") <= set(stream_osr.__all__)
    assert imported.pop("stream_osr.config") == {"grouped"}
    assert not imported


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", "-C", root, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One whose package takes 8 microseconds in its commit, and 2 in the tree; it compiles for a while."""
    root = tmp_path / "repository"
    (root / "stream_osr").mkdir(parents=True)
    package = root / "stream_osr" / "__init__.py"
    package.write_text("COST = 8.0\n")
    connectors = root / "connectors" / "stream_osr_connectors"
    connectors.mkdir(parents=True)
    (connectors / "__init__.py").touch()
    (connectors / "cli.py").write_text(
        "import os, pathlib, time\n"
        "def main():\n"
        "    kept = pathlib.Path(os.environ['NUMBA_CACHE_DIR'])\n"
        "    while not kept.exists() and time.process_time() < 0.5: pass\n"
        "    kept.mkdir(exist_ok=True)\n"
    )
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
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
    assert earlier > 0.2
    assert now > 0.2
    assert not trees[0].path.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "stream_osr" / "__init__.py").read_text() == "COST = 2.0\n"


# The tables.


def test_step_is_measured_against_the_floor(monkeypatch):
    need_data("LETTER")
    monkeypatch.setattr(speed, "STEPS", {"LETTER-64": speed.STEPS["LETTER-64"]})
    *_, row = speed.measure_step(128, 1).splitlines()
    name, *figures = row.strip("| ").split(" | ")
    assert name == "LETTER-64"
    floor, step, floors, plain, window, floors_of_window = map(float, figures)
    assert min(floor, step, plain, window) > 0
    assert floors == pytest.approx(step / floor, rel=0.1)
    assert floors_of_window == pytest.approx(window / floor, rel=0.1)


# Growth.


def test_growth_is_measured_told_and_drawn(monkeypatch, tmp_path, capsys):
    X, y = blobs()
    monkeypatch.setattr(growth, "letter", lambda: Split(X, y, X, y, (), ()))
    for name, value in {"CLASSES": (2, 3), "DIMENSIONS": (2, 3), "MODELS": {"quick": {}, "again": {}}}.items():
        monkeypatch.setattr(growth, name, value)
    monkeypatch.setattr(growth, "train", lambda X, y, **given: train(X, y, **(given | QUICK)))
    monkeypatch.setattr(growth, "throughput", lambda processes, _: float(processes))
    growth.main(instances=20 * 64, stream=64, figure=tmp_path / "growth.png", into_page=False)
    text = capsys.readouterr().out
    assert "| 1,280 |" in text
    assert text.count("flat: the last quarter") == 2
    assert text.count("grows with the power") == 4
    assert (tmp_path / "growth.png").stat().st_size > 1000


# The peers.


def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    return 6.0 * np.eye(4)[y] + rng.normal(size=(600, 4)), y


def mixed() -> peers.Problem:
    """Three classes that train, and as many instances of one far away."""
    X, y = blobs()
    rows, truth = blobs()
    new = np.arange(600) % 2 == 1
    return peers.Problem(X, y, np.where(new[:, None], rows - 12.0, rows), np.where(new, peers.UNKNOWN, truth))


@pytest.mark.parametrize("name", peers.CONTENDERS)
def test_every_peer_takes_the_stream(name, monkeypatch):
    if name.startswith("MINAS"):
        pytest.importorskip("streamndr")
    contender = peers.CONTENDERS[name]
    cells = peers.measure(contender, mixed())
    assert min(cells[:2]) > 0
    if len(cells) > 2:
        right, of_known, of_unknown = cells[2:5]
        assert right == pytest.approx((of_known + of_unknown) / 2)
        assert of_known > 0.6
    if name.startswith(("stream-osr", "random forest", "OSNN")):
        assert right > 0.9
        assert cells[5] > 0.9


# The page.


def test_page_has_a_place_for_every_table(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(written.PAGE.read_text())
    for name in (*speed.TABLES, "growth", "peers"):
        written.write(name, json.dumps(name), page)
        assert json.dumps(name) in page.read_text()
    page.write_text((written.RECORDS / "before.md").read_text())
    written.write("before", "now", page)
