"""Nearest training instances: OSNN, the distance to the k-th neighbour, and whitened distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf
from sklearn.neighbors import NearestNeighbors

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier


def within_class_whitening(X: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Array W of shape (n_features, n_features): ``X @ W`` has about unit covariance within classes.

    The covariance within classes is shrunk (Ledoit and Wolf).

    Parameters
    ----------
    X, y
        Training instances, of shape (n, n_features), and their labels.
    """
    classes, number = np.unique(y, return_inverse=True)
    means = np.stack([X[y == label].mean(axis=0) for label in classes])
    covariance, _ = ledoit_wolf(X - means[number], assume_centered=True)
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt(np.maximum(values, max(1e-12 * values.max(), 1e-300)))


def axes_of(X: NDArray[np.float64], y: NDArray[np.int64], whiten: bool) -> NDArray[np.float64]:
    """Return the matrix of `within_class_whitening`, or the identity."""
    return within_class_whitening(X, y) if whiten else np.eye(X.shape[1])


class ClassNeighbours:
    """Index of the training instances, class by class.

    Parameters
    ----------
    X, y
        Training instances, of shape (n, n_features), and their labels.
    """

    def __init__(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self._indices = [NearestNeighbors().fit(X[y == label]) for label in np.unique(y)]

    def distances(self, X: NDArray[np.float64], k: int) -> NDArray[np.float64]:
        """Array of shape (m, J): distance of each instance to its k-th neighbour in each class.

        A class of fewer than k instances counts with its farthest.
        """
        columns = []
        for index in self._indices:
            distance, _ = index.kneighbors(X, n_neighbors=min(k, index.n_samples_fit_))
            columns.append(distance[:, -1])
        return np.stack(columns, axis=1)


@dataclass(repr=False, eq=False)
class OSNN(OpenSetClassifier):
    """Nearest neighbours distance ratio open-set classifier of Mendes Júnior et al. [1]_.

    With u the nearest training instance of s and v the nearest one of another class than u's, the ratio is
    ``R = d(s, u) / d(s, v)`` (equation 6 of Geng and Chen). The label is that of u if
    ``R <= sigma``, else unknown. Where both distances are 0 the ratio is 1.

    Parameters
    ----------
    sigma
        Greatest ratio of an instance that is known, 0 to 1.
    whiten
        Whether distances are taken where the training instances have unit covariance within classes, estimated with
        shrinkage (Ledoit and Wolf), so that directions in which classes merely vary do not drown the others.

    References
    ----------
    .. [1] P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106,
       2017.

    Examples
    --------
    The second instance is three times as far from 4 as from 10, the third equally far from both.

    >>> model = OSNN(sigma=0.5).fit([[0.0], [4.0], [10.0]], [0, 0, 1])
    >>> model.predict([[1.0], [8.5], [7.0]]).tolist(), model.score_unknown([[1.0], [8.5], [7.0]]).round(3).tolist()
    ([0, 1, -1], [0.111, 0.333, 1.0])
    """

    sigma: float = 0.8
    whiten: bool = False

    def cut(self) -> float:
        """`sigma`."""
        return self.sigma

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.whitening_ = axes_of(X, y, self.whiten)
        self.neighbours_ = ClassNeighbours(X @ self.whitening_, y)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        distances = self.neighbours_.distances(X @ self.whitening_, 1)
        nearest = np.partition(distances, 1, axis=1)
        ratio = np.divide(nearest[:, 0], nearest[:, 1], out=np.ones(len(X)), where=nearest[:, 1] > 0)
        return Decisions(self.classes_[distances.argmin(axis=1)], ratio)


@dataclass(repr=False, eq=False)
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

    k: int = 1
    threshold: float = 2.0
    whiten: bool = True

    def cut(self) -> float:
        """`threshold`."""
        return self.threshold

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.whitening_ = axes_of(X, y, self.whiten)
        self.neighbours_ = ClassNeighbours(X @ self.whitening_, y)
        # Each training instance is its own nearest neighbour.
        distances = self.neighbours_.distances(X @ self.whitening_, self.k + 1)
        own = distances[np.arange(len(y)), np.searchsorted(self.classes_, y)]
        self.unit_ = max(float(np.median(own)), 1e-12)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        distances = self.neighbours_.distances(X @ self.whitening_, self.k)
        return Decisions(self.classes_[distances.argmin(axis=1)], distances.min(axis=1) / self.unit_)
