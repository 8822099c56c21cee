"""What a method is, and what it says: the interface behind which everything is compared.

Class numbers are integers from 0, ``UNKNOWN`` stands for none of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.deciding import UNKNOWN

__all__ = ["UNKNOWN", "Entry", "Kind", "Method", "Outcome", "Projection", "Setup", "blobs"]

Kind = Literal["in order", "whole", "each"]
"""What a method is handed: a stream in batches; the whole test part at once; or each instance by itself, so that what
it says of one does not depend on the others."""


class Outcome(NamedTuple):
    """What a method says of a test part.

    Attributes
    ----------
    predicted
        Class numbers, shape (n,).
    score
        The higher, the more unknown, shape (n,); None if the method gives no score.
    score_is_probability
        The score claims to be the probability of being unknown.
    seconds
        Time that the decisions took.
    closest
        The known class that each instance is most like, rejected or not, shape (n,); None if the method does not say.
    subclass
        Subclass of each instance, -1 for none, shape (n,); None if the method finds none.
    discovery
        Subclasses of the known classes and of the stream.
    by_epsilon
        What would have been predicted had other shares of a class been the smallest of a subclass, by the share.
    """

    predicted: np.ndarray
    score: np.ndarray | None
    score_is_probability: bool
    seconds: float
    closest: np.ndarray | None = None
    subclass: np.ndarray | None = None
    discovery: dict[str, Any] | None = None
    by_epsilon: Mapping[float, np.ndarray] | None = None

    def only(self, rows: np.ndarray) -> Outcome:
        """Keep some instances, of a method that decides each instance by itself; rows is a mask."""
        score, closest = (None if each is None else each[rows] for each in (self.score, self.closest))
        return self._replace(predicted=self.predicted[rows], score=score, closest=closest)


class Setup(NamedTuple):
    """What a method is made with.

    Attributes
    ----------
    pca
        Principal components of the training part to work on, or None: the features as they are.
    seed
        Of all its randomness, and of the validation split.
    shared
        What the methods of one unit of work share; ``shared["names"]`` names them.
    """

    pca: int | None
    seed: int
    shared: dict[str, Any]


class Method(ABC):
    """Trained once, asked for every openness and batch size.

    Attributes
    ----------
    train_seconds
        Time of `fit`, choice of hyperparameters included; None where it is shared, or nothing is trained.
    chosen
        Hyperparameters that `fit` chose, for the record.
    answers
        True class numbers of the test part, those of unknown classes from J on, shape (n,): for methods that are
        told of them after their decision. Set before `decide`, for no others.
    """

    train_seconds: float | None = None
    chosen: dict[str, Any] | None = None
    answers: np.ndarray | None = None

    @abstractmethod
    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Train on instances (n, p), class numbers (n,) and the label of each class number."""

    @abstractmethod
    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Decide a test part (n, p) in order, in batches of a size, each decision waiting for ``delay`` instances."""


class Entry(NamedTuple):
    """A method as the benchmark lists it.

    Attributes
    ----------
    make
        Makes it, not yet trained.
    kind
        What it is handed.
    about
        What it is and where it comes from, in a line.
    waits
        It can wait with a decision (``--decision-delay``).
    asks
        It is told true labels of the stream afterwards (`Method.answers`): not to be set beside those that are not.
    together
        Methods of one data set and seed with the same word here are measured in one process, and may share.
    needs
        Package that has to be installed, beside those of the tests.
    """

    make: Callable[[Setup], Method]
    kind: Kind
    about: str
    waits: bool = False
    asks: bool = False
    together: str | None = None
    needs: str | None = None


def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Rows of three classes, and the class of each: what kernels are compiled with before anything is timed."""
    group = np.arange(90) % 3
    return np.random.default_rng(0).normal(size=(90, 2)) + 9.0 * group[:, None], group


class Projection:
    """Principal axes of a training part, or the features as they are.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [4.0, 0.0, 1.0]])
    >>> Projection(X, 1)(X).round(6).ravel().tolist() in ([-2.0, 0.0, 2.0], [2.0, 0.0, -2.0])
    True
    """

    def __init__(self, X: np.ndarray, pca: int | None) -> None:
        self.centre, self.axes = X.mean(axis=0), None
        if pca is not None:
            self.axes = np.linalg.svd(X - self.centre, full_matrices=False)[2][:pca].T

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Project instances (n, p)."""
        return X if self.axes is None else (X - self.centre) @ self.axes
