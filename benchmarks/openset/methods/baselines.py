"""What has to be beaten: a method that always says known, one that always says unknown, one that never rejects."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.openset.methods.base import UNKNOWN, Entry, Method, Outcome, Projection, Setup


class Always(Method):
    """Say the same of every instance: unknown, or the known class that has the most training instances."""

    def __init__(self, known: bool) -> None:
        self.says_known = known

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Count."""
        self.commonest = int(np.bincount(group).argmax())

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Say it."""
        closest = np.full(len(X), self.commonest)
        predicted = closest if self.says_known else np.full(len(X), UNKNOWN)
        return Outcome(predicted, np.zeros(len(X)), False, 0.0, closest=closest)


class ClosedSet(Method):
    """A random forest of scikit-learn's defaults that knows the closed set alone: it never says unknown.

    Its doubt, 1 less its largest probability, is the score.
    """

    def __init__(self, setup: Setup) -> None:
        self.pca, self.seed = setup.pca, setup.seed

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Train."""
        begin = time.perf_counter()
        self.projection = Projection(X, self.pca)
        self.forest = RandomForestClassifier(random_state=self.seed).fit(self.projection(X), group)
        self.train_seconds = time.perf_counter() - begin

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Decide one by one."""
        begin = time.perf_counter()
        probabilities = self.forest.predict_proba(self.projection(X))
        closest = self.forest.classes_[probabilities.argmax(axis=1)]
        doubt = 1.0 - probabilities.max(axis=1)
        return Outcome(closest, doubt, False, time.perf_counter() - begin, closest=closest)


ENTRIES = {
    "always unknown": Entry(lambda _: Always(known=False), "each", "baseline"),
    "always known": Entry(lambda _: Always(known=True), "each", "baseline: the class with most training instances"),
    "closed set": Entry(ClosedSet, "each", "baseline: a random forest that never rejects"),
}
