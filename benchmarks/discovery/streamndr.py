"""The stream of streamndr's read-me: four overlapping classes of river's RandomRBF, two of them known.

The first 1000 instances of classes 0 and 1 train; the next 5000 of all classes are the stream. The recognizer has
its defaults and is told no label; only its seed varies. Metrics as streamndr has them (`MNew`, `FNew`, `Err`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river.datasets import synth

from benchmarks.discovery.tables import Runs, Table, column
from stream_osr import OpenSetRecognizer
from stream_osr.evaluation import Err, FNew, MNew, prequential

DATASETS = ("RandomRBF",)
KNOWN = (0, 1)
TRAINING, STREAM = 1000, 5000

OTHERS = {
    "MINAS": (0.1715, 0.4011, 0.3680),
    "ECSMiner without feedback": (0.6093, 0.2678, 0.3940),
    "ECHO, given true labels": (0.2420, 0.1616, 0.2274),
}
"""MNew, FNew and Err of streamndr's own methods on this stream."""

Instance = tuple[dict[Any, float], int]


def parts() -> tuple[list[Instance], list[Instance]]:
    """Return the training part and the stream; instances of new classes that come during training are left out."""
    training: list[Instance] = []
    stream: list[Instance] = []
    for x, y in synth.RandomRBF(seed_model=42, seed_sample=42, n_classes=4, n_features=5, n_centroids=10):
        if len(training) < TRAINING:
            if y in KNOWN:
                training.append((x, y))
        elif len(stream) < STREAM:
            stream.append((x, y))
        else:
            break
    return training, stream


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Train with the defaults and a seed, run the stream, and yield the figures."""
    training, stream = parts()
    model = OpenSetRecognizer(seed=seed)
    for x, y in training:
        model.learn_one(x, y)
    result = prequential(stream, model, MNew(KNOWN) + FNew(KNOWN) + Err(KNOWN)).as_dict()
    yield {f"{kind} {m}": value for kind in ("immediate", "final") for m, value in result[kind].items()}


def table(runs: Runs) -> str:
    """Return the figures of each seed and their mean in per cent, and below the final ones of others."""
    names = [f"{kind} {metric}" for kind in ("immediate", "final") for metric in ("MNew", "FNew", "Err")]
    percent = [{**run, **{name: 100 * run[name] for name in names}} for run in runs]
    own = Table({name: column(name, form=".2f") for name in names}, keys=("seed",), total="mean")(percent)
    others = [" ".join((name, *(f"{100 * value:.2f}" for value in values))) for name, values in OTHERS.items()]
    return "\n".join([own, "", "Final MNew, FNew and Err of others:", *others])
