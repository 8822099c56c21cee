"""Known classes hold in streams in which nothing is new: what was promised, what the frozen model does, what came.

The streams are river's generators, digits, made-up classes, and the known part of real sets.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from river.datasets import synth

from benchmarks.openset.cells import BATCH
from benchmarks.openset.sets import FIVE, SETTINGS
from benchmarks.openset.sets import problem as lay_out
from benchmarks.paper.datasets import load
from benchmarks.tabular import TABLES, divide
from benchmarks.trust.problems import Problem, follow, train
from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.training.trained import TrainedModel

SAMPLE = 4_000
"""Instances of the last fifth, at most, that the frozen model is asked about."""

SHORTEST, LONGEST = 100, 1_000
"""Of the windows of the live figure: a tenth of the stream, within these."""

TRAINING = 2_000
INSTANCES = 50_000
"""Of river's generators: the training part and the stream after it."""

MADE_UP = 6_000
"""Length of the streams of Gaussians and blobs."""

N_GAUSSIANS, GAUSSIAN_FEATURES, APART = 8, 10, 3.0
N_BLOBS, BLOB_TRAINING, BLOB_BOX = 4, 50, 10.0
"""Blobs are scikit-learn's: centres anywhere in a box, standard deviation 1."""

RIVER: dict[str, Callable[[int], Any]] = {
    **{f"SEA{variant}": lambda seed, variant=variant: synth.SEA(variant, seed=seed) for variant in range(4)},
    "Agrawal": lambda seed: synth.Agrawal(seed=seed),
    "LED": lambda seed: synth.LED(seed=seed, noise_percentage=0.1),
    "Hyperplane": lambda seed: synth.Hyperplane(seed=seed),
    "RandomRBF": lambda seed: synth.RandomRBF(seed_model=seed, seed_sample=seed),
    "Waveform": lambda seed: synth.Waveform(seed=seed),
}

DIGITS = {"100-in-all": 100, "100-a-class": 700, "20-a-class": 140}
"""Training instances of digits 0 to 6."""


def river(name: str, seed: int, length: int | None) -> Problem:
    """Take the first instances of a generator for training and the next for the stream; labels as text."""
    rows, labels = [], []
    for x, y in islice(RIVER[name](seed), TRAINING + (length or INSTANCES)):
        rows.append([float(x[feature]) for feature in sorted(x)])
        labels.append(str(y))
    X, y = np.array(rows), np.array(labels)
    return Problem(X[:TRAINING], y[:TRAINING], X[TRAINING:], y[TRAINING:], {})


def digits(name: str, seed: int, length: int | None) -> Problem:
    """Digits 0 to 6: training instances drawn at random, from all or from each class, the rest once through."""
    X, y = load("DIGITS")
    at = np.flatnonzero(np.isin(y, [str(digit) for digit in range(7)]))
    at = np.random.default_rng([seed, DIGITS[name]]).permutation(at)
    taken = np.zeros(len(at), bool)
    if name == "100-in-all":
        taken[: DIGITS[name]] = True
    else:
        for label in np.unique(y[at]):
            taken[np.flatnonzero(y[at] == label)[: DIGITS[name] // 7]] = True
    return Problem(X[at[taken]], y[at[taken]], X[at[~taken]], y[at[~taken]], {})


def _around(centres: np.ndarray, n_training: int, rng: np.random.Generator) -> Problem:
    """Draw so many training instances of each class, and a stream, standard normal around the centres."""
    y_train = np.repeat(np.arange(len(centres)), n_training)
    y = rng.integers(len(centres), size=MADE_UP)
    X_train, X = (centres[labels] + rng.normal(size=(len(labels), centres.shape[1])) for labels in (y_train, y))
    return Problem(X_train, y_train, X, y, {})


def gaussians(name: str, seed: int, length: int | None) -> Problem:
    """Eight Gaussians in ten features; the name is the number of training instances of each."""
    rng = np.random.default_rng([seed, int(name)])
    return _around(rng.normal(scale=APART, size=(N_GAUSSIANS, GAUSSIAN_FEATURES)), int(name), rng)


def blobs(name: str, seed: int, length: int | None) -> Problem:
    """Four blobs; the name is the number of features."""
    rng = np.random.default_rng([seed, int(name)])
    return _around(rng.uniform(-BLOB_BOX, BLOB_BOX, size=(N_BLOBS, int(name))), BLOB_TRAINING, rng)


def of_breadth(name: str, seed: int, length: int | None) -> Problem:
    """Take the known classes' test part of one of the seventeen sets."""
    given = Problem(*divide(name, seed)[:4], {"batch_size": BATCH})
    known = np.isin(given.y, given.y_train)
    return given._replace(X=given.X[known], y=given.y[known])


def of_five(name: str, seed: int, length: int | None) -> Problem:
    """Take the known classes' test part of one of the five sets at its highest openness."""
    given, pca = lay_out(name, 0, seed), SETTINGS[name].pca
    arguments: dict[str, Any] = {"batch_size": BATCH} | ({} if pca is None else {"pca": pca})
    y_train = np.array(given.known)[given.group]
    return Problem(given.X_train, y_train, given.X_test, np.array(given.labels), arguments)


FAMILIES: dict[str, tuple[Callable[[str, int, int | None], Problem], tuple[str, ...]]] = {
    "river": (river, tuple(RIVER)),
    "digits": (digits, tuple(DIGITS)),
    "gaussians": (gaussians, ("5", "10", "20")),
    "blobs": (blobs, ("2", "3", "4")),
    "breadth": (of_breadth, TABLES),
    "five": (of_five, FIVE),
}
"""How streams of a family are made, and their names."""

STREAMS = tuple(f"{family}/{name}" for family, (_, names) in FAMILIES.items() for name in names)


def problem(stream: str, seed: int, length: int | None = None) -> Problem:
    """Lay out a closed stream by its name; at most so many instances of it."""
    family, name = stream.split("/")
    make, _ = FAMILIES[family]
    return make(name, seed, length).first(length)


def frozen(trained: TrainedModel, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Ask a recognizer that has seen no stream: the share of a sample that it labels right."""
    at = np.arange(len(X))
    if len(at) > SAMPLE:
        at = np.sort(np.random.default_rng([seed, len(X)]).choice(at, SAMPLE, replace=False))
    asked = OpenSetRecognizer.from_trained(trained, n_jobs=1, seed=seed)
    said = asked.predict_many(pd.DataFrame(X[at], columns=list(trained.names))).tolist()
    right = [label == truth for label, truth in zip(said, y[at].tolist(), strict=True)]
    return float(np.mean(right))


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run a closed stream."""
    given = problem(stream, seed, length)
    model, report = train(given, seed)
    n = len(given.y)
    last = slice(n - max(n // 5, 1), n)
    frozen_right = frozen(model.trained, given.X[last], given.y[last], seed)
    heard = follow(model, given.X, given.y, min(max(n // 10, SHORTEST), LONGEST))
    return {
        "n_train": len(given.y_train),
        "n": n,
        "promised": report.known_recall,
        "frozen": frozen_right,
        "right": float(heard.right.mean()),
        "right_last": float(heard.right[last].mean()),
        "unknown": float(heard.unknown.mean()),
        "unknown_last": float(heard.unknown[last].mean()),
        "announced": sum(isinstance(event, SubclassEmerged) for event in heard.events),
        "standing": len(model.new_classes().candidates),
        "windows": heard.windows,
        "seconds": heard.seconds,
    }
