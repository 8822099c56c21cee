"""One subclass with a full covariance matrix: normal-inverse-Wishart statistics in homogeneous coordinates.

Let ``x~ = (x, 1)``. A subclass has posterior mean m, precision r of the mean, and scale matrix S. Together they are
one matrix, ``M = [[S + r m m', r m], [r m', r]]``: the prior's matrix plus a plain sum of ``x~ x~'``. Its inverse Q
gives the quadratic form ``h = x~' Q x~ = (x - m)' S^-1 (x - m) + 1/r``, and ``|M| = r |S|``. So the Student-t
posterior predictive needs neither mean nor Cholesky factor (``docs/inference.md``).

Every function takes views of one subclass: ``matrix`` (M) and ``inverse`` (Q), arrays of shape (d + 1, d + 1). ``x``
is a homogeneous row of length d + 1, and ``n`` counts the instances in the statistics.
"""

from __future__ import annotations

import math

import numpy as np

from stream_osr.model.jit import Array, borrowing_kernel, fused_borrowing_kernel, fused_kernel, kernel, summing_kernel
from stream_osr.model.prior import Prior

LOSES_DIGITS = 1e-3
"""Share of the determinant below which a removal is recomputed from the stored sum, because it loses digits."""
FAR_OFF = 1e7
"""Quadratic form of an added row from which the inverse is recomputed, because an update would lose its digits."""


@borrowing_kernel
def reset(matrix: Array, inverse: Array, prior: Prior) -> float:
    """Replace the statistics by exactly the prior, and return ``log|M|``."""
    d = prior.n_features
    matrix[:, :] = 0.0
    inverse[:, :] = 0.0
    for a in range(d):
        matrix[a, a] = prior.psi * prior.spread[a]
        inverse[a, a] = 1.0 / (prior.psi * prior.spread[a])
    matrix[d, d] = prior.beta
    inverse[d, d] = 1.0 / prior.beta
    return log_det_of_prior(prior)


@borrowing_kernel
def log_det_of_prior(prior: Prior) -> float:
    """``log|M|`` of a subclass without instances."""
    total = prior.n_features * math.log(prior.psi) + math.log(prior.beta)
    for a in range(prior.n_features):
        total += math.log(prior.spread[a])
    return total


@summing_kernel
def dot(x: Array, y: Array) -> float:
    """Inner product of two vectors."""
    s = 0.0
    for a in range(x.shape[0]):
        s += x[a] * y[a]
    return s


@summing_kernel
def quadratic(inverse: Array, x: Array) -> float:
    """``h = x~' Q x~``."""
    h = 0.0
    for a in range(x.shape[0]):
        s = 0.0
        for b in range(a):
            s += inverse[a, b] * x[b]
        h += x[a] * (2.0 * s + inverse[a, a] * x[a])
    return max(h, 0.0)


@borrowing_kernel
def log_constant(n: int, prior: Prior) -> float:
    """Compute the part of the log predictive that depends on the number of instances alone."""
    d = prior.n_features
    nu = prior.nu + n
    r = prior.beta + n
    return (
        -0.5 * d * math.log(math.pi)
        + math.lgamma(0.5 * (nu + 1.0))
        - math.lgamma(0.5 * (nu + 1.0 - d))
        + 0.5 * d * math.log(r / (r + 1.0))
        - 0.5 * nu * math.log(r)
        + 0.5 * (nu + 1.0) * math.log(r + 1.0)
    )


@borrowing_kernel
def log_predictive(inverse: Array, log_det: float, n: int, constant: float, x: Array, prior: Prior) -> float:
    """Log density of ``x`` under the Student-t posterior predictive, given ``constant = log_constant(n)``."""
    h = quadratic(inverse, x)
    return constant - 0.5 * log_det - 0.5 * (prior.nu + n + 1.0) * math.log1p(h)


@kernel
def log_predictive_without(
    matrix: Array, inverse: Array, log_det: float, n: int, constant: float, x: Array, prior: Prior
) -> float:
    """Log predictive density of ``x``, one of the n instances, under the others.

    ``constant`` is ``log_constant(n - 1)``.
    """
    left = 1.0 - quadratic(inverse, x)
    if left < LOSES_DIGITS:
        m, q = np.empty_like(matrix), np.empty_like(matrix)
        for a in range(x.shape[0]):
            for b in range(x.shape[0]):
                m[a, b] = matrix[a, b] - x[a] * x[b]
        log_det_left = invert(m, q)
        return log_predictive(q, log_det_left, n - 1, constant, x, prior)
    return constant - 0.5 * log_det + 0.5 * (prior.nu + n - 1.0) * math.log(left)


@fused_borrowing_kernel
def times(inverse: Array, x: Array, v: Array) -> None:
    """Write ``Q x~`` to ``v``, as a sum of rows because Q is symmetric."""
    width = x.shape[0]
    v[:] = 0.0
    for a in range(width):
        for b in range(width):
            v[b] += x[a] * inverse[a, b]


