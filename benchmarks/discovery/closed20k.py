"""False alarms in long streams without any unknown class: 20 000 instances, micro-batches of 64, else the defaults.

SHUTTLE's own known rows, each at most once, in random order. For the other sets draws from mixtures of Gaussians that
were fitted to the training rows of the known classes (rows that come again and again would be clusters); the
recognizer is trained on draws too, as many as there were training rows, so that the stream holds nothing that is
new. Every `SubclassEmerged` is a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.discovery.mixtures import Mixture, draw_known, fit, replace_known
from benchmarks.discovery.streams import BATCH, FIVE, Problem, listen, prepare, recognizer
from benchmarks.discovery.tables import Table, any_of, column, quantile

DATASETS = ("SHUTTLE", *FIVE, "SATIMAGE")
SEEDS = 100
OWN_ROWS = ("SHUTTLE",)
"""Sets with known rows enough in the test part."""
INSTANCES = 20_000
STREAMS = 5
"""Streams for each training."""


@lru_cache(maxsize=1)
def trained(dataset: str, training: int) -> tuple[Problem, Mixture | None]:
    """Train, on draws from mixtures unless the stream has rows of its own; return the mixtures too."""
    given = prepare(dataset, training)
    if dataset in OWN_ROWS:
        return given, None
    mixture = fit(given)
    return replace_known(given, mixture, np.random.default_rng([training, INSTANCES])), mixture


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the false alarms of a stream; each training serves several seeds."""
    (given, mixture), rng = trained(dataset, seed // STREAMS), np.random.default_rng([seed, INSTANCES, 1])
    if mixture is not None:
        X, y = draw_known(mixture, INSTANCES, rng)
    else:
        own = rng.permutation(np.flatnonzero(given.of_known))[:INSTANCES]
        X, y = given.X[own], given.y[own]
    heard = listen(recognizer(given, seed, batch_size=BATCH), X, y)
    unknown = fmean(d.label not in given.trained.labels for d in heard.decisions)
    yield {
        "training": seed // STREAMS,
        "instances": len(y),
        "components": 0 if mixture is None else len(mixture.weight),
        "called unknown": unknown,
        "false": len(heard.emerged),
    }


table = Table(
    {
        "streams": len,
        "false alarms": column("false"),
        "95 %": column("false", quantile(0.95), ".0f"),
        "most": column("false", max, "d"),
        "any": column("false", any_of),
        "called unknown": column("called unknown", form=".4f"),
    },
    total="all",
)
