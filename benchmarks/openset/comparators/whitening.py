"""Linear maps that make distances comparable between directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf


def no_whitening(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Identity, of shape (n_features, n_features)."""
    return np.eye(X.shape[1])


def within_class_whitening(X: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Array W of shape (n_features, n_features): ``X @ W`` has about unit covariance within classes.

    The covariance within classes is shrunk (Ledoit and Wolf).

    Parameters
    ----------
    X, y
        Training instances, of shape (n, n_features), and their labels.
    """
    classes, number = np.unique(y, return_inverse=True)
    means = np.stack([X[y == label].mean(axis=0) for label in classes])
    covariance, _ = ledoit_wolf(X - means[number], assume_centered=True)
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt(np.maximum(values, max(1e-12 * values.max(), 1e-300)))
