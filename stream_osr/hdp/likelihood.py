"""Remembered densities: every guest under every emerging subclass, kept right while guests move.

A visit that moves nobody changes no density, and most visits move nobody. So the densities of all guests of a step
are computed once and corrected when a subclass takes in or lets go a guest. With full covariances the correction is
of rank one: what an update does to the inverse Q it does to the quadratic forms ``h = x~' Q x~``
(``docs/inference.md``, "Remembered densities"). The other covariance models compute the densities of a changed
subclass afresh, which costs no more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.hdp import dishes as statistics
from stream_osr.hdp import gaussian_full as full
from stream_osr.hdp.dishes import Dishes
from stream_osr.hdp.elementwise import log_each_using
from stream_osr.hdp.jit import borrowing_kernel, fused_borrowing_kernel, kernel
from stream_osr.hdp.prior import FULL, Prior
from stream_osr.hdp.terms import products


class Likelihood(NamedTuple):
    """Densities of n guests under K Gaussian dishes. A slot that nobody sits in may hold anything.

    Attributes
    ----------
    log_density
        Log posterior predictive of each guest under each dish, shape (n, K). For a dish that the guest is in: as if
        it came a second time (:func:`log_density_without` leaves it out).
    form
        Quadratic forms of the guests' rows, shape (K, n); shape (0, 0) unless the covariance is full.
    start
        Quadratic forms under the prior, shape (n,).
    columns
        The homogeneous rows transposed, shape (d + 1, n).
    scratch
        Room for one row, shape (d + 1,).
    side, room
        Room for one number of each guest, twice, shape (n,).
    exponents
        Room for a whole number of each dish, the frozen ones and a new one included, shape (C + K + 1,).
    """

    log_density: np.ndarray
    form: np.ndarray
    start: np.ndarray
    columns: np.ndarray
    scratch: np.ndarray
    side: np.ndarray
    room: np.ndarray
    exponents: np.ndarray


@kernel
def remember(
    rows: np.ndarray,
    dishes: Dishes,
    prior: Prior,
    columns: np.ndarray | None = None,
    product: np.ndarray | None = None,
    frozen: int = 0,
) -> Likelihood:
    """Compute the densities of homogeneous rows, shape (n, d + 1), under all dishes that hold somebody.

    ``columns`` (the rows transposed) and ``product`` (their :func:`~stream_osr.hdp.terms.products`) are made unless
    they are at hand. ``frozen`` is the number of frozen dishes that guests choose from as well.
    """
    turned = np.ascontiguousarray(rows.T) if columns is None else columns
    n, count = rows.shape[0], dishes.size.shape[0]
    start = np.full(n, 1.0 / prior.beta)
    for a in range(prior.n_features):
        for i in range(n):
            start[i] += turned[a, i] * turned[a, i] / prior.psi
    form = np.zeros((count, n)) if prior.covariance == FULL else np.zeros((0, 0))
    out = Likelihood(
        np.empty((n, count)),
        form,
        start,
        turned,
        np.empty(rows.shape[1]),
        np.empty(n),
        np.empty(n),
        np.empty(frozen + count + 1, np.int64),
    )
    used = np.flatnonzero(dishes.size > 0)
    if prior.covariance == FULL and len(used) > 0:
        forms = packed_forms(used, dishes) @ (products(turned) if product is None else product)
        for position in range(len(used)):
            form[used[position]] = forms[position]
            tell(out, used[position], dishes, prior)
    elif len(used) > 0:
        for position in range(len(used)):
            compute(out, used[position], rows, dishes, prior)
    return out


@kernel
def packed_forms(used: np.ndarray, dishes: Dishes) -> np.ndarray:
    """Lower triangles of the inverses, what is off the diagonal twice: forms are linear in :func:`products`."""
    width = dishes.inverse.shape[1]
    out = np.empty((len(used), width * (width + 1) // 2))
    for position in range(len(used)):
        inverse = dishes.inverse[used[position]]
        line = 0
        for a in range(width):
            for b in range(a + 1):
                out[position, line] = inverse[a, b] if a == b else 2.0 * inverse[a, b]
                line += 1
    return out


@borrowing_kernel
def compute(likelihood: Likelihood, k: int, rows: np.ndarray, dishes: Dishes, prior: Prior) -> None:
    """Compute the densities under dish k from its statistics."""
    if prior.covariance == FULL:
        quadratic_forms(dishes.inverse[k], likelihood.columns, likelihood.side, likelihood.form[k])
        tell(likelihood, k, dishes, prior)
    else:
        for i in range(rows.shape[0]):
            likelihood.log_density[i, k] = statistics.log_predictive(dishes, k, rows[i], prior)


@fused_borrowing_kernel
def quadratic_forms(inverse: np.ndarray, columns: np.ndarray, side: np.ndarray, out: np.ndarray) -> None:
    """Write ``x~' Q x~`` of each column, shape (d + 1, n), to ``out``, shape (n,); ``side`` is room of that shape."""
    width, n = columns.shape
    out[:] = 0.0
    for a in range(width):
        for i in range(n):
            side[i] = 0.5 * inverse[a, a] * columns[a, i]
        for b in range(a):
            for i in range(n):
                side[i] += inverse[a, b] * columns[b, i]
        for i in range(n):
            out[i] += 2.0 * columns[a, i] * side[i]