@fused_borrowing_kernel
def shift(matrix: Array, x: Array, sign: float) -> None:
    """Add ``sign x x'`` to a matrix."""
    width = x.shape[0]
    for a in range(width):
        u = sign * x[a]
        for b in range(width):
            matrix[a, b] += u * x[b]


@borrowing_kernel
def add(matrix: Array, inverse: Array, log_det: float, x: Array, v: Array) -> float:
    """Add ``x`` to the statistics, write ``Q x~`` from before to ``v``, and return the new ``log|M|``."""
    times(inverse, x, v)
    h = max(dot(x, v), 0.0)
    shift(matrix, x, 1.0)
    if h > FAR_OFF:
        return invert(matrix, inverse)
    shift(inverse, v, -1.0 / (1.0 + h))
    return log_det + math.log1p(h)


@borrowing_kernel
def remove(matrix: Array, inverse: Array, log_det: float, x: Array, v: Array) -> float:
    """Remove ``x`` from the statistics, write ``Q x~`` from before to ``v``, and return the new ``log|M|``."""
    times(inverse, x, v)
    left = 1.0 - dot(x, v)
    shift(matrix, x, -1.0)
    if left < LOSES_DIGITS:
        return invert(matrix, inverse)
    shift(inverse, v, 1.0 / left)
    return log_det + math.log(left)


@borrowing_kernel
def factor(matrix: Array, lower: Array) -> float:
    """Write the Cholesky factor of a symmetric positive definite matrix, and return the matrix's log-determinant.

    Only the lower triangle is written. A pivot that rounding made non-positive is raised to the smallest meaningful
    positive share of the diagonal element.
    """
    log_det = 0.0
    for a in range(matrix.shape[0]):
        for b in range(a + 1):
            s = matrix[a, b]
            for c in range(b):
                s -= lower[a, c] * lower[b, c]
            if a == b:
                s = max(s, 1e-15 * matrix[a, a], 1e-300)
                lower[a, a] = math.sqrt(s)
                log_det += math.log(s)
            else:
                lower[a, b] = s / lower[b, b]
    return log_det


@fused_borrowing_kernel
def forms_by_factor(lower: Array, columns: Array, room: Array, out: Array) -> None:
    """Write ``x~' Q x~`` of each column, shape (d + 1, n), to ``out``, shape (n,), given the Cholesky factor of M.

    ``room`` is scratch space of the shape of the columns.
    """
    width, n = columns.shape
    out[:] = 0.0
    for a in range(width):
        for i in range(n):
            room[a, i] = columns[a, i]
        for b in range(a):
            for i in range(n):
                room[a, i] -= lower[a, b] * room[b, i]
        for i in range(n):
            room[a, i] /= lower[a, a]
            out[i] += room[a, i] * room[a, i]


@kernel
def invert(matrix: Array, inverse: Array) -> float:
    """Write the inverse of a symmetric positive definite matrix, and return its log-determinant (:func:`factor`)."""
    size = matrix.shape[0]
    lower = np.zeros((size, size))
    log_det = factor(matrix, lower)
    # the inverse of the factor, column by column, in place of its lower triangle
    half = np.zeros((size, size))
    for b in range(size):
        half[b, b] = 1.0 / lower[b, b]
        for a in range(b + 1, size):
            s = 0.0
            for c in range(b, a):
                s -= lower[a, c] * half[c, b]
            half[a, b] = s / lower[a, a]
    for a in range(size):
        for b in range(a + 1):
            s = 0.0
            for c in range(a, size):
                s += half[c, a] * half[c, b]
            inverse[a, b] = s
            inverse[b, a] = s
    return log_det


@borrowing_kernel
def log_marginal_ratio(log_det: float, n: int, log_det_after: float, n_after: int, prior: Prior) -> float:
    """Log ratio of the marginal likelihoods after some rows were added or removed, and before.

    All gamma functions but two for each row cancel. Those two follow from the ones of the row before the last. The
    ratio omits a factor that all seatings of the same rows share.
    """
    d = prior.n_features
    total = 0.0
    a, b = 0.0, 0.0
    first, last = min(n, n_after), max(n, n_after)
    for m in range(first, last):
        z = 0.5 * (prior.nu + m + 1.0)
        if m < first + 2:
            c = math.lgamma(z) - math.lgamma(z - 0.5 * d)
        else:
            c = a + math.log((z - 1.0) / (z - 1.0 - 0.5 * d))
        total += c
        a, b = b, c
    total = total if n_after > n else -total
    total -= 0.5 * (n_after - n) * d * math.log(math.pi)
    log_r, log_r_after = math.log(prior.beta + n), math.log(prior.beta + n_after)
    total += 0.5 * (prior.nu + n_after) * (log_r_after - log_det_after) - 0.5 * (prior.nu + n) * (log_r - log_det)
    return total - 0.5 * d * (log_r_after - log_r)


