"""False alarms in long streams without any unknown class: 20 000 instances, micro-batches of 64, else the defaults.

SHUTTLE's own known rows, each at most once, in random order. For the other sets draws from mixtures of Gaussians that
were fitted to the training rows of the known classes (rows that come again and again would be clusters); the
recognizer is trained on draws too, as many as there were training rows, so that the stream holds nothing that is
new. Every `SubclassEmerged` is a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.discovery.closed import BATCH, alarms
from benchmarks.discovery.mixtures import Mixture, draw_known, fit, replace_known
from benchmarks.discovery.streams import FIVE, Problem, listen, prepare, recognizer

DATASETS = ("SHUTTLE", *FIVE, "SATIMAGE")
OWN_ROWS = ("SHUTTLE",)
"""Sets with known rows enough in the test part."""
INSTANCES = 20_000
STREAMS = 5
"""Streams for each training."""


def stream(given: Problem, mixture: Mixture | None, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a stream and their classes: drawn, or without a mixture the test part's own."""
    if mixture is not None:
        return draw_known(mixture, INSTANCES, rng)
    own = rng.permutation(np.flatnonzero(given.of_known))[:INSTANCES]
    return given.X[own], given.y[own]


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield the false alarms of each data set and seed; each training serves several seeds."""
    for dataset in datasets:
        training = None
        for seed in seeds:
            if seed // STREAMS != training:
                training = seed // STREAMS
                given = prepare(dataset, training)
                mixture = None
                if dataset not in OWN_ROWS:
                    mixture = fit(given)
                    given = replace_known(given, mixture, np.random.default_rng([training, INSTANCES]))
            X, y = stream(given, mixture, np.random.default_rng([seed, INSTANCES, 1]))
            heard = listen(recognizer(given, seed, batch_size=BATCH), X, y)
            unknown = fmean(d.label not in given.trained.labels for d in heard.decisions)
            yield {
                "dataset": dataset,
                "training": training,
                "seed": seed,
                "instances": len(y),
                "components": 0 if mixture is None else len(mixture.weight),
                "called unknown": unknown,
                "false": len(heard.emerged),
                "alarms": alarms(heard),
            }


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return false alarms a stream (mean, 95th percentile, most) and the share of instances called unknown."""
    lines = [f"{'false alarms':<14}{'streams':>9}{'mean':>7}{'95 %':>6}{'most':>6}{'any':>7}{'called unknown':>16}"]
    cells: dict[str, list[dict[str, Any]]] = {}
    for one in figures:
        cells.setdefault(one["dataset"], []).append(one)
    for label, found in [*cells.items(), ("all", list(figures))]:
        false = [one["false"] for one in found]
        most = np.quantile(false, 0.95, method="inverted_cdf")
        unknown = fmean(one["called unknown"] for one in found)
        with_any = fmean(n > 0 for n in false)
        lines.append(
            f"{label:<14}{len(found):9d}{fmean(false):7.3f}{most:6d}{max(false):6d}{with_any:7.3f}{unknown:16.4f}"
        )
    return "\n".join(lines)
