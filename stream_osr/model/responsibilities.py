"""Responsibilities of known classes and subclasses for rows without a seat, and immediate predictions.

The responsibilities are the probabilities of each seat for a row in the present state: known classes, emerging
subclasses, and a new one. The functions seat no row.

An immediate prediction uses the present state as one set of weighted Student-t densities. The conditional weights of
a guest's dish, equation (10), are ``seats x density``. With the seats in the heads of the terms, a prediction is one
pass over the quadratic forms. It does not use BLAS, so its bits depend neither on threads nor on the number of
instances in a query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.categories import log_table, places_of
from stream_osr.model.dish_statistics import Dishes, distance_from, log_predictive_without
from stream_osr.model.elementwise import exp_each, exp_each_using, largest, log_each, total_of
from stream_osr.model.feature_space.binary_features import BinaryFeatures
from stream_osr.model.feature_space.whitening import HORIZON, NO_WHITENING, Whitening, write_places
from stream_osr.model.gaussian import dot
from stream_osr.model.jit import Array, borrowing_kernel, called_kernel, kernel
from stream_osr.model.known import N_RANKS, Densities, Known
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.restaurants import Franchise, StreamState, menu_weight
from stream_osr.model.student_t import packed_forms, products


class QueryRows(NamedTuple):
    """The n query rows, in a form that serves all states.

    Attributes
    ----------
    rows, product
        Homogeneous rows, shape (n, C + d + 1), and the products of their numeric coordinates, shape (n, (d + 1) (d +
        2) / 2).
    """

    rows: Array
    product: Array


def query_rows(rows: Array, prior: Prior) -> QueryRows:
    """Prepare whitened rows of shape (n, d)."""
    instances = homogeneous(rows)
    return QueryRows(instances, products(instances, len(prior.first)))


class QueryDensities(NamedTuple):
    """Densities and seats of the n query rows in one state.

    Attributes
    ----------
    log_density, log_density_new
        Log densities under the known classes, shape (n, J), and under a new subclass, shape (n,).
    subclass, weight
        Emerging subclass that includes each row (-1 if none), and the seat weight, shape (n,).
    """

    log_density: Array
    log_density_new: Array
    subclass: Array
    weight: Array


@kernel
def terms_of(dishes: Dishes, prior: Prior) -> tuple[Array, Array, Array, Array]:
    """Packed forms, heads, powers and least forms of K subclasses, as in :class:`~.student_t.StudentTerms`."""
    packed = packed_forms(np.arange(len(dishes.size)), dishes)
    head, power = dishes.constant[:, 0] - 0.5 * dishes.log_det, 0.5 * (prior.nu + dishes.size + 1.0)
    return packed, head, power, 1.0 / (prior.beta + dishes.size)


@kernel
def log_seats_of(franchise: Franchise) -> Array:
    """Log weight of a seat at each dish, and of a new one, in equation (10), shape (J + K + 1,)."""
    count = len(franchise.menu)
    share = share_of_menu(franchise)
    out = np.empty(count + 1)
    for dish in range(count):
        tables = menu_weight(franchise, dish)
        out[dish] = np.log(franchise.seated[0, dish] + share * tables) if tables > 0.0 else -np.inf
    out[count] = np.log(share * franchise.gamma[0])
    return out


@borrowing_kernel
def share_of_menu(franchise: Franchise) -> float:
    """Return the weight that each table on the menu adds to the seats at its dish."""
    return float(franchise.alpha[0] / (franchise.total[0] + franchise.gamma[0]))


@borrowing_kernel
def place_of(ids: Array, key: int) -> int:
    """Find the position of an identity among those of the emerging subclasses, or -1."""
    if key >= 0:
        for k in range(len(ids)):
            if ids[k] == key:
                return k
    return -1


@kernel
def weigh(state: StreamState, query: QueryRows, densities: QueryDensities, prior: Prior) -> Array:
    """Compute the probabilities of each seat for n rows in the present state: equation (10), each row left out.

    Returns
    -------
    Probability of each known class, each emerging subclass and a new one, shape (n, J + K + 1).
    """
    out = np.empty((len(densities.weight), len(state.franchise.menu) + 1))
    weigh_into(out, state, terms_of(state.dishes, prior), query, densities, prior)
    return out


@kernel
def weigh_into(
    out: Array,
    state: StreamState,
    student_terms: tuple[Array, Array, Array, Array],
    query: QueryRows,
    densities: QueryDensities,
    prior: Prior,
) -> None:
    """Write the result of :func:`weigh` to ``out``, given the terms of the emerging subclasses (:func:`terms_of`)."""
    emerging = _log_emerging(state.dishes, student_terms, query, prior)
    log_seats = log_seats_of(state.franchise)
    _weigh_rows(out, state, log_seats, emerging, query.rows, densities, prior, np.empty(len(log_seats), np.int64))


@called_kernel
def _weigh_rows(
    out: Array,
    state: StreamState,
    log_seats: Array,
    emerging: Array,
    instances: Array,
    densities: QueryDensities,
    prior: Prior,
    room: Array,
) -> None:
    """Do the work of :func:`weigh_into`, given the log weights of the seats, and the densities of the subclasses."""
    franchise, dishes, ids, share = state.franchise, state.dishes, state.ids, share_of_menu(state.franchise)
    log_density, log_density_new, subclass, weight = densities
    (n, n_classes), count = log_density.shape, len(log_seats)
    for i in range(n):
        row = out[i]
        for c in range(n_classes):
            row[c] = log_density[i, c] + log_seats[c]
        for k in range(count - 1 - n_classes):
            row[n_classes + k] = emerging[i, k] + log_seats[n_classes + k]
        row[count - 1] = log_density_new[i] + log_seats[count - 1]
        k = place_of(ids, subclass[i])
        if k >= 0:
            own = n_classes + k
            left = max(franchise.seated[0, own] - weight[i], 0.0) + share * menu_weight(franchise, own)
            row[own] = -np.inf
            if dishes.size[k] > 1 and left > 0.0:
                row[own] = log_predictive_without(dishes, k, instances[i], prior) + np.log(left)
        peak = largest(row)
        for c in range(count):
            row[c] -= peak
        exp_each_using(room, row)
        scale = 1.0 / total_of(row)
        for c in range(count):
            row[c] *= scale


@kernel
def _log_emerging(
    dishes: Dishes, student_terms: tuple[Array, Array, Array, Array], query: QueryRows, prior: Prior
) -> Array:
    """Log density of each row under each of K subclasses, shape (n, K)."""
    packed, head, power, least = student_terms
    value = query.product @ packed.T
    n, count = value.shape
    for i in range(n):
        for k in range(count):
            value[i, k] = 1.0 + max(value[i, k], least[k])
    log_each(value.reshape(value.size))
    for i in range(n):
        for k in range(count):
            value[i, k] = head[k] - power[k] * value[i, k]
    columns = prior.first.shape[0]
    if columns > 0:
        places, logs = places_of(query.rows, columns), log_table(dishes.counts, prior)
        for i in range(n):
            for c in range(columns):
                for k in range(count):
                    value[i, k] += logs[k, places[c, i]]
    return value


class Nearby(NamedTuple):
    """The known class nearest to each of n rows.

    Attributes
    ----------
    nearest, rank
        Its number, and the density rank there, shape (n,).
    distance
        Mahalanobis distance from its most responsible subclass, for the m rows that were given, shape (m,).
    """

    nearest: Array
    rank: Array
    distance: Array


def nearby(known: Known, log_density: Array, responsible: Array, rows: Array) -> Nearby:
    """Find the known class with the highest density for each row.

    Parameters
    ----------
    known
        The known classes.
    log_density, responsible
        Log density of each row under each class, and that class's most responsible subclass, shape (n, J).
    rows
        Whitened rows for the distances, the first m rows, shape (m, d).
    """
    return Nearby(*_nearby(known.dishes, known.ranks, log_density, responsible, homogeneous(rows), known.prior))


@kernel
def _nearby(
    dishes: Dishes, ranks: Array, log_density: Array, responsible: Array, rows: Array, prior: Prior
) -> tuple[Array, Array, Array]:
    """Do the work of :func:`nearby` for homogeneous rows."""
    n, n_classes = log_density.shape
    nearest, rank, distance = np.zeros(n, np.int64), np.empty(n), np.empty(len(rows))
    for i in range(n):
        for j in range(1, n_classes):
            if log_density[i, j] > log_density[i, nearest[i]]:
                nearest[i] = j
        below = np.searchsorted(ranks[nearest[i]], log_density[i, nearest[i]], "right")
        rank[i] = below / N_RANKS
    for i in range(len(rows)):
        distance[i] = distance_from(dishes, responsible[i, nearest[i]], rows[i], prior)
    return nearest, rank, distance


class View(NamedTuple):
    """Weighted terms, laid out for :func:`look`: one sum for each known class and, last, one for all else.

    Attributes
    ----------
    fill, center, forward
        Map to whitened coordinates (:class:`stream_osr.model.feature_space.whitening.Whitening`).
    packed
        As in :class:`stream_osr.model.student_t.StudentTerms`, shape (M, (d + 1) (d + 2) / 2).
    shape
        Head, power and least form of each term, shape (3, M).
    first
        First term of each sum, and M, shape (J + 2,).
    values
        Log probability of each place of the categories under each term, shape (M, V).
    columns, places, binary_features, open
        Raw features that are categories, the places of each, and the open categories, in which new values carry no
        information (:class:`stream_osr.model.feature_space.whitening.Whitening`).
    """

    fill: Array
    center: Array
    forward: Array
    packed: Array
    shape: Array
    first: Array
    values: Array
    columns: Array
    places: Array
    binary_features: BinaryFeatures
    open: Array


def view(
    known: Known, frozen: Densities, state: StreamState, whitening: Whitening = NO_WHITENING, shift: float = 0.0
) -> View:
    """Return the terms of each known class and of all else, with the log odds of all else shifted.

    Without a whitening the view is for whitened rows.
    """
    terms, n_classes, log_seats = frozen.student_terms, len(known.size), log_seats_of(state.franchise)
    packed, emerging, power, least = terms_of(state.dishes, known.prior)
    values = np.concatenate([terms.values, log_table(state.dishes.counts, known.prior)])
    first = terms.first.copy()
    first[-1] += len(emerging)
    head = terms.head + np.repeat(np.append(log_seats[:n_classes], log_seats[-1]), np.diff(terms.first))
    head = np.concatenate([head, emerging + log_seats[n_classes:-1]])
    head[terms.first[-2] :] += shift
    shape = np.array([head, np.concatenate([terms.power, power]), np.concatenate([terms.least, least])])
    laid = np.concatenate([terms.packed, packed]), shape, first, values
    w = whitening
    return View(w.fill, w.center, w.forward, *laid, w.columns, w.places, w.binary_features, w.open)


@kernel
def look(values: Array, view: View) -> Array:
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
def look_closely(values: Array, view: View, emerging: int) -> tuple[Array, Array]:
    """Probabilities of the known classes, of each of K emerging subclasses and of a new one, for raw rows.

    The terms of the emerging subclasses are the last ones.

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
def weigh_terms(raw: Array, view: View, x: Array, product: Array, value: Array, places: Array) -> float:
    """Write the weights of the terms for a raw row into ``value``, relative to the largest, and return its logarithm.

    ``x``, ``product`` and ``places`` are scratch space.
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
    write_places(raw, view.columns, view.places, view.binary_features, places, view.open)
    for c in range(len(places)):
        for m in range(count):
            value[m] += view.values[m, places[c]]
    peak = largest(value)
    for m in range(count):
        value[m] -= peak
    exp_each(value)
    return float(peak)


@kernel
def draw_in(z: Array) -> None:
    """Move a whitened row beyond the horizon back to it, as :func:`~.whitening.whiten` does."""
    far = np.abs(z).max() if len(z) else 0.0
    if far > HORIZON / np.sqrt(len(z)):
        length = 0.0
        for a in range(len(z)):
            length += (z[a] / far) ** 2
        length = np.sqrt(length) * far
        if length > HORIZON:
            for a in range(len(z)):
                z[a] = z[a] / length * HORIZON
