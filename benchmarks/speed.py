"""What a decision costs: python -m benchmarks.speed [--only TABLE] [--instances N] [--repeats N] [--write].

Four tables, medians over repeated runs in one process, each after a first that is not counted. ``streams``: whole
streams through the class (:mod:`benchmarks.streams`). ``step``: the sampler's bare step. ``beginnings``: compiling,
the demonstration, training, a new process. ``files``: CSV to JSON Lines, and the class on the same rows. Beside them
two yardsticks of the same run: the "floor", the plain product ``X @ W`` with the stacked inverse Cholesky factors of
the known subclasses and the prior, and "plain", a compiled step without any of the algebra
(:mod:`tests.oracles.plain`).
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from benchmarks import streams
from benchmarks.before import DEMO, WARMUP, Tree
from benchmarks.deciding import train
from benchmarks.openset.sets import SETTINGS
from benchmarks.openset.sets import problem as lay_out
from benchmarks.written import ROOT, Write, shown, table, tell
from stream_osr import OpenSetRecognizer
from stream_osr.model import sampler
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import Parameters, parameters
from stream_osr.training.trained import TrainedModel
from stream_osr_connectors.files import CsvSource, JsonLinesSink
from stream_osr_connectors.files.file_run import FileRun, Sinks
from tests.oracles.plain import plain_step

REPEATS = 3
SEED = 0
PLAIN = 4000
"""Instances of the plain step."""
TOGETHER = 4
"""Processes that start together on an empty cache."""


STEPS = {f"{name}-{batch}": (name, batch) for name in ("LETTER", "USPS") for batch in (256, 64)}
"""Data set at its highest openness, and micro-batch of each stream."""


class Problem(NamedTuple):
    """A trained model, the whitened rows of its stream, and how both were made."""

    trained: TrainedModel
    rows: np.ndarray
    parameters: Parameters


def problem(dataset: str, **chosen: Any) -> Problem:
    """Train on the known classes; the test part is the stream."""
    given = lay_out(dataset, None, SEED)
    p = parameters(seed=SEED, pca=SETTINGS[dataset].pca, n_jobs=1, **chosen)
    trained = train(given.X_train, given.group, p, given.known)
    return Problem(trained, whiten(trained.whitening, given.X_test), p)


def seat(step: Callable[..., Any], given: Problem, batch: int, window: int) -> float:
    """Time a step over the rows of a problem: microseconds of the processor an instance."""
    known, frozen, rows = given.trained.known, given.trained.densities[0], given.rows
    settings = sampler.Settings(given.parameters.sweeps, window, given.parameters.half_life)
    state = sampler.open_stream(known, frozen)
    begin = time.process_time()
    for number, at in enumerate(range(0, len(rows), batch)):
        rng = np.random.default_rng([SEED, number])
        state, _ = step(known, frozen, state, rows[at : at + batch], rng, settings)
    return 1e6 * (time.process_time() - begin) / len(rows)


def measure_streams(instances: int | None, repeats: int) -> str:
    """Whole streams through the class, and what a prediction takes when they have ended."""
    keys = ("row", "instances", "processor_us", "wall_us", "floor_us", "floors", "ask_us")
    found = {name: streams.measure(name, instances, repeats) for name in streams.ROWS}
    columns = ("stream", "instances", "processor, us", "wall, us", "floor, us", "/ floor", "prediction, us")
    asked = [found[f"LETTER, batch 64, {kind}"]["ask_us"] for kind in ("defaults", "one chain, window 0")]
    return (
        f"{table(columns, [[each[key] for key in keys] for each in found.values()])}\n\n"
        f"A prediction with the defaults takes {shown(asked[0] / asked[1])} times as long as with one chain."
    )


def measure_step(instances: int | None, repeats: int) -> str:
    """Floor and step of one chain in turn, without window and with the default one; then the plain step."""
    rows = []
    for name, (dataset, batch) in STEPS.items():
        given = problem(dataset, chains=1)
        given = given._replace(rows=given.rows[:instances])
        window = given.parameters.window_after(batch)
        runs = []
        for _ in range(repeats + 1):
            floor = streams.floor(given.rows, len(given.trained.known.ids) + 1, batch)
            runs.append([floor, *(seat(sampler.step, given, batch, size) for size in (0, window))])
        floor, bare, windowed = np.median(runs[1:], axis=0).tolist()
        short = given._replace(rows=given.rows[:PLAIN])
        _, plain = (seat(plain_step, short, batch, 0) for _ in range(2))
        rows.append([name, floor, bare, bare / floor, plain / bare, windowed, windowed / floor])
    columns = ("setting", "floor, us", "step, us", "/ floor", "plain / step", "with window, us", "/ floor")
    return table(columns, rows)


START = """
import sys, time; begin = time.perf_counter(), time.process_time()
import numpy as np
from stream_osr import OpenSetRecognizer
model = OpenSetRecognizer.load(sys.argv[1])
for i in range(256):
    model.learn_one(dict(enumerate(np.random.default_rng(i).normal(7, 2, 16).tolist())))
