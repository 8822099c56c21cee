"""The streams of the golden runs: known classes, new ones that come one after another, and what is odd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.paper.datasets import load

TRAINED_SHARE = 0.5
"""At most this share of the instances of a known class is for training; the others are for the stream."""


class Run(NamedTuple):
    """A golden run.

    Attributes
    ----------
    name, dataset
        Of its folder, and of its instances.
    known, new
        Known classes, and classes that arrive in the stream.
    arguments
        Of the recognizer.
    instances
        Of the stream.
    training
        Instances of each known class for training.
    missing
        Share of the instances of which something is missing.
    intake
        ``"one"``: one by one, as dicts; ``"rows"``: arrays; ``"frame"``: data frames.
    timed
        Whether instances have times.
    drifting
        Whether a known class moves in the second half.
    successor
        What takes the stream over when a part of it has gone: a model trained ``"anew"``, one over the ``"same"``
        trained part, or none (``""``).
    """

    name: str
    dataset: str
    known: int
    new: int
    arguments: Mapping[str, Any]
    instances: int = 3000
    training: int = 150
    missing: float = 0.0
    intake: str = "one"
    timed: bool = False
    drifting: bool = False
    successor: str = ""


RUNS = (
    Run("pendigits", "PENDIGITS", 5, 5, {}, missing=0.01, successor="anew"),
    Run(
        "pendigits-one",
        "PENDIGITS",
        5,
        5,
        {"chains": 1, "batch_size": 64, "decision_delay": 128, "on_missing": "skip", "max_wait": 20.0},
        missing=0.02,
        timed=True,
        successor="anew",
    ),
    Run("letter", "LETTER", 10, 12, {"batch_size": 128}, intake="rows", instances=3500, drifting=True),
    Run(
        "letter-one",
        "LETTER",
        10,
        14,
        {
            "chains": 1,
            "batch_size": 64,
            "max_subclasses": 6,
            "max_dormant": 4,
            "label_horizon": 700,
            "follow_drift": True,
            "drift_interval": 1000.0,
        },
        instances=3500,
        missing=0.02,
        drifting=True,
        successor="same",
    ),
    Run(
        "usps",
        "USPS",
        5,
        5,
        {"pca_components": 39, "decision_delay": 200},
        intake="frame",
        instances=2500,
        missing=0.01,
    ),
    Run(
        "usps-one",
        "USPS",
        5,
        5,
        {
            "chains": 1,
            "batch_size": 100,
            "pca_components": 20,
            "broad": False,
            "max_false_unknown": 0.05,
            "min_probability": 0.6,
            "window": 100,
        },
        instances=2500,
        missing=0.01,
        successor="same",
    ),
    Run(
        "shuttle-bounds",
        "SHUTTLE",
        2,
        4,
        {
            "chains": 3,
            "batch_size": 50,
            "ensemble": "drawn",
            "max_subclasses": 4,
            "max_dormant": 3,
            "decision_delay": 60,
            "follow_drift": True,
            "references": 200,
            "max_wait": 15.0,
            "seed": 6,
        },
        timed=True,
        missing=0.01,
        drifting=True,
        successor="same",
    ),
)
"""Three data sets, each at the defaults, micro-batches apart, and with one chain; and one with small bounds."""


class Stream(NamedTuple):
    """Training instances with their labels, and a stream with the labels that nobody tells."""

    trained: list[tuple[dict[str, float], Any]]
    again: list[tuple[dict[str, float], Any]]
    """Other training instances of the same classes, and of the first new one, for the model that takes over."""
    rows: np.ndarray
    truth: list[Any]
    times: list[float] | None
    keys: list[Any]
    dropped: dict[int, tuple[int, str]]
    """Of instances of which something is missing: the feature, and how: absent, ``None``, or no number."""
    names: list[str]


def make_stream(run: Run, seed: int = 11) -> Stream:
    """Make the stream of a run: the same on every machine that has the data."""
    rng = np.random.default_rng(seed)
    X, y = load(run.dataset)
    classes = rng.permutation(np.unique(y))[: run.known + run.new]
    known, new = classes[: run.known].tolist(), classes[run.known :].tolist()
    names = [f"f{j}" for j in range(X.shape[1])]
    trained: list[tuple[int, Any]] = []
    again: list[tuple[int, Any]] = []
    waiting: list[tuple[int, Any, float]] = []
    for label in known:
        rows = rng.permutation(np.flatnonzero(y == label)).tolist()
        n = min(run.training, int(TRAINED_SHARE * len(rows)))
        trained += [(row, label) for row in rows[:n]]
        again += [(row, label) for row in rows[n // 3 : n + n // 3]]
        waiting += [(row, label, place) for row, place in zip(rows[n:], rng.random(len(rows) - n), strict=True)]
    for number, label in enumerate(new):
        rows = rng.permutation(np.flatnonzero(y == label)).tolist()
        first = 0.05 + 0.7 * number / len(new)
        places = first + (1 - first) * rng.random(len(rows))
        if number in (0, 2):  # it goes and comes back
            places = np.where(places < 0.75, first + (places - first) * 0.3, places)
        if number == 0:
            again += [(row, label) for row in rows[: run.training // 2]]
        waiting += [(row, label, place) for row, place in zip(rows, places.tolist(), strict=True)]
    chosen = sorted(rng.permutation(len(waiting))[: run.instances].tolist(), key=lambda i: waiting[i][2])
    rows_, truth = X[[waiting[i][0] for i in chosen]].copy(), [waiting[i][1] for i in chosen]
    if run.drifting:
        moving = np.flatnonzero([label == known[-1] for label in truth])
        late = np.clip(moving / len(truth) - 0.4, 0, None)
        rows_[moving, :4] += 4 * X[:, :4].std(axis=0) * late[:, None]
    odd = np.flatnonzero(rng.random(len(truth)) < run.missing).tolist()
    ways = ("absent", "none", "nan")
    return Stream(
        [
            (dict(zip(names, X[row].tolist(), strict=True)), label)
            for row, label in rng.permutation(np.array(trained, dtype=object)).tolist()
        ],
        [
            (dict(zip(names, X[row].tolist(), strict=True)), label)
            for row, label in rng.permutation(np.array(again, dtype=object)).tolist()
        ],
        rows_,
        truth,
        np.cumsum(rng.exponential(0.5, len(truth))).tolist() if run.timed else None,
        [f"k{i}" if run.timed else i for i in range(len(truth))],
        {i: (int(rng.integers(len(names))), ways[i % 3]) for i in odd},
        names,
    )


def gappy(stream: Stream, first: int, last: int) -> np.ndarray:
    """Instances of the stream as rows, in which no number stands for what is missing."""
    rows = stream.rows[first:last].copy()
    for number in range(first, last):
        if number in stream.dropped:
            rows[number - first, stream.dropped[number][0]] = np.nan
    return rows


def instance(stream: Stream, number: int) -> dict[str, float | None]:
    """One instance of the stream as a dict."""
    x: dict[str, float | None] = dict(zip(stream.names, stream.rows[number].tolist(), strict=True))
    if number in stream.dropped:
        feature, way = stream.dropped[number]
        name = stream.names[feature]
        if way == "absent":
            del x[name]
        else:
            x[name] = None if way == "none" else float("nan")
    if number % 97 == 5:
        x["beside"] = 1.0
    return x
