"""Dishes of the franchise (subclasses), one slot each: Gaussian statistics, and counts of the categories."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model import categories, gaussian
from stream_osr.model.jit import Array, borrowing_kernel, called_kernel, kernel
from stream_osr.model.prior import Prior
from stream_osr.support import rules

REFRESH_EVERY = 512
"""Rank-one updates of an inverse between two full inversions of the stored sum (``tests/model/test_dishes.py``)."""


class Dishes(NamedTuple):
    """Sufficient statistics of K subclasses. :mod:`stream_osr.model.gaussian` defines the matrices.

    Attributes
    ----------
    size
        Instances in each subclass, shape (K,).
    matrix, inverse
        Statistics, and their inverse for the predictive, shape (K, a, b).
    log_det
        Log-determinant that belongs to ``matrix``, shape (K,).
    constant
        The parts of the log predictive that depend on the count alone, for ``size`` and ``size - 1`` instances, shape
        (K, 2).
    updates
        Rank-one updates since the last inversion, shape (K,).
    counts
        Count of each value of the categorical columns in each subclass (:mod:`stream_osr.model.categories`), shape
        (K, V).
    """

    size: Annotated[Array, rules.array("i", "K", low=0)]
    matrix: Annotated[Array, rules.array("f", "K", "a", "b")]
    inverse: Annotated[Array, rules.array("f", "K", "a", "b")]
    log_det: Annotated[Array, rules.array("f", "K")]
    constant: Annotated[Array, rules.array("f", "K", "2", allowed=("-inf",))]
    updates: Annotated[Array, rules.array("i", "K", low=0, high=512)]
    counts: Annotated[Array, rules.array("f", "K", "*", low=0.0, high=1e15), rules.counted]


@kernel
def empty_dishes(capacity: int, prior: Prior) -> Dishes:
    """Make slots for ``capacity`` subclasses, each holding the prior."""
    dishes = _free(capacity, prior.n_features + 1, prior.pseudo.shape[0])
    clear_all(dishes, prior)
    return dishes


@kernel
def _free(capacity: int, width: int, places: int) -> Dishes:
    """Make free slots for ``capacity`` subclasses. Only their size of 0 is written."""
    matrix, inverse = np.empty((capacity, width, width)), np.empty((capacity, width, width))
    size, updates = np.zeros(capacity, np.int64), np.empty(capacity, np.int64)
    counts = np.empty((capacity, places))
    return Dishes(size, matrix, inverse, np.empty(capacity), np.empty((capacity, 2)), updates, counts)


@kernel
def copy_slots(dishes: Dishes, slots: Array, capacity: int) -> Dishes:
    """Copy the given slots, in that order, into a new table with room for ``capacity`` subclasses.

    Slot -1 stands for a free slot. The content of a free slot, except its size of 0, is undefined until the slot is
    used.
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
    """Keep the given slots, in increasing order. The result is a view if they are the first slots."""
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
    """Concatenate the slots of two tables."""
    return Dishes(*(np.concatenate([a, b]) for a, b in zip(first, second, strict=True)))


@kernel
def clear_all(dishes: Dishes, prior: Prior) -> None:
    """Empty every slot."""
    for k in range(dishes.size.shape[0]):
        clear(dishes, k, prior)


@kernel
def dishes_with(rows: Array, dish: Array, capacity: int, prior: Prior) -> Dishes:
    """Make slots for ``capacity`` subclasses and put each homogeneous row into its own. The others stay free."""
    dishes = _free(capacity, prior.n_features + 1, prior.pseudo.shape[0])
    for i in range(rows.shape[0]):
        add(dishes, dish[i], rows[i], prior)
    return dishes


@kernel
def refill(dishes: Dishes, dish: Array, rows: Array, prior: Prior) -> None:
    """Recompute the subclasses from their members' homogeneous rows, after a change of prior or coordinates."""
    clear_all(dishes, prior)
    for i in range(rows.shape[0]):
        add(dishes, dish[i], rows[i], prior)


