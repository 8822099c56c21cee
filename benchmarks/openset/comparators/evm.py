"""The Extreme Value Machine: each training instance keeps the distribution of its margin to the other classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier
from benchmarks.openset.comparators.neighbours import axes_of
from benchmarks.openset.comparators.weibull import Weibull, fit_weibull

ROWS = 2048
"""Instances whose distances are held at a time."""


@dataclass(repr=False, eq=False)
class ExtremeValueMachine(OpenSetClassifier):
    """Extreme Value Machine of Rudd et al. [1]_.

    The margins of a training instance x_i are half its distances to the `tail` nearest training instances of other
    classes; to them a Weibull distribution is fitted. That an instance x lies within the margin has the probability
    ``Psi(x_i, x) = exp(-(|x_i - x| / lambda_i)^kappa_i)``, and the probability of a class is the greatest one of its
    instances. The label is the class of greatest probability, or unknown if that is below `delta`. No instances are
    left out (the paper's model reduction does so to save memory).

    Parameters
    ----------
    tail
        Number of margins fitted, tau in [1]_.
    delta
        Least probability of an instance that is known.
    whiten
        Whether distances are taken where the training instances have unit covariance within classes, estimated with
        shrinkage (Ledoit and Wolf), so that directions in which classes merely vary do not drown the others.

    References
    ----------
    .. [1] E. M. Rudd, L. P. Jain, W. J. Scheirer and T. E. Boult, "The extreme value machine", IEEE TPAMI 40, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> ExtremeValueMachine(tail=10).fit(X, y).predict([[0, 0], [6, 6], [-40, 40]]).tolist()
    [0, 1, -1]
    """

    tail: int = 50
    delta: float = 0.5
    whiten: bool = False

    def cut(self) -> float:
        """One minus `delta`."""
        return 1.0 - self.delta

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.whitening_ = axes_of(X, y, self.whiten)
        X = X @ self.whitening_
        self.X_ = X
        self.y_ = y
        shape, scale = np.empty(len(X)), np.empty(len(X))
        for label in self.classes_:
            own = y == label
            shape[own], scale[own] = _margins(X[own], X[~own], self.tail)
        self.weibull_ = Weibull(shape, scale)

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        X = X @ self.whitening_
        inclusion = np.concatenate([self._inclusion(X[i : i + ROWS]) for i in range(0, len(X), ROWS)])
        return Decisions(self.classes_[inclusion.argmax(axis=1)], 1.0 - inclusion.max(axis=1))

    def _inclusion(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        hazard = self.weibull_.hazard(cdist(X, self.X_))
        return np.exp(-np.stack([hazard[:, self.y_ == label].min(axis=1) for label in self.classes_], axis=1))


def _margins(X: NDArray[np.float64], others: NDArray[np.float64], n: int) -> Weibull:
    """Fit half the distances of each row of X to the n nearest of the others, or to all of them."""
    n = min(n, len(others))
    margins = np.partition(cdist(X, others), n - 1, axis=1)[:, :n] / 2
    # Equal instances of two classes leave no margin: a width of next to nothing instead.
    return fit_weibull(np.maximum(margins, max(1e-9 * margins.mean(), 1e-300)))
