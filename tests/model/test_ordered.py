"""Known classes predict in order of arrival: the filter, what moves it, and what does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from stream_osr.model import autocorrelation, dependence
from stream_osr.model.known import densities, log_densities
from stream_osr.model.prior import homogeneous
from tests.model.test_known import make_known

N, CLASSES, D = 200, 3, 2
ALL_CLASSES = np.full(CLASSES, -np.inf)


@pytest.fixture
def process() -> dependence.Process:
    turn = 0.3
    axes = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    return dependence.Process(axes, np.array([0.7, 0.2]), np.array([0.95, 0.8]), np.array([0.3, 0.8]))


@pytest.fixture
def residuals() -> autocorrelation.Residuals:
    rng = np.random.default_rng(1)
    whitener = np.stack([np.eye(D) + 0.2 * (half + half.T) for half in rng.normal(size=(CLASSES, D, D))])
    return autocorrelation.Residuals(4.0 * rng.normal(size=(CLASSES, D)), whitener, np.linalg.slogdet(whitener)[1])


def came(residuals: autocorrelation.Residuals, seed: int = 2) -> dependence.Came:
    """Instances of the classes and some of none, densities and categories of their own, some incomplete."""
    rng = np.random.default_rng(seed)
    rows = residuals.mean[rng.integers(CLASSES, size=N)] + rng.normal(scale=1.5, size=(N, D))
    log_density = np.stack(
        [scipy.stats.norm.logpdf(rows, mean, 1.5).sum(axis=1) for mean in residuals.mean], axis=1
    ) + rng.normal(size=(N, CLASSES))
    return dependence.Came(rows, -rng.random((N, CLASSES)), log_density, np.full(N, -4.0), rng.random(N) < 0.9)


def slow_prediction(
    process: dependence.Process,
    residuals: autocorrelation.Residuals,
    tracked: dependence.TrackedLocations,
    given: dependence.Came,
    least: np.ndarray,
) -> tuple[np.ndarray, dependence.TrackedLocations, int]:
    """Filter each class and direction by itself; the gains, the states, and how many instances moved one."""
    mean, variance, gains, moved = tracked.mean.copy(), tracked.variance.copy(), [], 0
    for i in range(len(given.rows)):
        predicted = np.empty(CLASSES)
        for j in range(CLASSES):
            z = process.axes.T @ residuals.whitener[j] @ (given.rows[i] - residuals.mean[j])
            for a in range(D):
                phi, slow = process.step[a], process.slow[a]
                mean[j, a], variance[j, a] = phi * mean[j, a], phi**2 * variance[j, a] + slow * (1.0 - phi**2)
            density = scipy.stats.norm.logpdf(z, mean[j], np.sqrt(variance[j] + process.noise)).sum()
            predicted[j] = density + np.linalg.slogdet(residuals.whitener[j])[1] + given.category[i, j]
        frozen = given.log_density[i]
        together = np.log((1.0 - dependence.PREDICTED) * np.exp(frozen) + dependence.PREDICTED * np.exp(predicted))
        own = int(np.argmax(frozen))
        if not given.complete[i]:
            gains.append(0.0)
            continue
        gains.append(scipy.special.logsumexp(together) - scipy.special.logsumexp(frozen))
        if scipy.special.logsumexp(together) >= given.log_new[i] and frozen[own] >= least[own]:
            moved += 1
            z = process.axes.T @ residuals.whitener[own] @ (given.rows[i] - residuals.mean[own])
            for a in range(D):
                gain = variance[own, a] / (variance[own, a] + process.noise[a])
                mean[own, a] += gain * (z[a] - mean[own, a])
                variance[own, a] -= gain * variance[own, a]
    return np.array(gains), dependence.TrackedLocations(mean, variance), moved


def test_the_prediction_is_that_of_a_slow_filter(process, residuals):
    given, least = came(residuals), np.full(CLASSES, -4.5)
    begin = dependence.TrackedLocations(np.full((CLASSES, D), 0.2), np.full((CLASSES, D), 0.1))
    copy = dependence.TrackedLocations(begin.mean.copy(), begin.variance.copy())
    gain, tracked = dependence.predict_in_order(process, residuals, begin, given, least)
    expected, states, moved = slow_prediction(process, residuals, begin, given, least)
    assert 0.3 * N < moved < 0.9 * given.complete.sum()
    np.testing.assert_allclose(gain, expected, atol=1e-10)
    np.testing.assert_allclose(tracked.mean, states.mean, atol=1e-10)
    np.testing.assert_allclose(tracked.variance, states.variance, atol=1e-10)
    np.testing.assert_array_equal(begin.mean, copy.mean)
    np.testing.assert_array_equal(begin.variance, copy.variance)
    assert gain.min() >= math.log(1.0 - dependence.PREDICTED) - 1e-12, (
        "a prediction that fails leaves the frozen density its share"
    )
    assert gain.max() > 0.5


def test_training_instances_are_predicted_in_the_order_of_arrival(process, residuals):
    known, blocks, _ = make_known(D)
    rows = homogeneous(np.concatenate(blocks))
    log_density = log_densities(known, densities(known), rows)[0]
    order = np.random.default_rng(6).permutation(len(rows))
    found = dependence.training_in_order(process, residuals, rows, order, log_density, known)
    turn = np.argsort(order)
    nothing, whole = np.full(len(rows), -np.inf), np.ones(len(rows), bool)
    given = dependence.Came(rows[turn, :-1], np.zeros((len(rows), CLASSES)), log_density[turn], nothing, whole)
    expected, _, moved = slow_prediction(process, residuals, dependence.start(process, CLASSES), given, ALL_CLASSES)
    assert moved == len(rows)
    np.testing.assert_allclose(found[turn], expected, atol=1e-10)
