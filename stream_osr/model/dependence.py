"""Dependence in order of arrival: its fit, and predictions of the known classes in that order.

If the residuals of neighbours are correlated (:mod:`stream_osr.model.autocorrelation`), a residual is the sum of two
parts in each direction. The slowly varying part has variance Q and autocorrelation ``phi^g`` at lag g. The
independent part has variance R (``docs/inference.md``, section 17).

Known classes predict in order of arrival: an instance that resembles the latest instances in its class is more
likely.

Each class has a state in each direction of the process (:class:`Process`): a Kalman filter of the slowly varying part
of the residuals. Before an instance the state s with variance P becomes ``phi s`` and ``phi^2 P + Q (1 - phi^2)``.
The residual z of the instance has the density ``N(z; s, P + R)``. The density of the class given the instances before
is

    l_j(x) = log( (1 - w) F_j(x) + w N(z_j | s_j, P_j + R) |W_j| )

with the frozen density F_j, because a class may also jump within itself. Only an instance that is accepted as class j
moves the state of class j, by the gain ``P / (P + R)``. The variance Q of the stationary process bounds the move.

The classes compete by their frozen densities. A state that followed the instances labelled j would draw the next ones
to j, right or wrong. The order of arrival therefore acts on the known classes together: it makes all of them by

    g(x) = log sum_j exp l_j(x) - log sum_j exp F_j(x)

more likely than the frozen densities do.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.autocorrelation import (
    CORRELATED,
    LAGS,
    LEAST_PAIRS,
    Pairs,
    Residuals,
    correlation_of,
    count_pairs,
    is_dependent,
    no_pairs,
    residuals_of,
    shortened,
    whitened,
)
from stream_osr.model.class_runs import persistence_of
from stream_osr.model.jit import Array, kernel
from stream_osr.model.known import Known, densities, log_categories
from stream_osr.model.prior import numbers_of
from stream_osr.support import rules

STEPS = np.array([0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995])
"""Autocorrelations at lag 1 to try."""
LEAST_AT_LAG, MOST_AT_LAG = 30, 500.0
"""Least number of pairs for a lag to count, and the bound on its weight, in pairs."""
WIDEST = 4.0
"""Upper bound on the variance of the slowly varying part, in within-class variances."""
LEAST_SLOW = 0.05
"""Variance of the slowly varying part below which it counts as zero."""
FARTHEST = 2000
"""Lag beyond which dependent instances share no information."""
MOST_LOST = 0.75
"""Upper bound on the variance of a class's mean, in variances of the slowly varying part."""
MOST_CORRELATED = 0.95
"""Upper bound on the correlation of neighbours from which the share of independent ranks follows."""
LEAST_NOISE = 0.03
"""Lower bound on the independent share of the variance."""


class Process(NamedTuple):
    """The fitted process of the residuals, one for all classes.

    Attributes
    ----------
    axes
        Orthonormal directions, columns, shape (d, d).
    slow, step, noise
        Variance Q of the slowly varying part in each direction, its autocorrelation phi at lag 1, and the variance R
        of the independent part, each of shape (d,).
    """

    axes: Annotated[Array, rules.array("f", "d", "d", low=-1.000001, high=1.000001)]
    slow: Annotated[Array, rules.array("f", "d", low=0.0, high=1e6)]
    step: Annotated[Array, rules.array("f", "d", low=0.0, high=1.0)]
    noise: Annotated[Array, rules.array("f", "d", low=rules.ABOVE_0, high=1e12)]


class ArrivalOrder(NamedTuple):
    """Dependence of neighbours in the order of arrival, from training.

    Attributes
    ----------
    residuals
        Whitening of the residuals.
    pairs
        Sums over neighbours in training.
    process
        Fitted process. ``None`` if neighbours are independent.
    persistence
        Probability that an instance stays in the class of the one before it (:mod:`stream_osr.model.class_runs`).
    """

    residuals: Annotated[Residuals, rules.sizes("J d")]
    pairs: Annotated[Pairs, rules.sizes("J d")]
    process: Annotated[Process, rules.sizes("d")] | None
    persistence: rules.Share = 0.0


