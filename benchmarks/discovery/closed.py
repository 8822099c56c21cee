"""False alarms: what is announced in streams without any unknown class.

The known classes' test part of the five data sets in 20 random orders for each training seed, one pass, micro-batches
of 64, else the defaults. Every `SubclassEmerged` is a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.discovery.streams import BATCH, FIVE, Problem, listen, prepare, recognizer
from benchmarks.discovery.tables import Table, any_of, column

DATASETS = FIVE
SEEDS = 6
ORDERS = 20


def order(seed: int, number: int, n: int) -> np.ndarray:
    """Return the places of n instances in the order of a number; of the training seed too."""
    return np.random.default_rng([seed, number, n]).permutation(n)


def stream(given: Problem, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of the known test part in the order of a number."""
    X, y = given.X[given.of_known], given.y[given.of_known]
    at = order(given.seed, number, len(y))
    return X[at], y[at]


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the false alarms of each order."""
    given = prepare(dataset, seed)
    for number in range(ORDERS):
        heard = listen(recognizer(given, number, batch_size=BATCH), *stream(given, number))
        yield {"order": number, "instances": len(heard.decisions), "false": len(heard.emerged)}


table = Table(
    {
        "streams": len,
        "instances": column("instances", form=".0f"),
        "false alarms": column("false"),
        "any": column("false", any_of),
        "most": column("false", max, "d"),
    },
    total="all",
)
