"""Gibbs seating in the Chinese restaurant franchise: equations (10) and (11) of the paper.

One visit takes a guest from its table, weighs every dish on the menu and a new one, and seats it again. The
dish is drawn first, from the seats and tables of that dish added up, then the table within the dish: the same
distribution as drawing the table first. Tables of one dish in one restaurant differ in nothing but their size.

The same visit serves training (the groups are the known classes, no dish is frozen), the stream (one group, the
known classes are frozen dishes) and the co-clustering of the paper (all groups, all dishes open).
"""

from __future__ import annotations

import numpy as np

from stream_osr.model.dishes import Dishes, clear, log_block_predictive, log_predictive, log_predictive_without
from stream_osr.model.elementwise import exp_each, largest, total_of
from stream_osr.model.franchise import (
    ANYONE,
    CLOSED,
    Franchise,
    Guests,
    free_dish,
    free_table,
    join,
    leave,
    menu_weight,
    serve,
)
from stream_osr.model.jit import borrowing_kernel, kernel
from stream_osr.model.moves.likelihood import (
    Likelihood,
    add,
    log_block_predictive_above,
    log_density_without,
    remove,
    restate,
)
from stream_osr.model.prior import DIAGONAL, FULL, Prior

HOPELESS = 32.0
"""Nats below the best by which a dish is left out; ``exp(-32)`` is 1e-14."""

LEAST = 1e-200
"""Remembered densities whose sum is below this, or above its inverse, are stated anew: they would lose digits."""


@borrowing_kernel
def weigh_dishes(
    x: np.ndarray,
    group: int,
    own: int,
    log_frozen: np.ndarray,
    log_new: float,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    weights: np.ndarray,
) -> float:
    """Conditional weights of one guest's dish given all other seats, up to a factor; returns their sum.

    Parameters
    ----------
    x
        Homogeneous row, shape (d + 1,).
    group
        Its restaurant.
    own
        Dish whose statistics contain ``x`` (it is weighed without it), or ``CLOSED``.
    log_frozen
        Log density of ``x`` under the C frozen dishes, shape (C,).
    log_new
        Log density of ``x`` under a new subclass.
    franchise, dishes, prior
        The state; the guest holds no seat in it.
    weights
        Output, shape (C + K + 1,): the dishes up to the extent of the menu, then a new one.
    """
    frozen = log_frozen.shape[0]
    last = franchise.extent[0]
    menu, held, owner = franchise.menu, franchise.held, franchise.owner
    for k in range(last):
        served = max(menu[k], held[k]) > 0.0
        if not served or (owner[k] != ANYONE and owner[k] != group):
            weights[k] = -np.inf
            continue
        if k < frozen:
            weights[k] = log_frozen[k]
        elif k == own:
            weights[k] = log_predictive_without(dishes, k - frozen, x, prior)
        else:
            weights[k] = log_predictive(dishes, k - frozen, x, prior)
    relative(log_new, franchise, weights)
    exp_each(weights[: last + 1])
    return times_seats(group, franchise, weights)


@borrowing_kernel
def weigh_remembered(
    i: int,
    group: int,
    own: int,
    rows: np.ndarray,
    log_frozen: np.ndarray,
    log_new: float,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    weights: np.ndarray,
    likelihood: Likelihood,
) -> float:
    """Do what :func:`weigh_dishes` does for guest i of a stream, with densities that are remembered."""
    total = _weigh_remembered(i, group, own, rows, log_frozen.shape[0], franchise, dishes, prior, weights, likelihood)
    if not LEAST < total < 1.0 / LEAST:
        restate(likelihood, i, own, log_frozen, log_new, rows, franchise, dishes, prior)
        total = _weigh_remembered(
            i, group, own, rows, log_frozen.shape[0], franchise, dishes, prior, weights, likelihood
        )
    return total


