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

from stream_osr.model.dishes import Dishes
from stream_osr.model.known import Known
from stream_osr.model.marginal import Statistics, log_marginals, of_nobody
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
    """Take the range of training rows, NaN = missing, shape (n, p).

    Examples
    --------
    >>> from stream_osr.model.space import fit_space
    >>> X = np.random.default_rng(0).uniform([0, 0], [6, 60], size=(500, 2))
    >>> background = fit_background(X, fit_space(X, np.arange(500) % 2))
    >>> bool(np.allclose(background.covariance, np.eye(2), atol=0.2))
    True
    """
    filled = np.where(np.isnan(X), space.fill, X)
    low, high = filled.min(axis=0), filled.max(axis=0)
    spread = (high - low)[:, None] * space.forward / math.sqrt(12.0)
    covariance = spread.T @ spread + OWN_WIDTH * np.eye(space.forward.shape[1])
    return Background((0.5 * (low + high) - space.center) @ space.forward, covariance)


def squares(rows: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Squared Mahalanobis distances of whitened rows, (n, d), from a Gaussian; shape (n,)."""
    centred = rows - mean
    return np.asarray((centred * np.linalg.solve(covariance, centred.T).T).sum(axis=1))


def log_density(square: np.ndarray, n: int, covariance: np.ndarray, narrowest: float) -> np.ndarray:
    """Log density of groups of rows under a Gaussian that is as many times wider as suits each group best.

    Parameters
    ----------
    square
        Sum of the squared distances of the rows of each group, shape (g,).
    n
        Rows of each.
    covariance
        Of the Gaussian, shape (d, d).
    narrowest
        It is taken at least so many times.

    Examples
    --------
    A row at distance 2 of a Gaussian in one dimension: it is taken four times as wide.

    >>> float(log_density(np.array([4.0]), 1, np.eye(1), 1.0)[0].round(3))
    -2.112
    """
    d = len(covariance)
    wider = np.maximum(square / (n * d), narrowest)
    log_det = float(np.linalg.slogdet(covariance)[1]) + d * np.log(wider)
    return np.asarray(-0.5 * (n * (d * math.log(2.0 * math.pi) + log_det) + square / wider))


def gain(one: Statistics, background: Background, known: Known) -> float:
    """Log likelihood that the instances of a subclass gain as one over instances of the background, each by itself.

    Parameters
    ----------
    one
        What sums them up; with full or diagonal covariances.
    background
        What instances that resemble nothing look like.
    known
        Known classes, whose base measure it is.
    """
    d, n, mean = known.prior.n_features, int(one.size[0]), background.mean
    products = one.matrix[0] - of_nobody(known.prior)
    together = float(log_marginals(one, known.prior, known.location)[0])
    if known.prior.covariance == DIAGONAL:
        scatter = np.diag(products[1] - 2.0 * mean * products[0] + n * mean**2)
        covariance = np.diag(np.diag(background.covariance))
    else:
        covariance, crossed = background.covariance, np.outer(products[d, :d], mean)
        scatter = products[:d, :d] - crossed - crossed.T + n * np.outer(mean, mean)
    square = np.trace(np.linalg.solve(covariance, scatter))
    return together - float(log_density(square, n, covariance, NARROWEST))


def is_broad(dishes: Dishes, prior: Prior, background: Background) -> np.ndarray:
    """Say which subclasses are wider than halfway from a known class to the background, by volume, shape (K,)."""
    if prior.covariance == TIED:
        return np.zeros(len(dishes.size), bool)
    d = prior.n_features
    volume = dishes.log_det - d * np.log(np.maximum(prior.nu + dishes.size - d - 1.0, 1.0))
    if prior.covariance == FULL:
        volume -= np.log(prior.beta + dishes.size)
    widest = float(np.linalg.slogdet(background.covariance)[1])
    return np.asarray(volume > 0.5 * widest) & (widest > 0.0)
