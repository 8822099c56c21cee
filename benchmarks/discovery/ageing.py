"""No ageing: a class that first appears at instance 10^6 beside one that first appears at 10^4.

A stream of known instances, drawn from mixtures fitted to the known classes (and so are those that train), runs for
10^6 instances; its state is kept at 10^4 and at 10^6. From each state the same short streams are tried: one unknown
class, a twentieth of the instances, begins at once, its rows in several random orders. What counts are its instances
until it is announced; one that is never announced counts as 100 in the mean.

Micro-batches of 64; *defaults*: else untouched; *cheap*: one chain, no window.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.discovery.mixtures import Mixture, draw_known, fit, replace_known
from benchmarks.discovery.streams import BATCH, Problem, listen, prepare, recognizer
from benchmarks.discovery.tables import Table, column, ever, finite, within
from stream_osr import SubclassEmerged

DATASETS = ("LETTER", "PENDIGITS")
SEEDS = 1
EARLY, LATE = 10_000, 1_000_000
CHUNK = 10_000
SHARE = 0.05
ROWS = 100
"""Instances of the new class in a short stream."""
ORDERS = 4
VARIANTS: dict[str, dict[str, Any]] = {"defaults": {}, "cheap": {"chains": 1, "window": 0}}


def grow_old(given: Problem, mixture: Mixture, **arguments: Any) -> Iterator[tuple[int, bytes, int]]:
    """Run known instances through a stream; yield places, its states there, and the announcements so far."""
    model = recognizer(given, given.seed, batch_size=BATCH, **arguments)
    rng = np.random.default_rng([given.seed, LATE])
    false = 0
    for seen in range(CHUNK, LATE + 1, CHUNK):
        X, _ = draw_known(mixture, CHUNK, rng)
        model.learn_many(pd.DataFrame(X, columns=list(model.trained.names)))
        false += sum(isinstance(event, SubclassEmerged) for event in model.drain_events())
        if seen in (EARLY, LATE):
            model.flush()
        for _ in model.drain():
            pass
        if seen in (EARLY, LATE):
            yield seen, pickle.dumps(model), false


def short_stream(
    given: Problem, mixture: Mixture, label: Any, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of a stream that begins with an instance of a new class."""
    own = rng.permutation(np.flatnonzero(given.y == label))[:ROWS]
    known, of = draw_known(mixture, round(len(own) * (1.0 / SHARE - 1.0)), rng)
    at = np.concatenate([[0], 1 + rng.permutation(len(own) + len(known) - 1)])
    return np.concatenate([given.X[own], known])[at], np.concatenate([given.y[own], of])[at]


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield how late each class is announced at both places, by variant, class and order."""
    given = prepare(dataset, seed)
    mixture = fit(given)
    given = replace_known(given, mixture, np.random.default_rng([seed, EARLY]))
    for variant, arguments in VARIANTS.items():
        for place, state, false in grow_old(given, mixture, **arguments):
            for at, label in enumerate(given.unknown):
                for number in range(ORDERS):
                    rng = np.random.default_rng([seed, at, number])
                    heard = listen(pickle.loads(state), *short_stream(given, mixture, label, rng))
                    late = finite(heard.times.detections[label].instances)
                    run = {"variant": variant, "place": place, "class": str(label), "order": number}
                    yield {**run, "instances": late, "false alarms before": false}


def cut(values: Sequence[float]) -> float:
    """Mean of delays, each cut at the length of a stream."""
    return fmean(min(value, ROWS) for value in values)


table = Table(
    {
        "tries": len,
        "median delay": column("instances", median, ".1f"),
        "mean": column("instances", cut, ".2f"),
        "within 30": column("instances", within(30)),
        "ever": column("instances", ever),
        "false alarms before": column("false alarms before", max, "d"),
    },
    keys=("dataset", "variant", "place"),
)
