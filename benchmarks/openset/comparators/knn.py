"""Distance to the k-th neighbour, cut at a threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier, above_zero, at_least
from benchmarks.openset.comparators.neighbours import ClassNeighbours
from benchmarks.openset.comparators.whitening import no_whitening, within_class_whitening


class KNNDistance(OpenSetClassifier):
    """The class whose k-th nearest training instance is nearest, unless that is too far [1]_.

    The unit of distance is the median, over the training instances, of the
    distance to the k-th neighbour of the same class, the instance itself left out.

    Parameters
    ----------
    k
        Which neighbour; 1 is the nearest.
    threshold
        Greatest distance of an instance that is known, in that unit.
    whiten
        Whether distances are taken where the training instances have unit covariance within classes, estimated with
        shrinkage (Ledoit and Wolf), so that directions in which classes merely vary do not drown the others.

    References
    ----------
    .. [1] S. Ramaswamy, R. Rastogi and K. Shim, "Efficient algorithms for mining outliers from large data sets",
       SIGMOD 2000.

    Examples
    --------
    >>> model = KNNDistance(k=1, threshold=1.5).fit([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1])
    >>> X = [[2.0], [9.0], [13.0]]
    >>> model.predict(X).tolist(), model.score_unknown(X).round(3).tolist()
    ([0, 1, -1], [1.0, 1.0, 2.0])
    """

    neighbours_: ClassNeighbours
    whitening_: NDArray[np.float64]
    unit_: float

    def __init__(self, k: int = 1, threshold: float = 2.0, whiten: bool = True) -> None:
        self.k = k
        self.threshold = threshold
        self.whiten = whiten

    def cut(self) -> float:
        """`threshold`."""
        return self.threshold

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.whitening_ = within_class_whitening(X, y) if self.whiten else no_whitening(X)
        self.neighbours_ = ClassNeighbours(X @ self.whitening_, y)
        # Each training instance is its own nearest neighbour.
        distances = self.neighbours_.distances(X @ self.whitening_, self.k + 1)
        own = distances[np.arange(len(y)), np.searchsorted(self.classes_, y)]
        self.unit_ = max(float(np.median(own)), 1e-12)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        distances = self.neighbours_.distances(X @ self.whitening_, self.k)
        return Decisions(self.classes_[distances.argmin(axis=1)], distances.min(axis=1) / self.unit_)

    def _check(self) -> None:
        at_least("k", self.k, 1)
        above_zero("threshold", self.threshold)
