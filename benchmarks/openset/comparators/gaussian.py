"""Classifiers with Gaussian classes: linear and quadratic discriminant analysis, and a mixture for each class."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier
from benchmarks.openset.comparators.neighbours import within_class_whitening


@dataclass(repr=False, eq=False)
class LDAPosterior(OpenSetClassifier):
    """Linear discriminant analysis [1]_; an instance whose class is not clear is unknown.

    One Gaussian for each class, with a common covariance (shrunk after Ledoit and Wolf). The label is the class
    of greatest posterior probability, or unknown if the others together are more probable than `doubt`.

    Parameters
    ----------
    doubt
        Greatest probability of the other classes, for an instance that is known.

    References
    ----------
    .. [1] T. Hastie, R. Tibshirani and J. Friedman, "The Elements of Statistical Learning", 2nd ed., section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> LDAPosterior().fit(X, y).predict([[0, 0], [6, 6], [3, 3]]).tolist()
    [0, 1, -1]
    """

    doubt: float = 0.1

    def cut(self) -> float:
        """Logarithm of `doubt`."""
        return math.log(self.doubt) if self.doubt > 0 else -math.inf

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.model_ = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X, y)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        scores = self.model_.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros(len(X)), scores], axis=1)
        best = scores.argmax(axis=1)
        others = scores - scores.max(axis=1, keepdims=True)
        np.put_along_axis(others, best[:, None], -np.inf, axis=1)
        # Odds of the others, kept as a logarithm: the posterior itself runs into 1.
        top = others.max(axis=1, keepdims=True)
        log_odds = top[:, 0] + np.log(np.exp(others - top).sum(axis=1))
        return Decisions(self.classes_[best], log_odds - np.logaddexp(0.0, log_odds))


@dataclass(repr=False, eq=False)
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

    shrinkage: float = 0.1
    tail: float = 0.01
    ridge: float = 1e-3

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
        pairs = zip(self.means_, self.whitenings_, strict=True)
        distances = np.stack([(((X - mean) @ whitening) ** 2).sum(axis=1) for mean, whitening in pairs], axis=1)
        best = (distances + self.log_determinants_).argmin(axis=1)
        return Decisions(self.classes_[best], np.take_along_axis(distances, best[:, None], axis=1)[:, 0])


@dataclass(repr=False, eq=False)
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

    n_components: int = 1
    ridge: float = 0.1
    log_density: float = -3.0
    seed: int = 0

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
