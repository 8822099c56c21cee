"""Known classes as mixtures of Gaussians, to draw streams of known instances from that are as long as wanted.

A mixture is fitted to the training rows of each class, in the coordinates that the model whitens them to (principal
components included, where there are any), and what is drawn is mapped back to features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.mixture import GaussianMixture

from benchmarks.discovery.streams import Problem
from stream_osr.hdp.space import Space, unwhiten, whiten

MOST = 5
"""Components of a class, at most."""
ROWS_FOR_EACH = 4
"""Rows of a class for each component and dimension, at least (a class always has one component)."""
REGULAR = 1e-3
"""Added to the variances while components are found; pooled within-class variances are 1."""


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

    space: Space
    label: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    lower: np.ndarray


def members(rows: np.ndarray, seed: int) -> list[np.ndarray]:
    """Divide the rows of a class, shape (n, d), into the components that BIC prefers."""
    n, d = rows.shape
    most = max(1, min(MOST, n // (ROWS_FOR_EACH * d)))
    fits = [
        GaussianMixture(k, reg_covar=REGULAR, max_iter=500, random_state=seed).fit(rows) for k in range(1, most + 1)
    ]
    component = min(fits, key=lambda fit: fit.bic(rows)).predict(rows)
    return [rows[component == k] for k in np.unique(component)]


def fit(given: Problem) -> Mixture:
    """Fit a mixture to each known class; covariances are those of Ledoit and Wolf, so that few rows suffice."""
    rows = whiten(given.trained.space, given.X_train)
    label, weight, mean, lower = [], [], [], []
    for one in given.trained.labels:
        for part in members(rows[given.y_train == one], given.seed):
            label.append(one)
            weight.append(len(part) / len(rows))
            mean.append(part.mean(axis=0))
            lower.append(np.linalg.cholesky(LedoitWolf().fit(part).covariance_))
    return Mixture(given.trained.space, np.array(label), np.array(weight), np.array(mean), np.array(lower))


def draw(mixture: Mixture, n: int, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    """Draw n rows in raw features, shape (n, p), and their classes."""
    component = rng.choice(len(mixture.weight), size=n, p=mixture.weight / mixture.weight.sum())
    z = rng.normal(size=(n, mixture.mean.shape[1]))
    for k in np.unique(component):
        at = component == k
        z[at] = mixture.mean[k] + z[at] @ mixture.lower[k].T
    return unwhiten(mixture.space, z), mixture.label[component]
