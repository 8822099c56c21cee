"""Wide tables, untouched defaults: python -m benchmarks.width [--write].

Each table in a process of its own, one thread, after a small one of the same shape has compiled and warmed
everything: what training takes in seconds and memory, what an instance of the stream costs, and what comes of it.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import typer
from scipy.ndimage import zoom
from threadpoolctl import threadpool_limits

from benchmarks.breadth import PAGE
from benchmarks.deciding import UNKNOWN, decide, scores
from benchmarks.paper.datasets import load
from benchmarks.written import Write, table, tell
from stream_osr import OpenSetRecognizer

SEED = 0
SIDE, LARGER = 16, 28
NOISE = 0.1
STREAM = 3000
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training rows and labels, rows and labels of the stream."""


def enlarged_digits(classes: int, each: int, stream: int) -> Table:
    """USPS as 28 by 28 pixels with noise, some of the digits train."""
    data, rng = load("USPS"), np.random.default_rng(SEED)
    known = rng.permutation(10)[:classes]
    training = np.concatenate([rng.permutation(np.flatnonzero(data.y == label))[:each] for label in known])
    rest = rng.permutation(np.setdiff1d(np.arange(len(data.y)), training))[:stream]
    at = np.concatenate([training, rest])
    images = zoom(data.X[at].reshape(-1, SIDE, SIDE), (1, LARGER / SIDE, LARGER / SIDE), order=1)
    X = images.reshape(len(at), -1) + NOISE * rng.normal(size=(len(at), LARGER**2))
    n = len(training)
    return X[:n], data.y[training], X[n:], data.y[rest]


def gaussians(features: int, instances: int, classes: int, stream: int) -> Table:
    """Classes in as many features, the first of them known, with noise that is alike in neighbouring features."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(scale=0.7, size=(2 * classes, features))
    y = np.concatenate([np.arange(instances) % classes, rng.integers(2 * classes, size=stream)])
    noise = rng.normal(size=(len(y), features))
    X = centres[y] + 0.6 * noise + 0.8 * np.roll(noise, 1, axis=1)
    return X[:instances], y[:instances], X[instances:], y[instances:]


TABLES: dict[str, tuple[Callable[..., Table], tuple[int, ...]]] = {
    "USPS at 28 x 28 with noise, 5 classes of 600": (enlarged_digits, (5, 600, STREAM)),
    "Gaussians, 1000 features, 1000 rows, 5 classes": (gaussians, (1000, 1000, 5, STREAM)),
    "Gaussians, 269 features, 600 rows, 5 classes": (gaussians, (269, 600, 5, STREAM)),
    "Gaussians, 100 features, 300 rows, 5 classes": (gaussians, (100, 300, 5, STREAM)),
}
COLUMNS = ["table", "dimensions", "training, s", "memory, GB", "an instance, us", "micro-F", "AUROC", "subclasses"]
COLUMNS += ["estimated new classes", "new classes"]


def measure(name: str) -> tuple[Any, ...]:
    """Train and stream; a row of the table."""
    make, arguments = TABLES[name]
    X_train, y_train, X, y = make(*arguments)
    with threadpool_limits(1):
        for stream in (200, len(X)):  # the first to get warm
            begin = time.process_time()
            model = OpenSetRecognizer(seed=SEED, n_jobs=1, unknown=UNKNOWN)
            model.learn_many(pd.DataFrame(X_train), y_train.tolist())
            report_of = model.freeze()
            trained_in = time.process_time() - begin
            begin = time.process_time()
            decisions = decide(model, pd.DataFrame(X[:stream]))
            cost = 1e6 * (time.process_time() - begin) / stream
    known, truth = sorted(set(y_train.tolist())), y.tolist()
    found = scores(truth, [each.label for each in decisions], [each.p_unknown for each in decisions], known)
    subclasses = len({each.subclass_id for each in decisions if each.label == UNKNOWN} - {None})
    said = str(model.new_classes().estimate)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cells = trained_in, memory, cost, found["micro_f"], found["auroc"], subclasses, said
    return name, report_of.dimensions, *cells, len(set(truth) - set(known))


def main(write: Write = False) -> None:
    """Measure and print."""
    rows = []
    for name in TABLES:
        print("measuring", name, file=sys.stderr)
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            rows.append(alone.apply(measure, (name,)))
    tell("width", table(COLUMNS, rows), write, PAGE)


if __name__ == "__main__":
    typer.run(main)
