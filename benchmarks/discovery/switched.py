"""Unknown classes that are switched on one after the other, each at a known position.

The test part in random order at the highest openness; SHUTTLE without its classes of fewer than 50 rows. The known
classes are spread evenly over the stream; the k-th of K unknown classes begins at the share 3/4 k / (K + 1) of it and
is spread evenly over what is left. One pass, micro-batches of 64, else the defaults.

Detection is as in the setting `open`, in instances of the stream and of the class, both since the first instance
of the class. Purity is that of the instances called unknown whose subclass was announced. NMI and ARI are over all
instances of unknown classes: each in the subclass that its decision named, those taken for known by class, those in
no subclass together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks.discovery.closed import BATCH
from benchmarks.discovery.grouping import IN_NO_SUBCLASS, clusters
from benchmarks.discovery.opened import WITHIN, finite
from benchmarks.discovery.streams import Heard, Problem, listen, prepare, recognizer
from stream_osr.evaluation import Purity

DATASETS = ("SHUTTLE", "SATIMAGE", "PENDIGITS", "LETTER")
LEAST_ROWS = 50
LATEST = 0.75
"""No class begins later than this share of the stream."""


def begins(number: int) -> np.ndarray:
    """Return the share of the stream at which each of so many classes begins."""
    return LATEST * np.arange(1, number + 1) / (number + 1)


def lay_out(y: np.ndarray, unknown: Sequence[Any], rng: np.random.Generator) -> np.ndarray:
    """Return the order of a stream: places in y of its instances.

    Parameters
    ----------
    y
        Class of each row, shape (n,).
    unknown
        Classes that are switched on, in this order.
    rng
        Of the order.
    """
    moment = rng.random(len(y))
    for label, start in zip(unknown, begins(len(unknown)), strict=True):
        rows = np.flatnonzero(y == label)
        moment[rows] = start + (1.0 - start) * moment[rows]
        moment[rows[0]] = start
    return np.argsort(moment, kind="stable")


def rows_of(given: Problem) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Return rows and classes of the test part without rare unknown classes, and the unknown ones that are left."""
    unknown = [label for label in given.unknown if (given.y == label).sum() >= LEAST_ROWS]
    kept = given.of_known | np.isin(given.y, np.array(unknown))
    return given.X[kept], given.y[kept], unknown


def scores(heard: Heard, y: np.ndarray, labels: Sequence[Any]) -> dict[str, float]:
    """Return purity, NMI and ARI of the emerging subclasses."""
    announced = heard.announced
    purity = Purity()
    for decision, label in zip(heard.decisions, y.tolist(), strict=True):
        if decision.label not in labels and decision.subclass_id in announced:
            purity.update(label, decision.subclass_id)
    new = ~np.isin(y, np.array(labels))
    named = [IN_NO_SUBCLASS if d.subclass_id is None else d.subclass_id for d in heard.decisions]
    group = clusters(heard.decisions, named, labels)[new]
    return {
        "purity": purity.get(),
        "NMI": float(normalized_mutual_info_score(y[new], group)),
        "ARI": float(adjusted_rand_score(y[new], group)),
    }


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield the figures of each data set and seed."""
    for dataset in datasets:
        for seed in seeds:
            given = prepare(dataset, seed)
            X, y, unknown = rows_of(given)
            at = lay_out(y, unknown, np.random.default_rng([seed, len(y)]))
            heard = listen(recognizer(given, seed, batch_size=BATCH), X[at], y[at])
            found = heard.times.detections
            yield {
                "dataset": dataset,
                "seed": seed,
                "instances": len(y),
                "begins": {str(label): one.first for label, one in found.items()},
                "rows": {str(label): int((y == label).sum()) for label in found},
                "late in the class": {str(label): finite(one.instances) for label, one in found.items()},
                "late in the stream": {
                    str(label): None if one.announced is None else one.announced - one.first + 1
                    for label, one in found.items()
                },
                "emerged": len(heard.emerged),
                "false": len(heard.times.false_alarms),
                **scores(heard, y[at], given.trained.labels),
            }


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return medians over classes and seeds of the time to detection, and means over seeds of the rest."""
    lines = [
        f"{'switched on':<12}{'classes':>8}{'of stream':>11}{'of class':>10}{f'<= {WITHIN}':>7}{'ever':>7}"
        f"{'emerged':>9}{'false':>7}{'purity':>8}{'NMI':>7}{'ARI':>7}"
    ]
    cells: dict[str, list[dict[str, Any]]] = {}
    for one in figures:
        cells.setdefault(one["dataset"], []).append(one)
    for label, found in cells.items():
        of_stream = _all(found, "late in the stream")
        of_class = _all(found, "late in the class")
        mean = {name: fmean(one[name] for one in found) for name in ("emerged", "false", "purity", "NMI", "ARI")}
        lines.append(
            f"{label:<12}{len(of_class):8d}{median(of_stream):11.1f}{median(of_class):10.1f}"
            f"{fmean(n <= WITHIN for n in of_class):7.3f}{fmean(map(math.isfinite, of_class)):7.3f}"
            f"{mean['emerged']:9.1f}{mean['false']:7.2f}{mean['purity']:8.3f}{mean['NMI']:7.3f}{mean['ARI']:7.3f}"
        )
    return "\n".join(lines)


def _all(found: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [math.inf if n is None else n for one in found for n in one[name].values()]
