"""EM for the place of the known classes in a window of a stream (:mod:`stream_osr.model.class_places`).

The classes compete at their place, at the present one, and with one broad Gaussian for instances of no known class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model import class_places
from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.model.offset_sums import make_sums, put_side_by_side, sum_expected

ROUNDS, CONVERGED = 20, 3e-3
"""Most rounds of EM, and the largest change of the last round, in standard deviations of a feature."""
PASSES = 3
"""Most passes of a fit to a window. The first fit, to few rows, has two. A pass that changes nothing is the last."""
MOST_FEATURES = 64
"""Most features that are fitted one by one."""
FAR = 10.0
"""Offset in deviations from which the prior of an offset becomes wider: another unit is hundreds of them away."""
HEATS = (2.0, 1.0)
"""Factors of the variances of the classes, one after the other.

The first offset is an instance less the mean of the class. Others of the class differ with twice the variance.
"""


class Window(NamedTuple):
    """Rows of a stream, and their log densities where the classes are thought to be.

    Attributes
    ----------
    rows
        Numbers of the rows.
    category
        Log probability of the categories in each Gaussian (:func:`.class_places.split`), shape (n, K).
    residual
        Residuals from each Gaussian, in its whitened coordinates, shape (K, n, d).
    log_stay
        Log density at the present place, shape (n,).
    log_outlier
        Log density under the broad Gaussian, with its weight, shape (n,).
    """

    rows: class_places.WindowRows
    category: Array
    residual: Array
    log_stay: Array
    log_outlier: Array


def window_of(places: class_places.Places, rows: Array, now: Array) -> Window:
    """Prepare the rows (:func:`.class_places.split`) of a stream whose present place is ``now``."""
    category, own = class_places.split(places, rows)
    residual = class_places.in_each(places, own.numbers)
    log_stay = class_places.log_sum(class_places.at_place(places, own, now, category, residual)[1])
    return Window(own, category, residual, log_stay, class_places.outlier_density(places, own, now))


def fit_place(
    places: class_places.Places,
    window: Window,
    place: Array,
    free: Array,
    heats: Sequence[float],
    *,
    by_spread: bool = False,
    rounds: int = ROUNDS,
    passes: int = 1,
) -> tuple[Array, Array]:
    """Fit the free offsets and gains by EM, the gains also by the spread within classes if ``by_spread``.

    The variances of the classes are multiplied by each of ``heats`` in turn, so that the classes find instances that
    are far from the first offset. In the last round, instances that are not typical at the offset do not count. A
    power transformation or a missing value needs several ``passes``: each takes the place before as given.

    Returns
    -------
    The place, shape (2, p), and the information on each free offset and gain, given all others, shape (f,).
    """
    at = np.flatnonzero(free[1])
    basis, forward = _offsets(places, np.flatnonzero(free[0]))
    is_gain, gains = np.repeat([False, True], [len(basis), len(at)]), places.deviation[at, None] * places.forward[at]
    direction = np.concatenate([basis @ places.forward, gains])
    size = np.ones((len(places.factor), len(direction)))
    size[:, is_gain] = places.apart[:, at]
    toward = places.factor.transpose(0, 2, 1) @ direction.T
    precision = toward.transpose(0, 2, 1) @ toward
    spread = _spread(places, at, precision[:, len(basis) :, len(basis) :])
    precision = precision * size[:, :, None] * size[:, None, :]
    moving = Moving(*map(np.ascontiguousarray, (at, direction, is_gain, size, toward, precision, *spread)))
    in_one = not (len(window.rows.lack) or free[:, places.yeo_johnson.columns].any())
    for number in range(1 if in_one else passes):
        offset, gain = class_places.shift_of(places, place), place[1].copy()
        value = np.concatenate([np.where(np.isfinite(offset), offset, 0.0) @ forward, gain[at]])
        gain_before, (rows, beside) = place[1, at], _at(places, window, place)
        own_heats = np.array(heats if number == 0 else heats[-1:])
        step, normal = _run(places, rows, beside, moving, value, own_heats, rounds, by_spread)
        gain[:] = 0.0
        gain[at] = step[is_gain]
        place = class_places.further(places, place, step[~is_gain] @ basis, gain)
        if np.abs(step).max(initial=0.0) < CONVERGED:
            break
    information = 1.0 / np.diag(np.linalg.inv(normal))
    information[is_gain] /= (1.0 + gain_before) ** 2  # a step multiplies the gain of the pass before
    return place, information


def _at(places: class_places.Places, window: Window, place: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Rows moved back from a place, with their categories, and the densities at other places."""
    volume = class_places.log_volume(places, window.rows, place)
    rows = class_places.returned(places, window.rows, place)
    return (rows, window.category), (window.log_stay + volume, window.log_outlier + volume)


