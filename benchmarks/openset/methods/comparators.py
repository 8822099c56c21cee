"""The classifiers of `benchmarks.openset.comparators`: each instance by itself, parameters by validation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from benchmarks.openset.comparators.selection import ALL, on_machines, select, select_family
from benchmarks.openset.methods.base import UNKNOWN, Entry, Method, Outcome, Projection, Setup

MACHINES = "support vector machines"


class Comparator(Method):
    """A method of others, hyperparameters selected on the training part by the paper's validation split."""

    def __init__(self, setup: Setup, name: str) -> None:
        self.name, self.pca, self.seed, self.shared = name, setup.pca, setup.seed, setup.shared

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Fit the principal axes, select, fit. The time is told when it is this comparator's alone."""
        begin = time.perf_counter()
        self.projection = Projection(X, self.pca)
        self.estimator = self._selected(self.projection(X), group)
        self.chosen = {
            key: value for key, value in self.estimator.get_params().items() if isinstance(value, float | int | str)
        }
        if len(self.shared["names"]) == 1:
            self.train_seconds = time.perf_counter() - begin

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Decide one by one."""
        rows = self.projection(X)
        begin = time.perf_counter()
        closest, unknownness = self.estimator.decide(rows)
        predicted = np.where(unknownness > self.estimator.cut(), UNKNOWN, closest)
        return Outcome(predicted, unknownness, False, time.perf_counter() - begin, closest=closest)

    def _selected(self, X: np.ndarray, group: np.ndarray) -> Any:
        """Select: those on support vector machines together; where all of them at once fail, each alone."""
        names = self.shared["names"]
        if "selected" not in self.shared:
            self.shared["selected"] = {}
            if len(names) > 1:
                with suppress(Exception):
                    self.shared["selected"] = select_family(names, X, group, self.seed)
        found = self.shared["selected"]
        return found[self.name] if self.name in found else select(self.name, X, group, self.seed)


ENTRIES = {
    name: Entry(
        partial(Comparator, name=name),
        "each",
        "parameters by the paper's validation split",
        together=MACHINES if on_machines(name) else None,
    )
    for name in ALL
}
