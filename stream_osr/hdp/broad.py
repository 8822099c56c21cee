"""A broad term in each known density: where the class may still have a subclass that training has not shown.

The restaurant of class j gives a new subclass the mass ``alpha0 / (n_j + alpha0)``. In the frozen density
``F_j(x) = sum_k n_jk / (n_j + alpha0) f_k(x)`` that mass is missing; the broad term puts it where the class lies as a
whole: a Student-t with the mean of the class and its scatter, shrunk to the pooled within-class covariance
(instances far outside it count as if they were nearer, `scatter.py`).

Its tails are lighter than those of the density of a new subclass, in every direction: what lies far from everything
is unknown. With tied covariances that density is Gaussian, and there are no broad terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stream_osr.hdp.location import Location, log_student_t
from stream_osr.hdp.prior import DIAGONAL, Prior
from stream_osr.hdp.scatter import bounded_scatter


class Broad(NamedTuple):
    """Broad terms of J classes: log weights (J,), and a Student-t each."""

    log_weight: np.ndarray
    shapes: tuple[Location, ...]


def fit_broad(rows: np.ndarray, group: np.ndarray, alpha: float, prior: Prior) -> Broad:
    """Fit the broad terms to whitened rows of shape (n, d); the prior says what they compete with."""
    d = rows.shape[1]
    least = (prior.nu - d + 1.0) * (d if prior.covariance == DIAGONAL else 1)  # of the conjugate predictive
    log_weight, shapes = [], []
    for j in range(int(group.max()) + 1):
        members = rows[group == j]
        n = len(members)

        def covariance(scatter: np.ndarray, n: int = n) -> np.ndarray:
            return np.asarray((scatter + (d + 1) * np.eye(d)) / (n + d + 1))

        mean, scatter, _ = bounded_scatter(members, np.zeros(n, np.int64), covariance)
        factor = solve_triangular(np.linalg.cholesky(covariance(scatter)), np.eye(d), lower=True)
        log_weight.append(np.log(alpha / (n + alpha)))
        shapes.append(Location(n + least, mean[0], np.ascontiguousarray(factor)))
    return Broad(np.array(log_weight), tuple(shapes))


def add_broad(log_density: np.ndarray, broad: Broad, rows: np.ndarray) -> np.ndarray:
    """Add the broad terms to log class densities of shape (n, J); classes that came later have none."""
    out = log_density.copy()
    for j, shape in enumerate(broad.shapes):
        out[:, j] = np.logaddexp(out[:, j], broad.log_weight[j] + log_student_t(rows, shape))
    return out
