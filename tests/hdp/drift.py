"""How far rank-one updates carry the statistics of one subclass away from the truth.

Rows come and go through a window, as guests of a dish do. ``python -m tests.hdp.drift`` prints the errors with and
without the scheduled inversions (`REFRESH_EVERY`).
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numba
import numpy as np

from stream_osr.hdp import gaussian_full as full
from stream_osr.hdp.dishes import REFRESH_EVERY, Dishes, add, empty_dishes, log_constant, log_predictive, remove
from stream_osr.hdp.prior import FULL, Prior, homogeneous
from tests.hdp.problems import COVARIANCES, make_base

WINDOW = 50


@numba.njit
def churn(rows: np.ndarray, ring: np.ndarray, start: int, dishes: Dishes, prior: Prior, scheduled: bool) -> None:
    """Let rows into slot 0 one by one; each leaves when ``ring`` is full and comes round to its place."""
    window = ring.shape[0]
    v = np.empty(rows.shape[1])
    for i in range(rows.shape[0]):
        place = (start + i) % window
        if start + i >= window:
            if scheduled:
                remove(dishes, 0, ring[place], prior)
            else:
                dishes.log_det[0] = full.remove(
                    dishes.matrix[0], dishes.inverse[0], dishes.log_det[0], ring[place], v
                )
        ring[place] = rows[i]
        if scheduled:
            add(dishes, 0, rows[i], prior)
        else:
            dishes.log_det[0] = full.add(dishes.matrix[0], dishes.inverse[0], dishes.log_det[0], rows[i], v)


class Drift(NamedTuple):
    """Largest errors met on the way: relative for the inverse, absolute for the rest."""

    inverse: float
    log_det: float
    log_predictive: float


def measure(
    covariance: str,
    far: float,
    every: int,
    *,
    scheduled: bool,
    updates: int = 1_000_000,
    d: int = 4,
    psi: float = 0.05,
    looks: int = 20,
) -> Drift:
    """Errors against statistics recomputed from the rows themselves, looked at again and again on the way.

    Every ``every``-th row lies ``far`` from the prior mean, in standard deviations of the others.
    """
    rng = np.random.default_rng(3)
    prior, base = make_base(covariance, d, nu=d + 2.0, psi=psi, beta=0.5)
    points = homogeneous(rng.normal(scale=3.0, size=(20, d)))
    dishes = empty_dishes(1, prior)
    ring = np.zeros((WINDOW, d + 1))
    done = 0
    worst = np.zeros(3)
    for _ in range(looks):
        # an odd number of updates, so that looks fall anywhere between two inversions
        rows = homogeneous(rng.normal(size=(updates // 2 // looks - 7, d)))
        if far:
            away = rows[::every, :d]
            away *= far / np.linalg.norm(away, axis=1)[:, None]
        churn(rows, ring, done, dishes, prior, scheduled)
        done += len(rows)
        if not scheduled:
            dishes.size[0] = WINDOW
            dishes.constant[0] = log_constant(WINDOW, prior), log_constant(WINDOW - 1, prior)
        errors = np.zeros(3)
        if prior.covariance == FULL:
            truth = np.diag([prior.psi] * d + [prior.beta]) + ring.T @ ring
            inverse = np.linalg.inv(truth)
            errors[0] = np.abs(dishes.inverse[0] - inverse).max() / np.abs(inverse).max()
            errors[1] = abs(dishes.log_det[0] - np.linalg.slogdet(truth)[1])
        errors[2] = max(
            abs(log_predictive(dishes, 0, point, prior) - base.log_predictive(point[:-1], ring[:, :-1]))
            for point in points
        )
        worst = np.maximum(worst, errors)
    return Drift(*worst.tolist())


def main() -> None:
    out = sys.stdout.write
    out(f"errors after 10^6 updates, {WINDOW} rows at a time, inversion every {REFRESH_EVERY} updates\n")
    out(f"{'covariance':<12}{'far rows':<20}{'scheduled':<11}{'inverse':>10}{'log|M|':>10}{'log density':>13}\n")
    for covariance in COVARIANCES:
        for far, every in ((0, 1), (100, 1000), (1000, 1000), (10_000, 1000)):
            for scheduled in (True, False) if covariance == "full" else (True,):
                drift = measure(covariance, far, every, scheduled=scheduled)
                which = f"1 in {every} at {far}" if far else "none"
                out(f"{covariance:<12}{which:<20}{scheduled!s:<11}")
                out(f"{drift.inverse:>10.0e}{drift.log_det:>10.0e}{drift.log_predictive:>13.0e}\n")


if __name__ == "__main__":
    main()
