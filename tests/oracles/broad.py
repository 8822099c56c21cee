"""Slow twin of :mod:`stream_osr.model.known`: an instance is left out by fitting the class again without it."""

from __future__ import annotations

import numpy as np
import scipy


def mean_and_scale(members: np.ndarray, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean of rows (n, d), each counted so often, and ``(scatter + (d + 1) I) / (n + d + 1)``."""
    n, d = members.shape
    counts = np.ones(n) if counts is None else counts
    mean = np.average(members, axis=0, weights=counts)
    scatter = sum(c * np.outer(row - mean, row - mean) for c, row in zip(counts, members, strict=True))
    return mean, (scatter + (d + 1) * np.eye(d)) / (n + d + 1)


def log_density(x: np.ndarray, members: np.ndarray, freedom: float, counts: np.ndarray | None = None) -> float:
    """Log density of x under the Student-t of a class."""
    mean, scale = mean_and_scale(members, counts)
    return float(scipy.stats.multivariate_t.logpdf(x, loc=mean, shape=scale, df=freedom))


def log_left_out(members: np.ndarray, freedom: float, counts: np.ndarray | None = None) -> np.ndarray:
    """Log density of each member of a class under the others."""
    counts = np.ones(len(members)) if counts is None else counts
    if len(members) == 1:
        return np.array([-np.inf])
    return np.array(
        [
            log_density(members[i], np.delete(members, i, axis=0), freedom, np.delete(counts, i))
            for i in range(len(members))
        ]
    )
