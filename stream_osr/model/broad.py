"""A broad term in each known density: where a class lies that its kept subclasses do not describe.

The restaurant of class j has mass outside the subclasses that are kept: ``alpha0 / (n_j + alpha0)`` for a new one,
and the seats of those that were dropped. In ``sum_k n_jk / (n_j + alpha0) f_k(x)`` all of it is missing. The broad
term puts it where the class lies as a whole, so that the class density ``F_j`` integrates to one: a Student-t with
the mean of the class and its scatter, shrunk to the pooled within-class covariance (instances far outside it count
as if they were nearer, `scatter.py`). Its degrees of freedom are those that foresee the training instances best, each
left out of its class.

Its tails are lighter than those of the density of a new subclass, in every direction: what lies far from everything
is unknown. With tied covariances that density is Gaussian, and there are no broad terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stream_osr.model import categories
from stream_osr.model.location import Location, log_student_t, log_t
from stream_osr.model.prior import DIAGONAL, Prior
from stream_osr.model.scatter import bounded_scatter

FREEDOM_ABOVE = 2.0 ** np.arange(2, 9)
"""Degrees of freedom above those of the density of a new subclass."""


class Outline(NamedTuple):
    """A class of n instances as a whole, and as it is without each of them.

    Attributes
    ----------
    mean
        Shape (d,).
    factor
        Inverse Cholesky factor of its scale matrix, shape (d, d).
    square
        Squared Mahalanobis length of each instance, from the mean and by the scale matrix without it, shape (n,);
        infinite for the only one.
    log_determinant
        Of the scale matrix without it, shape (n,).
    """

    mean: np.ndarray
    factor: np.ndarray
    square: np.ndarray
    log_determinant: np.ndarray


def outline(members: np.ndarray) -> Outline:
    """Take the outline of a class from its whitened rows without categories, shape (n, d).

    The scale matrix is ``S = A / (n + d + 1)`` with ``A = scatter + (d + 1) I``. Instance i counts ``c_i`` (1, unless
    it is far), all together C. Without it the mean is ``m - c_i u / (C - c_i)``, ``u = x_i - m``, and A becomes
    ``A - c_i C / (C - c_i) u u'``: a change of rank one, whose determinant and inverse follow from ``u' A^-1 u``.
    The counts of the other instances stay as they are: exact where nothing is far, an approximation where something
    is.
    """
    n, d = members.shape

    def covariance(scatter: np.ndarray) -> np.ndarray:
        return np.asarray((scatter + (d + 1) * np.eye(d)) / (n + d + 1))

    means, scatter, counts = bounded_scatter(members, np.zeros(n, np.int64), covariance)
    factor = solve_triangular(np.linalg.cholesky(covariance(scatter)), np.eye(d), lower=True)
    factor = np.ascontiguousarray(factor)
    if n == 1:
        return Outline(means[0], factor, np.full(1, np.inf), np.zeros(1))
    form = (((members - means[0]) @ factor.T) ** 2).sum(axis=1) / (n + d + 1)
    away = counts.sum() / (counts.sum() - counts)  # (x_i - mean without it) is so many times u
    ratio = np.maximum(1.0 - counts * away * form, np.finfo(float).eps)
    log_determinant = -2.0 * np.log(np.diag(factor)).sum() + d * np.log((n + d + 1) / (n + d)) + np.log(ratio)
    return Outline(means[0], factor, away**2 * (n + d) * form / ratio, log_determinant)


def fit_broad(
    rows: np.ndarray, group: np.ndarray, kept: np.ndarray, log_own: np.ndarray, alpha: float, prior: Prior
) -> tuple[tuple[Location, ...], np.ndarray]:
    """Fit the broad terms: the outlines of the classes, and the degrees of freedom, one number for all.

    Parameters
    ----------
    rows
        Whitened rows of the training instances, shape (n, C + d).
    group
        Class of each, 0 to J - 1, shape (n,).
    kept
        Whether each sits in a kept subclass, shape (n,).
    log_own
        Log density of each under the kept subclasses of its class, left out of them, shape (n,).
    alpha
        Concentration of the classes' restaurants.
    prior
        Base measure: says what the broad terms compete with.

    Returns
    -------
    A Student-t for each class, and the log density of each instance under its class, left out of subclasses and broad
    term, shape (n,): minus infinity for the only instance of a class.
    """
    columns = len(prior.first)
    d = rows.shape[1] - columns
    least = (prior.nu - d + 1.0) * (d if prior.covariance == DIAGONAL else 1)  # of the conjugate predictive
    outlines = [outline(rows[group == j, columns:]) for j in range(int(group.max()) + 1)]
    size, held = np.bincount(group), np.bincount(group, kept)
    missing = (size - held)[group] - ~kept + alpha  # of the other instances
    log_weight = np.log(missing / (size[group] - 1.0 + alpha))
    values = [_values(rows[group == j], prior) for j in range(len(outlines))]
    best, freedom, log_density = -np.inf, least + FREEDOM_ABOVE[-1], log_own
    for tried in least + FREEDOM_ABOVE:
        broad = np.empty(len(rows))
        for j, whole in enumerate(outlines):
            broad[group == j] = log_t(whole.square, whole.log_determinant, d, tried) + values[j].left_out
        left_out = np.logaddexp(log_own, log_weight + broad)
        score = left_out[np.isfinite(left_out)].sum()
        if score > best:
            best, freedom, log_density = score, float(tried), left_out
    shapes = zip(outlines, values, strict=True)
    return tuple(Location(freedom, whole.mean, whole.factor, own.log) for whole, own in shapes), log_density


class _Values(NamedTuple):
    """Log probability of each place in a class as a whole, shape (V,), and of its rows' values without each, (n,)."""

    log: np.ndarray
    left_out: np.ndarray


def _values(rows: np.ndarray, prior: Prior) -> _Values:
    """State the categories of a class of whitened rows, shape (n, C + d), as one Dirichlet-multinomial."""
    counts = categories.counts_of(rows, prior)
    return _Values(log_values(rows, prior), categories.log_without_each(counts, rows, prior))


def log_values(rows: np.ndarray, prior: Prior) -> np.ndarray:
    """Log probability of each place in a class of whitened rows as a whole, shape (V,)."""
    return np.asarray(categories.log_table(categories.counts_of(rows, prior)[None], prior)[0])


def log_missing(log_weight: np.ndarray) -> np.ndarray:
    """Log of the mass that the kept subclasses leave in each class, from their log weights, (J, K); shape (J,)."""
    return np.asarray(np.log1p(-np.exp(log_weight).sum(axis=1)))


def add_broad(
    log_density: np.ndarray, broad: tuple[Location | None, ...], log_weight: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Add the broad terms to log class densities of shape (n, J).

    Parameters
    ----------
    log_density
        Under the kept subclasses, shape (n, J).
    broad
        Shapes of the terms, J or fewer; ``None``: the class has none.
    log_weight
        Log weights of the kept subclasses, shape (J, K): the broad term takes what they leave.
    rows
        Homogeneous rows, shape (n, d + 1).
    """
    out = log_density.copy()
    for j, (shape, missing) in enumerate(zip(broad, log_missing(log_weight), strict=False)):
        if shape is not None:
            out[:, j] = np.logaddexp(out[:, j], missing + log_student_t(rows, shape))
    return out
