"""Linear discriminant analysis, cut at a posterior probability."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier, within


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

    model_: LinearDiscriminantAnalysis

    def __init__(self, doubt: float = 0.1) -> None:
        self.doubt = doubt

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

    def _check(self) -> None:
        within("doubt", self.doubt, 0, 1)
