"""Detection: how many instances of a new class come until it is announced, all being there from the start.

The test part of the five data sets at the paper's highest openness, in random orders (the protocol's first), one
pass, micro-batches of 64, else the defaults. A new class is detected with the first `SubclassEmerged` of a subclass
that is of it: of all the instances that had come by the end of that batch and whose decisions named the subclass,
more are of this class than of any other. What is counted are its own instances that had come by the end of that
batch (`stream_osr.evaluation.TimeToDetection`); a class that is never announced counts as infinitely late. Announced
subclasses most of whose instances are of a known class are false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np

from benchmarks.discovery.closed import BATCH, order
from benchmarks.discovery.streams import FIVE, Problem, listen, prepare, recognizer

DATASETS = FIVE
ORDERS = 5
WITHIN = 30


def stream(given: Problem, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes, known and unknown, in the order of a number; 0 is that of the protocol."""
    at = order(given.seed, number, len(given.y)) if number else np.arange(len(given.y))
    return given.X[at], given.y[at]


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield, for each data set, training seed and order, how late each new class was announced."""
    for dataset in datasets:
        for seed in seeds:
            given = prepare(dataset, seed)
            for number in range(ORDERS):
                heard = listen(recognizer(given, number, batch_size=BATCH), *stream(given, number))
                times = heard.times
                yield {
                    "dataset": dataset,
                    "seed": seed,
                    "order": number,
                    "instances": len(heard.decisions),
                    "late": {str(label): finite(one.instances) for label, one in times.detections.items()},
                    "of": {str(label): int((given.y == label).sum()) for label in times.detections},
                    "emerged": len(heard.emerged),
                    "false": len(times.false_alarms),
                }


def finite(value: float) -> float | None:
    """Return a number, or what JSON has for infinity: None."""
    return value if math.isfinite(value) else None


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return instances until detection (median, 90th percentile), the share detected soon, and what was announced."""
    lines = [
        f"{'detection':<14}{'classes':>9}{'median':>8}{'90 %':>7}{f'<= {WITHIN}':>7}{'ever':>7}"
        f"{'emerged':>9}{'false':>7}"
    ]
    cells: dict[str, list[dict[str, Any]]] = {}
    for one in figures:
        cells.setdefault(one["dataset"], []).append(one)
    for label, found in [*cells.items(), ("all", list(figures))]:
        late = [math.inf if n is None else n for one in found for n in one["late"].values()]
        soon, ever = fmean(n <= WITHIN for n in late), fmean(map(math.isfinite, late))
        most = np.quantile(late, 0.9, method="inverted_cdf")
        emerged, false = fmean(one["emerged"] for one in found), fmean(one["false"] for one in found)
        lines.append(
            f"{label:<14}{len(late):9d}{median(late):8.1f}{most:7.0f}{soon:7.3f}{ever:7.3f}{emerged:9.1f}{false:7.2f}"
        )
    return "\n".join(lines)
