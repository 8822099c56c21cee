"""Where subclasses lie: means, mean covariances, and the rows that are most typical of them."""

from __future__ import annotations

import numpy as np

from stream_osr.model.dishes import Dishes
from stream_osr.model.jit import kernel
from stream_osr.model.prior import DIAGONAL, FULL, Prior


def typical_rows(dishes: Dishes, prior: Prior) -> np.ndarray:
    """Posterior mean of each subclass, with the commonest value of each category before it, shape (K, C + d)."""
    means = means_and_scales(dishes, prior)[0]
    if not len(prior.first):
        return means
    shares = np.split(dishes.counts + prior.pseudo, prior.first[1:], axis=1)
    values = [1 + first + own[:, 1:].argmax(axis=1) for first, own in zip(prior.first, shares, strict=True)]
    return np.column_stack([*values, means])


@kernel
def means_and_scales(dishes: Dishes, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and posterior mean covariance of each subclass, shapes (K, d) and (K, d, d)."""
    count, d = dishes.size.shape[0], prior.n_features
    means = np.zeros((count, d))
    covariances = np.zeros((count, d, d))
    for k in range(count):
        r, df = prior.beta + dishes.size[k], max(prior.nu + dishes.size[k] - d - 1.0, 1.0)
        for a in range(d):
            if prior.covariance == FULL:
                means[k, a] = dishes.matrix[k, d, a] / r
            else:
                means[k, a] = dishes.inverse[k, 0, a]
                covariances[k, a, a] = dishes.inverse[k, 1, a] / df if prior.covariance == DIAGONAL else 1.0
        if prior.covariance == FULL:
            for a in range(d):
                for b in range(d):
                    covariances[k, a, b] = (dishes.matrix[k, a, b] - r * means[k, a] * means[k, b]) / df
    return means, covariances