def find_order(rows: Array, group: Array, order: Array | None) -> ArrivalOrder | None:
    """Test whether neighbouring training instances depend on each other, and fit the dependence.

    Parameters
    ----------
    rows
        Numeric whitened rows, shape (n, d).
    group, order
        Class of each row, and its position in the order of arrival, both of shape (n,).

    Returns
    -------
    The dependence, or ``None`` if the order carries no information or there are no numeric dimensions.
    """
    if order is None or not rows.shape[1]:
        return None
    residuals = residuals_of(rows, group)
    turn = np.argsort(order, kind="stable")
    z, group = whitened(residuals, rows[turn], group[turn]), group[turn]
    pairs = count_pairs(no_pairs(len(residuals.mean), rows.shape[1]), shortened(z), group, order[turn])
    process = fit_process(pairs) if is_dependent(pairs, LEAST_PAIRS, CORRELATED) else None
    return ArrivalOrder(residuals, pairs, process, persistence_of(group, order[turn]))


def refit(order: ArrivalOrder, group: Array, at: Array) -> Process:
    """Fit the process again for classes that are no longer than their episodes: their mean follows the episodes.

    The autocovariance about the mean of n instances is lower by the variance of this mean at each lag
    (Kendall 1954, Marriott and Pope 1954).

    Parameters
    ----------
    order
        Dependence found by training.
    group, at
        Class of each training instance, and its position in the order of arrival, both of shape (n,).
    """
    lost = np.zeros(len(STEPS))
    for j in np.unique(group):
        own = np.sort(at[group == j])
        before, total = np.zeros(len(STEPS)), np.full(len(STEPS), 0.5 * len(own))
        for gap in np.diff(own):
            before = STEPS**gap * (before + 1.0)
            total += before
        lost += 2.0 * total / len(own)  # n times the variance of the mean, in variances of the slow part
    return fit_process(order.pairs, np.minimum(lost / len(group), MOST_LOST))


def fit_process(pairs: Pairs, lost: Array | None = None) -> Process:
    """Fit ``c_g = Q (phi^g - m)`` to the autocovariances at lags g > 0 by least squares, direction by direction.

    The directions are eigenvectors of the pooled autocovariance at the lags, and ``R = c_0 - Q (1 - m)``.

    Parameters
    ----------
    pairs
        Sums over neighbours.
    lost
        Variance m of a class's mean, in variances of the slow part, for each of :data:`STEPS`. ``None``: 0.
    """
    lost = np.zeros(len(STEPS)) if lost is None else lost
    products, count, _ = pairs
    mean = products / np.maximum(count, 1.0)[:, None, None]
    weight = np.where(count[1:] >= LEAST_AT_LAG, np.minimum(count[1:], MOST_AT_LAG), 0.0)
    short = weight[:3].sum() > 0.0
    share = (weight[:3] if short else weight) / max(weight[:3].sum() if short else weight.sum(), 1e-300)
    axes = np.linalg.eigh(np.tensordot(share, mean[1 : 1 + len(share)], axes=1))[1][:, ::-1]
    c = np.einsum("ba,gbc,ca->ga", axes, mean, axes)
    basis = STEPS[:, None] ** LAGS - lost[:, None]  # (S, G)
    slow = np.maximum((weight * basis) @ c[1:] / np.maximum((weight * basis**2).sum(axis=1), 1e-300)[:, None], 0.0)
    error = (weight[:, None] * (c[None, 1:] - slow[:, None] * basis[:, :, None]) ** 2).sum(axis=1)  # (S, d)
    best, at = error.argmin(axis=0), np.arange(c.shape[1])
    left = 1.0 - lost[best]
    q = np.minimum(slow[best, at], c[0] / left)
    q = np.where(q > LEAST_SLOW, q, 0.0)
    noise = np.maximum(c[0] - q * left, LEAST_NOISE * np.maximum(c[0], 1e-3))
    return Process(np.ascontiguousarray(axes), np.minimum(q, WIDEST), STEPS[best], noise)


def effective_share(pairs: Pairs, process: Process) -> float:
    """Effective number of independent instances of a class, as a share of the dependent instances.

    It is ``1 / (1 + 2 sum_g f_g rho_g)``. rho_g is the autocorrelation at lag g, averaged over the directions. f_g is
    the share of the instances that have a partner in their class at that lag.
    """
    lag = np.arange(1, FARTHEST)
    slow = process.slow / (process.slow + process.noise)
    rho = (slow * process.step ** lag[:, None]).mean(axis=1)
    partners = np.interp(np.log(lag), np.log(LAGS), np.minimum(pairs.number[1:] / max(pairs.number[0], 1.0), 1.0))
    return float(1.0 / (1.0 + 2.0 * (partners * rho).sum()))


