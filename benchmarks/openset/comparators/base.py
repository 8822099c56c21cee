"""What the comparators have in common: fit, decide, cut."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted

from stream_osr.errors import InvalidLabel, InvalidParameter

UNKNOWN = -1
"""The label of an instance that is of none of the known classes."""


class Decisions(NamedTuple):
    """What a method thinks of n instances before the cut.

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

    A method says how it learns, what it thinks of an instance (`decide`) and from which unknownness on an
    instance is unknown (`cut`). The cut follows from parameters alone or from what was learnt, so that many
    cuts can be tried on the decisions of one fit.
    """

    classes_: NDArray[np.int64]
    n_features_in_: int

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the known classes.

        Parameters
        ----------
        X
            Instances, of shape (n, n_features).
        y
            n integer labels, 0 or above.

        Raises
        ------
        InvalidParameter
            If rows and labels differ in number, there is one class only or a parameter is out of its range.
        InvalidLabel
            If a label is no integer, or negative.
        """
        rows = check_array(X, dtype=np.float64)
        labels = _labels(y, len(rows))
        self._check()
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise InvalidParameter(f"y has {len(self.classes_)} class: at least 2 known classes are needed")
        self.n_features_in_ = rows.shape[1]
        self._learn(rows, labels)
        return self

    def decide(self, X: ArrayLike) -> Decisions:
        """Name the best known class of each instance and how unlike it the instance is.

        Raises
        ------
        InvalidParameter
            If X has not as many features as were fitted.
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        rows = check_array(X, dtype=np.float64)
        if rows.shape[1] != self.n_features_in_:
            raise InvalidParameter(f"X has {rows.shape[1]} features: fitted were {self.n_features_in_}")
        return self._decide(rows)

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

    def _check(self) -> None:
        """Raise `InvalidParameter` if a parameter is out of its range."""


def within(name: str, value: float, low: float, high: float) -> None:
    """Raise `InvalidParameter` unless ``low <= value <= high``."""
    if not low <= value <= high:
        raise InvalidParameter(f"{name} is {value}: expected {low} to {high}")


def at_least(name: str, value: float, low: float) -> None:
    """Raise `InvalidParameter` unless ``value >= low``."""
    if not value >= low:
        raise InvalidParameter(f"{name} is {value}: expected {low} or more")


def one_of(name: str, value: object, expected: tuple[object, ...]) -> None:
    """Raise `InvalidParameter` unless the value is one of those expected."""
    if value not in expected:
        raise InvalidParameter(f"{name} is {value!r}: expected one of {', '.join(map(repr, expected))}")


def above_zero(name: str, value: float) -> None:
    """Raise `InvalidParameter` unless ``value > 0``."""
    if not value > 0:
        raise InvalidParameter(f"{name} is {value}: expected a number above 0")


def _labels(y: ArrayLike, n: int) -> NDArray[np.int64]:
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InvalidParameter(f"y is of shape {labels.shape}: expected ({n},), one label for each row of X")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InvalidLabel(f"y holds {labels.dtype}: expected integers, 0 or above")
    if labels.min() < 0:
        raise InvalidLabel(f"y holds the label {labels.min()}: expected 0 or above, {UNKNOWN} stands for unknown")
    return labels.astype(np.int64)
