"""Known classes as mixtures of Gaussians, to draw streams of known instances from that are as long as wanted.

A mixture is fitted to the training rows of each class, in the coordinates that the model whitens them to (principal
components included, where there are any), and what is drawn is mapped back to features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.mixture import GaussianMixture

from benchmarks.discovery.streams import Problem, train
from stream_osr.model.feature_space.whitening import Whitening, unwhiten, whiten

COMPONENTS = (1, 2, 3, 5, 7, 10, 14)
"""Numbers of components that are tried."""
REGULAR = (1.0, 0.3, 0.1, 1e-2, 1e-3, 1e-4)
"""What is tried to be added to the variances of components; pooled within-class variances are 1."""
HELD_OUT = 0.2


class Mixture(NamedTuple):
    """K components over all classes.

    Attributes
    ----------
    space
        The whitened coordinates.
    label
        Class of each component, shape (K,).
    weight
        Share of the training rows, shape (K,).
    mean, lower
        Mean and lower Cholesky factor of the covariance, shapes (K, d) and (K, d, d).
    """

    space: Whitening
    label: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    lower: np.ndarray


def fit_class(rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit a mixture to the rows of a class, shape (n, d).

    Number of components (one, where there are few rows) and regularisation are those that make held-out rows most
    probable.

    Returns
    -------
    Weight, mean and covariance of each component, shapes (k,), (k, d) and (k, d, d).
    """
    n, d = rows.shape
    mixed = np.random.default_rng([seed, n]).permutation(rows)
    out, rest = np.split(mixed, [round(HELD_OUT * n)])
    tried = [(k, regular) for k in COMPONENTS if k == 1 or k <= len(rest) // d for regular in REGULAR]
    best = max(tried, key=lambda one: _mixture(*one, seed).fit(rest).score(out))
    fitted = _mixture(*best, seed).fit(rows)
    return fitted.weights_, fitted.means_, fitted.covariances_


def _mixture(k: int, regular: float, seed: int) -> GaussianMixture:
    return GaussianMixture(k, reg_covar=regular, max_iter=500, random_state=seed)


def fit(given: Problem) -> Mixture:
    """Fit a mixture to each known class; classes weigh as in the training part."""
    rows = whiten(given.trained.whitening, given.X_train)
    label, weight, mean, lower = [], [], [], []
    for one in given.trained.labels:
        own = rows[given.y_train == one]
        for share, centre, covariance in zip(*fit_class(own, given.seed), strict=True):
            label.append(one)
            weight.append(share * len(own) / len(rows))
            mean.append(centre)
            lower.append(np.linalg.cholesky(covariance))
    return Mixture(given.trained.whitening, np.array(label), np.array(weight), np.array(mean), np.array(lower))


def draw(mixture: Mixture, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a row of each class asked for, in raw features, shape (n, p)."""
    z = rng.normal(size=(len(y), mixture.mean.shape[1]))
    for label in np.unique(y):
        own = np.flatnonzero(mixture.label == label)
        at = np.flatnonzero(y == label)
        component = rng.choice(own, size=len(at), p=mixture.weight[own] / mixture.weight[own].sum())
        for k in own:
            inside = at[component == k]
            z[inside] = mixture.mean[k] + z[inside] @ mixture.lower[k].T
    return unwhiten(mixture.space, z)


def draw_known(mixture: Mixture, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw n rows of known classes, in the shares of the training part: rows of shape (n, p) and their classes."""
    y = rng.choice(mixture.label, size=n, p=mixture.weight / mixture.weight.sum())
    return draw(mixture, y, rng), y


def replace_known(given: Problem, mixture: Mixture, rng: np.random.Generator) -> Problem:
    """Put draws in place of all known rows, and train on those of the training part.

    Trained on the real rows, a recognizer would be right to find something new where a mixture does not fit them.
    """
    X_train = draw(mixture, given.y_train, rng)
    X = given.X.copy()
    X[given.of_known] = draw(mixture, given.y[given.of_known], rng)
    return given._replace(trained=train(given.dataset, X_train, given.y_train, given.seed), X_train=X_train, X=X)