def rank_share(order: ArrivalOrder | None) -> float:
    """Return the number of independent density ranks with the information of one, 1 if neighbours are independent.

    It is ``(1 - c) / (1 + c)`` with the mean correlation c of neighbours in training, as for a first-order process. A
    rank depends on the distance from the mean alone. Its correlation ends sooner than that of the location
    (:func:`effective_share`).
    """
    if order is None or order.process is None:
        return 1.0
    c = min(max(correlation_of(order.pairs)[0], 0.0), MOST_CORRELATED)
    return (1.0 - c) / (1.0 + c)


PREDICTED = 0.6
"""Weight w of the prediction from the order of arrival."""


class TrackedLocations(NamedTuple):
    """Recent location of the J classes in the d directions of the process.

    Attributes
    ----------
    mean, variance
        State of the filter, shape (J, d).
    """

    mean: Annotated[Array, rules.array("f", "J", "d", low=-1e12, high=1e12)]
    variance: Annotated[Array, rules.array("f", "J", "d", low=0.0, high=1e6)]


def start(process: Process, n_classes: int) -> TrackedLocations:
    """Start from the stationary process, the state of a class without recent instances."""
    return TrackedLocations(np.zeros((n_classes, len(process.slow))), np.tile(process.slow, (n_classes, 1)))


class Came(NamedTuple):
    """The n instances to predict, in order of arrival.

    Attributes
    ----------
    rows
        Numeric whitened rows, shape (n, d).
    category
        Log probability of their categories in each class, shape (n, J).
    log_density
        Frozen log densities, shape (n, J).
    log_new
        Log density of a new class, in units of the weight of a known one, shape (n,). An instance whose density given
        the earlier instances is lower is not accepted as a known class.
    complete
        Whether no value is missing, shape (n,). Incomplete instances are not predicted and move no state.
    """

    rows: Array
    category: Array
    log_density: Array
    log_new: Array
    complete: Array


def predict_in_order(
    process: Process, residuals: Residuals, tracked: TrackedLocations, came: Came, least: Array
) -> tuple[Array, TrackedLocations]:
    """Predict instances in order of arrival.

    Parameters
    ----------
    process, residuals
        Process and whitening of the residuals of the J classes.
    tracked
        Locations of the classes before. They do not change.
    came
        The instances.
    least
        Least frozen log density to accept an instance as each class, shape (J,). A density given earlier instances
        would not work here: it would accept a new class near a known one step by step.

    Returns
    -------
    The log likelihood gain g of each instance given the instances before it, shape (n,), and the locations
    afterwards.
    """
    n_classes = came.log_density.shape[1]
    z = np.empty((len(came.rows), n_classes, came.rows.shape[1]))
    for j in range(n_classes):
        z[:, j] = (came.rows - residuals.mean[j]) @ (residuals.whitener[j] @ process.axes)
    base = came.category + residuals.log_volume
    return _predict(process, tracked, z, base, came, least)


@kernel
def _predict(
    process: Process, tracked: TrackedLocations, z: Array, base: Array, came: Came, least: Array
) -> tuple[Array, TrackedLocations]:
    (n, n_classes, d), log_density, log_new = z.shape, came.log_density, came.log_new
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
        if not came.complete[i]:
            continue
        gain[i] = given - frozen
        if given < log_new[i] or log_density[i, own] < least[own]:
            continue
        for a in range(d):
            weight = variance[own, a] / (variance[own, a] + process.noise[a])
            mean[own, a] += weight * (z[i, own, a] - mean[own, a])
            variance[own, a] *= 1.0 - weight
    return gain, TrackedLocations(mean, variance)


def training_in_order(
    process: Process, residuals: Residuals, rows: Array, order: Array, log_density: Array, known: Known
) -> Array:
    """Log likelihood gain of the training instances given the instances before them, shape (n,).

    Parameters
    ----------
    process, residuals
        Process and whitening of the residuals.
    rows, order
        Homogeneous rows, shape (n, C + d + 1), and the position of each in the order of arrival, shape (n,).
    log_density
        Leave-one-out frozen log densities, shape (n, J).
    known
        The known classes.
    """
    turn, n_classes = np.argsort(order, kind="stable"), len(residuals.mean)
    category = log_categories(known, densities(known), rows)
    nothing, whole = np.full(len(turn), -np.inf), np.ones(len(turn), bool)
    came = Came(numbers_of(rows[turn], known.prior), category[turn], log_density[turn], nothing, whole)
    anybody = np.full(n_classes, -np.inf)
    gain = np.empty(len(turn))
    gain[turn], _ = predict_in_order(process, residuals, start(process, n_classes), came, anybody)
    return gain
