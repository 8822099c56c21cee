"""Immediate predictions visit by visit: the class probabilities of rows that are not seated."""

from __future__ import annotations

import numpy as np

from stream_osr.model import restaurants
from stream_osr.model.jit import Array
from stream_osr.model.known import Densities, Known, log_densities
from stream_osr.model.moves.predictive_cache import SamplerState
from stream_osr.model.moves.seating import weigh_dishes
from stream_osr.model.prior import homogeneous
from stream_osr.model.sampler import COMPLETE


def immediate(known: Known, frozen: Densities, state: restaurants.StreamState, rows: Array) -> Array:
    """Class probabilities from the present state alone. The function seats no row and changes nothing.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).

    Returns
    -------
    Probability of each known class and, last, unknown, shape (n, J + 1).
    """
    instances, nobody, n_classes = homogeneous(rows), np.zeros(len(rows), np.int64), len(known.size)
    log_density, _, log_density_new = log_densities(known, frozen, instances)
    guests = restaurants.Guests(instances, nobody, np.zeros(len(rows)), nobody)
    weights = np.empty(len(state.franchise.menu) + 1)
    seats = state.franchise, state.dishes, known.prior
    sampler_state = SamplerState(guests, *seats, log_density, log_density_new, False, weights, COMPLETE)
    out = np.empty((len(rows), n_classes + 1))
    for i in range(len(rows)):
        total = weigh_dishes(i, restaurants.CLOSED, sampler_state)
        out[i, :n_classes] = weights[:n_classes] / total
        out[i, n_classes] = weights[n_classes:].sum() / total
    return out