@borrowing_kernel
def _weigh_remembered(
    i: int,
    group: int,
    own: int,
    rows: np.ndarray,
    frozen: int,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    weights: np.ndarray,
    likelihood: Likelihood,
) -> float:
    last = franchise.extent[0]
    menu, held, seated = franchise.menu, franchise.held, franchise.seated[group]
    density, gamma = likelihood.density[i], franchise.gamma[0]
    share = franchise.alpha[group] / (franchise.total[0] + gamma)
    for k in range(last):
        weights[k] = density[k] * (seated[k] + share * max(menu[k], held[k]))
    if own != CLOSED:
        weights[own] = 0.0
        tables = menu_weight(franchise, own)
        if tables > 0.0:
            log_own = log_density_without(likelihood, i, own - frozen, rows, dishes, prior)
            weights[own] = np.exp(log_own - likelihood.reference[i]) * (seated[own] + share * tables)
    weights[last] = likelihood.fresh[i] * share * gamma
    return float(total_of(weights[:last]) + weights[last])


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
def draw(rng: np.random.Generator, weights: np.ndarray, total: float) -> int:
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
def draw_table(rng: np.random.Generator, franchise: Franchise, group: int, dish: int) -> int:
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
def visit(
    rng: np.random.Generator,
    i: int,
    guests: Guests,
    log_frozen: np.ndarray,
    log_new: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    exclusive: bool,
    weights: np.ndarray,
    likelihood: Likelihood | None = None,
) -> float:
    """Re-seat guest i (seat it, when it has no table); ``weights`` holds the dish weights, their sum is returned."""
    frozen = log_frozen.shape[1]
    x = guests.rows[i]
    group = guests.group[i]
    old = CLOSED
    own = CLOSED
    if guests.table[i] != CLOSED:
        old = leave(franchise, guests.table[i], guests.weight[i])
        guests.table[i] = CLOSED
        if old >= frozen:
            own = old
    if likelihood is None:
        total = weigh_dishes(x, group, own, log_frozen[i], log_new[i], franchise, dishes, prior, weights)
    else:
        total = weigh_remembered(
            i, group, own, guests.rows, log_frozen[i], log_new[i], franchise, dishes, prior, weights, likelihood
        )
    last = franchise.extent[0]
    dish = draw(rng, weights[: last + 1], total)
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
        franchise.owner[dish] = group if exclusive else ANYONE
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


@borrowing_kernel
def weigh_block(
    old: int,
    members: np.ndarray,
    block: np.ndarray,
    group: int,
    log_frozen: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    empty: Dishes,
    weights: np.ndarray,
    likelihood: Likelihood | None = None,
) -> None:
    """Write the log weights of the dishes, and of a new one, for the whole table that serves ``old``.

    Where forms are remembered, a dish that by an upper bound of its weight stays ``HOPELESS`` nats below one that has
    been computed is left out: a hundred of them together have less than 1e-11 of the probability.
    """
    frozen, last = log_frozen.shape[1], franchise.extent[0]
    menu, held, owner = franchise.menu, franchise.held, franchise.owner
    if old >= frozen and dishes.size[old - frozen] == members.shape[0]:  # without them nothing is left: the same
        log_fresh = log_block_predictive(dishes, old - frozen, block, True, prior)
    else:
        log_fresh = log_block_predictive(empty, 0, block, False, prior)
    weights[last] = np.log(franchise.gamma[0]) + log_fresh
    best = weights[last]
    for step in range(2):  # its own dish and the frozen ones first: most others do not come near them
        for k in range(last):
            if (step == 0) != (k == old or k < frozen):
                continue
            tables = max(menu[k], held[k])
            weights[k] = -np.inf
            if tables == 0.0 or (owner[k] != ANYONE and owner[k] != group):
                continue
            if k < frozen:
                weights[k] = np.log(tables)
                for i in members:
                    weights[k] += log_frozen[i, k]
            elif likelihood is None or prior.covariance != FULL or k == old:
                weights[k] = np.log(tables) + log_block_predictive(dishes, k - frozen, block, k == old, prior)
            else:
                floor = best - HOPELESS - np.log(tables)
                weights[k] = np.log(tables) + log_block_predictive_above(
                    floor, likelihood, k - frozen, members, block, dishes, prior
                )
            best = max(best, weights[k])


@kernel
def redish(
    rng: np.random.Generator,
    table: int,
    members: np.ndarray,
    guests: Guests,
    log_frozen: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    exclusive: bool,
    weights: np.ndarray,
    likelihood: Likelihood | None = None,
) -> None:
    """Draw the dish of a whole table given everything else, equation (11); ``members`` are all its guests."""
    block, empty = guests.rows[members], empty_dish(prior)
    _redish(
        rng,
        table,
        members,
        block,
        guests,
        log_frozen,
        franchise,
        dishes,
        prior,
        exclusive,
        empty,
        weights,
        likelihood,
    )


