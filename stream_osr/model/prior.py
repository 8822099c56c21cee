"""The base measure H of the process: normal-inverse-Wishart in whitened coordinates, Dirichlet in each category."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.errors import InvalidParameter
from stream_osr.model.jit import Array, kernel
from stream_osr.support import rules

NO_COLUMN, NO_VALUE = np.zeros(0, np.int64), np.zeros(0)
"""Values for a model without categorical columns."""


class Prior(NamedTuple):
    """Base measure ``H(mu0, beta, nu, Sigma0)`` of the subclasses.

    The data are whitened (:mod:`.whitening`), so that the prior mean ``mu0`` is the origin and the
    scale matrix is ``Psi0 = nu * Sigma0 = nu * scale * D``. D is diagonal: classes with separate modes are wider than
    their modes, in some directions only (:func:`stream_osr.model.feature_space.whitening.along_subclasses`).

    Attributes
    ----------
    n_features
        Dimension d of the whitened space.
    nu
        Degrees of freedom, above ``n_features - 1``.
    psi
        ``nu * scale``.
    beta
        Precision of the prior mean, in units of one instance.
    spread
        Diagonal of D, shape (d,). The diagonal of the scale matrix is ``psi * spread``.
    first
        First place of each categorical column (:mod:`stream_osr.model.categories`), shape (C,).
    pseudo
        Dirichlet parameters: pseudo-counts of each place, shape (V,).
    """

    n_features: Annotated[int, rules.whole(0, 10000, "d")]
    nu: Annotated[float, rules.number(1e-300, 1e15)]
    psi: Annotated[float, rules.number(1e-300, 1e15)]
    beta: Annotated[float, rules.number(1e-300, 1e15)]
    spread: Annotated[Array, rules.array("f", "d", low=1e-9, high=1.0)]
    first: Annotated[Array, rules.array("i", "*", low=0), rules.some] = NO_COLUMN
    pseudo: Annotated[Array, rules.array("f", "*", low=1e-300, high=1e12)] = NO_VALUE


def make_prior(n_features: int, nu: float, scale: float, beta: float, spread: Array | None = None) -> Prior:
    """Check the hyperparameters and pack them for the kernels. Without ``spread`` its elements are 1.

    Raises
    ------
    InvalidParameter
        If the prior would not be proper.

    Examples
    --------
    >>> make_prior(2, nu=5, scale=0.5, beta=1)[:4]
    (2, 5.0, 2.5, 1.0)
    """
    if not nu > n_features - 1:
        raise InvalidParameter(
            f"nu is {nu:g}, but {n_features} whitened features need nu > {n_features - 1}. Leave nu=None or raise it"
        )
    for name, value in (("scale", scale), ("beta", beta)):
        if not value > 0:
            raise InvalidParameter(f"{name} is {value:g}: expected a positive number")
    diagonal = np.ones(n_features) if spread is None else np.asarray(spread, dtype=float)
    return Prior(n_features, float(nu), float(nu * scale), float(beta), diagonal)


def same_prior(one: Prior, other: Prior) -> bool:
    """Return whether two base measures are the same."""
    return one[:4] == other[:4] and all(map(np.array_equal, one[4:], other[4:]))


def width_of(prior: Prior) -> int:
    """Length of a whitened row, C + d: a place for each category, and the whitened numeric features."""
    return len(prior.first) + prior.n_features


def numbers_of(rows: Array, prior: Prior) -> Array:
    """Whitened numeric features of whitened rows, shape (n, d), contiguous: kernels are compiled for each layout."""
    return np.ascontiguousarray(rows[:, len(prior.first) : width_of(prior)])


def statistics_shape(prior: Prior) -> tuple[int, int]:
    """Shape of the statistics matrix of one subclass."""
    return prior.n_features + 1, prior.n_features + 1


@kernel
def homogeneous(rows: Array) -> Array:
    """Append a coordinate 1 to each row: shape (n, C + d) to (n, C + d + 1), categories first."""
    n, d = rows.shape
    out = np.ones((n, d + 1))
    out[:, :d] = rows
    return out