@kernel
def sum_up(dishes: Dishes, dish: Array, rows: Array, prior: Prior) -> None:
    """Recompute the subclasses as :func:`refill` does, but invert each matrix once instead of row by row."""
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
    """Derive all other fields of slot k from its matrix, its counts and its n instances."""
    dishes.log_det[k] = gaussian.invert(dishes.matrix[k], dishes.inverse[k])
    dishes.size[k], dishes.updates[k] = n, 0
    dishes.constant[k, 0], dishes.constant[k, 1] = log_constant(n, prior), log_constant(n - 1, prior)


@called_kernel
def clear(dishes: Dishes, k: int, prior: Prior) -> None:
    """Empty slot k: it becomes exactly the prior."""
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
    """Log predictive density of ``x``, an instance of subclass k, under the other instances of k."""
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
    """Put ``x`` into subclass k, and write ``Q x~`` from before the update to ``v``."""
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
    """Take ``x`` out of subclass k. Removing the last instance restores the prior exactly."""
    remove_telling(dishes, k, x, prior, np.empty(prior.n_features + 1))


@borrowing_kernel
def remove_telling(dishes: Dishes, k: int, x: Array, prior: Prior, v: Array) -> None:
    """Take ``x`` out of subclass k, and write ``Q x~`` from before the update to ``v``."""
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

    It is the ratio of two marginal likelihoods, with the block and without it. ``member`` is true if the statistics
    already include the block. Then the rest of the subclass predicts the block.
    """
    size = block.shape[0]
    sign = -1.0 if member else 1.0
    n = dishes.size[k]
    other = n - size if member else n + size
    matrix, log_det = dishes.matrix[k], dishes.log_det[k]
    of_values = 0.0
    if prior.first.shape[0] > 0:
        of_values = categories.log_block_predictive(dishes.counts[k], block, member, prior)
    if n == 0:
        changed = gaussian.log_det_begun(block, prior)
    elif other > 0:
        changed = gaussian.log_det_with(matrix, dishes.inverse[k], log_det, block, sign)
    else:
        changed = gaussian.log_det_of_prior(prior)
    return sign * gaussian.log_marginal_ratio(log_det, n, changed, other, prior) + of_values


@borrowing_kernel
def mahalanobis(dishes: Dishes, k: int, x: Array, prior: Prior) -> float:
    """Distance of ``x`` from subclass k in the numeric features, in standard deviations of the predictive."""
    n, z = dishes.size[k], x[prior.first.shape[0] :]
    return gaussian.mahalanobis(dishes.inverse[k], n, z, prior)


@borrowing_kernel
def distance_from(dishes: Dishes, k: int, x: Array, prior: Prior) -> float:
    """Distance of ``x`` from subclass k. Its square adds the rarity of the values to that of the numeric features.

    The rarity is twice the log ratio of the probability of the commonest values to that of the row's values. A
    squared Mahalanobis distance is such a ratio of densities.
    """
    near = mahalanobis(dishes, k, x, prior)
    if prior.first.shape[0] == 0:
        return near
    return math.sqrt(near * near + 2.0 * categories.log_rarer(dishes.counts[k], x, prior))


@kernel
def mahalanobis_each(dishes: Dishes, slot: Array, rows: Array, prior: Prior) -> Array:
    """Distance of each homogeneous row, shape (n, C + d + 1), from its subclass in ``slot``, shape (n,)."""
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
    """Log density of the numeric features alone, which follow the first ``columns`` columns."""
    n, d = rows.shape[0], prior.n_features
    out = np.empty(n)
    constant, log_det = log_constant(0, prior), gaussian.log_det_of_prior(prior)
    for i in range(n):
        square = 0.0
        for a in range(d):
            square += rows[i, columns + a] * rows[i, columns + a] / prior.spread[a]
        h = square / prior.psi + 1.0 / prior.beta
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