@fused_borrowing_kernel
def shift_forms(form: np.ndarray, columns: np.ndarray, v: np.ndarray, factor: float, side: np.ndarray) -> None:
    """Add ``factor (x~' v)^2`` of each column to its quadratic form, shape (n,); ``side`` is room of that shape."""
    width, n = columns.shape
    side[:] = 0.0
    whole = width - width % 4
    for a in range(0, whole, 4):  # four at a time: the sums are read and written a quarter as often
        p, q, r, s = v[a], v[a + 1], v[a + 2], v[a + 3]
        for i in range(n):
            side[i] += p * columns[a, i] + q * columns[a + 1, i] + r * columns[a + 2, i] + s * columns[a + 3, i]
    for a in range(whole, width):
        for i in range(n):
            side[i] += v[a] * columns[a, i]
    for i in range(n):
        form[i] += factor * side[i] * side[i]


@fused_borrowing_kernel
def tell(likelihood: Likelihood, k: int, dishes: Dishes, prior: Prior) -> None:
    """Write the log densities that follow from the quadratic forms of dish k."""
    form = likelihood.form[k]
    n = form.shape[0]
    logs = likelihood.side
    for i in range(n):
        logs[i] = 1.0 + (form[i] if form[i] > 0.0 else 0.0)
    log_each_using(likelihood.room, logs)
    head = dishes.constant[k, 0] - 0.5 * dishes.log_det[k]
    power = 0.5 * (prior.nu + dishes.size[k] + 1.0)
    for i in range(n):
        likelihood.log_density[i, k] = head - power * logs[i]


@borrowing_kernel
def restart(likelihood: Likelihood, k: int) -> None:
    """Write the quadratic forms under the prior, in place of those of dish k."""
    for i in range(likelihood.start.shape[0]):
        likelihood.form[k, i] = likelihood.start[i]


@borrowing_kernel
def add(dishes: Dishes, k: int, i: int, rows: np.ndarray, prior: Prior, likelihood: Likelihood | None = None) -> None:
    """Put guest i into dish k and correct what is remembered; nothing is without a ``likelihood``."""
    x = rows[i]
    if likelihood is None:
        statistics.add(dishes, k, x, prior)
    elif prior.covariance != FULL:
        statistics.add(dishes, k, x, prior)
        compute(likelihood, k, rows, dishes, prior)
    else:
        if dishes.size[k] == 0:
            restart(likelihood, k)
        v = likelihood.scratch
        statistics.add_telling(dishes, k, x, prior, v)
        _follow(likelihood, k, rows, dishes, v, -1.0 / (1.0 + max(full.dot(x, v), 0.0)), prior)


@borrowing_kernel
def remove(
    dishes: Dishes, k: int, i: int, rows: np.ndarray, prior: Prior, likelihood: Likelihood | None = None
) -> None:
    """Take guest i out of dish k and correct what is remembered; nothing is without a ``likelihood``."""
    x = rows[i]
    if likelihood is None:
        statistics.remove(dishes, k, x, prior)
    elif prior.covariance != FULL:
        statistics.remove(dishes, k, x, prior)
        compute(likelihood, k, rows, dishes, prior)
    elif dishes.size[k] == 1:
        statistics.remove(dishes, k, x, prior)
        restart(likelihood, k)
        tell(likelihood, k, dishes, prior)
    else:
        v = likelihood.scratch
        statistics.remove_telling(dishes, k, x, prior, v)
        left = 1.0 - full.dot(x, v)
        if left < full.LOSES_DIGITS:
            compute(likelihood, k, rows, dishes, prior)
        else:
            _follow(likelihood, k, rows, dishes, v, 1.0 / left, prior)


@borrowing_kernel
def _follow(
    likelihood: Likelihood, k: int, rows: np.ndarray, dishes: Dishes, v: np.ndarray, factor: float, prior: Prior
) -> None:
    """Follow an update of rank one of dish k; if its inverse has been computed afresh, so are the forms."""
    if dishes.updates[k] == 0:
        compute(likelihood, k, rows, dishes, prior)
    else:
        shift_forms(likelihood.form[k], likelihood.columns, v, factor, likelihood.side)
        tell(likelihood, k, dishes, prior)


@borrowing_kernel
def log_density_without(
    likelihood: Likelihood, i: int, k: int, rows: np.ndarray, dishes: Dishes, prior: Prior
) -> float:
    """Log predictive density of guest i under dish k, of which it is one, without it."""
    if prior.covariance == FULL:
        left = 1.0 - likelihood.form[k, i]
        if left >= full.LOSES_DIGITS:
            half_power = 0.5 * (prior.nu + dishes.size[k] - 1.0)
            return dishes.constant[k, 1] - 0.5 * dishes.log_det[k] + half_power * np.log(left)
    return statistics.log_predictive_without(dishes, k, rows[i], prior)


@borrowing_kernel
def log_block_bound(likelihood: Likelihood, k: int, members: np.ndarray, dishes: Dishes, prior: Prior) -> float:
    """Upper bound of the log predictive density of guests together, none of whom dish k holds; full covariances."""
    trace = 0.0
    for i in members:
        trace += max(likelihood.form[k, i], 0.0)
    return full.log_marginal_bound(dishes.log_det[k], dishes.size[k], trace, len(members), prior)
