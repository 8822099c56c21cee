"""The conjugate Gaussian base measure in whitened coordinates, straight from the textbook.

The prior mean is 0 and the prior scale matrix ``psi * I`` (``psi = nu * scale``). A *block* is the set of
instances served one dish: an array of shape (n, d), where n may be 0. Each class below has

- ``log_predictive(x, rows)``: log density of one new instance ``x`` given the block ``rows``;
- ``log_marginal(rows)``: log density of the whole block, parameters integrated out, in closed form;
- ``log_marginal_chained(rows)``: the same as a product of predictives;
- ``predictive_scale(rows)``: location (d,) and shape or covariance matrix (d, d) of the predictive;
- ``mahalanobis(x, rows)``: distance of ``x`` from the centre of the predictive;
- ``draw_parameters(rng)`` and ``draw_rows(n, rng)``: from the prior, and a block from one draw of it.

Sources: Murphy, "Conjugate Bayesian analysis of the Gaussian distribution" (2007), sections 3, 8 and 9;
Gelman et al., "Bayesian Data Analysis", 3rd edition, section 3.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class NIWPosterior(NamedTuple):
    """Parameters of a normal-inverse-Wishart distribution: (mu_n, beta_n, nu_n, Psi_n)."""

    mean: Array
    beta: float
    nu: float
    scale_matrix: Array


class BaseMeasure:
    """What base measures have in common."""

    dimension: int

    def block(self, rows: ArrayLike) -> Array:
        """Rows as an array of shape (n, d), also when there are none."""
        return np.asarray(rows, dtype=np.float64).reshape(-1, self.dimension)

    def mahalanobis(self, x: ArrayLike, rows: ArrayLike) -> float:
        """Distance of ``x`` from the location of the predictive, measured by its scale matrix."""
        location, scale = self.predictive_scale(rows)
        off = np.asarray(x, dtype=np.float64) - location
        return float(np.sqrt(off @ np.linalg.solve(scale, off)))

    def log_marginal_chained(self, rows: ArrayLike) -> float:
        """``sum_i log p(x_i | x_1 .. x_{i-1})``."""
        rows = self.block(rows)
        return float(sum(self.log_predictive(rows[i], rows[:i]) for i in range(len(rows))))

    def draw_rows(self, n: int, rng: np.random.Generator) -> Array:
        """A block of n instances that share one draw of mean and covariance."""
        mean, covariance = self.draw_parameters(rng)
        return rng.multivariate_normal(mean, covariance, size=n, method="cholesky")


class Full(BaseMeasure):
    """Any covariance: ``Sigma ~ IW(P, nu)``, ``mean | Sigma ~ N(0, Sigma / beta)``; needs nu > d - 1.

    ``P`` is diagonal, with ``psi`` for each element, or one for all.
    """

    def __init__(self, dimension: int, psi: ArrayLike, nu: float, beta: float) -> None:
        self.dimension = dimension
        self.psi = np.broadcast_to(np.asarray(psi, float), dimension)
        self.nu = nu
        self.beta = beta

    def posterior(self, rows: ArrayLike) -> NIWPosterior:
        """Parameters after a block.

        ``beta_n = beta + n``, ``nu_n = nu + n``, ``mu_n = n xbar / beta_n`` and
        ``Psi_n = P + sum_i (x_i - xbar)(x_i - xbar)' + (beta n / beta_n) xbar xbar'``.
        """
        rows = self.block(rows)
        n = len(rows)
        prior_scale = np.diag(self.psi)
        if n == 0:
            return NIWPosterior(np.zeros(self.dimension), self.beta, self.nu, prior_scale)
        average = rows.mean(axis=0)
        centred = rows - average
        beta_n = self.beta + n
        scale_matrix = prior_scale + centred.T @ centred + self.beta * n / beta_n * np.outer(average, average)
        return NIWPosterior(n * average / beta_n, beta_n, self.nu + n, scale_matrix)

    def predictive_scale(self, rows: ArrayLike) -> tuple[Array, Array]:
        mean, beta, nu, scale_matrix = self.posterior(rows)
        return mean, scale_matrix * (beta + 1) / (beta * (nu - self.dimension + 1))

    def log_predictive(self, x: ArrayLike, rows: ArrayLike) -> float:
        """Student t with ``nu_n - d + 1`` degrees of freedom around ``mu_n``.

        Its shape matrix is ``Psi_n (beta_n + 1) / (beta_n (nu_n - d + 1))``.
        """
        mean, beta, nu, scale_matrix = self.posterior(rows)
        freedom = nu - self.dimension + 1
        shape = scale_matrix * (beta + 1) / (beta * freedom)
        return float(scipy.stats.multivariate_t.logpdf(np.asarray(x), loc=mean, shape=shape, df=freedom))

    def log_marginal(self, rows: ArrayLike) -> float:
        """``pi^(-nd/2) G_d(nu_n/2)/G_d(nu/2) |P|^(nu/2)/|Psi_n|^(nu_n/2) (beta/beta_n)^(d/2)``."""
        rows = self.block(rows)
        n, d = rows.shape
        _, beta_n, nu_n, scale_matrix = self.posterior(rows)
        return float(
            -n * d / 2 * np.log(np.pi)
            + scipy.special.multigammaln(nu_n / 2, d)
            - scipy.special.multigammaln(self.nu / 2, d)
            + self.nu / 2 * np.log(self.psi).sum()
            - nu_n / 2 * np.linalg.slogdet(scale_matrix)[1]
            + d / 2 * np.log(self.beta / beta_n)
        )

    def draw_parameters(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """A mean (d,) and a covariance (d, d) from the prior.

        ``Sigma^-1 ~ Wishart(nu, P^-1)``, drawn as ``B B'``, ``B = P^-1/2 A`` with A lower triangular, standard
        normals below the diagonal and ``A_ii^2 ~ chi2(nu - i)``, i = 0 .. d - 1 (Bartlett); it allows any nu > d - 1.
        """
        d = self.dimension
        factor = np.tril(rng.standard_normal((d, d)), k=-1)
        factor[np.diag_indices(d)] = np.sqrt(rng.chisquare(self.nu - np.arange(d)))
        factor /= np.sqrt(self.psi)[:, None]
        covariance = np.linalg.inv(factor @ factor.T)
        covariance = (covariance + covariance.T) / 2
        return rng.multivariate_normal(np.zeros(d), covariance / self.beta, method="cholesky"), covariance
