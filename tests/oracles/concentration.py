"""Concentration parameters integrated out numerically.

Given a seating, a concentration parameter a (alpha0 or gamma) enters the Chinese restaurant franchise only
through

    a^count / prod_j rising(a, size_j),        rising(a, n) = Gamma(a + n) / Gamma(a)

with, for alpha0, count = all tables and size_j = instances of group j, and, for gamma, count = all dishes
and one size = all tables. Every function takes the prior as ``(shape, rate)`` of a gamma distribution or as a single
number, which then is the value. Counts and sizes may be real: seats that have faded count in part.

The integral is a trapezoid sum on an even grid of log a, out to where the integrand is negligible: for a
smooth integrand that dies out at both ends its error falls faster than any power of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

Prior = float | tuple[float, float]


def log_rising(a: float | NDArray[np.float64], n: float) -> NDArray[np.float64]:
    """Log of ``a (a + 1) .. (a + n - 1)``, for real n too."""
    return scipy.special.gammaln(np.asarray(a) + n) - scipy.special.gammaln(a)


def grid(prior: Prior) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a, evenly spaced in log a, and the log prior mass of each."""
    if not isinstance(prior, tuple):
        return np.array([float(prior)]), np.zeros(1)
    shape, rate = prior
    # Within these reaches of log(shape / rate) the density falls to e^-45 of its peak; 5 more let data shift it.
    below = 45 / shape + np.sqrt(90 / shape) + 5
    above = np.log1p(45 / shape) + np.sqrt(90 / shape) + 5
    step = 0.02 / np.sqrt(1 + shape)
    log_a = np.log(shape / rate) + np.arange(-below, above, step)
    a = np.exp(log_a)
    return a, scipy.stats.gamma.logpdf(a, shape, scale=1 / rate) + log_a + np.log(step)


@lru_cache(maxsize=256)
def _log_terms(prior: Prior, count: float, sizes: tuple[float, ...]) -> tuple[NDArray[np.float64], ...]:
    a, log_prior = grid(prior)
    return a, log_prior + count * np.log(a) - sum(log_rising(a, size) for size in sizes)


def log_mass(prior: Prior, count: float, sizes: Sequence[float]) -> float:
    """Log of the integral of ``p(a) a^count / prod_j rising(a, size_j)``."""
    return float(scipy.special.logsumexp(_log_terms(prior, count, tuple(sizes))[1]))


def mean(prior: Prior, count: float, sizes: Sequence[float]) -> float:
    """Posterior mean of a, given the counts."""
    return moment(prior, count, sizes, 1)


def moment(prior: Prior, count: float, sizes: Sequence[float], power: float) -> float:
    """Posterior mean of ``a^power``, given the counts."""
    a, log_terms = _log_terms(prior, count, tuple(sizes))
    return float(np.exp(scipy.special.logsumexp(log_terms, b=a**power) - scipy.special.logsumexp(log_terms)))


def cumulative(prior: Prior, count: float, sizes: Sequence[float]) -> tuple[NDArray[np.float64], ...]:
    """Values of a and the posterior probability of one no larger than each."""
    a, log_terms = _log_terms(prior, count, tuple(sizes))
    return a, np.cumsum(np.exp(log_terms - scipy.special.logsumexp(log_terms)))


class Faded:
    """The distribution of alpha0 in a restaurant whose seats fade, a Gamma prior times ``a^opened (a + n)^-n``.

    Guests of total weight n came into a restaurant of size n; those of total weight ``opened`` took a table of their
    own, each with probability ``a / (a + n)``.
    """

    def __init__(self, prior: Prior, opened: float, seats: float) -> None:
        self.values, log_prior = grid(prior)
        log_terms = log_prior + opened * np.log(self.values) - seats * np.log(self.values + seats)
        self.masses = np.exp(log_terms - scipy.special.logsumexp(log_terms))

    def moment(self, power: float) -> float:
        return float(self.masses @ self.values**power)

    def cumulative(self) -> tuple[NDArray[np.float64], ...]:
        return self.values, np.cumsum(self.masses)


def draw(prior: Prior, count: float, sizes: Sequence[float], rng: np.random.Generator) -> float:
    """One value of a from its posterior given the counts: inverse cumulative distribution on the grid."""
    a, below = cumulative(prior, count, sizes)
    if len(a) == 1:
        return float(a[0])
    cell = min(int(np.searchsorted(below, rng.uniform())), len(a) - 1)
    step = np.log(a[1] / a[0])
    return float(a[cell] * np.exp(step * rng.uniform(-0.5, 0.5)))
