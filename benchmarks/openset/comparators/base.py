"""What the comparators have in common: fit, decide, cut."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

UNKNOWN = -1
"""The label of an instance that is of none of the known classes."""


class Decisions(NamedTuple):
    """Best known class and unknownness of n instances, before the cut.

    Attributes
    ----------
    label
        Array of n labels: the best known class of each instance.
    unknownness
        Array of n finite floats, higher for an instance less like any known class.
    """

    label: NDArray[np.int64]
    unknownness: NDArray[np.float64]


class OpenSetClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn carries no types
    """A classifier that names the best known class and rejects what is too unlike it.

    A method defines how it learns, how it decides before the cut (`decide`), and the unknownness above which an
    instance is unknown (`cut`). The cut follows from the parameters or from training, so that many cuts can be tried
    on the decisions of one fit. Parameters are the fields of the data class, unchecked.
    """

    classes_: NDArray[np.int64]
    n_features_in_: int

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the known classes from instances of shape (n, n_features) and n labels, integers from 0."""
        rows, labels = np.asarray(X, np.float64), np.asarray(y)
        self.classes_ = np.unique(labels)
        self.n_features_in_ = rows.shape[1]
        self._learn(rows, labels)
        return self

    def decide(self, X: ArrayLike) -> Decisions:
        """Name the best known class of each instance and how unlike it the instance is."""
        return self._decide(np.asarray(X, np.float64))

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Label of each instance, -1 for unknown."""
        label, unknownness = self.decide(X)
        return np.where(unknownness > self.cut(), UNKNOWN, label)

    def score_unknown(self, X: ArrayLike) -> NDArray[np.float64]:
        """How unlike the known classes each instance is; higher is more unknown."""
        return self.decide(X).unknownness

    @abstractmethod
    def cut(self) -> float:
        """Unknownness above which an instance is unknown, from the parameters as they are now."""

    @abstractmethod
    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None: ...

    @abstractmethod
    def _decide(self, X: NDArray[np.float64]) -> Decisions: ...
