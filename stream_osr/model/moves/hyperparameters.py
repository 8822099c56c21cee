"""Draws of the concentrations and of the base measure.

The concentrations alpha0 and gamma are drawn with the auxiliary variables of Escobar and West (1995). For several
groups that share one concentration a (Teh et al. 2006, appendix A.2):
``w_j ~ Beta(a + 1, n_j)``, ``s_j ~ Bernoulli(n_j / (n_j + a))``,
``a ~ Gamma(shape + sum T_j - sum s_j, rate - sum log w_j)``.

The base measure (nu, scale and beta) is drawn from its conditional given the partition. Given the partition, the
marginal likelihood of the normal-inverse-Wishart model has a closed form. So the sampler draws the hyperparameters on
a grid, once a sweep: no outer search, no simulated unknowns, no held-out data. The prior over the grid is flat. The
lower end of the grid in ``nu * scale / d`` is a floor. Without it the evidence would favour degenerate subclasses on
discretised data.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from stream_osr.model.categories import EXCLUSIVE
from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.model.prior import Prior
from stream_osr.model.restaurants import CLOSED, Franchise, menu_weight


class Gamma(NamedTuple):
    """Prior of a concentration, with mean ``shape / rate``."""

    shape: float
    rate: float


ALPHA = Gamma(10.0, 1.0)
STREAM_ALPHA = Gamma(1.0, 1.0)
"""Prior of the stream's own alpha0.

Under the training prior every thirtieth instance would open a table, known or not. With few dimensions the densities
carry little information, and the known classes would break up.
"""

GAMMA = Gamma(100.0, 1.0)
INNER_ITERATIONS = 10
AT_ONCE = 64
"""Number of subclasses whose evidence is computed at once."""


@kernel
def resample(rng: Generator, value: float, prior: Gamma, clusters: float, sizes: Array) -> float:
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
        Instances (or tables) in each group, shape (G,), possibly fractional. Empty groups do not count.
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
def resample_faded(rng: Generator, value: float, prior: Gamma, new_tables: float, seats: float) -> float:
    """Draw the concentration of a restaurant whose seats fade.

    The data are weighted guests. Each came into a restaurant of about the present size and opened a table with
    probability ``a / (a + n)``, or did not. The likelihood is ``a^opened (a + n)^-n``. The number of tables carries
    little information because tables outlive their seats. Escobar and West's law for that number would increase the
    concentration without limit.

    Parameters
    ----------
    rng, value, prior
        As for :func:`resample`.
    new_tables
        Weight of the guests that opened a table.
    seats
        Weight of all guests, n.
    """
    if seats <= 0.0:
        return rng.gamma(prior.shape, 1.0 / prior.rate)
    for _ in range(INNER_ITERATIONS):
        u = rng.gamma(seats, 1.0 / (value + seats))
        value = rng.gamma(prior.shape + new_tables, 1.0 / (prior.rate + u))
    return value


@kernel
def resample_alpha(rng: Generator, franchise: Franchise, prior: Gamma, fading: bool) -> None:
    """Draw the alpha0 that all restaurants share (``fading``: that of the one restaurant whose seats fade)."""
    sizes = np.zeros(franchise.alpha.shape[0])
    tables, new_tables = _count_tables(franchise, sizes)
    if fading:
        franchise.alpha[:] = resample_faded(rng, franchise.alpha[0], prior, new_tables, sizes[0])
    else:
        franchise.alpha[:] = resample(rng, franchise.alpha[0], prior, tables, sizes)


@borrowing_kernel
def _count_tables(franchise: Franchise, sizes: Array) -> tuple[float, float]:
    """Add the seats of each restaurant to ``sizes``, and return the number of tables and the weight of openings."""
    tables, new_tables = 0.0, 0.0
    for t in range(franchise.table_dish.shape[0]):
        if franchise.table_dish[t] != CLOSED:
            sizes[franchise.table_group[t]] += franchise.table_mass[t]
            tables += 1.0
            new_tables += franchise.table_founder[t]
    return tables, new_tables


@kernel
def resample_gamma(rng: Generator, franchise: Franchise, prior: Gamma) -> None:
    """Draw gamma, the concentration of the menu: one group of all tables, with dishes as clusters."""
    dishes = 0.0
    for k in range(franchise.menu.shape[0]):
        if menu_weight(franchise, k) > 0.0:
            dishes += 1.0
    sizes = np.full(1, franchise.total[0])
    franchise.gamma[0] = resample(rng, franchise.gamma[0], prior, dishes, sizes)


NU_ABOVE_DIMENSION = 2.0 ** np.arange(9)
FLOOR = 0.05
PSI_PER_DIMENSION = np.geomspace(FLOOR, 10.0, 60)
BETA = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
CONCENTRATION = 2.0 ** np.arange(-3, 15)
"""Grid for the weight of a category's base measure, in instances.

