"""Gibbs seating in the Chinese restaurant franchise: equation (10) of the paper.

One visit takes a guest from its table, weighs every dish on the menu and a new one, and seats it again. The
dish is drawn first, from the seats and tables of that dish added up, then the table within the dish: the same
distribution as drawing the table first. Tables of one dish in one restaurant differ in nothing but their size.

The same visit serves training (the groups are the known classes, no dish is frozen), the stream (one group, the
known classes are frozen dishes) and the co-clustering of the paper (all groups, all dishes open).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from stream_osr.model.dishes import clear, log_predictive, log_predictive_without
from stream_osr.model.elementwise import exp_each, largest, total_of
from stream_osr.model.franchise import ANYONE, CLOSED, Franchise, free_dish, free_table, join, leave, menu_weight
from stream_osr.model.jit import borrowing_kernel
from stream_osr.model.moves.likelihood import Likelihood, Sitting, add, log_density_without, remove, restate

LEAST = 1e-200
"""Remembered densities whose sum is below this, or above its inverse, are stated anew: they would lose digits."""


@borrowing_kernel
def weigh_dishes(i: int, own: int, sitting: Sitting) -> float:
    """Write the conditional weights of guest i's dish given all other seats, up to a factor; returns their sum.

    It holds no seat; ``own`` is the dish whose statistics contain it (it is weighed without it), or ``CLOSED``.
    """
    franchise, dishes, prior, weights = sitting.franchise, sitting.dishes, sitting.prior, sitting.weights
    x, group, log_frozen = sitting.guests.rows[i], sitting.guests.group[i], sitting.log_frozen
    frozen, last = log_frozen.shape[1], franchise.extent[0]
    menu, held, owner = franchise.menu, franchise.held, franchise.owner
    for k in range(last):
        served = max(menu[k], held[k]) > 0.0
        if not served or (owner[k] != ANYONE and owner[k] != group):
            weights[k] = -np.inf
            continue
        if k < frozen:
            weights[k] = log_frozen[i, k]
        elif k == own:
            weights[k] = log_predictive_without(dishes, k - frozen, x, prior)
        else:
            weights[k] = log_predictive(dishes, k - frozen, x, prior)
    relative(sitting.log_new[i], franchise, weights)
    exp_each(weights[: last + 1])
    return times_seats(group, franchise, weights)


@borrowing_kernel
def weigh_remembered(i: int, own: int, sitting: Sitting, likelihood: Likelihood) -> float:
    """Do what :func:`weigh_dishes` does for guest i of a stream, with densities that are remembered."""
    rows, group, weights = sitting.guests.rows, sitting.guests.group[i], sitting.weights
    franchise, dishes, prior = sitting.franchise, sitting.dishes, sitting.prior
    log_frozen, log_new = sitting.log_frozen[i], sitting.log_new[i]
    frozen, last = log_frozen.shape[0], franchise.extent[0]
    menu, held, seated = franchise.menu, franchise.held, franchise.seated[group]
    density, gamma = likelihood.density[i], franchise.gamma[0]
    share = franchise.alpha[group] / (franchise.total[0] + gamma)
    total = 0.0
    for restated in range(2):
        if restated:
            restate(likelihood, i, own, log_frozen, log_new, rows, franchise, dishes, prior)
        for k in range(last):
            weights[k] = density[k] * (seated[k] + share * max(menu[k], held[k]))
        if own != CLOSED:
            weights[own] = 0.0
            tables = menu_weight(franchise, own)
            if tables > 0.0:
                log_own = log_density_without(likelihood, i, own - frozen, rows, dishes, prior)
                weights[own] = np.exp(log_own - likelihood.reference[i]) * (seated[own] + share * tables)
        weights[last] = likelihood.fresh[i] * share * gamma
        total = float(total_of(weights[:last]) + weights[last])
        if LEAST < total < 1.0 / LEAST:
            break
    return total


@borrowing_kernel
def relative(log_new: float, franchise: Franchise, weights: np.ndarray) -> None:
    """Append the log density of a new subclass and make all relative to the largest."""
    last = franchise.extent[0]
    weights[last] = log_new
    peak = largest(weights[: last + 1])
    for k in range(last + 1):
        weights[k] -= peak


@borrowing_kernel
def times_seats(group: int, franchise: Franchise, weights: np.ndarray) -> float:
    """Multiply densities by the seats and the menu weights of their dishes; returns the sum."""
    last = franchise.extent[0]
    menu, held, seated = franchise.menu, franchise.held, franchise.seated[group]
    gamma = franchise.gamma[0]
    share = franchise.alpha[group] / (franchise.total[0] + gamma)
    for k in range(last):
        weights[k] *= seated[k] + share * max(menu[k], held[k])
    weights[last] *= share * gamma
    return float(total_of(weights[:last]) + weights[last])


@borrowing_kernel
def draw(rng: Generator, weights: np.ndarray, total: float) -> int:
    """Draw an index with probability proportional to its weight."""
    u = rng.random() * total
    n = weights.shape[0]
    k = 0
    while k + 8 <= n:  # eight at a time as long as they are passed over
        w = weights[k : k + 8]
        several = ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]))
        if u < several:
            break
        u -= several
        k += 8
    while k < n:
        u -= weights[k]
        if u < 0.0:
            return k
        k += 1
    for k in range(n - 1, 0, -1):  # rounding left a crumb
        if weights[k] > 0.0:
            return k
    return 0


@borrowing_kernel
def draw_table(rng: Generator, franchise: Franchise, group: int, dish: int) -> int:
    """Draw one of the restaurant's tables that serve the dish, or ``CLOSED`` for a table of its own."""
    share = franchise.alpha[group] / (franchise.total[0] + franchise.gamma[0])
    u = rng.random() * (franchise.seated[group, dish] + share * menu_weight(franchise, dish))
    serves, of_group, mass = franchise.table_dish, franchise.table_group, franchise.table_mass
    for t in range(franchise.extent[1]):
        if serves[t] == dish and of_group[t] == group:
            u -= mass[t]
            if u < 0.0:
                return t
    return CLOSED


