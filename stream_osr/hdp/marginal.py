"""Marginal likelihoods of whole subclasses, from their statistics alone: together against apart.

Statistics are sums, so those of two subclasses together are the sum of theirs with the prior counted once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.hdp import gaussian_diagonal as diagonal
from stream_osr.hdp import gaussian_full as full
from stream_osr.hdp import gaussian_tied as tied
from stream_osr.hdp.dishes import Dishes, clear, empty_dishes, log_constant
from stream_osr.hdp.prior import DIAGONAL, FULL, Prior


class Statistics(NamedTuple):
    """What sums up the instances of K subclasses: all that is needed to go on with them.

    Attributes
    ----------
    size
        Instances in each, shape (K,).
    matrix
        ``Dishes.matrix`` of each, shape (K, a, b).
    """

    size: np.ndarray
    matrix: np.ndarray


def statistics_of(dishes: Dishes, slots: np.ndarray) -> Statistics:
    """Copy the statistics of the named slots."""
    return Statistics(dishes.size[slots], dishes.matrix[slots])


def both(first: Statistics, second: Statistics) -> Statistics:
    """List the subclasses of one after those of the other."""
    return Statistics(np.concatenate([first.size, second.size]), np.concatenate([first.matrix, second.matrix]))


def of_nobody(prior: Prior) -> np.ndarray:
    """Return the matrix of a subclass without instances: the prior's."""
    return np.asarray(empty_dishes(1, prior).matrix[0])


def log_marginals(statistics: Statistics, prior: Prior) -> np.ndarray:
    """Log marginal likelihood of each subclass, up to a factor that all partitions of the rows share, shape (K,).

    References
    ----------
    .. [1] K. P. Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007, equation (266).
    """
    return np.array([_log_marginal(int(n), matrix, prior) for n, matrix in zip(*statistics, strict=True)])


def _log_marginal(n: int, matrix: np.ndarray, prior: Prior) -> float:
    if n == 0:
        return 0.0
    if prior.covariance == FULL:
        log_det = float(np.linalg.slogdet(matrix)[1])
        return float(full.log_marginal_ratio(full.log_det_of_prior(prior), 0, log_det, n, prior))
    nobody = of_nobody(prior)
    if prior.covariance == DIAGONAL:
        scratch = np.empty_like(matrix)
        after = diagonal.log_marginal(diagonal.refresh(matrix, scratch, n, prior), n, prior)
        return float(after - diagonal.log_marginal(diagonal.refresh(nobody, scratch, 0, prior), 0, prior))
    return float(tied.log_marginal(matrix, n, prior) - tied.log_marginal(nobody, 0, prior))


def log_ratios_together(one: Statistics, others: Statistics, prior: Prior) -> np.ndarray:
    """Log ratio of the marginal likelihoods of one subclass and each of K others, together against apart, shape (K,).

    Parameters
    ----------
    one
        A single subclass.
    others
        Those that it is compared with.
    prior
        Base measure.

    Examples
    --------
    Two halves of one Gaussian belong together, two Gaussians ten standard deviations apart do not.

    >>> from stream_osr.hdp.dishes import refill
    >>> from stream_osr.hdp.prior import homogeneous, make_prior
    >>> prior = make_prior("full", 2, nu=4, scale=1, beta=1)
    >>> centres = np.repeat([[0.0], [10.0]], [40, 20], axis=0)
    >>> rows = homogeneous(np.random.default_rng(0).normal(centres, size=(60, 2)))
    >>> dishes = empty_dishes(3, prior)
    >>> refill(dishes, np.repeat([0, 1, 2], 20), rows, prior)
    >>> ratios = log_ratios_together(statistics_of(dishes, [0]), statistics_of(dishes, [1, 2]), prior)
    >>> bool(ratios[0] > 2), bool(ratios[1] < -50)
    (True, True)
    """
    joined = Statistics(one.size + others.size, one.matrix + others.matrix - of_nobody(prior))
    return log_marginals(joined, prior) - log_marginals(others, prior) - log_marginals(one, prior)


def pour(dishes: Dishes, k: int, poured: Statistics, prior: Prior, sign: int = 1) -> None:
    """Put all instances of a single subclass into slot k, or (``sign`` -1) take them out of it."""
    if dishes.size[k] == 0:
        clear(dishes, k, prior)
    n = int(dishes.size[k]) + sign * int(poured.size[0])
    if n == 0:
        clear(dishes, k, prior)
        return
    dishes.matrix[k] += sign * (poured.matrix[0] - of_nobody(prior))
    if prior.covariance == FULL:
        dishes.log_det[k] = full.invert(dishes.matrix[k], dishes.inverse[k])
    elif prior.covariance == DIAGONAL:
        dishes.log_det[k] = diagonal.refresh(dishes.matrix[k], dishes.inverse[k], n, prior)
    else:
        dishes.inverse[k, 0] = dishes.matrix[k, 0] / (prior.beta + n)
    dishes.size[k], dishes.updates[k] = n, 0
    dishes.constant[k] = log_constant(n, prior), log_constant(n - 1, prior)
