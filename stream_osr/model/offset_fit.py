"""EM for the place of the known classes in a window of a stream (:mod:`stream_osr.model.class_places`).

The classes compete at their place, at the present one, and with one broad Gaussian for instances of no known class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model import class_places
from stream_osr.model.elementwise import exp_each_using
from stream_osr.model.jit import Array, borrowing_kernel, fused_borrowing_kernel, kernel

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


class Sums(NamedTuple):
    """Sums over n instances in K Gaussians, and scratch space.

    Attributes
    ----------
    share
        Responsibilities, shape (K, n).
    weight, pulled
        Their sums, shape (K,), and the sums of the residuals, shape (K, d), without negligible ones.
    parts
        Sums of the responsibilities of all classes, of those at the place before, and of the broad Gaussian, (3,).
    residual
        Residuals from each Gaussian, in its whitened coordinates, shape (K, d, n), or none if rows change.
    columns
        Rows side by side, shape (d, n).
    room
        Scratch space for some numbers of each instance, shape (6, n).
    power
        Scratch space for exponentials, shape (m,).
    """

    share: Array
    weight: Array
    pulled: Array
    parts: Array
    residual: Array
    columns: Array
    room: Array
    power: Array


@kernel
def make_sums(places: class_places.Places, rows: Array, stored: bool) -> Sums:
    """Make the space for the sums over rows, shape (n, d), with their residuals if these are to be ``stored``."""
    (count, d), n = places.whitened.shape, len(rows)
    residual, columns = np.empty((count if stored else 0, d, n)), np.empty((d, n))
    put_side_by_side(rows, columns)
    for k in range(len(residual)):
        for a in range(d):
            write_residual(places.factor[k], places.whitened[k], a, columns, residual[k, a])
    room, power = np.empty((6, n)), np.empty(max(count, 2) * n, np.int64)
    share, pulled = np.empty((count, n)), np.zeros((count, d))
    return Sums(share, np.zeros(count), pulled, np.zeros(3), residual, columns, room, power)


@borrowing_kernel
def put_side_by_side(rows: Array, columns: Array) -> None:
    """Write rows, shape (n, d), side by side."""
    for i in range(rows.shape[0]):
        for a in range(rows.shape[1]):
            columns[a, i] = rows[i, a]


@fused_borrowing_kernel
def write_residual(factor: Array, whitened: Array, a: int, columns: Array, out: Array) -> None:
    """Write coordinate ``a`` of the residuals from a Gaussian, whose factor is lower triangular, shape (n,)."""
    (d, n), b = columns.shape, a
    for i in range(n):
        out[i] = -whitened[a]
    while b + 4 <= d:  # four at a time: the sums are read and written a quarter as often
        p, q, r, s = factor[b, a], factor[b + 1, a], factor[b + 2, a], factor[b + 3, a]
        for i in range(n):
            out[i] += p * columns[b, i] + q * columns[b + 1, i] + r * columns[b + 2, i] + s * columns[b + 3, i]
        b += 4
    while b < d:
        p = factor[b, a]
        for i in range(n):
            out[i] += p * columns[b, i]
        b += 1


@fused_borrowing_kernel
def _distances(k: int, places: class_places.Places, move: Array, sums: Sums, out: Array) -> None:
    """Write squared distances from a Gaussian to ``out``, shape (n,), from residuals if there are any."""
    (d, n), stored = sums.columns.shape, sums.residual.shape[0] > 0
    for i in range(n):
        out[i] = 0.0
    for a in range(d):
        side, by = sums.room[5], move[k, a]
        if stored:
            side = sums.residual[k, a]
        else:
            write_residual(places.factor[k], places.whitened[k], a, sums.columns, side)
        for i in range(n):
            apart = side[i] - by
            out[i] += apart * apart


@fused_borrowing_kernel
def sum_expected(
    places: class_places.Places,
    given: tuple[Array, Array, Array],
    beside: tuple[Array, Array, Array],
    terms: tuple[float, float, float],
    sums: Sums,
) -> None:
    """Compute the responsibilities of the classes for moved rows, and their sums.

    Parameters
    ----------
    places
        Known classes.
    given
        The rows whose residuals are summed, shape (n, d), moves that are subtracted from the residuals in ``sums``,
        shape (K, d), and the log probabilities of the categories, shape (n, K).
    beside
        Log densities at the place before and in the broad Gaussian, shape (n,), and log shares of the three.
    terms
        Log of the volume, factor of the variances, and squared distance from which an instance does not count.
    sums
        The results.
    """
    (rows, move, category), (log_stay, log_outlier, log_share), (volume, heat, cut) = given, beside, terms
    share, weight, pulled, parts, _, columns, room, power = sums
    (count, n), d = share.shape, columns.shape[0]
    nearest, peak, here, stays, other = room[0], room[1], room[2], room[3], room[4]
    for i in range(n):
        nearest[i], here[i] = np.inf, 0.0
        stays[i], other[i] = log_stay[i] + log_share[1], log_outlier[i] + log_share[2]
        peak[i] = max(stays[i], other[i])
    for k in range(count):
        own, constant = share[k], places.log_weight[k] - volume + log_share[0]
        _distances(k, places, move, sums, own)
        for i in range(n):
            nearest[i] = min(nearest[i], own[i])
            own[i] = constant + category[i, k] - 0.5 * own[i] / heat
            peak[i] = max(peak[i], own[i])
    for k in range(count):
        own = share[k]
        for i in range(n):
            own[i] -= peak[i]
    for i in range(n):
        stays[i] -= peak[i]
        other[i] -= peak[i]
    exp_each_using(power, share.reshape(count * n))
    exp_each_using(power[: 2 * n], room[3:5].reshape(2 * n))
    for k in range(count):
        own = share[k]
        for i in range(n):
            here[i] += own[i]
    parts[:] = 0.0
    for i in range(n):
        whole = here[i] + stays[i] + other[i]
        parts[0] += here[i] / whole
        parts[1] += stays[i] / whole
        parts[2] += other[i] / whole
        peak[i] = 1.0 / whole if nearest[i] < cut else 0.0
    for k in range(count):
        own, total = share[k], pulled[k]
        weight[k], total[:] = 0.0, 0.0
        for i in range(n):
            own[i] *= peak[i]
        for i in range(n):
            if own[i] > class_places.NEGLIGIBLE:
                weight[k] += own[i]
                for a in range(d):
                    total[a] += own[i] * rows[i, a]
        for a in range(d):  # in place: no later coordinate needs an earlier one
            residual = -weight[k] * places.whitened[k, a]
            for b in range(a, d):
                residual += total[b] * places.factor[k, b, a]
            total[a] = residual


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
