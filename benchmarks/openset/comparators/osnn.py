"""OSNN: the ratio of the distances to the two nearest classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier, within
from benchmarks.openset.comparators.neighbours import ClassNeighbours
from benchmarks.openset.comparators.whitening import no_whitening, within_class_whitening


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

    neighbours_: ClassNeighbours
    whitening_: NDArray[np.float64]

    def __init__(self, sigma: float = 0.8, whiten: bool = False) -> None:
        self.sigma = sigma
        self.whiten = whiten

    def cut(self) -> float:
        """`sigma`."""
        return self.sigma

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.whitening_ = within_class_whitening(X, y) if self.whiten else no_whitening(X)
        self.neighbours_ = ClassNeighbours(X @ self.whitening_, y)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        distances = self.neighbours_.distances(X @ self.whitening_, 1)
        nearest = np.partition(distances, 1, axis=1)
        ratio = np.divide(nearest[:, 0], nearest[:, 1], out=np.ones(len(X)), where=nearest[:, 1] > 0)
        return Decisions(self.classes_[distances.argmin(axis=1)], ratio)

    def _check(self) -> None:
        within("sigma", self.sigma, 0, 1)