assert len(list(model.drain())) == 256
"""


def training(path: Path, repeats: int) -> Iterator[tuple[float, float]]:
    """Train on LETTER's known classes with the defaults, one thread; processor and wall seconds. Leaves the model."""
    for _ in range(repeats + 1):
        begin = time.process_time(), time.perf_counter()
        given = problem("LETTER")
        yield time.process_time() - begin[0], time.perf_counter() - begin[1]
    OpenSetRecognizer.from_trained(given.trained, seed=SEED, n_jobs=1).save(path)


def measure_beginnings(_: int | None, repeats: int) -> str:
    """Seconds of what comes before the first decision."""
    rows: list[list[object]] = []

    def add(name: str, runs: list[tuple[float, float]]) -> None:
        rows.append([name, *np.median(runs, axis=0).tolist()])

    with tempfile.TemporaryDirectory() as folder:
        for name, command in (("stream-osr warmup", WARMUP), ("stream-osr demo", DEMO)):
            tree = Tree(ROOT, Path(folder, name.split()[1]))
            tree.folder.mkdir()
            add(f"`{name}`, empty cache", [tree.python(*command)[1:]])
            add(f"`{name}`, filled cache", [tree.python(*command)[1:] for _ in range(repeats)])
        tree = Tree(ROOT, Path(folder, "together"))
        tree.folder.mkdir()
        with ThreadPoolExecutor(TOGETHER) as pool:  # the children of the last one to end are those of all
            ran = list(pool.map(lambda _: tree.python(*WARMUP)[1:], range(TOGETHER)))
        add(f"{TOGETHER} of `stream-osr warmup` together, empty cache", [max(ran)])
        model = Path(folder, "speed.osr")
        add("training, LETTER, defaults, one thread", list(training(model, repeats))[1:])
        runs = [tree.python("-c", START, str(model))[1:] for _ in range(repeats + 1)]
        add("new process: import, load, first batch, filled cache", runs[1:])
    return table(("", "processor, s", "wall, s"), rows)


def measure_files(instances: int | None, repeats: int) -> str:
    """Run from CSV to JSON Lines with a checkpoint, and the class on a frame of the same rows, in turn."""
    rows = []
    for name, row in streams.ROWS.items():
        if row.one_by_one or row.threads is None:
            continue
        fresh, frame = streams.begun(row, instances)
        with tempfile.TemporaryDirectory() as folder:
            table_of, decisions = Path(folder, "stream.csv"), Path(folder, "decisions.jsonl")
            frame.to_csv(table_of, index=False)
            runs = []
            for _ in range(repeats + 1):
                alone_us = float(streams.run(fresh(), frame)[0])
                gc.collect()
                begin = time.process_time()
                with CsvSource(table_of) as source, JsonLinesSink(decisions) as sink:
                    FileRun(fresh(), source, Sinks(sink), checkpoint=Path(folder, "checkpoint")).run()
                runs.append([alone_us, 1e6 * (time.process_time() - begin) / len(frame)])
        alone_us, file_us = np.median(runs[1:], axis=0).tolist()
        rows.append([name, alone_us, file_us, file_us / alone_us])
    return table(("stream", "class, us", "files, us", "ratio"), rows)


TABLES = {"streams": measure_streams, "step": measure_step, "beginnings": measure_beginnings, "files": measure_files}


def main(
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(TABLES)}.")] = ",".join(TABLES),
    instances: Annotated[int | None, typer.Option(help="Of each stream, for a quick look; all if not given.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Measured runs of each.")] = REPEATS,
    write: Write = False,
) -> None:
    """Measure and print."""
    for name in only.split(","):
        with threadpool_limits(1):
            text = TABLES[name](instances, repeats)
        tell(name, text, write)


if __name__ == "__main__":
    typer.run(main)
