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

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.discovery.grouping import agreement, clusters, ids_of
from benchmarks.discovery.streams import BATCH, Heard, announced, listen, prepare, recognizer
from benchmarks.discovery.tables import Table, column, ever, finite, within
from stream_osr.evaluation import Purity

DATASETS = ("SHUTTLE", "SATIMAGE", "PENDIGITS", "LETTER")
LEAST_ROWS = 50
LATEST = 0.75
"""No class begins later than this share of the stream."""


def lay_out(y: np.ndarray, unknown: Sequence[Any], rng: np.random.Generator) -> np.ndarray:
    """Return the order of a stream as places in y, shape (n,); unknown classes are switched on in their order."""
    moment = rng.random(len(y))
    for number, label in enumerate(unknown, start=1):
        rows, start = np.flatnonzero(y == label), LATEST * number / (len(unknown) + 1)
        moment[rows] = start + (1.0 - start) * moment[rows]
        moment[rows[0]] = start
    return np.argsort(moment, kind="stable")


def scores(heard: Heard, y: np.ndarray, labels: Sequence[Any]) -> dict[str, float]:
    """Return purity, NMI and ARI of the emerging subclasses."""
    told, purity = announced(heard.events), Purity()
    for decision, label in zip(heard.decisions, y.tolist(), strict=True):
        if decision.label not in labels and decision.subclass_id in told:
            purity.update(label, decision.subclass_id)
    new = ~np.isin(y, np.array(labels))
    group = clusters(heard.decisions, ids_of(heard.decisions), labels)[new]
    return {"purity": purity.get(), **agreement(y[new], group)}


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of a stream."""
    given = prepare(dataset, seed)
    unknown = [label for label in given.unknown if (given.y == label).sum() >= LEAST_ROWS]
    kept = given.of_known | np.isin(given.y, np.array(unknown))
    X, y = given.X[kept], given.y[kept]
    at = lay_out(y, unknown, np.random.default_rng([seed, len(y)]))
    heard = listen(recognizer(given, seed, batch_size=BATCH), X[at], y[at])
    found = {str(label): one for label, one in heard.times.detections.items()}
    yield {
        "begins": {label: one.first for label, one in found.items()},
        "late in the class": {label: finite(one.instances) for label, one in found.items()},
        "late in the stream": {
            label: None if one.announced is None else one.announced - one.first + 1 for label, one in found.items()
        },
        "emerged": len(heard.emerged),
        "false": len(heard.times.false_alarms),
        **scores(heard, y[at], given.trained.labels),
    }


table = Table(
    {
        "classes": column("late in the class", len, "d"),
        "median delay, of the stream": column("late in the stream", median, ".1f"),
        "of the class": column("late in the class", median, ".1f"),
        "within 30": column("late in the class", within(30)),
        "ever": column("late in the class", ever),
        "emerged": column("emerged", form=".1f"),
        "false": column("false", form=".2f"),
        **{name: column(name) for name in ("purity", "NMI", "ARI")},
    }
)