@kernel
def log_det_with(matrix: Array, inverse: Array, log_det: float, block: Array, sign: float) -> float:
    """``log|M + sign X~' X~|`` for a block of homogeneous rows of shape (size, C + d + 1).

    While the block is smaller than the matrix, the determinant lemma gives ``|I + sign X~ Q X~'|``. Otherwise the
    determinant is computed directly.
    """
    size, width = block.shape[0], matrix.shape[0]
    if size < width:
        change = log_det_change(inverse, block, sign)
        if change > math.log(LOSES_DIGITS):
            return log_det + change
    m = matrix + sign * _products(block, width)
    return invert(m, np.empty_like(m))


@kernel
def _products(block: Array, width: int) -> Array:
    """``X~' X~`` of the last coordinates of a block."""
    rows = np.ascontiguousarray(block[:, block.shape[1] - width :])
    return rows.T @ rows


@kernel
def log_det_begun(block: Array, prior: Prior) -> float:
    """``log|M|`` of a subclass whose first rows are the block, shape (size, C + d + 1).

    Like :func:`log_det_with` of no rows, but ``Q`` is diagonal: a row costs ``d`` in place of ``d^2``.
    """
    size, width = block.shape[0], prior.n_features + 1
    if size < width:
        return log_det_of_prior(prior) + _log_det_of_first(block, prior)
    m = _products(block, width)
    for a in range(width):
        m[a, a] += prior.psi * prior.spread[a] if a < width - 1 else prior.beta
    return invert(m, np.empty_like(m))


@fused_kernel
def _log_det_of_first(block: Array, prior: Prior) -> float:
    """``log|I + X~ Q X~'|`` for the prior's Q."""
    size, width = block.shape[0], prior.n_features + 1
    skip = block.shape[1] - width
    lower, v = np.empty((size, size)), np.empty(width)
    for i in range(size):
        for a in range(width):
            v[a] = block[i, skip + a] * (1.0 / (prior.psi * prior.spread[a] if a < width - 1 else prior.beta))
        for j in range(i + 1):
            lower[i, j] = dot(v, block[j, skip:]) + (1.0 if i == j else 0.0)
    return _factor(lower)


@fused_kernel
def log_det_change(inverse: Array, block: Array, sign: float) -> float:
    """``log|I + sign X~ Q X~'|``."""
    size, width = block.shape[0], inverse.shape[0]
    skip = block.shape[1] - width
    lower, v = np.empty((size, size)), np.empty(width)
    for i in range(size):
        times(inverse, block[i, skip:], v)
        for j in range(i + 1):
            lower[i, j] = sign * dot(v, block[j, skip:]) + (1.0 if i == j else 0.0)
    return _factor(lower)


@fused_borrowing_kernel
def _factor(lower: Array) -> float:
    """Replace a lower triangle by its Cholesky factor (pivots as in :func:`invert`). Return the log-determinant."""
    log_det = 0.0
    for i in range(lower.shape[0]):
        for j in range(i + 1):
            whole = lower[i, j]
            s = whole
            for c in range(j):
                s -= lower[i, c] * lower[j, c]
            if i == j:
                s = max(s, 1e-15 * whole, 1e-300)
                lower[i, i] = math.sqrt(s)
                log_det += math.log(s)
            else:
                lower[i, j] = s / lower[j, j]
    return log_det


@fused_kernel
def log_det_added(inverse: Array, block: Array, form: Array, members: Array, enough: float) -> float:
    """``log|I + X~ Q X~'|`` for added rows, or infinity as soon as it must exceed ``enough``.

    The block has the rows of ``members``, whose quadratic forms are known. ``|I + A| >= 1 + tr A`` for a positive
    semidefinite A. The Schur complement of A after some rows is positive semidefinite as well.
    """
    size, width = block.shape[0], inverse.shape[0]
    skip = block.shape[1] - width
    lower, v = np.empty((size, size)), np.empty(width)  # on the diagonal: what is left of the form of each row
    for i in range(size):
        lower[i, i] = max(form[members[i]], 0.0)
    log_det = 0.0
    for i in range(size):
        trace = 0.0
        for j in range(i, size):
            trace += lower[j, j]
        if log_det + math.log1p(trace) > enough:
            return np.inf
        log_det += math.log1p(lower[i, i])
        if i + 1 < size:  # of the last row the form is enough
            times(inverse, block[i, skip:], v)
            root = math.sqrt(1.0 + lower[i, i])
        for j in range(i + 1, size):
            s = dot(v, block[j, skip:])
            for c in range(i):
                s -= lower[i, c] * lower[j, c]
            lower[j, i] = s / root
            lower[j, j] = max(lower[j, j] - lower[j, i] * lower[j, i], 0.0)
    return log_det


@borrowing_kernel
def mahalanobis(inverse: Array, n: int, x: Array, prior: Prior) -> float:
    """Distance of ``x`` from the subclass, in standard deviations of the predictive scale matrix."""
    r = prior.beta + n
    df = prior.nu + n - prior.n_features + 1.0
    return math.sqrt(max(quadratic(inverse, x) - 1.0 / r, 0.0) * df * r / (r + 1.0))
