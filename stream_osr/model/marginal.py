"""Marginal likelihoods of whole subclasses: merge tests and split tests.

A merge test compares two subclasses together and apart, from their statistics alone. Statistics are sums, so those of
two subclasses together are the sum of both with the prior counted once.

A split test finds whether two subclasses describe the rows of one better, and assigns the rows to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model import categories, gaussian
from stream_osr.model.categories import spread_out
from stream_osr.model.dish_statistics import Dishes, clear, clear_all, empty_dishes, settle, sum_up
from stream_osr.model.elementwise import log_each
from stream_osr.model.jit import Array, kernel
from stream_osr.model.prior import Prior
from stream_osr.model.student_t import CONJUGATE, Location, log_placed
from stream_osr.support import rules


class Statistics(NamedTuple):
    """Sufficient statistics of the instances of K subclasses.

    Attributes
    ----------
    size
        Instances in each, shape (K,).
    matrix
        ``Dishes.matrix`` of each, shape (K, a, b).
    counts
        ``Dishes.counts`` of each, shape (K, V).
    """

    size: Annotated[Array, rules.array("i", "K", low=0)]
    matrix: Annotated[Array, rules.array("f", "K", "a", "b", low=-1e40, high=1e40)]
    counts: Annotated[Array, rules.array("f", "K", "*", low=0.0, high=1e15), rules.counted]


def statistics_of(dishes: Dishes, slots: Array) -> Statistics:
    """Copy the statistics of the given slots."""
    return Statistics(dishes.size[slots], dishes.matrix[slots], dishes.counts[slots])


def of_rows(rows: Array, prior: Prior) -> Statistics:
    """Sum up homogeneous rows, shape (n, C + d + 1), as a single subclass."""
    dishes = empty_dishes(1, prior)
    sum_up(dishes, np.zeros(len(rows), np.int64), rows, prior)
    return statistics_of(dishes, np.zeros(1, np.int64))


def of_slots(statistics: Statistics, slots: Sequence[int] | Array) -> Statistics:
    """Copy the statistics at the given positions."""
    at = np.asarray(slots, np.int64)
    return Statistics(*(part[at] for part in statistics))


def both(first: Statistics, second: Statistics) -> Statistics:
    """List the subclasses of one after those of the other."""
    return Statistics(*(np.concatenate([a, b]) for a, b in zip(first, second, strict=True)))


def of_nobody(prior: Prior) -> Array:
    """Return the matrix of a subclass without instances: the prior's."""
    return np.asarray(empty_dishes(1, prior).matrix[0])


@kernel
def _log_whole(n: int, matrix: Array, counts: Array, prior: Prior, location: Location) -> float:
    log_det = gaussian.factor(matrix, np.empty(matrix.shape))
    total = log_marginal(n, matrix, log_det, prior, location)
    return total + categories.log_marginal(counts, prior) if prior.first.shape[0] > 0 else total


@kernel
def log_marginals(statistics: Statistics, prior: Prior, location: Location) -> Array:
    """Log marginal likelihood of each of K subclasses, shape (K,)."""
    out = np.empty(len(statistics.size))
    for k in range(len(out)):
        out[k] = _log_whole(statistics.size[k], statistics.matrix[k], statistics.counts[k], prior, location)
    return out


@kernel
def log_marginal(n: int, matrix: Array, log_det: float, prior: Prior, location: Location) -> float:
    """Log marginal likelihood of the numeric features of one subclass with a known log-determinant."""
    d, r = prior.n_features, prior.beta + n
    log_r, log_beta = math.log(r), math.log(prior.beta)
    total = 0.5 * (prior.nu + n) * (log_r - log_det) - 0.5 * d * (log_r - log_beta + n * math.log(math.pi))
    total -= 0.5 * prior.nu * (log_beta - gaussian.log_det_of_prior(prior))
    for a in range(d):
        total += math.lgamma(0.5 * (prior.nu + n - a)) - math.lgamma(0.5 * (prior.nu - a))
    if n == 0 or location.freedom == 0.0:
        return total
    mean = matrix[d] / n
    mean[d] = 1.0
    return total + log_placed(mean, prior, location)


