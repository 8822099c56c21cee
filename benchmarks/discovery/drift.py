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

from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.paper.datasets import KNOWN_CLASSES, PCA_DIMENSIONS, UNKNOWN_CLASSES, load
from benchmarks.paper.protocol import Split, split
from stream_osr import ClassDrifted
from stream_osr.instances.features import Features
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import Parameters, parameters
from stream_osr.stream import BufferedInstance, close_batch, open_stream
from stream_osr.training.trained import TrainedModel, train_model

DATASETS = ("PENDIGITS", "USPS", "LETTER")
BATCH = 64
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


def drifts(trained: TrainedModel, X: np.ndarray, chosen: Parameters) -> list[ClassDrifted]:
    """Run rows through a fresh stream."""
    stream = open_stream(trained, chosen)
    rows = whiten(trained.whitening, X)
    out: list[ClassDrifted] = []
    for begin in range(0, len(rows), BATCH):
        arrived = [BufferedInstance(row, None, None) for row in rows[begin : begin + BATCH]]
        stream, batch = close_batch(trained, stream, arrived, [], chosen)
        out += [event for event in batch.events if isinstance(event, ClassDrifted)]
    return out


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


def switched_on(part: Split, rng: np.random.Generator) -> np.ndarray:
    """Rows of the known classes, and of one unknown class after the other, each for two of its turns."""
    known = part.X_test[np.isin(part.y_test, np.array(part.known))]
    places, rows = [np.arange(len(known), dtype=float)], [known]
    turn = 0.8 * len(known) / len(part.unknown)
    for number, label in enumerate(part.unknown):
        of_class = part.X_test[part.y_test == label][:SWITCHED_ON]
        start = 0.2 * len(known) + number * turn
        places.append(np.sort(rng.uniform(start, start + 2 * turn, len(of_class))))
        rows.append(of_class)
    return np.concatenate(rows)[np.argsort(np.concatenate(places), kind="stable")]


def runs(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each stream of a data set; they share the training."""
    data = load(dataset)
    chosen = parameters(seed=seed, pca=PCA_DIMENSIONS.get(dataset), batch_size=BATCH)
    part = split(data.X, data.y, KNOWN_CLASSES[dataset], UNKNOWN_CLASSES[dataset][-1], seed)
    number = {label: j for j, label in enumerate(part.known)}
    group = np.array([number[label] for label in part.y_train.tolist()])
    labels = tuple(range(len(part.known)))
    trained = train_model(Features(range(data.X.shape[1])), part.X_train, group, labels, chosen)
    truth = np.array([number.get(label, -1) for label in part.y_test.tolist()])
    X, y = part.X_test[truth >= 0], truth[truth >= 0]
    about = {"dataset": dataset, "seed": seed}
    for name, rows in (
        ("closed", X),
        ("open", part.X_test),
        ("switched on", switched_on(part, np.random.default_rng(seed))),
    ):
        events = drifts(trained, rows, chosen)
        yield {**about, "stream": name, "instances": len(rows), "false": len(events)}
    for j in range(MOVING):
        for change in CHANGES:
            rows = changed(X, y == j, change, trained, np.random.default_rng([seed, j]))
            events = drifts(trained, rows, chosen)
            right = [event for event in events if event.label == j and event.seq >= len(X) // 2]
            delay = int((y[len(X) // 2 : right[0].seq + 1] == j).sum()) if right else None
            false = len(events) - len([event for event in events if event.label == j and event.seq >= len(X) // 2])
            yield {**about, "stream": str(change), "instances": len(X), "false": false, "delay": delay}


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield the figures of each data set of this setting that is asked for, and seed."""
    for dataset in DATASETS:
        if dataset in datasets:
            for seed in seeds:
                yield from runs(dataset, seed)


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return what was told, for each kind of stream: false ones for each data set, and changes over all of them."""
    datasets = list(dict.fromkeys(run["dataset"] for run in figures))
    lines = [f"{'stream':<20}" + "".join(f"{name:>12}" for name in datasets) + f"{'told':>9}{'delay':>7}"]
    for name in dict.fromkeys(run["stream"] for run in figures):
        of_kind = [run for run in figures if run["stream"] == name]
        false = (fmean(run["false"] for run in of_kind if run["dataset"] == dataset) for dataset in datasets)
        line = f"{name:<20}" + "".join(f"{value:12.2f}" for value in false)
        if "delay" in of_kind[0]:
            delays = [run["delay"] for run in of_kind if run["delay"] is not None]
            line += f"{len(delays):>4} of {len(of_kind)}" + (f"{median(delays):5.0f}" if delays else "")
        lines.append(line)
    return "\n".join([f"{'':<20}false, a stream", *lines])
