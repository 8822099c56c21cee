"""P_I-SVM, W-OSVM and W-SVM: support vector machines whose margins become probabilities by Weibull distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import Decisions
from benchmarks.openset.comparators.margin_classifier import NEVER, Kernel, MarginClassifier, Request, Trained
from benchmarks.openset.comparators.weibull import Tail, fit_tail


class TwoTails(NamedTuple):
    """Calibration of machines: for each class, its own lower tail, and the upper tail of the rest if there is one."""

    own: list[Tail]
    rest: list[Tail]


class WeibullMachine(MarginClassifier):
    """Base: the opinion on a class is the logarithm of the probability that a margin of the class is smaller."""

    rho: float
    tail: float

    def cut(self) -> float:
        """Minus the logarithm of `rho`."""
        return -math.log(self.rho)

    def calibrate(self, request: Request, trained: Trained, y: NDArray[np.int64]) -> TwoTails:
        """Lower tail of each class's own margins."""
        return TwoTails(own_tails(trained, y, self.tail), [])

    def opinion(self, request: Request, calibration: TwoTails, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of the probabilities."""
        return np.stack([tail.log_survival(margins[:, j]) for j, tail in enumerate(calibration.own)], axis=1)

    def combine(self, opinions: Sequence[NDArray[np.float64]], classes: NDArray[np.int64]) -> Decisions:
        """Decide for the class of greatest probability; unknownness is minus its logarithm."""
        best = opinions[0].argmax(axis=1)
        top = np.take_along_axis(opinions[0], best[:, None], axis=1)[:, 0]
        return Decisions(classes[best], np.minimum(-top, NEVER))


@dataclass(repr=False, eq=False)
class PISVM(WeibullMachine):
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

    C: float = 1.0
    gamma: float = 1.0
    rho: float = 1e-3
    tail: float = 1.5
    scaling: str = "each"

    def requests(self) -> tuple[Request, ...]:
        """Machines against the rest."""
        return (Request(self.scaling, Kernel(self.gamma), C=self.C),)


@dataclass(repr=False, eq=False)
class WOSVM(WeibullMachine):
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

    gamma: float = 1.0
    rho: float = 1e-3
    nu: float = 0.5
    tail: float = 1.5
    scaling: str = "each"

    def requests(self) -> tuple[Request, ...]:
        """One-class machines."""
        return (Request(self.scaling, Kernel(self.gamma), nu=self.nu),)


@dataclass(repr=False, eq=False)
class WSVM(WeibullMachine):
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

    C: float = 1.0
    gamma: float = 1.0
    cap_gamma: float = 1.0
    rho: float = 1e-3
    rho_tau: float = 1e-3
    nu: float = 0.5
    tail: float = 1.5
    scaling: str = "each"

    def requests(self) -> tuple[Request, ...]:
        """Machines against the rest, and one-class machines."""
        return Request(self.scaling, Kernel(self.gamma), C=self.C), Request(
            self.scaling, Kernel(self.cap_gamma), nu=self.nu
        )

    def calibrate(self, request: Request, trained: Trained, y: NDArray[np.int64]) -> TwoTails:
        """Tails of the margins; of one-class machines only each class's own."""
        own = own_tails(trained, y, self.tail)
        return TwoTails(own, [] if request.C is None else rest_tails(trained, y, self.tail))

    def opinion(self, request: Request, calibration: TwoTails, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of ``P_eta P_psi`` or of ``P_O``."""
        log_own = super().opinion(request, calibration, margins)
        if not calibration.rest:
            return log_own
        rest = np.stack([tail.cdf(margins[:, j]) for j, tail in enumerate(calibration.rest)], axis=1)
        with np.errstate(divide="ignore"):
            return log_own + np.log(rest)

    def combine(self, opinions: Sequence[NDArray[np.float64]], classes: NDArray[np.int64]) -> Decisions:
        """Greatest product among the classes that the one-class machines leave."""
        product, one_class = opinions
        return super().combine([np.where(one_class > math.log(self.rho_tau), product, -np.inf)], classes)


def own_tails(trained: Trained, y: NDArray[np.int64], factor: float) -> list[Tail]:
    """For each class, the lower tail of the margins of its own instances on its own machine."""
    tails = []
    for j, label in enumerate(np.unique(y)):
        own = trained.own[y == label, j]
        tails.append(fit_tail(own, tail_size(int(trained.n_support[j, 0]), len(own), factor), sign=-1))
    return tails


def rest_tails(trained: Trained, y: NDArray[np.int64], factor: float) -> list[Tail]:
    """For each class, the upper tail of the margins of all others on its machine.

    Its size counts the support vectors of one of the other classes, on average.
    """
    classes = np.unique(y)
    tails = []
    for j, label in enumerate(classes):
        rest = trained.own[y != label, j]
        n_support = int(trained.n_support[j, 1])
        size = int(factor * n_support / (len(classes) - 1))
        if size <= 3:
            size = n_support
        tails.append(fit_tail(rest, max(size, 3), sign=+1))
    return tails


def tail_size(n_support: int, n: int, factor: float) -> int:
    """Scores to calibrate on: `factor` times the support vectors, or as many as these where that is too many or few.

    At least 3, the fewest that determine a Weibull distribution well.
    """
    size = int(factor * n_support)
    if size >= n or size <= 3:
        size = n_support
    return max(size, 3)
