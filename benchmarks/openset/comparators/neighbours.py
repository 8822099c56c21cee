"""Nearest training instances of each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors


class ClassNeighbours:
    """Index of the training instances, class by class.

    Parameters
    ----------
    X, y
        Training instances, of shape (n, n_features), and their labels.
    """

    def __init__(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.classes = np.unique(y)
        self._indices = [NearestNeighbors().fit(X[y == label]) for label in self.classes]

    def distances(self, X: NDArray[np.float64], k: int) -> NDArray[np.float64]:
        """Array of shape (m, J): distance of each instance to its k-th neighbour in each class.

        A class of fewer than k instances counts with its farthest.
        """
        columns = []
        for index in self._indices:
            distance, _ = index.kneighbors(X, n_neighbors=min(k, index.n_samples_fit_))
            columns.append(distance[:, -1])
        return np.stack(columns, axis=1)