def log_ratios_together(one: Statistics, others: Statistics, prior: Prior, location: Location = CONJUGATE) -> Array:
    """Log ratio of the marginal likelihoods of one subclass and each of K others, together against apart, shape (K,).

    Parameters
    ----------
    one
        A single subclass.
    others
        The subclasses to compare it with.
    prior, location
        Base measure, and the location of new subclasses.

    Examples
    --------
    Two halves of one Gaussian belong together. Two Gaussians ten standard deviations apart do not.

    >>> from stream_osr.model.dish_statistics import refill
    >>> from stream_osr.model.prior import homogeneous, make_prior
    >>> prior = make_prior(2, nu=4, scale=1, beta=1)
    >>> centres = np.repeat([[0.0], [10.0]], [40, 20], axis=0)
    >>> rows = homogeneous(np.random.default_rng(1).normal(centres, size=(60, 2)))
    >>> dishes = empty_dishes(3, prior)
    >>> refill(dishes, np.repeat([0, 1, 2], 20), rows, prior)
    >>> ratios = log_ratios_together(statistics_of(dishes, [0]), statistics_of(dishes, [1, 2]), prior)
    >>> bool(ratios[0] > 0), bool(ratios[1] < -50)
    (True, True)
    """
    nobody = of_nobody(prior)
    return _log_ratios(of_slots(one, [0]), others, nobody, prior, location)


@kernel
def _log_ratios(one: Statistics, others: Statistics, nobody: Array, prior: Prior, location: Location) -> Array:
    """Do the work of :func:`log_ratios_together`."""
    (size, matrix, counts), n, own, values = others, one.size[0], one.matrix[0], one.counts[0]
    out = np.empty(len(size))
    alone = _log_whole(n, own, values, prior, location)
    for k in range(len(size)):
        merged, both_of = own + matrix[k] - nobody, n + size[k]
        out[k] = _log_whole(both_of, merged, values + counts[k], prior, location)
        out[k] -= _log_whole(size[k], matrix[k], counts[k], prior, location)
        out[k] -= alone
    return out


def add_statistics(dishes: Dishes, k: int, poured: Statistics, prior: Prior, sign: int = 1) -> None:
    """Add all instances of a single subclass to slot k, or (``sign`` -1) remove them."""
    if dishes.size[k] == 0:
        clear(dishes, k, prior)
    n = int(dishes.size[k]) + sign * int(poured.size[0])
    if n == 0:
        clear(dishes, k, prior)
        return
    dishes.matrix[k] += sign * (poured.matrix[0] - of_nobody(prior))
    dishes.counts[k] += sign * poured.counts[0]
    settle(dishes, k, n, prior)


def dishes_of(statistics: Statistics, prior: Prior) -> Dishes:
    """Make slots with the instances of these subclasses, in their order."""
    dishes = empty_dishes(len(statistics.size), prior)
    for slot in range(len(statistics.size)):
        add_statistics(dishes, slot, of_slots(statistics, [slot]), prior)
    return dishes


PASSES = 12
"""Most passes of the alternation."""
AXES = 4
"""Number of longest axes at which the split test first cuts the rows. It takes the best resulting partition."""
FAST_ROWS = 128
"""Least number of rows for which only the longest axis is cut: it is then well determined, and tries cost more."""
GAIN = 1.0
"""Least mean gain of each row in log odds, under a conjugate base measure.

No class is exactly Gaussian, and with enough rows a part of a class gains a little. If two classes were taken for
one, most rows gain more. With a separate location density no gain is required, because classes are small there
(``docs/results/discovery.md``).
"""


def split_test(rows: Array, alpha: float, least: int, prior: Prior, location: Location = CONJUGATE) -> Array | None:
    """Find two subclasses in the homogeneous rows of one, if two are far more probable than one.

    The test cuts the rows across one of their longest axes. Then it repeatedly assigns all rows to the part that
    predicts them better. It compares the two parts with the whole by marginal likelihoods and by the Chinese
    restaurant's probability of the partition, ``alpha Gamma(a) Gamma(b) / Gamma(a + b)``. Without this probability
    the best of very many partitions would nearly always win. The test returns the most probable of the partitions
    from all axes.

    Parameters
    ----------
    rows
        Homogeneous whitened rows, shape (n, d + 1).
    alpha
        Concentration.
    least
        Least number of rows in each part.
    prior, location
        Base measure, and the location of new subclasses.

    Returns
    -------
    Whether each row belongs to the smaller part, shape (n,), or ``None`` if they stay together.
    """
    n = len(rows)
    if n < 2 * least:
        return None
    values = spread_out(rows[:, :-1], len(prior.first)) if len(prior.first) else rows[:, :-1]
    centred = values - values.sum(axis=0) / n
    side, odds = _best_partition(centred, rows, alpha, least, prior, location)
    if odds <= (0.0 if location.freedom else GAIN) * n:
        return None
    return np.asarray(side == (1 if 2 * side.sum() <= n else 0))


