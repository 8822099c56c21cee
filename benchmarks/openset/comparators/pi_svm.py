"""P_I-SVM: support vector machines whose margins become probabilities of inclusion."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import Decisions, above_zero, within
from benchmarks.openset.comparators.margin_classifier import (
    MarginClassifier,
    Request,
    Trained,
    most_probable,
    tail_size,
)
from benchmarks.openset.comparators.margins import Kernel
from benchmarks.openset.comparators.weibull import Tail, fit_tail


class PISVM(MarginClassifier):
    """P_I-SVM of Jain, Scheirer and Boult [1]_.

    For each class y a machine with radial kernel is trained against the rest. A Weibull distribution is
    fitted to the smallest margins of the class's own instances; the probability of inclusion of an instance with
    margin f is the share of them that lie below it, ``P_I(y | x) = exp(-((o - f + 1) / lambda)^kappa)`` with o the
    largest of the margins fitted. The label is the class of greatest probability, or unknown if that is below `rho`.

    Parameters
    ----------
    C
        Weight of the slack.
    gamma
        Of the kernel ``exp(-gamma |x - z|^2)``, on scaled features.
    rho
        Least probability of inclusion of an instance that is known.
    tail
        Margins fitted, as a multiple of the class's support vectors.
    scaling
        Of the features, by the instances fitted: "each" to [-1, 1], all by "one" factor, the widest to [-1, 1], or
        "none".

    References
    ----------
    .. [1] L. P. Jain, W. J. Scheirer and T. E. Boult, "Multi-class open set recognition using probability of
       inclusion", ECCV 2014.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> PISVM(gamma=2.0, rho=1e-3).fit(X, y).predict([[0, 0], [6, 6], [-40, 40]]).tolist()
    [0, 1, -1]
    """

    def __init__(
        self, C: float = 1.0, gamma: float = 1.0, rho: float = 1e-3, tail: float = 1.5, scaling: str = "each"
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.rho = rho
        self.tail = tail
        self.scaling = scaling

    def cut(self) -> float:
        """Minus the logarithm of `rho`."""
        return -math.log(self.rho)

    def requests(self) -> tuple[Request, ...]:
        """Machines against the rest."""
        return (Request(self.scaling, Kernel(self.gamma), C=self.C),)

    def calibrate(self, request: Request, trained: Trained, y: NDArray[np.int64]) -> list[Tail]:
        """Lower tail of each class's own margins."""
        return own_tails(trained, y, self.tail)

    def opinion(self, request: Request, calibration: list[Tail], margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of the probabilities of inclusion."""
        return log_inclusion(calibration, margins)

    def combine(self, opinions: Sequence[NDArray[np.float64]], classes: NDArray[np.int64]) -> Decisions:
        """Greatest probability of inclusion."""
        return most_probable(opinions[0], classes)

    def _check(self) -> None:
        super()._check()
        above_zero("C", self.C)
        above_zero("gamma", self.gamma)
        above_zero("rho", self.rho)
        within("rho", self.rho, 0, 1)
        above_zero("tail", self.tail)


def own_tails(trained: Trained, y: NDArray[np.int64], factor: float) -> list[Tail]:
    """For each class, the lower tail of the margins of its own instances on its own machine."""
    tails = []
    for j, label in enumerate(np.unique(y)):
        own = trained.own[y == label, j]
        tails.append(fit_tail(own, tail_size(int(trained.machines.n_support[j, 0]), len(own), factor), sign=-1))
    return tails


def log_inclusion(tails: list[Tail], margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Array of shape (m, J): logarithms of the probabilities that a margin of the class is smaller."""
    return np.stack([tail.log_survival(margins[:, j]) for j, tail in enumerate(tails)], axis=1)
