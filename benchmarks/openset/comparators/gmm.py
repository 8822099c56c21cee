"""A Gaussian mixture for each class, cut at a threshold of density."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier, at_least, within
from benchmarks.openset.comparators.whitening import within_class_whitening


class GaussianMixtures(OpenSetClassifier):
    """A Gaussian mixture for each class; the class of greatest log density, or unknown if that is too low.

    Features are whitened by a shrunk estimate of the covariance within classes (Ledoit and Wolf [1]_), and a share of
    the identity is added to each component's covariance, which keeps classes with few instances regular.

    Parameters
    ----------
    n_components
        Components of each class; fewer where a class has too few instances.
    ridge
        Added to the variance of each whitened feature in each component.
    log_density
        Least log density per whitened feature of an instance that is known, relative to the mean that the training
        instances have.
    seed
        Of the start of the mixtures.

    References
    ----------
    .. [1] O. Ledoit and M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", Journal of
       Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> GaussianMixtures().fit(X, y).predict([[0, 0], [6, 6], [-40, 40]]).tolist()
    [0, 1, -1]
    """

    mixtures_: list[GaussianMixture]
    whitening_: NDArray[np.float64]
    level_: float

    def __init__(self, n_components: int = 1, ridge: float = 0.1, log_density: float = -3.0, seed: int = 0) -> None:
        self.n_components = n_components
        self.ridge = ridge
        self.log_density = log_density
        self.seed = seed

    def cut(self) -> float:
        """Minus `log_density`."""
        return -self.log_density

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.whitening_ = within_class_whitening(X, y)
        whitened = X @ self.whitening_
        self.mixtures_ = [self._mixture(whitened[y == label]) for label in self.classes_]
        self.level_ = float(self._log_densities(whitened).max(axis=1).mean())

    def _mixture(self, own: NDArray[np.float64]) -> GaussianMixture:
        n_components = min(self.n_components, max(1, len(own) // 5))
        mixture = GaussianMixture(n_components, reg_covar=self.ridge, random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return mixture.fit(own)

    def _log_densities(self, whitened: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([mixture.score_samples(whitened) for mixture in self.mixtures_], axis=1)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        densities = self._log_densities(X @ self.whitening_)
        return Decisions(self.classes_[densities.argmax(axis=1)], (self.level_ - densities.max(axis=1)) / X.shape[1])

    def _check(self) -> None:
        at_least("n_components", self.n_components, 1)
        at_least("ridge", self.ridge, 0)
        within("log_density", self.log_density, -1e300, 1e300)
