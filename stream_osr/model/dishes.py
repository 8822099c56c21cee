"""Dishes of the franchise = subclasses, one slot each: Gaussian statistics, and counts of the categories."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model import categories, gaussian
from stream_osr.model.jit import Array, borrowing_kernel, called_kernel, kernel
from stream_osr.model.prior import Prior

REFRESH_EVERY = 512
"""Rank-one updates of an inverse between two inversions of the stored sum (``tests/model/test_dishes.py``)."""


class Dishes(NamedTuple):
    """Sufficient statistics of K subclasses; what the matrices hold is said in :mod:`stream_osr.model.gaussian`.

    Attributes
    ----------
    size
        Instances in each subclass, shape (K,).
    matrix, inverse
        Statistics and what the predictive needs of them, shape (K, a, b).
    log_det
        Log-determinant that belongs to ``matrix``, shape (K,).
    constant
        The parts of the log predictive that depend on the count alone, for ``size`` and ``size - 1``
        instances, shape (K, 2).
    updates
        Rank-one updates since the last inversion, shape (K,).
    counts
        How often each value of the categorical columns is in each (:mod:`stream_osr.model.categories`), shape (K, V).
    """

    size: Array
    matrix: Array
    inverse: Array
    log_det: Array
    constant: Array
    updates: Array
    counts: Array


@kernel
def empty_dishes(capacity: int, prior: Prior) -> Dishes:
    """Make slots for ``capacity`` subclasses, each holding the prior."""
    dishes = _free(capacity, prior.n_features + 1, prior.pseudo.shape[0])
    clear_all(dishes, prior)
    return dishes


@kernel
def _free(capacity: int, width: int, places: int) -> Dishes:
    """Make free slots for ``capacity`` subclasses: nothing but their size of 0 is written."""
    matrix, inverse = np.empty((capacity, width, width)), np.empty((capacity, width, width))
    size, updates = np.zeros(capacity, np.int64), np.empty(capacity, np.int64)
    counts = np.empty((capacity, places))
    return Dishes(size, matrix, inverse, np.empty(capacity), np.empty((capacity, 2)), updates, counts)


@kernel
def copy_slots(dishes: Dishes, slots: Array, capacity: int) -> Dishes:
    """Copy the named slots, in that order, into a new table with room for ``capacity`` subclasses.

    In the place of slot -1 comes a free one. What a free slot holds, but for its size of 0, is not written before
    somebody takes it.
    """
    out = _free(capacity, dishes.matrix.shape[1], dishes.counts.shape[1])
    for k in range(len(slots)):
        slot = slots[k]
        if slot < 0:
            continue
        out.size[k], out.log_det[k], out.updates[k] = dishes.size[slot], dishes.log_det[slot], dishes.updates[slot]
        out.matrix[k], out.inverse[k] = dishes.matrix[slot], dishes.inverse[slot]
        out.constant[k], out.counts[k] = dishes.constant[slot], dishes.counts[slot]
    return out


@kernel
def keep_slots(dishes: Dishes, slots: Array) -> Dishes:
    """Keep the named slots, in increasing order; a view as long as they are the first ones."""
    count = len(slots)
    if count > 0 and slots[-1] != count - 1:
        return copy_slots(dishes, slots, count)
    return Dishes(
        dishes.size[:count],
        dishes.matrix[:count],
        dishes.inverse[:count],
        dishes.log_det[:count],
        dishes.constant[:count],
        dishes.updates[:count],
        dishes.counts[:count],
    )


def concatenated(first: Dishes, second: Dishes) -> Dishes:
    """Lay the slots of two tables side by side."""
    return Dishes(*(np.concatenate([a, b]) for a, b in zip(first, second, strict=True)))


@kernel
def clear_all(dishes: Dishes, prior: Prior) -> None:
    """Empty every slot."""
    for k in range(dishes.size.shape[0]):
        clear(dishes, k, prior)


@kernel
def dishes_with(rows: Array, dish: Array, capacity: int, prior: Prior) -> Dishes:
    """Make slots for ``capacity`` subclasses and put each homogeneous row into its own; the others stay free."""
    dishes = _free(capacity, prior.n_features + 1, prior.pseudo.shape[0])
    for i in range(rows.shape[0]):
        add(dishes, dish[i], rows[i], prior)
    return dishes


@kernel
def refill(dishes: Dishes, dish: Array, rows: Array, prior: Prior) -> None:
    """State the subclasses anew, from their members' homogeneous rows: after a change of prior or coordinates."""
    clear_all(dishes, prior)
    for i in range(rows.shape[0]):
        add(dishes, dish[i], rows[i], prior)