It is largest for columns whose values carry no information, such as names.
"""


class Grid(NamedTuple):
    """Candidate values of the hyperparameters.

    Attributes
    ----------
    nu
        Degrees of freedom, shape (A,).
    psi
        ``nu * scale``, shape (A, P).
    beta
        Precisions of the prior mean, shape (B,).
    """

    nu: Array
    psi: Array
    beta: Array


def make_grid(
    n_features: int, nu: float | None = None, scale: float | None = None, beta: float | None = None
) -> Grid:
    """Make the grid of the hyperparameters that are ``None``. The others keep their given value.

    Examples
    --------
    >>> make_grid(16).psi.shape, make_grid(16, nu=20, scale=0.5).psi
    ((9, 60), array([[10.]]))
    """
    nus = np.array([float(nu)]) if nu is not None else n_features + NU_ABOVE_DIMENSION.astype(float)
    if scale is None:
        psi = np.tile(max(n_features, 1) * PSI_PER_DIMENSION, (len(nus), 1))
    else:
        psi = nus[:, None] * scale
    return Grid(nus, psi, BETA if beta is None else np.array([float(beta)]))


def log_evidence(rows: Array, dish: Array, grid: Grid) -> Array:
    """Log marginal likelihood of the rows given the partition, at every point of the grid.

    One eigendecomposition for each subclass serves the whole grid. Let ``l`` be the eigenvalues of a scatter, ``u``
    the mean in their basis, and ``c = beta n / (beta + n)``. Then ``log|Psi_n| = sum log(psi + l) + log(1 + c sum u^2
    / (psi + l))`` (matrix determinant lemma).

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).
    dish
        Subclass of each, shape (n,).
    grid
        Hyperparameters.

    Returns
    -------
    Array of shape (A, P, B).
    """
    d = rows.shape[1]
    nu, beta = grid.nu, grid.beta
    psi = grid.psi[:1] if (grid.psi == grid.psi[0]).all() else grid.psi  # mostly the same for every nu
    steps = 0.5 * np.arange(d)
    total = np.zeros((len(nu), grid.psi.shape[1], len(beta)))
    order = np.argsort(dish, kind="stable")
    blocks = np.split(rows[order], np.flatnonzero(np.diff(dish[order])) + 1)
    for first in range(0, len(blocks), AT_ONCE):
        n, spread, square = _principal_spreads(blocks[first : first + AT_ONCE])
        shifted = psi[:, :, None, None] + spread
        log_det, form = np.log(shifted).sum(axis=-1), (square / shifted).sum(axis=-1)
        c = beta * n[:, None] / (beta + n[:, None])
        determinant = log_det[..., None] + np.log1p(c * form[..., None])
        total -= 0.5 * (nu[:, None, None] * determinant.sum(axis=2) + (n[:, None] * determinant).sum(axis=2))
        half = 0.5 * (nu[:, None, None] + n[:, None])
        gammas = gammaln(half - steps).sum(axis=(1, 2)) - len(n) * gammaln(0.5 * nu[:, None] - steps).sum(axis=1)
        total += gammas[:, None, None] + 0.5 * d * len(n) * (nu[:, None] * np.log(psi))[:, :, None]
        total += 0.5 * d * np.log(beta / (beta + n[:, None])).sum(axis=0) - 0.5 * n.sum() * d * np.log(np.pi)
    return total


def _principal_spreads(blocks: list[Array]) -> tuple[Array, Array, Array]:
    """Return the sizes of K subclasses, (K,), and the eigenvalues and squared means of each, both of shape (K, d)."""
    d, n = blocks[0].shape[1], np.array([len(block) for block in blocks])
    means = np.array([block.mean(axis=0) for block in blocks])
    spread, square = np.zeros((2, len(blocks), d))
    many = np.flatnonzero(n > d)
    if len(many):
        centred = [blocks[k] - means[k] for k in many]
        values, vectors = np.linalg.eigh(np.array([each.T @ each for each in centred]))
        spread[many] = np.maximum(values, 0.0)
        square[many] = np.einsum("kij,ki->kj", vectors, means[many]) ** 2
    for k in np.flatnonzero(n <= d).tolist():
        spread[k], square[k] = _of_few(blocks[k] - means[k], means[k])
    return n, spread, square


def _of_few(centred: Array, mean: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of the scatter of centred rows (n, d), n <= d, and the squared mean in that basis, (d,).

    They come from the n by n products of the rows. The part of the mean outside their span has eigenvalue 0.
    """
    d = centred.shape[1]
    values, vectors = np.linalg.eigh(centred @ centred.T)
    real = values > 1e-12 * max(values[-1], 1e-300)
    count = int(real.sum())
    spread, square = np.zeros(d), np.zeros(d)
    spread[:count] = values[real]
    square[:count] = (vectors[:, real].T @ (centred @ mean)) ** 2 / values[real]
    if count < d:
        square[count] = max(float(mean @ mean - square.sum()), 0.0)
    return spread, square


