"""What changed since an earlier commit: python -m benchmarks.before COMMIT [--instances N] [--rounds N].

The commit is checked out as a git worktree in a temporary folder. For each row of :mod:`benchmarks.streams` the two
trees run in turn (earlier, this, earlier, this), each time in a new process that trains, streams to get warm, and
then measures; it is this tree's script that measures in both. Each tree compiles into a folder of its own, empty at
first, which says what compiling costs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from benchmarks.paper.datasets import data_directory
from benchmarks.streams import ROWS
from benchmarks.written import RECORDS, ROOT, Write, table, tell

SCRIPT = Path(__file__).with_name("streams.py")
COMMAND = """
try:
    from stream_osr_connectors.cli import main
except ImportError:  # an earlier commit
    from stream_osr.cli import main
main()
"""
WARMUP = ("-c", COMMAND, "warmup")
DEMO = ("-c", COMMAND, "demo")


class Ran(NamedTuple):
    """What a process printed, and the seconds that it and its children took of the processor and by the clock."""

    printed: str
    processor: float
    wall: float


class Tree(NamedTuple):
    """A checkout of the repository, and a folder for what it compiles and leaves."""

    path: Path
    folder: Path

    def python(self, *arguments: str) -> Ran:
        """Run Python with what is in the tree."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.path), str(self.path / "connectors")]),
            "NUMBA_CACHE_DIR": str(self.folder / "compiled"),
            "STREAM_OSR_DATA": str(data_directory()),
        }

        def processor() -> float:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime

        begin = np.array([processor(), time.perf_counter()])
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return Ran(done.stdout, *(np.array([processor(), time.perf_counter()]) - begin).tolist())

    def row(self, name: str, instances: int | None) -> dict[str, Any]:
        """Measure a row of the streams."""
        source = SCRIPT.read_text()  # by its text: beside the file lie modules with names of others' packages
        shortened = [] if instances is None else [str(instances)]
        return json.loads(self.python("-c", source, name, *shortened).printed)


@contextmanager
def worktree(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """Check a commit out in a temporary folder, and take it away again."""
    git = ["git", "-C", str(root), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree"
        subprocess.run([*git, "add", "--quiet", "--detach", str(path), commit], check=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


@contextmanager
def both(commit: str, root: Path = ROOT) -> Iterator[tuple[Tree, Tree]]:
    """Give the tree of a commit and this one, nothing compiled for either."""
    with (
        worktree(commit, root) as path,
        tempfile.TemporaryDirectory() as earlier,
        tempfile.TemporaryDirectory() as now,
    ):
        yield Tree(path, Path(earlier)), Tree(root, Path(now))


def ratios(name: str, figure: str, runs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[object]:
    """Cells of a row: the medians of a figure, earlier and now, and of the ratios of neighbours, with their range."""
    values = np.array([[run[figure] for run in pair] for pair in runs])
    ratio = values[:, 1] / values[:, 0]
    earlier, now = np.median(values, axis=0).tolist()
    return [name, earlier, now, float(np.median(ratio)), float(ratio.min()), float(ratio.max())]


def compare(trees: tuple[Tree, Tree], names: list[str], instances: int | None, rounds: int) -> Iterator[list[object]]:
    """Measure the rows in both trees, in turn."""
    for name in names:
        print(f"measuring {name}", file=sys.stderr)
        runs = [(trees[0].row(name, instances), trees[1].row(name, instances)) for _ in range(rounds)]
        yield ratios(f"{name}: us", "processor_us", runs)
        yield ratios(f"{name}: floors", "floors", runs)
        yield ratios(f"{name}: then predict_proba_one, us", "ask_us", runs)


def compiling(trees: tuple[Tree, Tree]) -> list[object]:
    """Cells of a row: processor seconds of a warm-up that finds nothing compiled, less those of one that does."""
    seconds = [tree.python(*WARMUP).processor - tree.python(*WARMUP).processor for tree in trees]
    return ratios("compiling, s", "s", [({"s": seconds[0]}, {"s": seconds[1]})])


def main(
    commit: Annotated[str, typer.Argument(help="The earlier commit.")],
    instances: Annotated[int | None, typer.Option(help="Of each stream, for a quick look; all if not given.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each row is measured in each tree.")] = 2,
    write: Write = False,
) -> None:
    """Measure and print."""
    with both(commit) as trees:
        found = [compiling(trees), *compare(trees, list(ROWS), instances, rounds)]
    text = table(["", commit, "this tree", "ratio", "least", "most"], found)
    tell("before", text, write, RECORDS / "before.md")


if __name__ == "__main__":
    typer.run(main)
