"""Instances that resemble nothing: how dense they would be, so that a candidate can be held against them.

Noise has no shape of its own. What it has is room: the range of the training data, about. So a candidate is a class
only if its instances are more probable as one subclass than as instances that came from anywhere in that range, each
by itself. The density of these is that of a Gaussian with the moments of a uniform one over the range, which is exact
where many raw features make few coordinates; how wide it is, the candidate's own instances say.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model import categories
from stream_osr.model.dishes import Dishes
from stream_osr.model.gaussian.full import dot
from stream_osr.model.jit import kernel
from stream_osr.model.location import Location
from stream_osr.model.marginal import log_marginal
from stream_osr.model.powers import bend
from stream_osr.model.prior import DIAGONAL, FULL, TIED, Prior
from stream_osr.model.space import Space

NARROWEST = 0.25
"""Variance of the background at least, in those of a uniform density over the range: noise may fill half of it."""
OWN_WIDTH = 1e-2
"""Variance of each whitened coordinate that is added: where training has no range the background has one."""


class Background(NamedTuple):
    """Where instances that resemble nothing come from, as training has it.

    Attributes
    ----------
    mean
        Middle of the range of the training data, whitened, shape (d,).
    covariance
        That of a uniform density over the range, whitened, shape (d, d).
    """

    mean: np.ndarray
    covariance: np.ndarray


def fit_background(X: np.ndarray, space: Space) -> Background:
    """Take the range of training rows, NaN = missing, shape (n, p); categories have none.

    Examples
    --------
    >>> from stream_osr.model.space import fit_space
    >>> X = np.random.default_rng(0).uniform([0, 0], [6, 60], size=(500, 2))
    >>> background = fit_background(X, fit_space(X, np.arange(500) % 2))
    >>> bool(np.allclose(background.covariance, np.eye(2), atol=0.2))
    True
    """
    bent = bend(space.powers, X)
    filled = np.where(np.isnan(bent), space.fill, bent)
    low, high = filled.min(axis=0), filled.max(axis=0)
    spread = (high - low)[:, None] * space.forward / math.sqrt(12.0)
    covariance = spread.T @ spread + OWN_WIDTH * np.eye(space.forward.shape[1])
    return Background((0.5 * (low + high) - space.center) @ space.forward, covariance)


class Noise(NamedTuple):
    """The Gaussian of the background, as densities are computed from it.

    Attributes
    ----------
    mean, covariance
        Of a :class:`Background`.
    form
        Quadratic form of homogeneous rows: squared Mahalanobis distances, shape (d + 1, d + 1).
    log_det
        Log-determinant of the covariance.
    """

    mean: np.ndarray
    covariance: np.ndarray
    form: np.ndarray
    log_det: float


def noise_of(background: Background) -> Noise:
    """Derive the densities of instances that resemble nothing, once."""
    mean, covariance = background
    shifted = np.hstack([np.eye(len(mean)), -mean[:, None]])
    form = shifted.T @ np.linalg.solve(covariance, shifted)
    return Noise(mean, covariance, form, float(np.linalg.slogdet(covariance)[1]))


@kernel
def log_density(square: float, n: int, d: int, log_det: float, narrowest: float) -> float:
    """Log density of a group of rows under a Gaussian that is as many times wider as suits the group best.

    Parameters
    ----------
    square
        Sum of the squared distances of its rows.
    n, d
        Rows, and dimensions.
    log_det
        Log-determinant of the covariance.
    narrowest
        It is taken at least so many times.

    Examples
    --------
    A row at distance 2 of a Gaussian in one dimension: it is taken four times as wide.

    >>> round(log_density(4.0, 1, 1, 0.0, 1.0), 3)
    -2.112
    """
    if d == 0:
        return 0.0
    wider = max(square / (n * d), narrowest)
    return -0.5 * (n * (d * math.log(2.0 * math.pi * wider) + log_det) + square / wider)


@kernel
def gain(dishes: Dishes, k: int, noise: Noise, prior: Prior, location: Location) -> float:
    """Log likelihood that the instances of a subclass gain as one over instances of the background, each by itself.

    Of these the categories are independent, each as frequent as in the base measure.

    Parameters
    ----------
    dishes, k
        The subclass; with full or diagonal covariances.
    noise
        What instances that resemble nothing look like.
    prior, location
        Base measure, and where it places new subclasses.
    """
    n, matrix, log_det = dishes.size[k], dishes.matrix[k], dishes.log_det[k]
    d, square, beyond = prior.n_features, 0.0, noise.log_det
    if prior.covariance == DIAGONAL:
        beyond = 0.0
        for a in range(d):
            mean, variance = noise.mean[a], noise.covariance[a, a]
            square += (matrix[1, a] - prior.psi - 2.0 * mean * matrix[0, a] + n * mean**2) / variance
            beyond += math.log(variance)
    else:
        square -= prior.beta * noise.form[d, d]
        for a in range(d + 1):
            square += dot(noise.form[a], matrix[a]) - (prior.psi * noise.form[a, a] if a < d else 0.0)
    together = log_marginal(n, matrix, log_det, prior, location)
    if prior.first.shape[0] > 0:
        together += categories.log_marginal(dishes.counts[k], prior)
        together -= categories.log_apart(dishes.counts[k], prior)
    return together - log_density(square, n, d, beyond, NARROWEST)


def is_broad(dishes: Dishes, prior: Prior, noise: Noise) -> np.ndarray:
    """Say which subclasses are wider than halfway from a known class to the background, by volume, shape (K,)."""
    if prior.covariance == TIED or noise.log_det <= 0.0:
        return np.zeros(len(dishes.size), bool)
    d = prior.n_features
    volume = dishes.log_det - d * np.log(np.maximum(prior.nu + dishes.size - d - 1.0, 1.0))
    if prior.covariance == FULL:
        volume -= np.log(prior.beta + dishes.size)
    return np.asarray(volume > 0.5 * noise.log_det)