@kernel
def _best_partition(
    centred: Array, rows: Array, alpha: float, least: int, prior: Prior, location: Location
) -> tuple[Array, float]:
    """Cut rows across each of their longest axes, improve each cut, and return the best partition and its log odds.

    ``centred`` are the rows about their mean, shape (n, d).
    """
    axes = np.linalg.svd(centred, False)[2]
    longest = np.ascontiguousarray(axes[: AXES if len(rows) < FAST_ROWS else 1])
    sides = (longest @ centred.T > 0.0).astype(np.int64)
    odds = _alternate_each(sides, rows, alpha, least, prior, location)
    best = odds.argmax()
    return sides[best], odds[best]


@kernel
def _alternate_each(sides: Array, rows: Array, alpha: float, least: int, prior: Prior, location: Location) -> Array:
    """Improve the partitions of shape (a, n), and return the log odds of each, -inf if a part is too small."""
    n, odds, columns = len(rows), np.full(len(sides), -np.inf), categories.numbers_of(rows, prior.first.shape[0])
    parts, together, room = empty_dishes(2, prior), empty_dishes(1, prior), np.empty(columns.shape)
    density = np.empty((2, n))
    _sum_up(together, np.zeros(n, np.int64), rows, prior)
    fixed = math.log(alpha) - math.lgamma(n) - _log_marginal(together, 0, prior, location)
    for at in range(len(sides)):
        _alternate(parts, sides[at], rows, columns, least, prior, room, density)
        if min(parts.size[0], parts.size[1]) >= least:
            odds[at] = fixed
            for k in range(2):
                odds[at] += math.lgamma(parts.size[k]) + _log_marginal(parts, k, prior, location)
    return odds


@kernel
def _log_marginal(dishes: Dishes, k: int, prior: Prior, location: Location) -> float:
    total = log_marginal(dishes.size[k], dishes.matrix[k], dishes.log_det[k], prior, location)
    return total + categories.log_marginal(dishes.counts[k], prior) if prior.first.shape[0] > 0 else total


@kernel
def _alternate(
    parts: Dishes, side: Array, rows: Array, columns: Array, least: int, prior: Prior, room: Array, density: Array
) -> None:
    """Assign all rows to the part that predicts them better, until none changes or a part is too small.

    Parameters
    ----------
    parts
        Two slots, which hold the parts on return (:func:`_sum_up`). If a part is too small, only its size is valid.
    side
        The part of each row, 0 or 1, shape (n,): initial values, replaced by the result.
    rows, columns
        Homogeneous rows, shape (n, C + d + 1), and their numeric coordinates, shape (d + 1, n).
    least
        Least number of rows in each part.
    prior
        Base measure.
    room, density
        Scratch space of the shape of the columns, and of shape (2, n).
    """
    for turn in range(PASSES + 1):
        second = side.sum()
        first = len(side) - second
        if min(first, second) < least:
            parts.size[0], parts.size[1] = first, second
            break
        _sum_up(parts, side, rows, prior)
        if turn == PASSES:
            break
        for k in range(2):
            _predict(parts, k, rows, columns, prior, room, density[k])
        stays = math.log(first) - math.log(second)
        changed = False
        for i in range(len(rows)):
            better = 1 if density[1, i] - density[0, i] > stays else 0
            changed = changed or better != side[i]
            side[i] = better
        if not changed:
            break


@kernel
def _sum_up(parts: Dishes, side: Array, rows: Array, prior: Prior) -> None:
    """Sum up the rows of each part. Write the Cholesky factors in place of the inverses."""
    clear_all(parts, prior)
    skip = prior.first.shape[0]
    for i in range(len(rows)):
        parts.size[side[i]] += 1
        gaussian.shift(parts.matrix[side[i]], rows[i, skip:], 1.0)
        categories.shift(parts.counts[side[i]], rows[i], 1.0, prior)
    for k in range(len(parts.size)):
        parts.log_det[k] = gaussian.factor(parts.matrix[k], parts.inverse[k])


@kernel
def _predict(parts: Dishes, k: int, rows: Array, columns: Array, prior: Prior, room: Array, out: Array) -> None:
    """Write the log posterior predictive density of each row under a part, shape (n,)."""
    n, head = parts.size[k], gaussian.log_constant(parts.size[k], prior) - 0.5 * parts.log_det[k]
    gaussian.forms_by_factor(parts.inverse[k], columns, room, out)
    for i in range(len(out)):
        out[i] += 1.0
    log_each(out)
    for i in range(len(out)):
        out[i] = head - 0.5 * (prior.nu + n + 1.0) * out[i]
        if prior.first.shape[0] > 0:
            out[i] += categories.log_predictive(parts.counts[k], rows[i], prior)
