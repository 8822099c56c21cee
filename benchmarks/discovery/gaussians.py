"""Made-up classes, a Gaussian each: some known and trained on, the others new."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.deciding import train
from stream_osr.parameters import parameters
from stream_osr.training.trained import TrainedModel

DIMENSION = 8
APART = 2.5
"""Standard deviation of the classes' centres; that of a class within is about 1."""
KNOWN = 5
TRAINING_ROWS = 200
"""Of each known class."""


class Gaussians(NamedTuple):
    """Classes 0, 1, 2, ..., the first ``KNOWN`` of them known.

    Attributes
    ----------
    trained
        The model, trained on the known ones.
    mean, lower
        Centre and lower Cholesky factor of the covariance of each class, shapes (K, d) and (K, d, d).
    """

    trained: TrainedModel
    mean: np.ndarray
    lower: np.ndarray

    def draw(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a row of each class asked for, shape (n, d)."""
        noise = rng.normal(size=(len(y), DIMENSION))
        return self.mean[y] + np.einsum("nab,nb->na", self.lower[y], noise)


def make(n_new: int, seed: int) -> Gaussians:
    """Make classes up and train on the known ones with the defaults."""
    rng = np.random.default_rng([seed, n_new])
    n = KNOWN + n_new
    mean = rng.normal(scale=APART, size=(n, DIMENSION))
    factor = rng.normal(size=(n, DIMENSION, 3 * DIMENSION))
    covariance = np.einsum("nab,ncb->nac", factor, factor) / (3 * DIMENSION)
    lower = np.linalg.cholesky(covariance)
    y = np.repeat(np.arange(KNOWN), TRAINING_ROWS)
    rows = mean[y] + np.einsum("nab,nb->na", lower[y], rng.normal(size=(len(y), DIMENSION)))
    return Gaussians(train(rows, y, parameters(seed=seed)), mean, lower)
