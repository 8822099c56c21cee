"""Detection: how many instances of a new class come until it is announced, all being there from the start.

The test part of the five data sets at the paper's highest openness, in random orders (the protocol's first), one
pass, micro-batches of 64, else the defaults. A new class is detected with the first `SubclassEmerged` of a subclass
that is of it: of all the instances that had come by the end of that batch and whose decisions named the subclass,
more are of this class than of any other. What is counted are its own instances that had come by the end of that
batch (`stream_osr.evaluation.TimeToDetection`); a class that is never announced counts as infinitely late. Announced
subclasses most of whose instances are of a known class are false alarms.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from benchmarks.discovery.closed import order
from benchmarks.discovery.streams import BATCH, FIVE, Problem, listen, prepare, recognizer
from benchmarks.discovery.tables import Table, column, ever, finite, quantile, within

DATASETS = FIVE
SEEDS = 6
ORDERS = 5


def stream(given: Problem, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes, known and unknown, in the order of a number; 0 is that of the protocol."""
    at = order(given.seed, number, len(given.y)) if number else np.arange(len(given.y))
    return given.X[at], given.y[at]


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield, for each order, how late each new class was announced."""
    given = prepare(dataset, seed)
    for number in range(ORDERS):
        heard = listen(recognizer(given, number, batch_size=BATCH), *stream(given, number))
        yield {
            "order": number,
            "late": {str(label): finite(one.instances) for label, one in heard.times.detections.items()},
            "emerged": len(heard.emerged),
            "false": len(heard.times.false_alarms),
        }


table = Table(
    {
        "classes": column("late", len, "d"),
        "median delay": column("late", median, ".1f"),
        "90 %": column("late", quantile(0.9), ".0f"),
        "within 30": column("late", within(30)),
        "ever": column("late", ever),
        "emerged": column("emerged", form=".1f"),
        "false": column("false", form=".2f"),
    },
    total="all",
)
