"""How soon a known class that moves is told of, and how often one that stays is.

PENDIGITS, USPS and LETTER by the paper's protocol, defaults of the library but for batches of 64. Streams without
drift: the test part with no unknown class (*closed*), with all of them mixed in (*open*), and with one unknown class
after the other switched on, at most 150 instances of each (*switched on*). Streams with drift: the closed one, in
which one of the first two known classes changes half way: its rows are shifted in a random direction by so many
within-class standard deviations, or spread about their mean, at once or evenly more up to the end.

- *false*: `ClassDrifted` in a stream without drift; in one with drift those about another class or before the change;
- *told*: changes that were told of; *delay*: instances of the class until then, the median of those told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.deciding import UNKNOWN, steps, train
from benchmarks.discovery.streams import BATCH
from benchmarks.discovery.tables import Runs, Table
from benchmarks.openset.sets import SETTINGS, Problem, problem
from stream_osr import ClassDrifted
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import parameters
from stream_osr.training.trained import TrainedModel

DATASETS = ("PENDIGITS", "USPS", "LETTER")
MOVING = 2
"""Known classes that are moved, one in each stream."""
SWITCHED_ON = 150


class Change(NamedTuple):
    """What happens to a class: a shift by so many standard deviations, or a spread by this factor."""

    kind: str
    size: float
    gradual: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.size:g}{', gradual' if self.gradual else ''}"


CHANGES = (
    *(Change("shift", size) for size in (1, 2, 3, 10)),
    *(Change("shift", size, gradual=True) for size in (3, 10)),
    *(Change("spread", size) for size in (0.5, 1.5, 2)),
)


def changed(
    X: np.ndarray, moves: np.ndarray, change: Change, trained: TrainedModel, rng: np.random.Generator
) -> np.ndarray:
    """Change the rows of one class from the middle of the stream on; ``moves`` says which are of it, shape (n,)."""
    out = X.copy()
    late = np.flatnonzero(moves & (np.arange(len(X)) >= len(X) // 2))
    degree = np.linspace(0, 1, len(late))[:, None] if change.gradual else np.ones((len(late), 1))
    if change.kind == "shift":
        way = rng.normal(size=len(trained.whitening.backward))
        out[late] += degree * change.size * (way / np.linalg.norm(way)) @ trained.whitening.backward
    else:
        middle = X[moves].mean(axis=0)
        out[late] = middle + (1.0 + degree * (change.size - 1.0)) * (X[late] - middle)
    return out


def switched_on(given: Problem, rng: np.random.Generator) -> np.ndarray:
    """Rows of the known classes, and of one unknown class after the other, each for two of its turns."""
    known = given.X_test[given.truth != UNKNOWN]
    places, rows = [np.arange(len(known), dtype=float)], [known]
    turn = 0.8 * len(known) / len(given.unknown)
    for number, label in enumerate(given.unknown):
        of_class = given.X_test[np.array(given.labels) == label][:SWITCHED_ON]
        start = 0.2 * len(known) + number * turn
        places.append(np.sort(rng.uniform(start, start + 2 * turn, len(of_class))))
        rows.append(of_class)
    return np.concatenate(rows)[np.argsort(np.concatenate(places), kind="stable")]


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each stream; they share the training."""
    given = problem(dataset, None, seed)
    chosen = parameters(seed=seed, pca=SETTINGS[dataset].pca, batch_size=BATCH)
    trained = train(given.X_train, given.group, chosen)

    def drifts(X: np.ndarray) -> list[ClassDrifted]:
        batches = steps(trained, whiten(trained.whitening, X), chosen)
        return [event for _, batch in batches for event in batch.events if isinstance(event, ClassDrifted)]

    X, y = given.X_test[given.truth != UNKNOWN], given.truth[given.truth != UNKNOWN]
    switched = switched_on(given, np.random.default_rng(seed))
    for name, rows in (("closed", X), ("open", given.X_test), ("switched on", switched)):
        yield {"stream": name, "instances": len(rows), "false": len(drifts(rows))}
    half = len(X) // 2
    for j in range(MOVING):
        for change in CHANGES:
            events = drifts(changed(X, y == j, change, trained, np.random.default_rng([seed, j])))
            right = [event for event in events if event.label == j and event.seq >= half]
            delay = int((y[half : right[0].seq + 1] == j).sum()) if right else None
            yield {"stream": str(change), "instances": len(X), "false": len(events) - len(right), "delay": delay}


def false_in(dataset: str) -> Callable[[Runs], str]:
    """Make the column of a data set: the mean of false ones in a stream."""

    def cell(runs: Runs) -> str:
        found = [run["false"] for run in runs if run["dataset"] == dataset]
        return f"{fmean(found):.2f}" if found else ""

    return cell


def delays(runs: Runs) -> list[int]:
    """List the delays of the announced changes."""
    return [run["delay"] for run in runs if run.get("delay") is not None]


table = Table(
    {
        **{f"false: {dataset}": false_in(dataset) for dataset in DATASETS},
        "told": lambda runs: f"{len(delays(runs))} of {len(runs)}" if "delay" in runs[0] else "",
        "delay": lambda runs: f"{median(found):.0f}" if (found := delays(runs)) else "",
    },
    keys=("stream",),
)
