"""Known classes predict in order of arrival: an instance is likely that resembles the latest ones of its class.

Each class has a state in each direction of the process (:mod:`stream_osr.model.dependence`), a Kalman filter of the
slowly varying part of its residuals. Before an instance the state s with variance P becomes ``phi s`` and
``phi^2 P + Q (1 - phi^2)``, and the residual z of the instance has the density ``N(z; s, P + R)``. The density of the
class given what came before is

    l_j(x) = log( (1 - w) F_j(x) + w N(z_j; s_j, P_j + R) |W_j| )

with the frozen density F_j: a class may also jump within itself. Only an instance that is accepted as class j moves
its state, by the gain ``P / (P + R)``; the variance Q of the stationary process bounds how far.

The classes compete by their frozen densities: a state that follows the instances called j draws the next ones to j,
right or wrong. What the order of arrival says, it says of the known classes together: all of them are by

    g(x) = log sum_j exp l_j(x) - log sum_j exp F_j(x)

more likely than frozen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.dependence import Process, Residuals
from stream_osr.model.jit import kernel
from stream_osr.model.known import Known, densities, log_categories

PREDICTED = 0.6
"""Weight w of what the order of arrival predicts."""


class Tracked(NamedTuple):
    """Where the J classes are lately, in the d directions of the process.

    Attributes
    ----------
    mean, variance
        State of the filter, shape (J, d).
    """

    mean: np.ndarray
    variance: np.ndarray


def start(process: Process, n_classes: int) -> Tracked:
    """Begin with what is known of a class that has not come lately: the stationary process."""
    return Tracked(np.zeros((n_classes, len(process.slow))), np.tile(process.slow, (n_classes, 1)))


class Came(NamedTuple):
    """The n instances that are predicted, in order of arrival.

    Attributes
    ----------
    rows
        Numeric whitened rows, shape (n, d).
    category
        Log probability of their categories in each class, shape (n, J).
    log_density
        Frozen log densities, shape (n, J).
    log_new
        Log density of a new class, in units of the weight of a known one: less is no instance of one, shape (n,).
    complete
        Nothing is missing of them, shape (n,): others are not predicted, and move no state.
    """

    rows: np.ndarray
    category: np.ndarray
    log_density: np.ndarray
    log_new: np.ndarray
    complete: np.ndarray


def predict_in_order(
    process: Process, residuals: Residuals, tracked: Tracked, came: Came, least: np.ndarray
) -> tuple[np.ndarray, Tracked]:
    """Predict instances in order of arrival.

    Parameters
    ----------
    process, residuals
        What the residuals of the J classes are like.
    tracked
        Where the classes were before; it does not change.
    came
        The instances.
    least
        Frozen log density from which on an instance is accepted as each class, shape (J,). One given what came before
        would do no: a new class near a known one would be accepted step by step.

    Returns
    -------
    By how much more likely each instance is given what came before, g, shape (n,), and where the classes are
    afterwards.
    """
    n_classes = came.log_density.shape[1]
    z = np.empty((len(came.rows), n_classes, came.rows.shape[1]))
    for j in range(n_classes):
        z[:, j] = (came.rows - residuals.mean[j]) @ (residuals.whitener[j] @ process.axes)
    base = came.category + residuals.log_volume
    return _predict(process, tracked, z, base, came.log_density, came.log_new, least, came.complete)


@kernel
def _predict(
    process: Process,
    tracked: Tracked,
    z: np.ndarray,
    base: np.ndarray,
    log_density: np.ndarray,
    log_new: np.ndarray,
    least: np.ndarray,
    complete: np.ndarray,
) -> tuple[np.ndarray, Tracked]:
    n, n_classes, d = z.shape
    mean, variance = tracked.mean.copy(), tracked.variance.copy()
    gain = np.zeros(n)
    constant, log_frozen, log_predicted = 0.5 * np.log(2.0 * np.pi), np.log(1.0 - PREDICTED), np.log(PREDICTED)
    for i in range(n):
        frozen, given, own = -np.inf, -np.inf, 0
        for j in range(n_classes):
            value = base[i, j]
            for a in range(d):
                step = process.step[a]
                mean[j, a] *= step
                variance[j, a] = step * step * variance[j, a] + process.slow[a] * (1.0 - step * step)
                spread = variance[j, a] + process.noise[a]
                off = z[i, j, a] - mean[j, a]
                value -= 0.5 * (off * off / spread + np.log(spread)) + constant
            frozen = np.logaddexp(frozen, log_density[i, j])
            given = np.logaddexp(given, np.logaddexp(log_frozen + log_density[i, j], log_predicted + value))
            if log_density[i, j] > log_density[i, own]:
                own = j
        if not complete[i]:
            continue
        gain[i] = given - frozen
        if given < log_new[i] or log_density[i, own] < least[own]:
            continue
        for a in range(d):
            weight = variance[own, a] / (variance[own, a] + process.noise[a])
            mean[own, a] += weight * (z[i, own, a] - mean[own, a])
            variance[own, a] *= 1.0 - weight
    return gain, Tracked(mean, variance)


def training_in_order(
    process: Process,
    residuals: Residuals,
    rows: np.ndarray,
    order: np.ndarray,
    log_density: np.ndarray,
    known: Known,
) -> np.ndarray:
    """By how much more likely the training instances are given those before them, shape (n,).

    Parameters
    ----------
    process, residuals
        What the residuals are like.
    rows, order
        Homogeneous rows, shape (n, C + d + 1), and the position of each in the order of arrival, shape (n,).
    log_density
        Frozen log densities, as if the model had not seen the instance, shape (n, J).
    known
        The known classes.
    """
    turn, columns, n_classes = np.argsort(order, kind="stable"), len(known.prior.first), len(residuals.mean)
    category = log_categories(known, densities(known), rows)
    nothing, whole = np.full(len(turn), -np.inf), np.ones(len(turn), bool)
    came = Came(rows[turn, columns:-1], category[turn], log_density[turn], nothing, whole)
    anybody = np.full(n_classes, -np.inf)
    gain = np.empty(len(turn))
    gain[turn], _ = predict_in_order(process, residuals, start(process, n_classes), came, anybody)
    return gain
