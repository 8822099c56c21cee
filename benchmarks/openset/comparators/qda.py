"""Quadratic discriminant analysis, cut at a quantile of the chi-square distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier, within


class QDAChi2(OpenSetClassifier):
    """One Gaussian for each class; an instance too far from its class, in Mahalanobis distance, is unknown.

    The covariance of a class is shrunk towards the one common to all classes, ``(1 - a) S_j + a S`` (the first of the
    two steps of regularized discriminant analysis [1]_); the second step, a share of the mean variance on the
    diagonal, is kept small and fixed. Of an instance that belongs to the class, the squared Mahalanobis distance is
    chi-square distributed with as many degrees of freedom as there are features; it is unknown if that exceeds the
    quantile of order ``1 - tail``.

    Parameters
    ----------
    shrinkage
        Share a of the common covariance, 0 to 1.
    tail
        Share of its instances that a class, were it Gaussian, would lose, 0 to 1.
    ridge
        Share of the mean variance put on the diagonal.

    References
    ----------
    .. [1] J. H. Friedman, "Regularized discriminant analysis", Journal of the American Statistical Association 84,
       1989.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> QDAChi2().fit(X, y).predict([[0, 0], [6, 6], [-40, 40]]).tolist()
    [0, 1, -1]
    """

    means_: NDArray[np.float64]
    whitenings_: NDArray[np.float64]
    log_determinants_: NDArray[np.float64]

    def __init__(self, shrinkage: float = 0.1, tail: float = 0.01, ridge: float = 1e-3) -> None:
        self.shrinkage = shrinkage
        self.tail = tail
        self.ridge = ridge

    def cut(self) -> float:
        """Quantile of the squared distance."""
        return float(chi2.isf(self.tail, self.n_features_in_))

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        d = X.shape[1]
        parts = [X[y == label] for label in self.classes_]
        self.means_ = np.stack([part.mean(axis=0) for part in parts])
        scatters = np.stack([(p - m).T @ (p - m) for p, m in zip(parts, self.means_, strict=True)])
        common = scatters.sum(axis=0) / max(len(X) - len(parts), 1)
        own = scatters / np.array([max(len(part) - 1, 1) for part in parts])[:, None, None]
        covariances = (1 - self.shrinkage) * own + self.shrinkage * common
        covariances = (1 - self.ridge) * covariances + self.ridge * np.trace(common) / d * np.eye(d)
        values, vectors = np.linalg.eigh(covariances)
        values = np.maximum(values, 1e-12 * values.max(axis=1, keepdims=True))
        self.whitenings_ = vectors / np.sqrt(values)[:, None, :]
        self.log_determinants_ = np.log(values).sum(axis=1)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        distances = np.stack(
            [
                (((X - mean) @ whitening) ** 2).sum(axis=1)
                for mean, whitening in zip(self.means_, self.whitenings_, strict=True)
            ],
            axis=1,
        )
        best = (distances + self.log_determinants_).argmin(axis=1)
        return Decisions(self.classes_[best], np.take_along_axis(distances, best[:, None], axis=1)[:, 0])

    def _check(self) -> None:
        within("shrinkage", self.shrinkage, 0, 1)
        within("tail", self.tail, 0, 1)
        within("ridge", self.ridge, 0, 1)
