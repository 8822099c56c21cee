"""W-SVM and W-OSVM: support vector machines calibrated by Weibull distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import Decisions, above_zero, within
from benchmarks.openset.comparators.margin_classifier import MarginClassifier, Request, Trained, most_probable
from benchmarks.openset.comparators.margins import Kernel
from benchmarks.openset.comparators.pi_svm import log_inclusion, own_tails
from benchmarks.openset.comparators.weibull import Tail, fit_tail


class WOSVM(MarginClassifier):
    """W-OSVM: the one-class part of the W-SVM of Scheirer, Jain and Boult [1]_ on its own.

    For each class y a one-class machine with radial kernel is trained, and a Weibull distribution fitted to
    the smallest margins of the class's own instances: ``P_O(y | x)`` is the share of them below the margin of x.
    The label is the class of greatest ``P_O``, or unknown if that is below `rho`.

    Parameters
    ----------
    gamma
        Of the kernel ``exp(-gamma |x - z|^2)``, on scaled features.
    rho
        Least probability of an instance that is known; 0.001 in [1]_.
    nu
        Bound on the share of training instances outside a one-class machine.
    tail
        Margins fitted, as a multiple of the support vectors.
    scaling
        Of the features, by the instances fitted: "each" to [-1, 1], all by "one" factor, the widest to [-1, 1], or
        "none".

    References
    ----------
    .. [1] W. J. Scheirer, L. P. Jain and T. E. Boult, "Probability models for open set recognition", IEEE TPAMI 36,
       2014.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> WOSVM(gamma=2.0).fit(X, y).predict([[0, 0], [6, 6], [-40, 40]]).tolist()
    [0, 1, -1]
    """

    def __init__(
        self,
        gamma: float = 1.0,
        rho: float = 1e-3,
        nu: float = 0.5,
        tail: float = 1.5,
        scaling: str = "each",
    ) -> None:
        self.gamma = gamma
        self.rho = rho
        self.nu = nu
        self.tail = tail
        self.scaling = scaling

    def cut(self) -> float:
        """Minus the logarithm of `rho`."""
        return -math.log(self.rho)

    def requests(self) -> tuple[Request, ...]:
        """One-class machines."""
        return (Request(self.scaling, Kernel(self.gamma), nu=self.nu),)

    def calibrate(self, request: Request, trained: Trained, y: NDArray[np.int64]) -> list[Tail]:
        """Lower tail of each class's own margins."""
        return own_tails(trained, y, self.tail)

    def opinion(self, request: Request, calibration: list[Tail], margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of ``P_O``."""
        return log_inclusion(calibration, margins)

    def combine(self, opinions: Sequence[NDArray[np.float64]], classes: NDArray[np.int64]) -> Decisions:
        """Greatest ``P_O``."""
        return most_probable(opinions[0], classes)

    def _check(self) -> None:
        super()._check()
        above_zero("gamma", self.gamma)
        _probability("rho", self.rho)
        _probability("nu", self.nu)
        above_zero("tail", self.tail)


class TwoTails(NamedTuple):
    """Calibration of the machines against the rest: for each class, its own lower tail and the rest's upper one."""

    own: list[Tail]
    rest: list[Tail]


class WSVM(MarginClassifier):
    """W-SVM of Scheirer, Jain and Boult [1]_.

    Two sets of machines: one-class ones, calibrated as in `WOSVM`, and one for each class against the rest. On
    the margins f of the latter two Weibull distributions are fitted, to the smallest ones of the
    class and to the largest ones of the others; ``P_eta(y | x)`` is the share of the former below f,
    ``P_psi(y | x)`` that of the latter below f. With ``iota_y = 1`` if
    ``P_O(y | x) > rho_tau``, else 0, the label is ``argmax_y P_eta P_psi iota_y``, or unknown if that product is
    below `rho` (equation 4 of Geng and Chen).

    Parameters
    ----------
    C, gamma
        Weight of the slack and kernel width of the machines against the rest, on scaled features.
    cap_gamma
        Kernel width of the one-class machines.
    rho
        Least product of probabilities of an instance that is known; ``rho_R`` in [1]_.
    rho_tau
        Probability that the one-class machine of a class must exceed.
    nu
        Bound on the share of training instances outside a one-class machine.
    tail
        Margins fitted, as a multiple of the support vectors.
    scaling
        Of the features, by the instances fitted: "each" to [-1, 1], all by "one" factor, the widest to [-1, 1], or
        "none".

    References
    ----------
    .. [1] W. J. Scheirer, L. P. Jain and T. E. Boult, "Probability models for open set recognition", IEEE TPAMI 36,
       2014.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> WSVM(gamma=2.0, cap_gamma=2.0).fit(X, y).predict([[0, 0], [6, 6], [-40, 40]]).tolist()
    [0, 1, -1]
    """

    def __init__(
        self,
        C: float = 1.0,
        gamma: float = 1.0,
        cap_gamma: float = 1.0,
        rho: float = 1e-3,
        rho_tau: float = 1e-3,
        nu: float = 0.5,
        tail: float = 1.5,
        scaling: str = "each",
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.cap_gamma = cap_gamma
        self.rho = rho
        self.rho_tau = rho_tau
        self.nu = nu
        self.tail = tail
        self.scaling = scaling

    def cut(self) -> float:
        """Minus the logarithm of `rho`."""
        return -math.log(self.rho)

    def requests(self) -> tuple[Request, ...]:
        """Machines against the rest, and one-class machines."""
        return Request(self.scaling, Kernel(self.gamma), C=self.C), Request(
            self.scaling, Kernel(self.cap_gamma), nu=self.nu
        )

    def calibrate(self, request: Request, trained: Trained, y: NDArray[np.int64]) -> TwoTails:
        """Tails of the margins; of one-class machines only each class's own."""
        own = own_tails(trained, y, self.tail)
        return TwoTails(own, [] if request.C is None else _rest_tails(trained, y, self.tail))

    def opinion(self, request: Request, calibration: TwoTails, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of ``P_eta P_psi`` or of ``P_O``."""
        log_own = log_inclusion(calibration.own, margins)
        if not calibration.rest:
            return log_own
        rest = np.stack([tail.cdf(margins[:, j]) for j, tail in enumerate(calibration.rest)], axis=1)
        with np.errstate(divide="ignore"):
            return log_own + np.log(rest)

    def combine(self, opinions: Sequence[NDArray[np.float64]], classes: NDArray[np.int64]) -> Decisions:
        """Greatest product among the classes that the one-class machines leave."""
        product, one_class = opinions
        return most_probable(np.where(one_class > math.log(self.rho_tau), product, -np.inf), classes)

    def _check(self) -> None:
        super()._check()
        above_zero("C", self.C)
        above_zero("gamma", self.gamma)
        above_zero("cap_gamma", self.cap_gamma)
        _probability("rho", self.rho)
        _probability("rho_tau", self.rho_tau)
        _probability("nu", self.nu)
        above_zero("tail", self.tail)


def _rest_tails(trained: Trained, y: NDArray[np.int64], factor: float) -> list[Tail]:
    """For each class, the upper tail of the margins of all others on its machine.

    Its size counts the support vectors of one of the other classes, on average.
    """
    classes = np.unique(y)
    tails = []
    for j, label in enumerate(classes):
        rest = trained.own[y != label, j]
        n_support = int(trained.machines.n_support[j, 1])
        size = int(factor * n_support / (len(classes) - 1))
        if size <= 3:
            size = n_support
        tails.append(fit_tail(rest, max(size, 3), sign=+1))
    return tails


def _probability(name: str, value: float) -> None:
    above_zero(name, value)
    within(name, value, 0, 1)
