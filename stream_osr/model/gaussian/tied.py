"""One subclass when all share one covariance, plugged in: only the mean is unknown, the predictive is Gaussian.

The coordinates are whitened by the shared covariance, so it is the identity here. ``matrix`` holds the sum of
the rows and ``inverse`` the posterior mean, both of shape (1, d). The signatures are those of
:mod:`stream_osr.model.gaussian.full`; the last coordinate of ``x`` is the 1 of homogeneous rows and plays no part.
"""

from __future__ import annotations

import math

from stream_osr.model.jit import Array, kernel
from stream_osr.model.prior import Prior


@kernel
def reset(matrix: Array, inverse: Array) -> float:
    """Put the prior in place of the statistics; the log-determinant of the identity is 0."""
    matrix[0, :] = 0.0
    inverse[0, :] = 0.0
    return 0.0


@kernel
def shift(matrix: Array, inverse: Array, x: Array, n: int, sign: float, prior: Prior) -> None:
    """Put ``x`` in (sign 1) or take it out (sign -1); n counts the instances afterwards."""
    for a in range(prior.n_features):
        matrix[0, a] += sign * x[a]
        inverse[0, a] = matrix[0, a] / (prior.beta + n)


@kernel
def log_density(mean: Array, x: Array, shrink: float, n_features: int) -> float:
    """Gaussian log density of ``x`` with covariance ``I / shrink`` about ``mean``."""
    total = 0.0
    for a in range(n_features):
        total += (x[a] - mean[a]) ** 2
    return 0.5 * n_features * math.log(shrink / (2.0 * math.pi)) - 0.5 * shrink * total


@kernel
def log_predictive(inverse: Array, n: int, x: Array, prior: Prior) -> float:
    """Log density of ``x`` under the Gaussian posterior predictive of the n instances."""
    r = prior.beta + n
    return log_density(inverse[0], x, r / (r + 1.0), prior.n_features)


@kernel
def log_predictive_without(matrix: Array, n: int, x: Array, prior: Prior) -> float:
    """Log predictive density of ``x`` under the other n - 1 instances; ``x`` is in the statistics."""
    r = prior.beta + n - 1
    mean = (matrix[0] - x[: prior.n_features]) / r
    return log_density(mean, x, r / (r + 1.0), prior.n_features)


@kernel
def log_marginal(matrix: Array, n: int, prior: Prior) -> float:
    """Log marginal likelihood of the n instances, up to what is equal for every partition of the same rows."""
    r = prior.beta + n
    return 0.5 * (matrix[0] @ matrix[0]) / r - 0.5 * prior.n_features * math.log(r)


@kernel
def mahalanobis(inverse: Array, n: int, x: Array, prior: Prior) -> float:
    """Distance of ``x`` from the subclass, in standard deviations of its predictive."""
    r = prior.beta + n
    total = 0.0
    for a in range(prior.n_features):
        total += (x[a] - inverse[0, a]) ** 2
    return math.sqrt(total * r / (r + 1.0))