def _offsets(places: class_places.Places, at: Array) -> tuple[Array, Array]:
    """Offset of all transformed features by a unit of each parameter, shape (f, p), and the map back, shape (p, f).

    The map back takes offsets in deviations.

    A parameter is the offset of a feature in deviations. If more than ``MOST_FEATURES`` may move, it is a whitened
    coordinate: wide tables have fewer of them, and the cost grows with the cube of the parameters.
    """
    deviation = np.where(np.isfinite(places.deviation), places.deviation, 0.0)
    if len(at) > MOST_FEATURES:
        return places.backward, deviation[:, None] * places.forward
    basis = np.zeros((len(at), len(deviation)))
    basis[np.arange(len(at)), at] = deviation[at]
    return basis, np.eye(len(deviation))[:, at]


class Moving(NamedTuple):
    """Free offsets and gains of a fit: f parameters, g of them gains, which come last.

    Attributes
    ----------
    at
        Feature of each gain, shape (g,).
    direction
        Whitened offset by a unit of each offset, and by a deviation of each feature with a gain, shape (f, d).
    is_gain
        Whether each parameter is a gain, shape (f,).
    size
        Effect of a unit of each parameter on the mean of each Gaussian, in deviations of the feature, shape (K, f).
    toward
        Directions in the whitened coordinates of each Gaussian, shape (K, d, f).
    precision
        Information of an instance of each Gaussian on the parameters, shape (K, f, f).
    back, by_spread
        Residual in each feature with a gain, from the whitened coordinates of each Gaussian, shape (K, d, g).
        Information of the spread of an instance on the logarithms of the gains, shape (K, g, g).
    """

    at: Array
    direction: Array
    is_gain: Array
    size: Array
    toward: Array
    precision: Array
    back: Array
    by_spread: Array


def _spread(places: class_places.Places, at: Array, precision: Array) -> tuple[Array, Array]:
    if not len(at):
        return np.zeros((*places.factor.shape[:2], 0)), precision
    back = np.linalg.inv(places.factor) @ (places.backward[:, at] / places.deviation[at])
    covariance = back.transpose(0, 2, 1) @ back
    return back, np.eye(len(at)) + precision * covariance


@kernel
def _run(
    places: class_places.Places,
    given: tuple[Array, Array],
    beside: tuple[Array, Array],
    moving: Moving,
    value: Array,
    heats: Array,
    rounds: int,
    by_spread: bool,
) -> tuple[Array, Array]:
    """Run EM for the change of the parameters from some values, shape (f,), with a Gaussian prior about zero.

    The precision of the prior is 1, and falls with the square of a value beyond ``FAR``. Otherwise no offset of
    hundreds of deviations, as of another unit, would be reached.

    Returns
    -------
    The change, and the information on it, shape (f, f).
    """
    numbers, category = given
    (n, d), count = numbers.shape, len(places.log_weight)
    begun, value = value, np.zeros(len(value))
    f, gains = len(value), moving.back.shape[2]
    sums = make_sums(places, numbers, gains == 0)
    share, weight, pulled, parts = sums.share, sums.weight, sums.pulled, sums.parts
    rows, normal, move = numbers, np.eye(f), np.zeros((count, d))
    for heat in heats:
        log_share = np.zeros(3)
        for _ in range(rounds):
            volume, shift = 0.5 * d * np.log(heat), np.zeros(d)
            for j in range(f - gains):
                shift += value[j] * moving.direction[j]
            if gains:
                stretch = np.eye(d)
                for j in range(gains):
                    for a in range(d):
                        own = value[f - gains + j] * places.backward[a, moving.at[j]]
                        for b in range(d):
                            stretch[a, b] += own * places.forward[moving.at[j], b]
                volume += np.linalg.slogdet(stretch)[1]
                rows = np.dot(numbers - shift, np.linalg.inv(stretch))
                put_side_by_side(rows, sums.columns)
            else:
                for k in range(count):
                    move[k] = np.dot(shift, places.factor[k])
            cut = places.cut if heat == 1.0 else np.inf
            sum_expected(
                places, (numbers, move, category), (beside[0], beside[1], log_share), (volume, heat, cut), sums
            )
            if heat == 1.0:
                log_share = log_of_shares(parts / n)
            normal, pull = np.zeros((f, f)), np.zeros(f)
            for j in range(f):
                normal[j, j] = 1.0 / max(1.0, ((begun[j] + value[j]) / FAR) ** 2)
                pull[j] = -normal[j, j] * begun[j]
            for k in range(count):
                if weight[k] > 0.0:
                    _add_information(k, weight[k], pulled[k], moving, normal, pull)
            if gains and by_spread:
                _add_spread(places, moving, rows, share, weight, value, normal, pull)
            step = np.linalg.solve(normal, pull)
            step = np.where(moving.is_gain, np.maximum(step, class_places.LEAST_FACTOR - 1.0), step)
            change = np.abs(step - value).max() if f else 0.0
            value = step
            if change < CONVERGED:
                break
    return value, normal


