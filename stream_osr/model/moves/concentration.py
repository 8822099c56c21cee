"""Resampling of the concentrations alpha0 and gamma: the auxiliary variables of Escobar and West (1995).

For several groups that share one concentration a (Teh et al. 2006, appendix A.2):
``w_j ~ Beta(a + 1, n_j)``, ``s_j ~ Bernoulli(n_j / (n_j + a))``,
``a ~ Gamma(shape + sum T_j - sum s_j, rate - sum log w_j)``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from stream_osr.model.franchise import CLOSED, Franchise, menu_weight
from stream_osr.model.jit import kernel


class Gamma(NamedTuple):
    """Prior of a concentration; its mean is ``shape / rate``."""

    shape: float
    rate: float


ALPHA = Gamma(10.0, 1.0)
STREAM_ALPHA = Gamma(1.0, 1.0)
"""The stream's own alpha0: under the training prior every thirtieth instance would open a table, known or not, and
where few dimensions leave the densities little to say the known classes would crumble."""

GAMMA = Gamma(100.0, 1.0)
INNER_ITERATIONS = 10


@kernel
def resample(rng: Generator, value: float, prior: Gamma, clusters: float, sizes: np.ndarray) -> float:
    """Draw a concentration given the number of clusters in groups of the given sizes.

    Parameters
    ----------
    rng
        Source of randomness.
    value
        Present value of the concentration.
    prior
        Its prior.
    clusters
        Number of clusters (tables, or dishes) over all groups.
    sizes
        Instances (or tables) in each group, shape (G,); they may be fractions. Empty groups do not count.
    """
    for _ in range(INNER_ITERATIONS):
        a, b = prior.shape + clusters, prior.rate
        for j in range(sizes.shape[0]):
            if sizes[j] > 0.0:
                b -= math.log(rng.beta(value + 1.0, sizes[j]))
                if rng.random() * (sizes[j] + value) < sizes[j]:
                    a -= 1.0
        value = rng.gamma(a, 1.0 / b)
    return value


@kernel
def resample_faded(rng: Generator, value: float, prior: Gamma, opened: float, seats: float) -> float:
    """Draw the concentration of a restaurant whose seats fade.

    What is remembered are guests, each with a weight, who came into a restaurant of about the present size and
    opened a table with probability ``a / (a + n)`` or did not; the likelihood is
    ``a^opened (a + n)^-n``. The number of tables says little: they outlive their seats, and Escobar and West's
    law of it would drive the concentration up without limit.

    Parameters
    ----------
    rng, value, prior
        As for :func:`resample`.
    opened
        Weight of the guests that opened a table.
    seats
        Weight of all guests, n.
    """
    if seats <= 0.0:
        return rng.gamma(prior.shape, 1.0 / prior.rate)
    for _ in range(INNER_ITERATIONS):
        u = rng.gamma(seats, 1.0 / (value + seats))
        value = rng.gamma(prior.shape + opened, 1.0 / (prior.rate + u))
    return value


@kernel
def resample_alpha(rng: Generator, franchise: Franchise, prior: Gamma, fading: bool) -> None:
    """Draw the one alpha0 that all restaurants share (``fading``: of the one restaurant whose seats fade)."""
    sizes = np.zeros(franchise.alpha.shape[0])
    tables, opened = 0.0, 0.0
    for t in range(franchise.table_dish.shape[0]):
        if franchise.table_dish[t] != CLOSED:
            sizes[franchise.table_group[t]] += franchise.table_mass[t]
            tables += 1.0
            opened += franchise.table_founder[t]
    if fading:
        franchise.alpha[:] = resample_faded(rng, franchise.alpha[0], prior, opened, sizes[0])
    else:
        franchise.alpha[:] = resample(rng, franchise.alpha[0], prior, tables, sizes)


@kernel
def resample_gamma(rng: Generator, franchise: Franchise, prior: Gamma) -> None:
    """Draw gamma, the concentration of the menu: one group of all tables, dishes for clusters."""
    dishes = 0.0
    for k in range(franchise.menu.shape[0]):
        if menu_weight(franchise, k) > 0.0:
            dishes += 1.0
    sizes = np.full(1, franchise.total[0])
    franchise.gamma[0] = resample(rng, franchise.gamma[0], prior, dishes, sizes)
