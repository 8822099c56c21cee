"""One subclass with a diagonal covariance matrix: a normal-inverse-gamma for each feature.

``matrix`` holds, for each feature, the sum (row 0) and the sum of squares plus the prior's scale (row 1);
``inverse`` holds what the predictive needs: the posterior mean (row 0) and the scatter (row 1). Both have shape
(2, d). The signatures are those of :mod:`stream_osr.model.gaussian.full`; the last coordinate of ``x`` is the 1
of homogeneous rows and plays no part.
"""

from __future__ import annotations

import math

import numpy as np

from stream_osr.model.jit import Array, kernel
from stream_osr.model.prior import Prior


@kernel
def reset(matrix: Array, inverse: Array, prior: Prior) -> float:
    """Put the prior, exactly, in place of the statistics; return the sum of log scatters."""
    matrix[0, :] = 0.0
    matrix[1, :] = prior.psi
    return refresh(matrix, inverse, 0, prior)


@kernel
def refresh(matrix: Array, inverse: Array, n: int, prior: Prior) -> float:
    """Derive means and scatters from the sums; return the sum of log scatters."""
    r = prior.beta + n
    log_det = 0.0
    for a in range(prior.n_features):
        mean = matrix[0, a] / r
        scatter = max(matrix[1, a] - r * mean * mean, 1e-15 * matrix[1, a])
        inverse[0, a] = mean
        inverse[1, a] = scatter
        log_det += math.log(scatter)
    return log_det


@kernel
def log_constant(n: int, prior: Prior) -> float:
    """Compute the part of the log predictive that depends on the number of instances alone."""
    df = prior.nu + n - prior.n_features + 1.0
    r = prior.beta + n
    return prior.n_features * (
        math.lgamma(0.5 * (df + 1.0))
        - math.lgamma(0.5 * df)
        - 0.5 * math.log(math.pi)
        + 0.5 * math.log(r / (r + 1.0))
    )


@kernel
def log_predictive(inverse: Array, log_det: float, n: int, constant: float, x: Array, prior: Prior) -> float:
    """Log density of ``x``: a product of univariate Student-t predictives; ``constant`` is ``log_constant(n)``."""
    r = prior.beta + n
    total = 0.0
    for a in range(prior.n_features):
        off = x[a] - inverse[0, a]
        total += math.log1p(off * off * r / ((r + 1.0) * inverse[1, a]))
    df = prior.nu + n - prior.n_features + 1.0
    return constant - 0.5 * log_det - 0.5 * (df + 1.0) * total


@kernel
def log_predictive_without(matrix: Array, n: int, constant: float, x: Array, prior: Prior) -> float:
    """Log predictive density of ``x``, one of the n instances, under the others.

    ``constant`` is ``log_constant(n - 1)``.
    """
    m = matrix.copy()
    q = np.empty_like(m)
    log_det_left = shift(m, q, x, n - 1, -1.0, prior)
    return log_predictive(q, log_det_left, n - 1, constant, x, prior)


@kernel
def shift(matrix: Array, inverse: Array, x: Array, n: int, sign: float, prior: Prior) -> float:
    """Put ``x`` in (sign 1) or take it out (sign -1); n counts the instances afterwards."""
    for a in range(prior.n_features):
        matrix[0, a] += sign * x[a]
        matrix[1, a] += sign * x[a] * x[a]
    return refresh(matrix, inverse, n, prior)


@kernel
def log_marginal(log_det: float, n: int, prior: Prior) -> float:
    """Log marginal likelihood of the n instances, up to what is equal for every partition of the same rows."""
    df = prior.nu + n - prior.n_features + 1.0
    r = prior.beta + n
    return (
        prior.n_features * (math.lgamma(0.5 * df) - 0.5 * math.log(r) - 0.5 * n * math.log(math.pi))
        - 0.5 * df * log_det
    )


@kernel
def log_det_with(matrix: Array, block: Array, sign: float, n: int, prior: Prior) -> float:
    """Sum of log scatters with a block of rows put in or taken out of ``matrix``; n counts the instances then."""
    skip = prior.first.shape[0]
    for i in range(block.shape[0]):
        for a in range(prior.n_features):
            matrix[0, a] += sign * block[i, skip + a]
            matrix[1, a] += sign * block[i, skip + a] * block[i, skip + a]
    return refresh(matrix, np.empty_like(matrix), n, prior)


@kernel
def mahalanobis(inverse: Array, n: int, x: Array, prior: Prior) -> float:
    """Distance of ``x`` from the subclass, in standard deviations of its predictive scales."""
    r = prior.beta + n
    df = prior.nu + n - prior.n_features + 1.0
    total = 0.0
    for a in range(prior.n_features):
        off = x[a] - inverse[0, a]
        total += off * off * df * r / ((r + 1.0) * inverse[1, a])
    return math.sqrt(total)
