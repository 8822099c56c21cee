"""How far rank-one updates carry the statistics of a subclass from the truth: python -m benchmarks.drift.

Rows come and go through a window, as guests of a dish do, so that the subclass is never empty and nothing resets it.
Errors are the largest that are met on the way, against statistics made afresh of the rows that are there, with the
scheduled inversions (`REFRESH_EVERY`) and without.
"""

from __future__ import annotations

import time
from typing import Annotated

import numba
import numpy as np
import typer

from benchmarks.written import table
from stream_osr.model import gaussian
from stream_osr.model.dish_statistics import (
    REFRESH_EVERY,
    Dishes,
    add,
    empty_dishes,
    log_constant,
    log_predictives,
    refill,
    remove,
)
from stream_osr.model.prior import Prior, homogeneous, make_prior

WINDOW = 50
FAR = (0.0, 100.0, 1000.0, 10_000.0)
"""Standard deviations at which one row in a thousand lies."""


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
                dishes.log_det[0] = gaussian.remove(
                    dishes.matrix[0], dishes.inverse[0], dishes.log_det[0], ring[place], v
                )
        ring[place] = rows[i]
        if scheduled:
            add(dishes, 0, rows[i], prior)
        else:
            dishes.log_det[0] = gaussian.add(dishes.matrix[0], dishes.inverse[0], dishes.log_det[0], rows[i], v)


def afresh(ring: np.ndarray, prior: Prior) -> Dishes:
    """State the subclass anew from the rows that are in it; it is inverted at the end."""
    dishes = empty_dishes(1, prior)
    refill(dishes, np.zeros(len(ring), np.int64), ring, prior)
    dishes.inverse[0] = np.linalg.inv(dishes.matrix[0])
    dishes.log_det[0] = np.linalg.slogdet(dishes.matrix[0])[1]
    return dishes


def measure(
    far: float,
    *,
    scheduled: bool,
    updates: int = 1_000_000,
    d: int = 4,
    every: int = 1000,
    psi: float = 0.05,
    looks: int = 20,
) -> list[float]:
    """Errors against statistics made afresh, looked at again and again: the largest of each.

    That of the inverse is relative, those of log determinant and log predictive are absolute.

    Every ``every``-th row lies ``far`` from the prior mean, in standard deviations of the others.
    """
    rng = np.random.default_rng(3)
    nu = d + 2.0
    prior = make_prior(d, nu, psi / nu, 0.5)
    points = homogeneous(rng.normal(scale=3.0, size=(20, d)))
    dishes = empty_dishes(1, prior)
    ring = np.zeros((WINDOW, d + 1))
    done = 0
    worst = np.zeros(3)
    for _ in range(looks):
        # not a multiple of the schedule, so that looks fall anywhere between two inversions
        rows = homogeneous(rng.normal(size=(updates // 2 // looks - 7, d)))
        if far:
            away = rows[::every, :d]
            away *= far / np.linalg.norm(away, axis=1)[:, None]
        churn(rows, ring, done, dishes, prior, scheduled)
        done += len(rows)
        if not scheduled:
            dishes.size[0] = WINDOW
            dishes.constant[0] = log_constant(WINDOW, prior), log_constant(WINDOW - 1, prior)
        truth = afresh(ring, prior)
        found = (
            np.abs(dishes.inverse[0] - truth.inverse[0]).max() / np.abs(truth.inverse[0]).max(),
            abs(dishes.log_det[0] - truth.log_det[0]),
            np.abs(log_predictives(points, dishes, prior) - log_predictives(points, truth, prior)).max(),
        )
        worst = np.maximum(worst, found)
    return worst.tolist()


def main(
    updates: Annotated[int, typer.Option(help="Rows that come, and rows that go.")] = 10_000_000,
    dimensions: Annotated[int, typer.Option(help="Of the rows.")] = 16,
) -> None:
    """Print the errors."""
    rows = []
    for far in FAR:
        for scheduled in (True, False):
            begin = time.perf_counter()
            errors = measure(far, scheduled=scheduled, updates=updates, d=dimensions)
            took = f"{time.perf_counter() - begin:.0f}"
            rows.append([f"{far:.0f}" if far else "", scheduled, *(f"{error:.0e}" for error in errors), took])
    print(f"{updates} updates, {WINDOW} rows at a time, inversion every {REFRESH_EVERY}\n")
    print(table(["1 in 1000 at", "scheduled", "inverse", "log|M|", "log density", "seconds"], rows))


if __name__ == "__main__":
    typer.run(main)
