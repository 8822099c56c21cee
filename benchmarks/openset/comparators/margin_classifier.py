"""Open-set classifiers that read the margins of support vector machines, and the machines that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier, one_of
from benchmarks.openset.comparators.margins import (
    SCALINGS,
    Kernel,
    Machines,
    Scaling,
    make_scaling,
    one_class,
    one_versus_rest,
)

NEVER = 1e300
"""Unknownness of an instance to which no class gives any probability; finite, so that it can be ranked."""


class Request(NamedTuple):
    """Which machines are wanted: each class against the rest (`C`) or alone (`nu`), on which features and kernel."""

    scaling: str
    kernel: Kernel
    C: float | None = None
    nu: float | None = None


class Trained(NamedTuple):
    """Machines and what they say about the instances that they were trained on.

    Attributes
    ----------
    machines
        One for each of J classes.
    own
        Array of shape (n, J): margins of the n fitted instances.
    """

    machines: Machines
    own: NDArray[np.float64]


def train(request: Request, kernel: NDArray[np.float64], y: NDArray[np.int64]) -> Trained:
    """Train the machines of a request on the kernel, of shape (n, n), of n instances."""
    if request.C is not None:
        machines = one_versus_rest(kernel, y, request.C)
    elif request.nu is not None:
        machines = one_class(kernel, y, request.nu)
    else:
        raise ValueError("neither C nor nu is given")
    return Trained(machines, machines.margins(kernel))


class MarginClassifier(OpenSetClassifier):
    """Base of 1-vs-Set, W-SVM, W-OSVM and P_I-SVM; features are scaled on the instances fitted.

    A method asks for machines (`requests`), calibrates each set of them, turns margins into an opinion on
    each class (higher for the class) and combines the opinions.
    """

    scaling: str
    scaling_: Scaling
    fitted_: NDArray[np.float64]
    trained_: tuple[Trained, ...]
    calibrations_: tuple[Any, ...]

    @abstractmethod
    def requests(self) -> tuple[Request, ...]:
        """List the sets of machines that the method needs, from its parameters."""

    @abstractmethod
    def calibrate(self, request: Request, trained: Trained, y: NDArray[np.int64]) -> Any:
        """Whatever `opinion` needs to know of the training instances."""

    @abstractmethod
    def opinion(self, request: Request, calibration: Any, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Array of shape (m, J) from the margins, of that shape, of one set of machines."""

    @abstractmethod
    def combine(self, opinions: Sequence[NDArray[np.float64]], classes: NDArray[np.int64]) -> Decisions:
        """Decide from one opinion for each request."""

    def _check(self) -> None:
        one_of("scaling", self.scaling, SCALINGS)

    def _learn(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.scaling_ = make_scaling(X, self.scaling)
        self.fitted_ = self.scaling_(X)
        requests = self.requests()
        self.trained_ = tuple(train(one, one.kernel(self.fitted_, self.fitted_), y) for one in requests)
        self.calibrations_ = tuple(
            self.calibrate(one, trained, y) for one, trained in zip(requests, self.trained_, strict=True)
        )

    def _decide(self, X: NDArray[np.float64]) -> Decisions:
        scaled = self.scaling_(X)
        opinions = [
            self.opinion(one, calibration, trained.machines.margins(one.kernel(scaled, self.fitted_)))
            for one, trained, calibration in zip(self.requests(), self.trained_, self.calibrations_, strict=True)
        ]
        return self.combine(opinions, self.classes_)


class MachinePool:
    """Machines trained on one fitting part, and their margins on one query part, for many requests.

    Only the kernel matrices asked for last are kept: ask scaling by scaling, and kernel by kernel.

    Parameters
    ----------
    X, y
        Fitting part.
    X_query
        Instances to have margins of.
    X_ranges
        Instances by whose ranges the features of both are scaled.
    """

    def __init__(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.int64],
        X_query: NDArray[np.float64],
        X_ranges: NDArray[np.float64],
    ) -> None:
        self.y = y
        self._fitted = X
        self._query = X_query
        self._scalings = {kind: make_scaling(X_ranges, kind) for kind in SCALINGS}
        self._kept: tuple[str, Kernel] | None = None
        self._within = np.empty((0, 0))
        self._across = np.empty((0, 0))
        self._known: dict[Request, tuple[Trained, NDArray[np.float64]]] = {}

    def __call__(self, request: Request) -> tuple[Trained, NDArray[np.float64]]:
        """Machines of a request and their margins on the query part, of shape (m, J)."""
        if request not in self._known:
            if (request.scaling, request.kernel) != self._kept:
                self._kept = request.scaling, request.kernel
                scaling = self._scalings[request.scaling]
                fitted = scaling(self._fitted)
                self._within = request.kernel(fitted, fitted)
                self._across = request.kernel(scaling(self._query), fitted)
            trained = train(request, self._within, self.y)
            self._known[request] = trained, trained.machines.margins(self._across)
        return self._known[request]


def most_probable(log_probability: NDArray[np.float64], classes: NDArray[np.int64]) -> Decisions:
    """Decide for the class of greatest probability; unknownness is minus its logarithm.

    Parameters
    ----------
    log_probability
        Array of shape (m, J), <= 0, possibly -inf.
    classes
        J labels.
    """
    best = log_probability.argmax(axis=1)
    top = np.take_along_axis(log_probability, best[:, None], axis=1)[:, 0]
    return Decisions(classes[best], np.minimum(-top, NEVER))


def tail_size(n_support: int, n: int, factor: float) -> int:
    """Scores to calibrate on: `factor` times the support vectors, or as many as these where that is too many or few.

    At least 3, the fewest that determine a Weibull distribution well.
    """
    size = int(factor * n_support)
    if size >= n or size <= 3:
        size = n_support
    return max(size, 3)
