"""Does the fast step decide as the plain one does? python -m benchmarks.plain_comparison [--seeds N].

Both run over the same streams, one chain, window 0. With the same randomness they should draw the same seats, but
for draws on the edge, after which a chain goes another way; with other randomness they should be as far from each
other as the plain step (:mod:`benchmarks.plain`) is from itself. Means over the seeds, and standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.paper.datasets import load
from benchmarks.paper.protocol import split
from benchmarks.plain import plain_step
from benchmarks.speed import STEPS, Setting
from stream_osr.evaluation import OpenSetReport
from stream_osr.instances.features import Features
from stream_osr.model import sampler as sampler
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.restaurants import StreamState
from stream_osr.parameters import parameters
from stream_osr.training.trained import TrainedModel, train_model

UNKNOWN = -1
Step = Callable[..., tuple[StreamState, np.ndarray]]


class Stream(NamedTuple):
    """A trained model, whitened rows, the class of each (`UNKNOWN`: none of the trained), and how they are seated."""

    trained: TrainedModel
    rows: np.ndarray
    truth: np.ndarray
    batch: int
    settings: sampler.Settings


def make_stream(setting: Setting, seed: int, instances: int | None = None) -> Stream:
    """Train on the known classes of a split; its test part, or the first instances of it, is the stream."""
    data = load(setting.dataset)
    part = split(data.X, data.y, setting.n_known, setting.n_unknown, seed)
    number = {label: j for j, label in enumerate(part.known)}
    p = parameters(seed=seed, pca=setting.pca, chains=1, window=0, n_jobs=1)
    group = np.array([number[label] for label in part.y_train.tolist()])
    trained = train_model(Features(range(data.X.shape[1])), part.X_train, group, tuple(part.known), p)
    rows = whiten(trained.whitening, np.asarray(part.X_test[:instances], dtype=float))
    truth = np.array([number.get(label, UNKNOWN) for label in part.y_test[:instances].tolist()])
    return Stream(trained, rows, truth, setting.batch, sampler.Settings(p.sweeps, 0, p.half_life))


def fast_step(*arguments: Any) -> tuple[StreamState, np.ndarray]:
    """Take the library's step: the next state and the probabilities."""
    state, result = sampler.step(*arguments)
    return state, result.probabilities


def seat(step: Step, stream: Stream, randomness: int) -> np.ndarray:
    """Probabilities of each instance, shape (n, J + 1), unknown last."""
    known, frozen = stream.trained.known, stream.trained.densities[0]
    state, found = sampler.open_stream(known, frozen), []
    for number, at in enumerate(range(0, len(stream.rows), stream.batch)):
        rng = np.random.default_rng([randomness, number])
        rows = stream.rows[at : at + stream.batch]
        state, probabilities = step(known, frozen, state, rows, rng, stream.settings)
        found.append(probabilities)
    return np.concatenate(found)


class Figures(NamedTuple):
    """What the probabilities of a stream come to."""

    micro_f: float
    p_unknown_of_known: float
    p_unknown_of_new: float


def figures(probabilities: np.ndarray, truth: np.ndarray) -> Figures:
    """Micro-F of the most probable labels, and the mean of P(unknown) over known and over new instances."""
    n_classes = probabilities.shape[1] - 1
    called = probabilities.argmax(axis=1)
    report = OpenSetReport(range(n_classes), UNKNOWN)
    report.update_many(truth.tolist(), np.where(called == n_classes, UNKNOWN, called).tolist())
    unknown, new = probabilities[:, -1], truth == UNKNOWN
    return Figures(report.micro_f, float(unknown[~new].mean()), float(unknown[new].mean()))


class Comparison(NamedTuple):
    """Over the seeds: figures of each run, shape (seeds, 3), and distances between runs, shape (seeds,).

    ``again`` is the plain step and ``same`` the fast one with other randomness than ``fast``: ``same`` has that of
    ``plain``. A distance is the mean absolute difference of P(unknown) over the instances.
    """

    fast: np.ndarray
    plain: np.ndarray
    again: np.ndarray
    same: np.ndarray
    fast_plain: np.ndarray
    plain_plain: np.ndarray
    same_plain: np.ndarray


def compare(streams: Sequence[Stream], fast: Step = fast_step) -> Comparison:
    """Run both steps over every stream."""
    rows = []
    for stream in streams:
        runs = seat(fast, stream, 0), seat(plain_step, stream, 1), seat(plain_step, stream, 2), seat(fast, stream, 1)
        pairs = ((0, 1), (2, 1), (3, 1))
        distances = [float(np.abs(runs[a][:, -1] - runs[b][:, -1]).mean()) for a, b in pairs]
        rows.append([figures(run, stream.truth) for run in runs] + distances)
    return Comparison(*(np.array(column) for column in zip(*rows, strict=True)))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over the seeds and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def main(
    seeds: Annotated[int, typer.Option(min=2, help="Splits, each trained anew.")] = 10,
    settings: Annotated[str, typer.Option(help=f"Some of {', '.join(STEPS)}.")] = "LETTER-64,USPS-64",
    instances: Annotated[int | None, typer.Option(help="Of each stream; all if not given.")] = None,
) -> None:
    """Print the comparison."""
    columns = ("fast, spread", "plain, spread", "fast - plain", "plain - plain", "fast - plain, same randomness")
    for name in settings.split(","):
        table = Table("", *columns, title=f"{name}, {seeds} seeds")
        with threadpool_limits(1):
            found = compare([make_stream(STEPS[name], seed, instances) for seed in range(seeds)])
        for k, figure in enumerate(Figures._fields):
            fast, plain, again, same = (run[:, k] for run in found[:4])
            cells = [f"{run.mean():.4f}, {run.std(ddof=1):.4f}" for run in (fast, plain)]
            for difference in (fast - plain, again - plain, same - plain):
                mean, error = mean_and_error(difference)
                cells.append(f"{mean:+.5f} ± {error:.5f}")
            table.add_row(figure, *cells)
        distances = ("{:.5f} ± {:.5f}".format(*mean_and_error(each)) for each in found[4:])
        table.add_row("mean |difference| of P(unknown)", "", "", *distances)
        Console(width=160).print(table)


if __name__ == "__main__":
    typer.run(main)
