"""How the cost of a decision grows: python -m benchmarks.growth [--figure FILE] [--write].

Processor microseconds an instance through the class, batches of 64, one thread, at the defaults and with one chain
without window: against the instances seen so far (LETTER over and over, every time in another order and each value
moved by up to half a step, so that no instance comes twice), against the number of known classes, a Gaussian and so
a subclass each, and against the dimension (made up for it, half of the stream new). And what two processes do.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from threadpoolctl import threadpool_limits

from benchmarks.openset.sets import problem
from benchmarks.streams import DEFAULTS, ONE_CHAIN, run
from benchmarks.written import Write, shown, table, tell
from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped

SEED = 0
BATCH = 64
SEEN = 1_000_000
CHUNKS = 20
TOLD = 4  # of the chunks each fourth has a row in the table
CLASSES = (5, 10, 20, 50, 80, 200)
DIMENSIONS = (16, 32, 64, 128)
STREAM = 4000
NEW = 10
FLAT = 1.1
"""The last quarter of a stream that does not age costs at most so many times what the second one does."""

MODELS = {"defaults": DEFAULTS, "one chain, window 0": ONE_CHAIN}
Points = list[tuple[float, float]]


def train(X: np.ndarray, y: np.ndarray, **arguments: Any) -> OpenSetRecognizer:
    """Make a recognizer that is ready for its stream."""
    model = OpenSetRecognizer(**grouped(seed=SEED, batch_size=BATCH, n_jobs=1, **arguments))
    model.learn_many(pd.DataFrame(X), y.tolist())
    model.freeze()
    return model


def over_time(instances: int, **arguments: Any) -> Points:
    """Cost in each chunk of a long stream."""
    part, rng = problem("LETTER", None, SEED), np.random.default_rng(SEED)
    model, size, out = train(part.X_train, part.group, **arguments), instances // CHUNKS, []
    rest = np.empty((0, part.X_test.shape[1]))
    for seen in range(size, size * CHUNKS + 1, size):
        while len(rest) < size:
            again = rng.permutation(part.X_test)
            rest = np.concatenate([rest, again + rng.uniform(-0.5, 0.5, size=again.shape)])
        out.append((float(seen), float(run(model, pd.DataFrame(rest[:size]))[0])))
        list(model.drain_events())
        rest = rest[size:]
    return out


def of_gaussians(n_classes: int, d: int, stream: int, n_new: int = NEW, **arguments: Any) -> tuple[float, int]:
    """Cost with Gaussian classes of 200 + 2 d instances each, half of the stream new; and the active subclasses.

    Ten of the new classes come at a time, and each later ten adds one and drops one.
    """
    rng = np.random.default_rng(SEED)
    centres = rng.normal(scale=4.0, size=(n_classes + n_new, d))
    group = np.repeat(np.arange(n_classes), 200 + 2 * d)
    X = centres[group] + rng.normal(size=(len(group), d))
    trained = train(X, group, training_sweeps=5, **arguments).trained
    first = np.linspace(0, n_new - NEW, stream).round().astype(int)
    known, new = rng.integers(n_classes, size=stream), n_classes + first + rng.integers(NEW, size=stream)
    rows = centres[np.where(rng.random(stream) < 0.5, known, new)] + rng.normal(size=(stream, d))
    took = []
    for _ in range(2):
        model = OpenSetRecognizer.from_trained(trained, **grouped(seed=SEED, batch_size=BATCH, n_jobs=1, **arguments))
        took.append(run(model, pd.DataFrame(rows))[0])
    return float(took[-1]), model.value.menu.active


def ageing(points: Points) -> str:
    """Say whether the cost has stayed what it was when most of what is new had emerged."""
    us, quarter = np.array([us for _, us in points]), len(points) // 4
    ratio = float(np.median(us[-quarter:]) / np.median(us[quarter : 2 * quarter]))
    return f"{'flat' if ratio <= FLAT else 'not flat'} (the last quarter costs {shown(ratio)} times the second)"


def power(points: Points) -> str:
    """Say with which power the cost grows, from the first point to the last and between the last two."""

    def slope(a: tuple[float, float], b: tuple[float, float]) -> str:
        return shown(math.log(b[1] / a[1]) / math.log(b[0] / a[0]))

    return f"power {slope(points[0], points[-1])}, at the end {slope(points[-2], points[-1])}"


def _worker(ready: Barrier, instances: int) -> None:
    with threadpool_limits(1):
        part = problem("LETTER", None, SEED)
        trained, frame = train(part.X_train, part.group).trained, pd.DataFrame(part.X_test[:instances])
        for _ in range(2):
            model = OpenSetRecognizer.from_trained(trained, seed=SEED, batch_size=BATCH, n_jobs=1)
            run(model, frame)
            ready.wait()


def throughput(processes: int, instances: int) -> float:
    """Time that so many processes take for a stream each, in seconds, once they are warm."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    workers = [context.Process(target=_worker, args=(ready, instances)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    ready.wait()
    begin = time.perf_counter()
    ready.wait()
    took = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    return took


Panels = dict[str, dict[str, Points]]
"""For each kind of growth the points of each model."""


def measure() -> Panels:
    """Measure every kind of growth for every model."""
    with threadpool_limits(1):
        kinds: dict[str, Callable[..., Points]] = {
            "instances seen": partial(over_time, SEEN),
            "known classes, a subclass each (d = 16)": lambda **each: [
                (float(n), of_gaussians(n, 16, STREAM, **each)[0]) for n in CLASSES
            ],
            "dimensions": lambda **each: [(float(d), of_gaussians(10, d, STREAM, **each)[0]) for d in DIMENSIONS],
        }
        return {kind: {name: of(**each) for name, each in MODELS.items()} for kind, of in kinds.items()}


def described(panels: Panels) -> str:
    """Write a table for each kind of growth, and what it comes to."""
    parts = []
    for kind, lines in panels.items():
        judged = ageing if kind == "instances seen" else power
        step = TOLD if kind == "instances seen" else 1
        rows = zip(*(points[step - 1 :: step] for points in lines.values()), strict=True)
        columns = (kind, *(f"{name}, us" for name in lines))
        cells = [[f"{points[0][0]:,.0f}", *(us for _, us in points)] for points in rows]
        judgements = "\n".join(f"- {name}: {judged(points)}" for name, points in lines.items())
        parts += [table(columns, cells), f"Growth of the cost:\n\n{judgements}"]
    return "\n\n".join(parts)


def draw(figure: Path, panels: Panels) -> None:
    """One panel for each kind of growth."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(12, 3.6), layout="constrained")
    for axes, (kind, lines) in zip(canvas.subplots(1, len(panels)), panels.items(), strict=True):
        for (name, points), colour in zip(lines.items(), ("#0072b2", "#d55e00"), strict=True):
            axes.plot(*zip(*points, strict=True), marker="o", color=colour, markersize=4, label=name)
        axes.set(xlabel=kind, ylabel="microseconds an instance", ylim=(0.0, None), xlim=(0.0, None))
        axes.grid(alpha=0.3)
    axes.legend()
    canvas.savefig(figure, dpi=100)


def main(
    figure: Annotated[Path | None, typer.Option(help="Draw the growth into this file.")] = None,
    write: Write = False,
) -> None:
    """Measure, print and draw."""
    panels = measure()
    one, two = (throughput(processes, STREAM) for processes in (1, 2))
    gain = shown(2.0 * one / two)
    text = f"{described(panels)}\n\nTwo processes with a stream each have {gain} times the throughput of one."
    if figure is not None:
        draw(figure, panels)
    tell("growth", text, write)


if __name__ == "__main__":
    typer.run(main)