def draw_prior(rng: Generator, rows: Array, dish: Array, grid: Grid, prior: Prior) -> Prior:
    """Draw the base measure given the partition.

    Parameters
    ----------
    rng
        Source of randomness.
    rows
        Whitened rows without categories, shape (n, d).
    dish, grid
        As for :func:`log_evidence`.
    prior
        Base measure whose values are replaced.
    """
    evidence = log_evidence(rows / np.sqrt(prior.spread), dish, grid)  # less a constant: the volume of this scaling
    weights = np.exp(evidence - evidence.max()).ravel()
    chosen = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum()))
    a, p, b = np.unravel_index(min(chosen, weights.size - 1), evidence.shape)
    return prior._replace(nu=float(grid.nu[a]), psi=float(grid.psi[a, p]), beta=float(grid.beta[b]))


def log_evidence_of_values(place: Array, dish: Array, base: Array) -> Array:
    """Log marginal probability of the values of one column given the partition, at every concentration of the grid.

    Parameters
    ----------
    place
        Place of each instance within the column, 0 for a missing value, shape (n,).
    dish
        Subclass of each, shape (n,).
    base
        Probability of each place before any instance, shape (m,). The first element is ignored.

    Returns
    -------
    Array of shape (A,).
    """
    there = place > 0
    subclass = np.unique(dish[there], return_inverse=True)[1]
    counts = np.zeros((int(subclass.max(initial=-1)) + 1, len(base)))
    np.add.at(counts, (subclass, place[there]), 1.0)
    k, v = np.nonzero(counts)
    a = CONCENTRATION[:, None]
    whole = gammaln(a) - gammaln(a + counts.sum(axis=1))
    values = gammaln(a * base[v] + counts[k, v]) - gammaln(a * base[v])
    return np.asarray(whole.sum(axis=1) + values.sum(axis=1))


def draw_concentrations(rng: Generator, rows: Array, dish: Array, prior: Prior) -> Prior:
    """Draw the concentration of each categorical column given the partition, on a grid with a flat prior.

    A concentration of :data:`~stream_osr.model.categories.EXCLUSIVE` stays.

    Parameters
    ----------
    rng
        Source of randomness.
    rows
        Whitened rows, shape (n, C + d).
    dish
        Subclass of each, shape (n,).
    prior
        Base measure whose concentrations are replaced.
    """
    pseudo = prior.pseudo.copy()
    for c, column in enumerate(np.split(pseudo, prior.first[1:])):
        if column[0] == EXCLUSIVE:
            continue
        place = rows[:, c].astype(np.int64) - prior.first[c]
        evidence = log_evidence_of_values(place, dish, column / column[0])
        weights = np.exp(evidence - evidence.max())
        chosen = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum()))
        column *= CONCENTRATION[min(chosen, len(weights) - 1)] / column[0]
    return prior._replace(pseudo=pseudo)
