"""Noise: the alternative to a candidate class. It has no particular shape and fills the range of the training data.

A candidate is a class only if its instances are more probable as one subclass than as independent instances from that
range. Their density is that of a Gaussian with the moments of a uniform distribution over the range. This is exact if
many raw features form few coordinates. The candidate's own instances determine its width.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model import categories
from stream_osr.model.dish_statistics import Dishes
from stream_osr.model.feature_space.whitening import Whitening
from stream_osr.model.feature_space.yeo_johnson import bend
from stream_osr.model.gaussian import dot
from stream_osr.model.jit import Array, kernel
from stream_osr.model.marginal import log_marginal
from stream_osr.model.prior import Prior
from stream_osr.model.student_t import Location
from stream_osr.support import rules

NARROWEST = 0.25
"""Least variance of the noise, relative to a uniform density over the range: noise may fill half the range."""
OWN_WIDTH = 1e-2
"""Variance added to each whitened coordinate, so that noise has a width where training has no range."""


class Background(NamedTuple):
    """Distribution of instances that resemble no class, from training.

    Attributes
    ----------
    mean
        Middle of the range of the training data, whitened, shape (d,).
    covariance
        Covariance of a uniform density over the range, whitened, shape (d, d).
    """

    mean: Annotated[Array, rules.array("f", "d")]
    covariance: Annotated[Array, rules.array("f", "d", "d")]


def fit_noise_range(X: Array, whitening: Whitening) -> Background:
    """Compute the range of training rows, NaN = missing, shape (n, p). Categories have no range.

    Examples
    --------
    >>> from stream_osr.model.feature_space.whitening import fit_whitening
    >>> X = np.random.default_rng(0).uniform([0, 0], [6, 60], size=(500, 2))
    >>> background = fit_noise_range(X, fit_whitening(X, np.arange(500) % 2))
    >>> bool(np.allclose(background.covariance, np.eye(2), atol=0.2))
    True
    """
    bent = bend(whitening.yeo_johnson, X)
    filled = np.where(np.isnan(bent), whitening.fill, bent)
    low, high = filled.min(axis=0), filled.max(axis=0)
    spread = (high - low)[:, None] * whitening.forward / math.sqrt(12.0)
    covariance = spread.T @ spread + OWN_WIDTH * np.eye(whitening.forward.shape[1])
    return Background((0.5 * (low + high) - whitening.center) @ whitening.forward, covariance)


class NoiseModel(NamedTuple):
    """Gaussian noise, in the form for computing densities.

    Attributes
    ----------
    form
        Quadratic form of homogeneous rows: squared Mahalanobis distances, shape (d + 1, d + 1).
    log_det
        Log-determinant of the covariance.
    """

    form: Array
    log_det: float


def noise_model_of(noise_range: Background) -> NoiseModel:
    """Derive the noise density from its range, once."""
    mean, covariance = noise_range
    shifted = np.hstack([np.eye(len(mean)), -mean[:, None]])
    form = shifted.T @ np.linalg.solve(covariance, shifted)
    return NoiseModel(form, float(np.linalg.slogdet(covariance)[1]))


@kernel
def log_density(square: float, n: int, d: int, log_det: float, narrowest: float) -> float:
    """Log density of a group of rows under a Gaussian scaled to the width that suits the group best.

    Parameters
    ----------
    square
        Sum of the squared distances of the rows.
    n, d
        Number of rows, and of dimensions.
    log_det
        Log-determinant of the covariance.
    narrowest
        Least scale factor of the covariance.

    Examples
    --------
    A row at distance 2 of a Gaussian in one dimension, whose variance is scaled by 4:

    >>> round(log_density(4.0, 1, 1, 0.0, 1.0), 3)
    -2.112
    """
    if d == 0:
        return 0.0
    wider = max(square / (n * d), narrowest)
    return -0.5 * (n * (d * math.log(2.0 * math.pi * wider) + log_det) + square / wider)


@kernel
def gain(dishes: Dishes, k: int, noise: NoiseModel, prior: Prior, location: Location) -> float:
    """Log likelihood gain of the instances of a subclass as one, compared with independent noise.

    In noise the categories are independent, each with the frequencies of the base measure.

    Parameters
    ----------
    dishes, k
        The subclass.
    noise
        Noise model.
    prior, location
        Base measure, and the location of new subclasses.
    """
    n, matrix, log_det = dishes.size[k], dishes.matrix[k], dishes.log_det[k]
    d, square, beyond = prior.n_features, 0.0, noise.log_det
    square -= prior.beta * noise.form[d, d]
    for a in range(d + 1):
        square += dot(noise.form[a], matrix[a])
        square -= prior.psi * prior.spread[a] * noise.form[a, a] if a < d else 0.0
    together = log_marginal(n, matrix, log_det, prior, location)
    if prior.first.shape[0] > 0:
        together += categories.log_marginal(dishes.counts[k], prior)
        together -= categories.log_apart(dishes.counts[k], prior)
    return together - log_density(square, n, d, beyond, NARROWEST)


def is_broad(dishes: Dishes, prior: Prior, noise: NoiseModel) -> Array:
    """Find the subclasses wider than halfway from a known class to the noise, by volume, shape (K,)."""
    if noise.log_det <= 0.0:
        return np.zeros(len(dishes.size), bool)
    d = prior.n_features
    volume = dishes.log_det - d * np.log(np.maximum(prior.nu + dishes.size - d - 1.0, 1.0))
    volume -= np.log(prior.beta + dishes.size)
    return np.asarray(volume > 0.5 * noise.log_det)
