"""The base measure H of the process: normal-inverse-Wishart in whitened coordinates, Dirichlet in each category."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from stream_osr.errors import InvalidParameter
from stream_osr.model.jit import Array, kernel

Covariance = Literal["full", "diagonal", "tied"]

FULL, DIAGONAL, TIED = 0, 1, 2
_CODES: dict[str, int] = {"full": FULL, "diagonal": DIAGONAL, "tied": TIED}


NO_COLUMN, NO_VALUE = np.zeros(0, np.int64), np.zeros(0)
"""Without categorical columns."""


class Prior(NamedTuple):
    """Base measure ``H(mu0, beta, nu, Sigma0)`` of the subclasses.

    The data are whitened (:mod:`stream_osr.model.whitening`), so that the prior mean ``mu0`` is the origin and the
    scale matrix is ``Psi0 = nu * Sigma0 = nu * scale * I``.

    Attributes
    ----------
    covariance
        ``FULL``: normal-inverse-Wishart. ``DIAGONAL``: a normal-inverse-gamma for each feature, with
        ``nu - n_features + 1`` degrees of freedom, so that each feature has the marginal prior it has under
        ``FULL``. ``TIED``: one given covariance for all subclasses (the identity: whitening sees to that),
        Gaussian prior on the mean alone.
    n_features
        Dimension d of the whitened space.
    nu
        Degrees of freedom, above ``n_features - 1``.
    psi
        ``nu * scale``, the diagonal of the scale matrix.
    beta
        Precision of the prior mean, in units of one instance.
    first
        First place of each categorical column (:mod:`stream_osr.model.categories`), shape (C,).
    pseudo
        Dirichlet parameters: instances that each place counts before there are any, shape (V,).
    """

    covariance: int
    n_features: int
    nu: float
    psi: float
    beta: float
    first: Array = NO_COLUMN
    pseudo: Array = NO_VALUE


def make_prior(covariance: str, n_features: int, nu: float, scale: float, beta: float) -> Prior:
    """Check the hyperparameters and pack them for the kernels.

    Raises
    ------
    InvalidParameter
        If the prior would not be proper.

    Examples
    --------
    >>> make_prior("full", 2, nu=5, scale=0.5, beta=1)[:5]
    (0, 2, 5.0, 2.5, 1.0)
    """
    if covariance not in _CODES:
        raise InvalidParameter(f"covariance is {covariance!r}; expected one of {', '.join(_CODES)}")
    if not nu > n_features - 1:
        raise InvalidParameter(
            f"nu is {nu:g}, but {n_features} whitened features need nu > {n_features - 1}; leave nu=None or raise it"
        )
    for name, value in (("scale", scale), ("beta", beta)):
        if not value > 0:
            raise InvalidParameter(f"{name} is {value:g}; expected a positive number")
    return Prior(_CODES[covariance], n_features, float(nu), float(nu * scale), float(beta))


def same_prior(one: Prior, other: Prior) -> bool:
    """Say whether two base measures are the same."""
    alike = np.array_equal(one.first, other.first) and np.array_equal(one.pseudo, other.pseudo)
    return one[:5] == other[:5] and alike


def width_of(prior: Prior) -> int:
    """Count the numbers of a whitened row: a place for each category, and the whitened numeric features, C + d."""
    return len(prior.first) + prior.n_features


def statistics_shape(prior: Prior) -> tuple[int, int]:
    """Shape of the statistics matrix of one subclass under this covariance model."""
    d = prior.n_features
    return {FULL: (d + 1, d + 1), DIAGONAL: (2, d), TIED: (1, d)}[prior.covariance]


@kernel
def homogeneous(rows: Array) -> Array:
    """Append a coordinate 1 to each row: shape (n, C + d) to (n, C + d + 1), categories first."""
    n, d = rows.shape
    out = np.ones((n, d + 1))
    out[:, :d] = rows
    return out
