"""Seventeen public tables of all kinds, by the protocol of their README.

They are looked for in the folder ``breadth`` of the data directory, each an archive with ``X`` and ``y``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.paper.datasets import DatasetNotFoundError, data_directory
from benchmarks.trust.problems import Problem, figures_of_merit, follow, train

NAMES = (
    "ANNEAL",
    "BALANCE",
    "DERMATOLOGY",
    "DIGITS",
    "GLASS",
    "HYPOTHYROID",
    "KRKOPT",
    "LED7",
    "LIBRAS",
    "NURSERY",
    "PAGEBLOCKS",
    "SEGMENT",
    "TEXTURE",
    "VEHICLE",
    "VOWEL",
    "WAVEFORM",
    "WINE",
)
STREAMS = NAMES
BATCH = 64
TRAIN_SHARE = 0.6


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read instances (n, p) and labels (n,), which are text.

    Raises
    ------
    DatasetNotFoundError
        If the file is not there.
    """
    path = data_directory() / "breadth" / f"{name}.npz"
    if not path.is_file():
        raise DatasetNotFoundError(f"{name}.npz not found at {path}; set STREAM_OSR_DATA to the folder above")
    with np.load(path, allow_pickle=False) as arrays:
        return np.asarray(arrays["X"], float), np.asarray(arrays["y"])


def problem(name: str, seed: int) -> Problem:
    """Divide a set: half of the classes known, 0.6 of each for training, all else in the stream."""
    X, y = load(name)
    rng = np.random.default_rng([seed, 1])
    classes = rng.permutation(np.unique(y))
    n_known = max(2, math.ceil(len(classes) / 2))
    training: list[np.ndarray] = []
    test: list[np.ndarray] = []
    for label in classes[:n_known]:
        rows = rng.permutation(np.flatnonzero(y == label))
        cut = round(TRAIN_SHARE * len(rows))
        training.append(rows[:cut])
        test.append(rows[cut:])
    test += [np.flatnonzero(y == label) for label in classes[n_known:]]
    order = np.random.default_rng([seed, 2])
    train_rows, test_rows = (order.permutation(np.concatenate(parts)) for parts in (training, test))
    return Problem(X[train_rows], y[train_rows], X[test_rows], y[test_rows], {"batch_size": BATCH})


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run the test part of a set as a stream."""
    given = problem(stream, seed).first(length)
    model, report, train_seconds = train(given, seed)
    heard = follow(model, given.X, given.y)
    return {
        "n_train": len(given.y_train),
        "n": len(given.y),
        **figures_of_merit(heard.label, heard.p_unknown, given.y, model.trained.labels),
        "promised": report.known_recall,
        "train_seconds": train_seconds,
        "seconds": heard.seconds,
    }