@kernel
def sum_up(dishes: Dishes, dish: Array, rows: Array, prior: Prior) -> None:
    """State the subclasses anew, as :func:`refill` does; each matrix is inverted once, not row by row."""
    clear_all(dishes, prior)
    skip = prior.first.shape[0]
    for i in range(rows.shape[0]):
        dishes.size[dish[i]] += 1
        gaussian.shift(dishes.matrix[dish[i]], rows[i, skip:], 1.0)
        categories.shift(dishes.counts[dish[i]], rows[i], 1.0, prior)
    for k in range(dishes.size.shape[0]):
        if dishes.size[k] > 0:
            settle(dishes, k, dishes.size[k], prior)


@kernel
def settle(dishes: Dishes, k: int, n: int, prior: Prior) -> None:
    """Let all else in slot k follow from its matrix, its counts and its n instances."""
    dishes.log_det[k] = gaussian.invert(dishes.matrix[k], dishes.inverse[k])
    dishes.size[k], dishes.updates[k] = n, 0
    dishes.constant[k, 0], dishes.constant[k, 1] = log_constant(n, prior), log_constant(n - 1, prior)


@called_kernel
def clear(dishes: Dishes, k: int, prior: Prior) -> None:
    """Empty slot k: the prior, exactly."""
    dishes.log_det[k] = gaussian.reset(dishes.matrix[k], dishes.inverse[k], prior)
    dishes.updates[k] = 0
    dishes.size[k] = 0
    dishes.constant[k, 0] = log_constant(0, prior)
    dishes.constant[k, 1] = -np.inf
    dishes.counts[k, :] = 0.0


@called_kernel
def log_constant(n: int, prior: Prior) -> float:
    """Compute the part of the log predictive that depends on the number of instances alone."""
    return gaussian.log_constant(n, prior)


@borrowing_kernel
def log_predictive(dishes: Dishes, k: int, x: Array, prior: Prior) -> float:
    """Log posterior predictive density of the homogeneous row ``x`` under subclass k."""
    n, columns = dishes.size[k], prior.first.shape[0]
    z = x[columns:]
    out = gaussian.log_predictive(dishes.inverse[k], dishes.log_det[k], n, dishes.constant[k, 0], z, prior)
    return out + categories.log_predictive(dishes.counts[k], x, prior) if columns > 0 else out


@kernel
def log_predictive_without(dishes: Dishes, k: int, x: Array, prior: Prior) -> float:
    """Log predictive density of ``x`` under subclass k without ``x``, which is one of its instances."""
    n, columns = dishes.size[k], prior.first.shape[0]
    z = x[columns:]
    out = gaussian.log_predictive_without(
        dishes.matrix[k], dishes.inverse[k], dishes.log_det[k], n, dishes.constant[k, 1], z, prior
    )
    return out + categories.log_predictive_without(dishes.counts[k], x, prior) if columns > 0 else out


@kernel
def add(dishes: Dishes, k: int, x: Array, prior: Prior) -> None:
    """Put ``x`` into subclass k."""
    add_telling(dishes, k, x, prior, np.empty(prior.n_features + 1))


@borrowing_kernel
def add_telling(dishes: Dishes, k: int, x: Array, prior: Prior, v: Array) -> None:
    """Put ``x`` into subclass k; ``v`` becomes ``Q x~`` as it was before."""
    if dishes.size[k] == 0:
        clear(dishes, k, prior)
    n, z = dishes.size[k] + 1, x[prior.first.shape[0] :]
    dishes.log_det[k] = gaussian.add(dishes.matrix[k], dishes.inverse[k], dishes.log_det[k], z, v)
    _count_update(dishes, k)
    categories.shift(dishes.counts[k], x, 1.0, prior)
    dishes.size[k] = n
    dishes.constant[k, 1] = dishes.constant[k, 0]
    dishes.constant[k, 0] = log_constant(n, prior)


@kernel
def remove(dishes: Dishes, k: int, x: Array, prior: Prior) -> None:
    """Take ``x`` out of subclass k; the last one leaves the prior behind, exactly."""
    remove_telling(dishes, k, x, prior, np.empty(prior.n_features + 1))


@borrowing_kernel
def remove_telling(dishes: Dishes, k: int, x: Array, prior: Prior, v: Array) -> None:
    """Take ``x`` out of subclass k; ``v`` becomes ``Q x~`` as it was before."""
    n, z = dishes.size[k] - 1, x[prior.first.shape[0] :]
    if n == 0:
        gaussian.times(dishes.inverse[k], z, v)
        clear(dishes, k, prior)
        return
    dishes.log_det[k] = gaussian.remove(dishes.matrix[k], dishes.inverse[k], dishes.log_det[k], z, v)
    _count_update(dishes, k)
    categories.shift(dishes.counts[k], x, -1.0, prior)
    dishes.size[k] = n
    dishes.constant[k, 0] = dishes.constant[k, 1]
    dishes.constant[k, 1] = log_constant(n - 1, prior)


