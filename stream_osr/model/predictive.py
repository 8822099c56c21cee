"""Immediate prediction: the present state as one set of weighted Student-t densities, and nobody seated.

The conditional weights of a guest's dish, equation (10), are ``seats x density``: with the seats in the heads of the
terms, a prediction is one pass over the quadratic forms. It makes no use of BLAS, so that its bits do not depend on
threads, nor on how many instances are asked about at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.elementwise import exp_each, largest, log_each
from stream_osr.model.franchise import menu_weights
from stream_osr.model.gaussian.full import dot
from stream_osr.model.jit import kernel
from stream_osr.model.known import Densities, Known
from stream_osr.model.restaurant import StreamState
from stream_osr.model.space import HORIZON


class View(NamedTuple):
    """Weighted terms, laid out for :func:`look`: one sum for each known class and, last, one for all else.

    Attributes
    ----------
    packed
        As in :class:`stream_osr.model.terms.Terms`, shape (M, (d + 1) (d + 2) / 2).
    shape
        Head, power and least form of each term, shape (3, M).
    first
        First term of each sum, and M, shape (J + 2,).
    """

    packed: np.ndarray
    shape: np.ndarray
    first: np.ndarray


def view(known: Known, frozen: Densities, state: StreamState, shift: float = 0.0) -> View:
    """State the weight of each known class and of all else, its log odds shifted; full covariances only."""
    franchise, dishes, terms = state.franchise, state.dishes, frozen.terms
    n_classes = len(known.size)
    share = franchise.alpha[0] / (franchise.total[0] + franchise.gamma[0])
    tables = menu_weights(franchise)
    with np.errstate(divide="ignore"):
        log_seats = np.log(franchise.seated[0] + share * tables)
    log_seats = np.where(tables > 0.0, log_seats, -np.inf)
    sizes = np.diff(terms.first)
    head = terms.head + np.repeat(np.append(log_seats[:n_classes], np.log(share * franchise.gamma[0])), sizes)
    a, b = np.tril_indices(known.prior.n_features + 1)
    emerging = dishes.constant[:, 0] - 0.5 * dishes.log_det + log_seats[n_classes:]
    first = terms.first.copy()
    first[-1] += len(emerging)
    head = np.concatenate([head, emerging])
    head[terms.first[-2] :] += shift
    power = np.concatenate([terms.power, 0.5 * (known.prior.nu + dishes.size + 1.0)])
    least = np.concatenate([terms.least, 1.0 / (known.prior.beta + dishes.size)])
    packed = np.concatenate([terms.packed, dishes.inverse[:, a, b] * np.where(a == b, 1.0, 2.0)])
    return View(packed, np.array([head, power, least]), first)


@kernel
def look(
    values: np.ndarray,
    fill: np.ndarray,
    center: np.ndarray,
    forward: np.ndarray,
    packed: np.ndarray,
    shape: np.ndarray,
    first: np.ndarray,
) -> np.ndarray:
    """Class probabilities of raw rows.

    Parameters
    ----------
    values
        Raw rows, NaN = missing, shape (n, p).
    fill, center, forward
        Map to whitened coordinates (:class:`stream_osr.model.space.Space`).
    packed, shape, first
        Weighted terms (:class:`View`).

    Returns
    -------
    Probability of each known class and, last, unknown, shape (n, J + 1).
    """
    n, d = len(values), forward.shape[1]
    count, sums = packed.shape[0], len(first) - 1
    x, product, value = np.ones(d + 1), np.empty((d + 1) * (d + 2) // 2), np.empty(count)
    out = np.empty((n, sums))
    for i in range(n):
        weigh_terms(values[i], fill, center, forward, packed, shape, x, product, value)
        total = 0.0
        for s in range(sums):
            weight = 0.0
            for m in range(first[s], first[s + 1]):
                weight += value[m]
            out[i, s] = weight
            total += weight
        for s in range(sums):
            out[i, s] /= total
    return out


@kernel
def look_closely(
    values: np.ndarray,
    fill: np.ndarray,
    center: np.ndarray,
    forward: np.ndarray,
    packed: np.ndarray,
    shape: np.ndarray,
    first: np.ndarray,
    emerging: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the known classes, of each emerging subclass and of a new one, for raw rows.

    Parameters
    ----------
    values, fill, center, forward, packed, shape, first
        As for :func:`look`.
    emerging
        Number of emerging subclasses, K: their terms are the last.

    Returns
    -------
    Probabilities, shape (n, J + K + 1), and the log weight of each known class, shape (n, J).
    """
    n, d = len(values), forward.shape[1]
    count, classes = packed.shape[0], len(first) - 2
    x, product, value = np.ones(d + 1), np.empty((d + 1) * (d + 2) // 2), np.empty(count)
    out, log_weight = np.zeros((n, classes + emerging + 1)), np.empty((n, classes))
    for i in range(n):
        peak = weigh_terms(values[i], fill, center, forward, packed, shape, x, product, value)
        total = 0.0
        for m in range(count):
            total += value[m]
        for j in range(classes):
            for m in range(first[j], first[j + 1]):
                out[i, j] += value[m]
            log_weight[i, j] = peak + np.log(out[i, j])
        for m in range(first[classes], count - emerging):
            out[i, classes + emerging] += value[m]
        for k in range(emerging):
            out[i, classes + k] = value[count - emerging + k]
        for c in range(classes + emerging + 1):
            out[i, c] /= total
    return out, log_weight


@kernel
def weigh_terms(
    raw: np.ndarray,
    fill: np.ndarray,
    center: np.ndarray,
    forward: np.ndarray,
    packed: np.ndarray,
    shape: np.ndarray,
    x: np.ndarray,
    product: np.ndarray,
    value: np.ndarray,
) -> float:
    """Write the weights of the terms for a raw row into ``value``, relative to the largest; returns its logarithm."""
    d, count = forward.shape[1], packed.shape[0]
    head, power, least = shape[0], shape[1], shape[2]
    x[:d] = 0.0
    for a in range(len(raw)):
        centred = (fill[a] if np.isnan(raw[a]) else raw[a]) - center[a]
        for b in range(d):
            x[b] += centred * forward[a, b]
    draw_in(x[:d])
    line = 0
    for a in range(d + 1):
        for b in range(a + 1):
            product[line] = x[a] * x[b]
            line += 1
    for m in range(count):
        value[m] = 1.0 + max(dot(packed[m], product), least[m])
    log_each(value)
    for m in range(count):
        value[m] = head[m] - power[m] * value[m]
    peak = largest(value)
    for m in range(count):
        value[m] -= peak
    exp_each(value)
    return float(peak)


@kernel
def draw_in(z: np.ndarray) -> None:
    """Draw a whitened row that lies beyond the horizon in to it, as :func:`stream_osr.model.space.whiten` does."""
    far = np.abs(z).max()
    if far > HORIZON / np.sqrt(len(z)):
        length = 0.0
        for a in range(len(z)):
            length += (z[a] / far) ** 2
        length = np.sqrt(length) * far
        if length > HORIZON:
            for a in range(len(z)):
                z[a] = z[a] / length * HORIZON