@borrowing_kernel
def _redish(
    rng: np.random.Generator,
    table: int,
    members: np.ndarray,
    block: np.ndarray,
    guests: Guests,
    log_frozen: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    exclusive: bool,
    empty: Dishes,
    weights: np.ndarray,
    likelihood: Likelihood | None = None,
) -> None:
    frozen = log_frozen.shape[1]
    last = franchise.extent[0]
    group = franchise.table_group[table]
    old = franchise.table_dish[table]
    mass = franchise.table_mass[table]
    serve(franchise, old, -1.0)
    alone = menu_weight(franchise, old) == 0.0
    weigh_block(old, members, block, group, log_frozen, franchise, dishes, prior, empty, weights, likelihood)
    peak = largest(weights[: last + 1])
    for k in range(last + 1):
        weights[k] = np.exp(weights[k] - peak)
    dish = draw(rng, weights[: last + 1], total_of(weights[: last + 1]))
    nobody_else = old >= frozen and dishes.size[old - frozen] == len(members)
    if dish == old or (dish == last and nobody_else):
        serve(franchise, old, 1.0)
        return
    if dish == last:
        dish = free_dish(franchise, frozen)
        if dish == CLOSED:
            return
        franchise.owner[dish] = group if exclusive else ANYONE
    if old >= frozen:
        if alone:
            clear(dishes, old - frozen, prior)
        else:
            for i in members:
                remove(dishes, old - frozen, i, guests.rows, prior, likelihood)
    if dish >= frozen:
        for i in members:
            add(dishes, dish - frozen, i, guests.rows, prior, likelihood)
    franchise.seated[group, old] = 0.0 if franchise.menu[old] == 0.0 else franchise.seated[group, old] - mass
    franchise.seated[group, dish] += mass
    franchise.table_dish[table] = dish
    serve(franchise, dish, 1.0)


@kernel
def empty_dish(prior: Prior) -> Dishes:
    """Make a single slot that holds the prior."""
    d = prior.n_features
    a, b = d + 1, d + 1
    if prior.covariance != FULL:
        a, b = (2 if prior.covariance == DIAGONAL else 1), d
    out = Dishes(
        np.zeros(1, np.int64),
        np.zeros((1, a, b)),
        np.zeros((1, a, b)),
        np.zeros(1),
        np.zeros((1, 2)),
        np.zeros(1, np.int64),
    )
    clear(out, 0, prior)
    return out


@kernel
def redish_tables(
    rng: np.random.Generator,
    first: int,
    guests: Guests,
    log_frozen: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    exclusive: bool,
    weights: np.ndarray,
    likelihood: Likelihood | None = None,
) -> None:
    """Re-dish the tables all of whose guests are present, at least one of them number ``first`` or later.

    A table of one is left out: a visit to its guest has just done the same.
    """
    n = guests.table.shape[0]
    by_table, start = guests_by_table(guests, franchise)
    _redish_tables(
        rng,
        first,
        by_table,
        start,
        np.empty((n, guests.rows.shape[1])),
        empty_dish(prior),
        guests,
        log_frozen,
        franchise,
        dishes,
        prior,
        exclusive,
        weights,
        likelihood,
    )


@kernel
def guests_by_table(guests: Guests, franchise: Franchise) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the guests, those of table t from ``start[t]`` to ``start[t + 1] - 1``, and ``start``."""
    n, tables = guests.table.shape[0], franchise.extent[1]
    start = np.zeros(tables + 1, np.int64)
    for i in range(n):
        start[guests.table[i] + 1] += 1
    for t in range(tables):
        start[t + 1] += start[t]
    ends = start.copy()
    by_table = np.empty(n, np.int64)
    for i in range(n):
        t = guests.table[i]
        by_table[ends[t]] = i
        ends[t] += 1
    return by_table, start


@borrowing_kernel
def _redish_tables(
    rng: np.random.Generator,
    first: int,
    by_table: np.ndarray,
    start: np.ndarray,
    room: np.ndarray,
    empty: Dishes,
    guests: Guests,
    log_frozen: np.ndarray,
    franchise: Franchise,
    dishes: Dishes,
    prior: Prior,
    exclusive: bool,
    weights: np.ndarray,
    likelihood: Likelihood | None = None,
) -> None:
    for t in range(start.shape[0] - 1):
        members = by_table[start[t] : start[t + 1]]
        size = members.shape[0]
        if size < 2 or members[size - 1] < first or franchise.table_residual[t] != 0.0:
            continue
        for position in range(size):
            for a in range(room.shape[1]):
                room[position, a] = guests.rows[members[position], a]
        _redish(
            rng,
            t,
            members,
            room[:size],
            guests,
            log_frozen,
            franchise,
            dishes,
            prior,
            exclusive,
            empty,
            weights,
            likelihood,
        )
        if franchise.overflow[0]:
            return
