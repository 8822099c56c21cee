"""False alarms: what is announced in streams without any unknown class.

The known classes' test part of the five data sets in 20 random orders for each training seed, one pass, micro-batches
of 64, else the defaults. Every `SubclassEmerged` is a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.discovery.streams import FIVE, Heard, Problem, listen, prepare, recognizer

DATASETS = FIVE
BATCH = 64
ORDERS = 20


def order(seed: int, number: int, n: int) -> np.ndarray:
    """Return the places of n instances in the order of a number; of the training seed too."""
    return np.random.default_rng([seed, number, n]).permutation(n)


def alarms(heard: Heard) -> list[dict[str, Any]]:
    """Return what was announced: how late, how large, and the class that most of its instances were of."""
    of = heard.times.classes
    return [{"seq": e.seq, "size": e.size, "class": of.get(e.subclass_id)} for e in heard.emerged]


def stream(given: Problem, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of the known test part in the order of a number."""
    X, y = given.X[given.of_known], given.y[given.of_known]
    at = order(given.seed, number, len(y))
    return X[at], y[at]


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield the false alarms of each data set, training seed and order."""
    for dataset in datasets:
        for seed in seeds:
            given = prepare(dataset, seed)
            for number in range(ORDERS):
                heard = listen(recognizer(given, number, batch_size=BATCH), *stream(given, number))
                yield {
                    "dataset": dataset,
                    "seed": seed,
                    "order": number,
                    "instances": len(heard.decisions),
                    "false": len(heard.emerged),
                    "alarms": alarms(heard),
                }


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return false alarms a stream: mean, largest, and the share of streams that have any."""
    lines = [f"{'false alarms':<14}{'streams':>9}{'instances':>11}{'mean':>7}{'any':>7}{'most':>6}"]
    cells: dict[str, list[dict[str, Any]]] = {}
    for one in figures:
        cells.setdefault(one["dataset"], []).append(one)
    for label, found in [*cells.items(), ("all", list(figures))]:
        false = [one["false"] for one in found]
        instances = fmean(one["instances"] for one in found)
        with_any = fmean(n > 0 for n in false)
        lines.append(f"{label:<14}{len(found):9d}{instances:11.0f}{fmean(false):7.3f}{with_any:7.3f}{max(false):6d}")
    return "\n".join(lines)
