"""Where rows would sit in the present state: known classes, emerging subclasses, a new one. Nobody is seated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.categories import log_table, places_of
from stream_osr.model.dishes import Dishes, distance_from, log_predictive_without, log_predictives
from stream_osr.model.elementwise import exp_each_using, largest, log_each, total_of
from stream_osr.model.franchise import Franchise, menu_weight
from stream_osr.model.jit import borrowing_kernel, kernel
from stream_osr.model.known import N_RANKS, Known, log_new
from stream_osr.model.prior import FULL, Prior, homogeneous
from stream_osr.model.restaurant import StreamState
from stream_osr.model.terms import products


class Asked(NamedTuple):
    """The n rows that are asked about, alike for all states.

    Attributes
    ----------
    rows, product
        Homogeneous rows, shape (n, C + d + 1), and the products of their numeric coordinates, with full covariances,
        shape (n, (d + 1) (d + 2) / 2).
    """

    rows: np.ndarray
    product: np.ndarray


def asked(rows: np.ndarray, prior: Prior) -> Asked:
    """Prepare whitened rows of shape (n, d)."""
    instances = homogeneous(rows)
    full = prior.covariance == FULL
    return Asked(instances, products(instances, len(prior.first)) if full else np.empty((0, 0)))


def cells_of(
    known: Known,
    state: StreamState,
    rows: Asked,
    log_density: np.ndarray,
    log_density_new: np.ndarray | None = None,
    *,
    subclass: np.ndarray | None = None,
    weight: float | np.ndarray = 0.0,
) -> np.ndarray:
    """Ask of the present state where n rows would sit: equation (10), each row without itself.

    Parameters
    ----------
    known, state
        The known classes, and the sampler's state.
    rows, log_density
        The rows, and their log densities under the known classes, shape (n, J).
    log_density_new
        Their log densities under a new subclass, shape (n,), if they are at hand.
    subclass
        Emerging subclass that each row is part of, -1: none.
    weight
        What their seats weigh.

    Returns
    -------
    Probability of each known class, each emerging subclass and a new one, shape (n, J + K + 1).
    """
    n = len(log_density)
    fresh = log_new(known, rows.rows) if log_density_new is None else log_density_new
    part_of = np.full(n, -1) if subclass is None else subclass
    said = Said(log_density, fresh, part_of, np.full(n, weight, float))
    return weigh(state, rows, said, known.prior)


class Said(NamedTuple):
    """What is said of the n rows that are asked about, state by state.

    Attributes
    ----------
    log_density, log_density_new
        Log densities under the known classes, shape (n, J), and under a new subclass, shape (n,).
    subclass, weight
        Emerging subclass that each is part of, -1: none, and what its seat weighs, shape (n,).
    """

    log_density: np.ndarray
    log_density_new: np.ndarray
    subclass: np.ndarray
    weight: np.ndarray


@kernel
def terms_of(dishes: Dishes, prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """State K subclasses as in :class:`stream_osr.model.terms.Terms`: packed forms, heads, powers and least forms."""
    count, width = len(dishes.size), prior.n_features + 1
    packed = np.empty((count, width * (width + 1) // 2))
    for k in range(count):
        line = 0
        for a in range(width):
            for b in range(a):
                packed[k, line + b] = dishes.inverse[k, a, b] * 2.0
            packed[k, line + a] = dishes.inverse[k, a, a]
            line += a + 1
    head, power = dishes.constant[:, 0] - 0.5 * dishes.log_det, 0.5 * (prior.nu + dishes.size + 1.0)
    return packed, head, power, 1.0 / (prior.beta + dishes.size)


@kernel
def log_seats_of(franchise: Franchise) -> np.ndarray:
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
    """Say what each table on the menu adds to the seats at its dish."""
    return float(franchise.alpha[0] / (franchise.total[0] + franchise.gamma[0]))


@borrowing_kernel
def place_of(ids: np.ndarray, key: int) -> int:
    """Find an identity among those of the emerging subclasses; -1: it is none of them."""
    if key >= 0:
        for k in range(len(ids)):
            if ids[k] == key:
                return k
    return -1


@kernel
def weigh(state: StreamState, asked: Asked, said: Said, prior: Prior) -> np.ndarray:
    """Do what :func:`cells_of` does; all that it leaves open is said."""
    out = np.empty((len(said.weight), len(state.franchise.menu) + 1))
    weigh_into(out, state, terms_of(state.dishes, prior), asked, said, prior)
    return out


@kernel
def weigh_into(
    out: np.ndarray,
    state: StreamState,
    terms: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    asked: Asked,
    said: Said,
    prior: Prior,
) -> None:
    """Write what :func:`weigh` returns; ``terms`` are those of the emerging subclasses (:func:`terms_of`)."""
    franchise, dishes, ids, instances = state.franchise, state.dishes, state.ids, asked.rows
    emerging, log_seats, share = (
        _log_emerging(dishes, terms, asked, prior),
        log_seats_of(franchise),
        share_of_menu(franchise),
    )
    log_density, log_density_new, subclass, weight = said
    (n, n_classes), count = log_density.shape, len(log_seats)
    room = np.empty(count, np.int64)
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
    dishes: Dishes, terms: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], asked: Asked, prior: Prior
) -> np.ndarray:
    """Log density of each row under each of K subclasses, shape (n, K)."""
    if prior.covariance != FULL:
        return log_predictives(asked.rows, dishes, prior)
    packed, head, power, least = terms
    value = asked.product @ packed.T
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
        places, logs = places_of(asked.rows, columns), log_table(dishes.counts, prior)
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
        Mahalanobis distance from its most responsible subclass, shape (n,); of no row if none was asked for.
    """

    nearest: np.ndarray
    rank: np.ndarray
    distance: np.ndarray


def nearby(known: Known, log_density: np.ndarray, responsible: np.ndarray, rows: np.ndarray) -> Nearby:
    """Find the known class that each row is densest in.

    Parameters
    ----------
    known
        The known classes.
    log_density, responsible
        Log density of each row under each class and the most responsible subclass of that, shape (n, J).
    rows
        Whitened rows whose distances are asked for, the first m of them, shape (m, d).
    """
    return Nearby(*_nearby(known.dishes, known.ranks, log_density, responsible, homogeneous(rows), known.prior))


@kernel
def _nearby(
    dishes: Dishes,
    ranks: np.ndarray,
    log_density: np.ndarray,
    responsible: np.ndarray,
    rows: np.ndarray,
    prior: Prior,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Do what :func:`nearby` does; the rows are homogeneous."""
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
