"""Where rows would sit in the present state: known classes, emerging subclasses, a new one. Nobody is seated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.dishes import Dishes, log_predictive_without, log_predictives, mahalanobis_each
from stream_osr.model.elementwise import exp_each, largest, log_each
from stream_osr.model.franchise import menu_weights
from stream_osr.model.jit import kernel
from stream_osr.model.known import Known, density_rank, log_new
from stream_osr.model.prior import FULL, Prior, homogeneous
from stream_osr.model.restaurant import StreamState
from stream_osr.model.terms import products


def cells_of(
    known: Known,
    state: StreamState,
    rows: np.ndarray,
    log_density: np.ndarray,
    log_density_new: np.ndarray | None = None,
    *,
    subclass: np.ndarray | None = None,
    weight: float | np.ndarray = 0.0,
) -> np.ndarray:
    """Ask of the present state where whitened rows of shape (n, d) would sit: equation (10), each row without itself.

    Parameters
    ----------
    known, state
        The known classes, and the sampler's state.
    rows, log_density
        Whitened rows, and their log densities under the known classes, shape (n, J).
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
    franchise, instances = state.franchise, homogeneous(rows)
    n_classes = len(known.size)
    log_seats = log_seats_of(state)
    if known.prior.covariance == FULL:
        packed, *shape = terms_of(state.dishes, known.prior)
        log_emerging = _log_emerging(packed @ products(np.ascontiguousarray(instances.T)), *shape)
    else:
        log_emerging = log_predictives(instances, state.dishes, known.prior)
    fresh = log_new(known, instances) if log_density_new is None else log_density_new
    log_weight = np.concatenate([log_density, log_emerging, fresh[:, None]], axis=1) + log_seats
    if subclass is not None:
        order = np.argsort(state.ids)
        at = np.append(order, 0)[np.searchsorted(state.ids[order], subclass)]
        inside = (subclass >= 0) & (np.append(state.ids, -1)[at] == subclass)
        weights = np.broadcast_to(np.asarray(weight, float), len(rows)).copy()
        slot = np.where(inside, at, -1)
        own, share = n_classes + slot, franchise.alpha[0] / (franchise.total[0] + franchise.gamma[0])
        left = np.maximum(franchise.seated[0][own] - weights, 0.0) + share * menu_weights(franchise)[own]
        _leave_out(log_weight, instances, slot, left, state.dishes, known.prior)
    _normalize(log_weight)
    return np.asarray(log_weight)


def terms_of(dishes: Dishes, prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """State K subclasses as in :class:`stream_osr.model.terms.Terms`: packed forms, heads, powers and least forms."""
    a, b = np.tril_indices(prior.n_features + 1)
    packed = dishes.inverse[:, a, b] * np.where(a == b, 1.0, 2.0)
    head, power = dishes.constant[:, 0] - 0.5 * dishes.log_det, 0.5 * (prior.nu + dishes.size + 1.0)
    return packed, head, power, 1.0 / (prior.beta + dishes.size)


def log_seats_of(state: StreamState) -> np.ndarray:
    """Log weight of a seat at each dish, and of a new one, in equation (10), shape (J + K + 1,)."""
    franchise = state.franchise
    share = franchise.alpha[0] / (franchise.total[0] + franchise.gamma[0])
    tables = menu_weights(franchise)
    seats = np.where(tables > 0.0, franchise.seated[0] + share * tables, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.append(seats, share * franchise.gamma[0])))


@kernel
def _log_emerging(value: np.ndarray, head: np.ndarray, power: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Log densities of n rows under K subclasses, from their forms of shape (K, n); shape (n, K)."""
    count, n = value.shape
    for k in range(count):
        for i in range(n):
            value[k, i] = 1.0 + max(value[k, i], least[k])
    log_each(value.reshape(value.size))
    out = np.empty((n, count))
    for k in range(count):
        for i in range(n):
            out[i, k] = head[k] - power[k] * value[k, i]
    return out


@kernel
def _leave_out(
    log_weight: np.ndarray, instances: np.ndarray, slot: np.ndarray, left: np.ndarray, dishes: Dishes, prior: Prior
) -> None:
    """Weigh each instance's own subclass, at ``slot`` (-1: none), without it and with the seats that are left."""
    n_classes = log_weight.shape[1] - 1 - dishes.size.shape[0]
    for i in range(len(slot)):
        k = slot[i]
        if k >= 0:
            log_weight[i, n_classes + k] = -np.inf
            if dishes.size[k] > 1 and left[i] > 0.0:
                log_weight[i, n_classes + k] = log_predictive_without(dishes, k, instances[i], prior) + np.log(
                    left[i]
                )


@kernel
def _normalize(weight: np.ndarray) -> None:
    """Turn log weights into weights that add up to one in each row."""
    for i in range(weight.shape[0]):
        peak = largest(weight[i])
        for k in range(weight.shape[1]):
            weight[i, k] -= peak
        exp_each(weight[i])
        total = 0.0
        for k in range(weight.shape[1]):
            total += weight[i, k]
        for k in range(weight.shape[1]):
            weight[i, k] /= total


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
    nearest = log_density.argmax(axis=1)
    rank = density_rank(known, log_density[np.arange(len(nearest)), nearest], nearest)
    subclass = responsible[np.arange(len(rows)), nearest[: len(rows)]]
    return Nearby(nearest, rank, mahalanobis_each(known.dishes, subclass, homogeneous(rows), known.prior))
