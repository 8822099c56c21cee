"""How the cost of the step grows: python -m benchmarks.growth [--figure FILE].

Microseconds an instance, one chain, window 0, batches of 64, one thread: against the instances seen so far (LETTER,
over and over), against the number of known subclasses and against the dimension (Gaussian classes made up for it,
half of the stream new). And what two processes do beside one, each with a stream of its own.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.speed import SEED, STEPS, Problem, median, problem, step
from stream_osr.config import parameters
from stream_osr.features import Features
from stream_osr.model import step as sampler
from stream_osr.model.space import whiten
from stream_osr.trained import train_model

BATCH = 64
SEEN = 1_000_000
CHUNK = 50_000
CLASSES = (5, 10, 20, 40, 80)
DIMENSIONS = (16, 32, 64, 128)
STREAM = 4000


def gaussian_classes(n_classes: int, d: int) -> Problem:
    """Train on Gaussian classes of 200 + 2 d instances each; half of the stream is of ten new ones."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(scale=4.0, size=(n_classes + 10, d))
    group = np.repeat(np.arange(n_classes), 200 + 2 * d)
    X = centres[group] + rng.normal(size=(len(group), d))
    p = parameters(seed=SEED, chains=1, window=0, training_sweeps=5, n_jobs=1)
    trained = train_model(Features(range(d)), X, group, tuple(range(n_classes)), p)
    known, new = rng.integers(n_classes, size=STREAM), n_classes + rng.integers(10, size=STREAM)
    which = np.where(rng.random(STREAM) < 0.5, known, new)
    raw = centres[which] + rng.normal(size=(STREAM, d))
    return Problem(trained, raw, whiten(trained.space, raw), p)


def over_time() -> list[tuple[float, float]]:
    """Microseconds an instance in each chunk of a stream of a million."""
    given = problem(STEPS["LETTER-64"], chains=1, window=0)
    known, frozen, p = given.trained.known, given.trained.densities[0], given.parameters
    settings = sampler.Settings(p.sweeps, 0, p.half_life)
    state, out = sampler.open_stream(known, frozen), []
    for begin in range(0, SEEN, CHUNK):
        rows = np.take(given.rows, np.arange(begin, begin + CHUNK), axis=0, mode="wrap")
        start = time.perf_counter()
        for at in range(0, CHUNK, BATCH):
            rng = np.random.default_rng([SEED, state.batches])
            state, _ = sampler.step(known, frozen, state, rows[at : at + BATCH], rng, settings)
        out.append((float(begin + CHUNK), 1e6 * (time.perf_counter() - start) / CHUNK))
    return out


def by_subclasses() -> list[tuple[float, float]]:
    """Microseconds an instance for more and more known subclasses, d = 16."""
    out = []
    for n_classes in CLASSES:
        given = gaussian_classes(n_classes, 16)
        out.append((float(len(given.trained.known.ids)), median(step(given, BATCH), 3)))
    return out


def by_dimension() -> list[tuple[float, float]]:
    """Microseconds an instance for more and more dimensions, ten known classes."""
    return [(float(d), median(step(gaussian_classes(10, d), BATCH), 3)) for d in DIMENSIONS]


def _worker(ready: Barrier, repeats: int) -> None:
    with threadpool_limits(1):
        run = step(problem(STEPS["LETTER-64"], chains=1, window=0), BATCH)
        run()
        ready.wait()
        for _ in range(repeats):
            run()
        ready.wait()


def throughput(processes: int, repeats: int = 20) -> float:
    """Time that so many processes take for ``repeats`` streams each, in seconds."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    workers = [context.Process(target=_worker, args=(ready, repeats)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    ready.wait()
    begin = time.perf_counter()
    ready.wait()
    took = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    return took


def draw(figure: Path, panels: dict[str, list[tuple[float, float]]]) -> None:
    """One panel for each kind of growth."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(12, 3.6), layout="constrained")
    for axes, (name, points) in zip(canvas.subplots(1, len(panels)), panels.items(), strict=True):
        x, y = zip(*points, strict=True)
        axes.plot(x, y, marker="o", color="#0072b2", markersize=4)
        axes.set(xlabel=name, ylabel="microseconds an instance", ylim=(0.0, None), xlim=(0.0, None))
        axes.grid(alpha=0.3)
    canvas.savefig(figure, dpi=100)


def main(
    figure: Annotated[Path | None, typer.Option(help="Draw the growth into this file.")] = None,
) -> None:
    """Measure, print and draw."""
    console = Console()
    with threadpool_limits(1):
        panels = {
            "instances seen": over_time(),
            "known subclasses (d = 16)": by_subclasses(),
            "dimensions": by_dimension(),
        }
    for name, points in panels.items():
        table = Table(name, "us an instance")
        for x, y in points:
            table.add_row(f"{x:,.0f}", f"{y:.1f}")
        console.print(table)
    one, two = throughput(1), throughput(2)
    console.print(f"two processes do {2.0 * one / two:.2f} times the work of one")
    if figure is not None:
        draw(figure, panels)


if __name__ == "__main__":
    typer.run(main)
