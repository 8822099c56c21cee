"""What a practitioner would build instead: a forest for the class, a score for novelty, a quantile for a threshold.

Each recipe is ten lines of scikit-learn with its defaults. No unknown instance is used to choose anything.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from benchmarks.tabular import Part

NEIGHBOURS = 5
CROWD = 20
TREES = 200
BEYOND = 0.05
"""Share of the held-back training instances beyond the threshold; a fifth of them is held back."""

Score = Callable[[np.ndarray], np.ndarray]
"""The novelty of rows, shape (n,); more is stranger."""


def neighbours(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by the mean distance to the nearest training instances."""
    found = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X)
    return lambda rows: found.kneighbors(rows)[0].mean(axis=1)


def outliers(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by the local outlier factor."""
    found = LocalOutlierFactor(n_neighbors=CROWD, novelty=True).fit(X)
    return lambda rows: -found.score_samples(rows)


def isolation(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by an isolation forest."""
    found = IsolationForest(random_state=0).fit(X)
    return lambda rows: -found.score_samples(rows)


def distance(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by the Mahalanobis distance to the nearest class mean, the covariance within classes pooled."""
    classes, number = np.unique(y, return_inverse=True)
    means = np.stack([X[number == j].mean(axis=0) for j in range(len(classes))])
    precision = LedoitWolf().fit(X - means[number]).precision_
    return lambda rows: np.min([_squares(rows - mean, precision) for mean in means], axis=0)


def class_distance(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by each class's own covariance, with its log-determinant: the best class counts."""
    fitted = [LedoitWolf().fit(X[y == label]) for label in np.unique(y)]
    volumes = [np.linalg.slogdet(each.covariance_)[1] for each in fitted]
    return lambda rows: np.min(
        [
            _squares(rows - each.location_, each.precision_) + volume
            for each, volume in zip(fitted, volumes, strict=True)
        ],
        axis=0,
    )


def doubt(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by what is left of 1 by the forest's largest probability."""
    forest = RandomForestClassifier(TREES, random_state=0).fit(X, y)
    return lambda rows: 1.0 - forest.predict_proba(rows).max(axis=1)


def _squares(rows: np.ndarray, precision: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ia,ab,ib->i", rows, precision, rows))


RECIPES: dict[str, Callable[[np.ndarray, np.ndarray], Score]] = {
    "forest, nearest neighbours": neighbours,
    "forest, local outlier factor": outliers,
    "forest, isolation forest": isolation,
    "forest, pooled covariance": distance,
    "forest, covariance of each class": class_distance,
    "forest, its own doubt": doubt,
}


def follow(name: str, part: Part, seed: int, unknown: str) -> tuple[np.ndarray, np.ndarray]:
    """Decide a stream by a recipe: labels, and how novel each instance is, shape (n,) both."""
    mean, spread = part.X_train.mean(axis=0), part.X_train.std(axis=0)
    spread[spread == 0.0] = 1.0
    X, rows, y = (part.X_train - mean) / spread, (part.X_test - mean) / spread, part.y_train
    order = np.random.default_rng(seed).permutation(len(X))
    back, rest = np.split(order, [len(X) // 5])
    fit = RECIPES[name]
    threshold = np.quantile(fit(X[rest], y[rest])(X[back]), 1.0 - BEYOND)
    novelty = fit(X, y)(rows)
    labels = RandomForestClassifier(TREES, random_state=0).fit(X, y).predict(rows)
    return np.where(novelty > threshold, unknown, labels), novelty
