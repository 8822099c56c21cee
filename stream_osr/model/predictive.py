"""Immediate prediction: the present state as one set of weighted Student-t densities, and nobody seated.

The conditional weights of a guest's dish, equation (10), are ``seats x density``: with the seats in the heads of the
terms, a prediction is one pass over the quadratic forms. It makes no use of BLAS, so that its bits do not depend on
threads, nor on how many instances are asked about at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.categories import log_table
from stream_osr.model.cells import log_seats_of, terms_of
from stream_osr.model.elementwise import exp_each, largest, log_each
from stream_osr.model.flags import NO_FLAGS, Flags
from stream_osr.model.gaussian.full import dot
from stream_osr.model.jit import kernel
from stream_osr.model.known import Densities, Known
from stream_osr.model.prior import NO_COLUMN
from stream_osr.model.restaurant import StreamState
from stream_osr.model.space import HORIZON, Space, write_places


class View(NamedTuple):
    """Weighted terms, laid out for :func:`look`: one sum for each known class and, last, one for all else.

    Attributes
    ----------
    fill, center, forward
        Map to whitened coordinates (:class:`stream_osr.model.space.Space`).
    packed
        As in :class:`stream_osr.model.terms.Terms`, shape (M, (d + 1) (d + 2) / 2).
    shape
        Head, power and least form of each term, shape (3, M).
    first
        First term of each sum, and M, shape (J + 2,).
    values
        Log probability of each place of the categories under each term, shape (M, V).
    columns, places, flags, open
        Raw features that are categories, the places of each, and those in which a new value says nothing
        (:class:`stream_osr.model.space.Space`).
    """

    fill: np.ndarray
    center: np.ndarray
    forward: np.ndarray
    packed: np.ndarray
    shape: np.ndarray
    first: np.ndarray
    values: np.ndarray
    columns: np.ndarray
    places: np.ndarray
    flags: Flags
    open: np.ndarray


def view(known: Known, frozen: Densities, state: StreamState, space: Space | None = None, shift: float = 0.0) -> View:
    """State the weight of each known class and of all else, its log odds shifted; full covariances only.

    Without a space it is for whitened rows.
    """
    terms, n_classes, log_seats = frozen.terms, len(known.size), log_seats_of(state.franchise)
    (packed, emerging, power, least), values = terms_of(state.dishes, known.prior), terms.values
    values = np.concatenate([values, log_table(state.dishes.counts, known.prior)])
    first = terms.first.copy()
    first[-1] += len(emerging)
    head = terms.head + np.repeat(np.append(log_seats[:n_classes], log_seats[-1]), np.diff(terms.first))
    head = np.concatenate([head, emerging + log_seats[n_classes:-1]])
    head[terms.first[-2] :] += shift
    shape = np.array([head, np.concatenate([terms.power, power]), np.concatenate([terms.least, least])])
    laid = np.concatenate([terms.packed, packed]), shape, first, values
    if space is None:
        return View(np.zeros(0), np.zeros(0), np.zeros((0, 0)), *laid, NO_COLUMN, NO_COLUMN, NO_FLAGS, NO_COLUMN)
    return View(space.fill, space.center, space.forward, *laid, space.columns, space.places, space.flags, space.open)


@kernel
def look(values: np.ndarray, view: View) -> np.ndarray:
    """Class probabilities of raw rows, NaN = missing, shape (n, p).

    Returns
    -------
    Probability of each known class and, last, unknown, shape (n, J + 1).
    """
    first, n, d = view.first, len(values), view.forward.shape[1]
    count, sums = view.packed.shape[0], len(first) - 1
    x, product, value = np.ones(d + 1), np.empty((d + 1) * (d + 2) // 2), np.empty(count)
    places = np.empty(len(view.places), np.int64)
    out = np.empty((n, sums))
    for i in range(n):
        weigh_terms(values[i], view, x, product, value, places)
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
def look_closely(values: np.ndarray, view: View, emerging: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the known classes, of each of K emerging subclasses and of a new one, for raw rows.

    The terms of the emerging ones are the last.

    Returns
    -------
    Probabilities, shape (n, J + K + 1), and the log weight of each known class, shape (n, J).
    """
    first, n, d = view.first, len(values), view.forward.shape[1]
    count, classes = view.packed.shape[0], len(first) - 2
    x, product, value = np.ones(d + 1), np.empty((d + 1) * (d + 2) // 2), np.empty(count)
    places = np.empty(len(view.places), np.int64)
    out, log_weight = np.zeros((n, classes + emerging + 1)), np.empty((n, classes))
    for i in range(n):
        peak = weigh_terms(values[i], view, x, product, value, places)
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
    raw: np.ndarray, view: View, x: np.ndarray, product: np.ndarray, value: np.ndarray, places: np.ndarray
) -> float:
    """Write the weights of the terms for a raw row into ``value``, relative to the largest; returns its logarithm.

    ``x``, ``product`` and ``places`` are room.
    """
    fill, center, forward, packed, shape = view.fill, view.center, view.forward, view.packed, view.shape
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
    write_places(raw, view.columns, view.places, view.flags, places, view.open)
    for c in range(len(places)):
        for m in range(count):
            value[m] += view.values[m, places[c]]
    peak = largest(value)
    for m in range(count):
        value[m] -= peak
    exp_each(value)
    return float(peak)


@kernel
def draw_in(z: np.ndarray) -> None:
    """Draw a whitened row that lies beyond the horizon in to it, as :func:`stream_osr.model.space.whiten` does."""
    far = np.abs(z).max() if len(z) else 0.0
    if far > HORIZON / np.sqrt(len(z)):
        length = 0.0
        for a in range(len(z)):
            length += (z[a] / far) ** 2
        length = np.sqrt(length) * far
        if length > HORIZON:
            for a in range(len(z)):
                z[a] = z[a] / length * HORIZON