@borrowing_kernel
def _count_update(dishes: Dishes, k: int) -> None:
    dishes.updates[k] += 1
    if dishes.updates[k] >= REFRESH_EVERY:
        dishes.log_det[k] = gaussian.invert(dishes.matrix[k], dishes.inverse[k])
        dishes.updates[k] = 0


@borrowing_kernel
def log_block_predictive(dishes: Dishes, k: int, block: Array, member: bool, prior: Prior) -> float:
    """Log predictive density of a block of homogeneous rows, shape (size, C + d + 1), under subclass k.

    The ratio of two marginal likelihoods, with the block and without it; ``member`` says that the block is
    in the statistics already (then it is predicted from the rest of the subclass).
    """
    size = block.shape[0]
    sign = -1.0 if member else 1.0
    n = dishes.size[k]
    other = n - size if member else n + size
    matrix, log_det = dishes.matrix[k], dishes.log_det[k]
    of_values = 0.0
    if prior.first.shape[0] > 0:
        of_values = categories.log_block_predictive(dishes.counts[k], block, member, prior)
    changed = gaussian.log_det_of_prior(prior)
    if n == 0:
        changed = gaussian.log_det_begun(block, prior)
    elif other > 0:
        changed = gaussian.log_det_with(matrix, dishes.inverse[k], log_det, block, sign)
    return sign * gaussian.log_marginal_ratio(log_det, n, changed, other, prior) + of_values


@borrowing_kernel
def mahalanobis(dishes: Dishes, k: int, x: Array, prior: Prior) -> float:
    """Distance of ``x`` from subclass k in the numeric features, in standard deviations of its predictive."""
    n, z = dishes.size[k], x[prior.first.shape[0] :]
    return gaussian.mahalanobis(dishes.inverse[k], n, z, prior)


@borrowing_kernel
def distance_from(dishes: Dishes, k: int, x: Array, prior: Prior) -> float:
    """Distance of ``x`` from subclass k: squared it is that of the numeric features, and what the values are rarer.

    Twice the log ratio of the commonest values and of its own: a squared Mahalanobis distance is one of densities.
    """
    near = mahalanobis(dishes, k, x, prior)
    if prior.first.shape[0] == 0:
        return near
    return math.sqrt(near * near + 2.0 * categories.log_rarer(dishes.counts[k], x, prior))


@kernel
def mahalanobis_each(dishes: Dishes, slot: Array, rows: Array, prior: Prior) -> Array:
    """Distance of each homogeneous row, shape (n, C + d + 1), from the subclass named for it, shape (n,)."""
    out = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        out[i] = distance_from(dishes, slot[i], rows[i], prior)
    return out


@kernel
def log_prior_predictives(rows: Array, prior: Prior) -> Array:
    """Log density of each homogeneous row under a new subclass drawn from H, shape (n,)."""
    out = log_prior_densities(rows, prior.first.shape[0], prior)
    if prior.first.shape[0] > 0:
        nobody = np.zeros(prior.pseudo.shape[0])
        for i in range(rows.shape[0]):
            out[i] += categories.log_predictive(nobody, rows[i], prior)
    return out


@kernel
def log_prior_densities(rows: Array, columns: int, prior: Prior) -> Array:
    """Do so of the numeric features alone, which begin after so many columns."""
    n, d = rows.shape[0], prior.n_features
    out = np.empty(n)
    constant = log_constant(0, prior)
    for i in range(n):
        square = 0.0
        for a in range(columns, columns + d):
            square += rows[i, a] * rows[i, a]
        h = square / prior.psi + 1.0 / prior.beta
        log_det = d * math.log(prior.psi) + math.log(prior.beta)
        out[i] = constant - 0.5 * log_det - 0.5 * (prior.nu + 1.0) * math.log1p(h)
    return out


@kernel
def log_predictives(rows: Array, dishes: Dishes, prior: Prior) -> Array:
    """Log posterior predictive density of each homogeneous row under each subclass, shape (n, K)."""
    out = np.empty((rows.shape[0], dishes.size.shape[0]))
    for i in range(rows.shape[0]):
        for k in range(dishes.size.shape[0]):
            out[i, k] = log_predictive(dishes, k, rows[i], prior)
    return out
