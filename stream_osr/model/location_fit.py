"""Location of new subclasses: its Student-t density, learnt from the known classes.

The conjugate base measure ties the spread of the subclass means to their covariances. It is isotropic in whitened
coordinates, whatever directions the known classes lie in. The alternative here replaces only the density of a *new*
subclass at its first instance, by ``t_q(mu0, tau T)``. T is the total covariance.

Training chooses q and tau so that the other classes predict each known class. It mixes in a hundredth of the
conjugate density for the tails. The rest of the model stays the same, with a nearly flat ``beta``. The model is then
not normalised, so the correctness tests use the conjugate density.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from stream_osr.model.dish_statistics import dishes_with, log_predictives
from stream_osr.model.jit import Array
from stream_osr.model.prior import Prior
from stream_osr.model.student_t import CONJUGATE, Location, log_new_densities, log_t

FREEDOM = np.array([2.0, 3.0, 5.0, 8.0, 15.0, 50.0])
SPREAD = np.array([0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0])
LEAST_CLASSES = 3
FLAT_BETA = 0.003
"""Precision of the prior mean within subclasses when their location has a separate density."""
CLASSES_ASKED, INSTANCES_ASKED = 20, 50
"""Most known classes that are compared in pairs, and most instances of each class."""


def fit_location(rows: Array, group: Array) -> Location:
    """Fit the location density: the other classes predict each known class, and the best density is chosen.

    Parameters
    ----------
    rows
        Whitened rows without categories, shape (n, d): their within-class covariance is about the identity.
    group
        Class of each, shape (n,).

    Returns
    -------
    The location density. With fewer than three classes it is the conjugate one, because two classes do not predict
    each other.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(np.arange(8), 50)
    >>> centres = rng.normal(size=(8, 2)) * [9, 1]
    >>> location = fit_location(centres[group] + rng.normal(size=(400, 2)), group)
    >>> spread = np.linalg.inv(location.factor) ** 2
    >>> bool(spread[0].sum() > 10 * spread[1].sum())
    True
    """
    d = rows.shape[1]
    classes = np.unique(group)
    if len(classes) < LEAST_CLASSES or not d:
        return CONJUGATE
    score = np.zeros((len(FREEDOM), len(SPREAD)))
    for j in classes:
        mean, lower = _center_and_factor(rows[group != j], group[group != j])
        z = solve_triangular(lower, (rows[group == j] - mean).T, lower=True)
        square = np.einsum("an,an->n", z, z)
        log_determinant = 2.0 * np.log(np.diag(lower)).sum()
        for a, freedom in enumerate(FREEDOM):
            for b, spread in enumerate(SPREAD):
                fit = log_t(square / spread, log_determinant + d * math.log(spread), d, float(freedom))
                score[a, b] += fit.mean()
    at, by = np.unravel_index(score.argmax(), score.shape)
    mean, lower = _center_and_factor(rows, group)
    factor = solve_triangular(lower * math.sqrt(SPREAD[by]), np.eye(d), lower=True)
    return Location(float(FREEDOM[at]), mean, np.ascontiguousarray(factor))


def share_among_neighbours(rows: Array, group: Array, prior: Prior, location: Location) -> float:
    """Measure how many instances are likelier next to one of the same class than as the first of a new subclass.

    If the share is low, each instance of a new class would begin a separate subclass. In many dimensions a single
    instance predicts a second one with twice the variance. A location learnt from a few classes that lie close
    together, relative to the dimension, predicts it better than that.

    Parameters
    ----------
    rows
        Homogeneous rows, shape (n, C + d + 1), n >= 1.
    group
        Class of each, shape (n,).
    prior, location
        Base measure and location of the subclasses.

    Returns
    -------
    Share among sampled rows, evenly spaced, whose class has another instance. It is 1 if no class has two instances,
    or if new subclasses have no location density.

    Examples
    --------
    Three classes in two dimensions, and three in eighty that lie no farther apart:

    >>> from stream_osr.model.prior import homogeneous, make_prior
    >>> rng, group = np.random.default_rng(0), np.repeat(np.arange(3), 200)
    >>> for d in (2, 80):
    ...     rows = 4.0 * rng.normal(size=(3, 2))[group] @ np.eye(2, d) + rng.normal(size=(600, d))
    ...     prior = make_prior(d, nu=4.0 * d, scale=3.0, beta=FLAT_BETA)
    ...     share_among_neighbours(homogeneous(rows), group, prior, fit_location(rows, group)) > 0.9
    True
    False
    """
    together = alone = 0
    classes = np.unique(group) if location.freedom > 0.0 else np.empty(0, np.int64)
    for j in classes[:: max(1, -(-len(classes) // CLASSES_ASKED))]:
        of_class = np.flatnonzero(group == j)
        asked = rows[of_class[:: -(-len(of_class) // INSTANCES_ASKED)]]
        if len(asked) < 2:
            continue
        beside = log_predictives(asked, dishes_with(asked, np.arange(len(asked)), len(asked), prior), prior)
        np.fill_diagonal(beside, -np.inf)
        better = int((beside.max(axis=1) > log_new_densities(asked, prior, location)).sum())
        together, alone = together + better, alone + len(asked) - better
    return together / (together + alone) if together + alone else 1.0


def _center_and_factor(rows: Array, group: Array) -> tuple[Array, Array]:
    """Mean, and Cholesky factor of the total covariance: identity within classes, plus the spread between them."""
    mean = rows.mean(axis=0)
    covariance = np.eye(rows.shape[1])
    for j in np.unique(group):
        members = rows[group == j]
        away = members.mean(axis=0) - mean
        covariance += len(members) / len(rows) * np.outer(away, away)
    return mean, np.linalg.cholesky(covariance)