@borrowing_kernel
def visit(rng: Generator, i: int, sitting: Sitting, likelihood: Likelihood | None = None) -> float:
    """Re-seat guest i (seat it, when it has no table); writes the weights of the dishes, returns their sum."""
    guests, franchise, dishes, prior = sitting.guests, sitting.franchise, sitting.dishes, sitting.prior
    frozen, group = sitting.log_frozen.shape[1], guests.group[i]
    old = own = CLOSED
    if guests.table[i] != CLOSED:
        old = leave(franchise, guests.table[i], guests.weight[i])
        guests.table[i] = CLOSED
        if old >= frozen:
            own = old
    if likelihood is None:
        total = weigh_dishes(i, own, sitting)
    else:
        total = weigh_remembered(i, own, sitting, likelihood)
    last = franchise.extent[0]
    dish = draw(rng, sitting.weights[: last + 1], total)
    new = dish == last
    if own != CLOSED and dish != own:
        if new and dishes.size[own - frozen] == 1:
            dish = own  # alone before and alone again: the same subclass, held or not
        elif menu_weight(franchise, own) > 0.0:
            remove(dishes, own - frozen, i, guests.rows, prior, likelihood)
        else:
            clear(dishes, own - frozen, prior)
            own = CLOSED  # its slot is free now, perhaps for this very guest
    if new:
        if dish != own:
            dish = free_dish(franchise, frozen)
            if dish == CLOSED:
                return total
        franchise.owner[dish] = group if sitting.exclusive else ANYONE
    if dish >= frozen and dish != own:
        add(dishes, dish - frozen, i, guests.rows, prior, likelihood)
    table = CLOSED if new else draw_table(rng, franchise, group, dish)
    if table == CLOSED:
        table = free_table(franchise)
        if table == CLOSED:
            return total
    guests.table[i] = table
    join(franchise, table, group, dish, guests.weight[i])
    return total
