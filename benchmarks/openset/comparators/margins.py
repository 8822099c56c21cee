"""Support vector machines, one for each class against the rest or alone, and the margins that they give.

The methods on top of them (1-vs-Set, W-SVM, P_I-SVM) read only margins and counts of support vectors, so one set
of machines serves them all; the kernel matrix is computed once for a kernel width.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.svm import SVC, OneClassSVM

CACHE_MEGABYTES = 500

SCALINGS = ("each", "one", "none")
"""How features are scaled: each to [-1, 1] by itself, all by one factor, the widest to [-1, 1], or not at all."""


class Scaling(NamedTuple):
    """Shift and stretch of each feature.

    Attributes
    ----------
    centre, half_range
        Arrays of shape (n_features,): what is mapped to 0, and what is one long after.
    """

    centre: NDArray[np.float64]
    half_range: NDArray[np.float64]

    def __call__(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map instances of shape (n, n_features)."""
        return (X - self.centre) / self.half_range


def make_scaling(X: NDArray[np.float64], kind: str) -> Scaling:
    """Scaling by the ranges of instances of shape (n, n_features); `kind` is one of `SCALINGS`.

    With one factor for all features, distances keep their proportions: that matters for principal components, the
    last of which would else weigh as much as the first. A constant feature is only centred.
    """
    if kind == "none":
        return Scaling(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    low, high = X.min(axis=0), X.max(axis=0)
    half = (high - low) / 2
    if kind == "one":
        half = np.full_like(half, half.max())
    return Scaling((high + low) / 2, np.where(half > 0, half, 1.0))


class Kernel(NamedTuple):
    """Linear kernel, or ``exp(-gamma |x - z|^2)`` where gamma is given; "auto" is one over the number of features."""

    gamma: float | Literal["auto"] | None

    def __call__(self, X: NDArray[np.float64], Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Array of shape (len(X), len(Z))."""
        if self.gamma is None:
            return X @ Z.T
        gamma = 1.0 / X.shape[1] if self.gamma == "auto" else self.gamma
        return np.exp(-gamma * cdist(X, Z, "sqeuclidean"))


class Machines(NamedTuple):
    """One machine for each of J classes, in a kernel's terms.

    Attributes
    ----------
    coefficients
        Array of shape (n, J): of the n fitted instances in each machine.
    intercepts
        Array of shape (J,).
    n_support
        Array of shape (J, 2), int: support vectors of the class and of the rest (0 where there is no rest).
    """

    coefficients: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    n_support: NDArray[np.int64]

    def margins(self, kernel: NDArray[np.float64]) -> NDArray[np.float64]:
        """Signed margins, of shape (m, J), from the kernel of m instances with the fitted ones."""
        return kernel @ self.coefficients + self.intercepts


def one_versus_rest(kernel: NDArray[np.float64], y: NDArray[np.int64], C: float) -> Machines:
    """Train a machine for each class against all others.

    Parameters
    ----------
    kernel
        Array of shape (n, n).
    y
        n labels.
    C
        Weight of the slack, > 0.
    """
    classes = np.unique(y)
    coefficients = np.zeros((len(y), len(classes)))
    intercepts = np.empty(len(classes))
    n_support = np.empty((len(classes), 2), dtype=np.int64)
    for j, label in enumerate(classes):
        machine = SVC(C=C, kernel="precomputed", cache_size=CACHE_MEGABYTES).fit(kernel, y == label)
        coefficients[machine.support_, j] = machine.dual_coef_[0]
        intercepts[j] = machine.intercept_[0]
        n_support[j] = machine.n_support_[::-1]
    return Machines(coefficients, intercepts, n_support)


def one_class(kernel: NDArray[np.float64], y: NDArray[np.int64], nu: float) -> Machines:
    """Train a one-class machine for each class, on its own instances alone.

    Parameters
    ----------
    kernel
        Array of shape (n, n).
    y
        n labels.
    nu
        Bound on the share of instances left outside, in (0, 1].
    """
    classes = np.unique(y)
    coefficients = np.zeros((len(y), len(classes)))
    intercepts = np.empty(len(classes))
    n_support = np.zeros((len(classes), 2), dtype=np.int64)
    for j, label in enumerate(classes):
        own = np.flatnonzero(y == label)
        machine = OneClassSVM(kernel="precomputed", nu=nu).fit(kernel[np.ix_(own, own)])
        coefficients[own[machine.support_], j] = machine.dual_coef_[0]
        intercepts[j] = machine.intercept_[0]
        n_support[j, 0] = len(machine.support_)
    return Machines(coefficients, intercepts, n_support)
