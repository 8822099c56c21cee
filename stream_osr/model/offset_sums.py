"""Responsibilities of the known classes for rows after a move, and their sums: the inner loops of EM for a place.

Instances are side by side, so that all loops become vector instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model import class_places
from stream_osr.model.elementwise import exp_each_using
from stream_osr.model.jit import Array, borrowing_kernel, fused_borrowing_kernel, kernel


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
    measures: tuple[float, float, float],
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
    measures
        Log of the volume, factor of the variances, and squared distance from which an instance does not count.
    sums
        The results.
    """
    (rows, move, category), (log_stay, log_outlier, log_share), (volume, heat, cut) = given, beside, measures
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