@borrowing_kernel
def _add_information(k: int, weight: float, pulled: Array, moving: Moving, normal: Array, pull: Array) -> None:
    """Add the information of the instances of a Gaussian to ``normal`` and ``pull``."""
    d, f = moving.toward.shape[1:]
    for j in range(f):
        for other in range(f):
            normal[j, other] += weight * moving.precision[k, j, other]
    for a in range(d):
        for j in range(f):
            pull[j] += moving.size[k, j] * pulled[a] * moving.toward[k, a, j]


@kernel
def _add_spread(
    places: class_places.Places,
    moving: Moving,
    rows: Array,
    share: Array,
    weight: Array,
    value: Array,
    normal: Array,
    pull: Array,
) -> None:
    """Add the information of the spread within classes on the gains to ``normal`` and ``pull``."""
    f, gains = len(value), moving.back.shape[2]
    first, score, information = f - gains, np.zeros(gains), np.zeros((gains, gains))
    for k in range(len(weight)):
        if weight[k] <= class_places.NEGLIGIBLE:
            continue
        some = np.flatnonzero(share[k] > class_places.NEGLIGIBLE)
        residual = np.dot(rows[some], places.factor[k]) - places.whitened[k]
        square = np.dot((residual * share[k][some].reshape(-1, 1)).T, residual)
        score += (moving.toward[k, :, first:] * np.dot(square, moving.back[k])).sum(axis=0) - weight[k]
        information += weight[k] * moving.by_spread[k]
    own = 1.0 + value[first:]
    information /= own.reshape(-1, 1) * own
    normal[first:, first:] += information
    pull[first:] += np.dot(information, value[first:]) + score / own


def expected(places: class_places.Places, window: Window, place: Array, log_share: Array) -> Array:
    """Responsibilities of the classes at a place, shape (n, K). Instances that are not typical have none.

    The classes compete with those at the place before and with the broad Gaussian, with the log shares of the three.
    """
    given, beside = _at(places, window, place)
    return _expected(places, given, (*beside, log_share))


@kernel
def _expected(places: class_places.Places, given: tuple[Array, Array], beside: tuple[Array, Array, Array]) -> Array:
    rows, category = given
    sums = make_sums(places, rows, False)
    still = np.zeros(places.whitened.shape)
    sum_expected(places, (rows, still, category), beside, (0.0, 1.0, places.cut), sums)
    return np.ascontiguousarray(sums.share.T)


@kernel
def log_of_shares(share: Array) -> Array:
    """Log shares of the places and of others, less the prior weight that the density of the others has already."""
    log_share = np.log(np.maximum(share, 1e-12))
    log_share[2] -= np.log(class_places.NO_CLASS)
    return log_share


@kernel
def fit_shares(density: Array, rounds: int) -> Array:
    """Estimate the shares of parts by EM from the density of each instance in each, shape (n, m)."""
    n, m = density.shape
    share = np.ones(m)
    for _ in range(rounds):
        total = np.zeros(m)
        for i in range(n):
            whole = 0.0
            for j in range(m):
                whole += density[i, j] * share[j]
            for j in range(m):
                total[j] += density[i, j] * share[j] / whole
        share = np.maximum(total / n, 1e-12)
    return share
