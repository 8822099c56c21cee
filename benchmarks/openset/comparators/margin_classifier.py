"""Open-set classifiers that read the margins of support vector machines, and the machines that they share.

There is a machine for each class, against the rest or alone. The methods (1-vs-Set, W-SVM, P_I-SVM) read only margins
and counts of support vectors, so one set of machines serves them all. A kernel matrix is computed once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.svm import SVC, OneClassSVM

from benchmarks.openset.comparators.base import Decisions, OpenSetClassifier

Rows = NDArray[np.float64]
CACHE_MEGABYTES = 500
NEVER = 1e300
"""Unknownness of an instance to which no class gives any probability; finite, so that it can be ranked."""

SCALINGS = ("each", "one", "none")
"""How features are scaled: each to [-1, 1] by itself, all by one factor, the widest to [-1, 1], or not at all."""


def make_scaling(X: NDArray[np.float64], kind: str) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """Scaling by the ranges of instances of shape (n, n_features); `kind` is one of `SCALINGS`.

    With one factor for all features, distances keep their proportions: that matters for principal components, the
    last of which would else weigh as much as the first. A constant feature is only centred.
    """
    if kind == "none":
        return np.asarray
    low, high = X.min(axis=0), X.max(axis=0)
    half = (high - low) / 2
    if kind == "one":
        half = np.full_like(half, half.max())
    centre, half = (high + low) / 2, np.where(half > 0, half, 1.0)
    return lambda rows: (rows - centre) / half


class Kernel(NamedTuple):
    """Linear kernel, or ``exp(-gamma |x - z|^2)`` where gamma is given; "auto" is one over the number of features."""

    gamma: float | Literal["auto"] | None

    def __call__(self, X: NDArray[np.float64], Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Array of shape (len(X), len(Z))."""
        if self.gamma is None:
            return X @ Z.T
        gamma = 1.0 / X.shape[1] if self.gamma == "auto" else self.gamma
        return np.exp(-gamma * cdist(X, Z, "sqeuclidean"))


class Request(NamedTuple):
    """Machines that are needed: each class against the rest (`C`) or alone (`nu`), on which features and kernel."""

    scaling: str
    kernel: Kernel
    C: float | None = None
    nu: float | None = None


class Trained(NamedTuple):
    """One machine for each of J classes, in a kernel's terms, and its margins of the training instances.

    Attributes
    ----------
    coefficients
        Array of shape (n, J): of the n fitted instances in each machine.
    intercepts
        Array of shape (J,).
    n_support
        Array of shape (J, 2), int: support vectors of the class and of the rest (0 where there is no rest).
    own
        Array of shape (n, J): margins of the n fitted instances.
    """

    coefficients: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    n_support: NDArray[np.int64]
    own: NDArray[np.float64]

    def margins(self, kernel: NDArray[np.float64]) -> NDArray[np.float64]:
        """Signed margins, of shape (m, J), from the kernel of m instances with the fitted ones."""
        return kernel @ self.coefficients + self.intercepts


def train(request: Request, kernel: NDArray[np.float64], y: NDArray[np.int64]) -> Trained:
    """Train the machines of a request on the kernel, of shape (n, n), of n instances."""
    classes = np.unique(y)
    coefficients, intercepts = np.zeros((len(y), len(classes))), np.empty(len(classes))
    n_support = np.zeros((len(classes), 2), dtype=np.int64)
    for j, label in enumerate(classes):
        if request.C is not None:
            rows = np.arange(len(y))
            machine = SVC(C=request.C, kernel="precomputed", cache_size=CACHE_MEGABYTES).fit(kernel, y == label)
            n_support[j] = machine.n_support_[::-1]
        else:
            rows = np.flatnonzero(y == label)
            machine = OneClassSVM(kernel="precomputed", nu=request.nu).fit(kernel[np.ix_(rows, rows)])
            n_support[j, 0] = len(machine.support_)
        coefficients[rows[machine.support_], j] = machine.dual_coef_[0]
        intercepts[j] = machine.intercept_[0]
    return Trained(coefficients, intercepts, n_support, kernel @ coefficients + intercepts)


class MarginClassifier(OpenSetClassifier):
    """Base of 1-vs-Set, W-SVM, W-OSVM and P_I-SVM; features are scaled on the instances fitted.

    A method asks for machines (`requests`), calibrates each set of them, turns margins into an opinion on
    each class (higher for the class) and combines the opinions.
    """

    scaling: str

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
            self.opinion(one, calibration, trained.margins(one.kernel(scaled, self.fitted_)))
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

    def __init__(self, X: Rows, y: NDArray[np.int64], X_query: Rows, X_ranges: Rows) -> None:
        self.y, self._fitted, self._query = y, X, X_query
        self._scalings = {kind: make_scaling(X_ranges, kind) for kind in SCALINGS}
        self._kept: tuple[str, Kernel] | None = None
        self._known: dict[Request, tuple[Trained, NDArray[np.float64]]] = {}

    def __call__(self, request: Request) -> tuple[Trained, NDArray[np.float64]]:
        """Machines of a request and their margins on the query part, of shape (m, J)."""
        if request not in self._known:
            if (request.scaling, request.kernel) != self._kept:
                self._kept = request.scaling, request.kernel
                fitted, query = map(self._scalings[request.scaling], (self._fitted, self._query))
                self._within, self._across = (request.kernel(rows, fitted) for rows in (fitted, query))
            trained = train(request, self._within, self.y)
            self._known[request] = trained, trained.margins(self._across)
        return self._known[request]
