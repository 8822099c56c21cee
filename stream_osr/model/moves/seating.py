"""Gibbs moves of single guests and of whole tables.

Gibbs seating in the Chinese restaurant franchise uses equation (10) of the paper. One visit removes a guest from its
table, weighs every dish on the menu and a new one, and seats the guest again. It first draws the dish, from the
summed seats and tables of each dish, then the table within the dish. This gives the same distribution as drawing the
table first: tables of one dish in one restaurant differ only in size.

The same visit serves three uses. In training the groups are the known classes and no dish is frozen. In the stream
there is one group, and the known classes are frozen dishes. In the paper's co-clustering all groups take part and all
dishes are open.

Re-dishing draws the dish of a whole table again, by equation (11) of the paper.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from stream_osr.model import categories, dish_statistics, gaussian, restaurants
from stream_osr.model.elementwise import exp_each, largest, log_each_using, total_of
from stream_osr.model.jit import Array, borrowing_kernel, kernel, unrolled_kernel
from stream_osr.model.moves import predictive_cache

LEAST = 1e-200
"""Bound on the sum of cached densities. Below it, or above its inverse, they are recomputed to keep their digits."""


@borrowing_kernel
def weigh_dishes(i: int, own: int, state: predictive_cache.SamplerState) -> float:
    """Write the conditional weights of guest i's dish given all other seats, up to a factor, and return their sum.

    The guest has no seat. ``own`` is the dish whose statistics contain it, or ``CLOSED``. That dish is weighed
    without the guest.
    """
    franchise, dishes, prior, weights = state.franchise, state.dishes, state.prior, state.weights
    x, group, log_frozen = state.guests.rows[i], state.guests.group[i], state.log_frozen
    frozen, last = log_frozen.shape[1], franchise.extent[0]
    menu, held, owner = franchise.menu, franchise.held, franchise.owner
    for k in range(last):
        served = max(menu[k], held[k]) > 0.0
        if not served or (owner[k] != restaurants.ANYONE and owner[k] != group):
            weights[k] = -np.inf
            continue
        if k < frozen:
            weights[k] = log_frozen[i, k]
        elif k == own:
            weights[k] = dish_statistics.log_predictive_without(dishes, k - frozen, x, prior)
        else:
            weights[k] = dish_statistics.log_predictive(dishes, k - frozen, x, prior)
    relative(state.log_new[i], franchise, weights)
    exp_each(weights[: last + 1])
    return times_seats(group, franchise, weights)


@unrolled_kernel
def weigh_remembered(
    i: int, own: int, state: predictive_cache.SamplerState, likelihood: predictive_cache.Likelihood
) -> float:
    """Do the work of :func:`weigh_dishes` for guest i of a stream, with the predictive cache."""
    rows, group, weights = state.guests.rows, state.guests.group[i], state.weights
    franchise, dishes, prior = state.franchise, state.dishes, state.prior
    frozen, last = state.log_frozen.shape[1], franchise.extent[0]
    menu, held, seated = franchise.menu, franchise.held, franchise.seated[group]
    density, gamma = likelihood.density[i], franchise.gamma[0]
    share = franchise.alpha[group] / (franchise.total[0] + gamma)
    total = 0.0
    for restated in range(2):
        if restated:
            predictive_cache.restate(likelihood, i, own, state)
        for k in range(last):
            weights[k] = density[k] * (seated[k] + share * max(menu[k], held[k]))
        if own != restaurants.CLOSED:
            weights[own] = 0.0
            tables = restaurants.menu_weight(franchise, own)
            if tables > 0.0:
                log_own = predictive_cache.log_density_without(likelihood, i, own - frozen, rows, dishes, prior)
                weights[own] = np.exp(log_own - likelihood.reference[i]) * (seated[own] + share * tables)
        weights[last] = likelihood.fresh[i] * share * gamma
        total = float(total_of(weights[:last]) + weights[last])
        if LEAST < total < 1.0 / LEAST:
            break
    return total


@borrowing_kernel
def relative(log_new: float, franchise: restaurants.Franchise, weights: Array) -> None:
    """Append the log density of a new subclass, and make all log densities relative to the largest."""
    last = franchise.extent[0]
    weights[last] = log_new
    peak = largest(weights[: last + 1])
    for k in range(last + 1):
        weights[k] -= peak


@borrowing_kernel
def times_seats(group: int, franchise: restaurants.Franchise, weights: Array) -> float:
    """Multiply densities by the seats and the menu weights of their dishes, and return the sum."""
    last = franchise.extent[0]
    menu, held, seated = franchise.menu, franchise.held, franchise.seated[group]
    gamma = franchise.gamma[0]
    share = franchise.alpha[group] / (franchise.total[0] + gamma)
    for k in range(last):
        weights[k] *= seated[k] + share * max(menu[k], held[k])
    weights[last] *= share * gamma
    return float(total_of(weights[:last]) + weights[last])


@borrowing_kernel
def draw(rng: Generator, weights: Array, total: float) -> int:
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
def draw_table(rng: Generator, franchise: restaurants.Franchise, group: int, dish: int) -> int:
    """Draw one of the restaurant's tables that serve the dish, or ``CLOSED`` for a new table."""
    share = franchise.alpha[group] / (franchise.total[0] + franchise.gamma[0])
    u = rng.random() * (franchise.seated[group, dish] + share * restaurants.menu_weight(franchise, dish))
    serves, of_group, mass = franchise.table_dish, franchise.table_group, franchise.table_mass
    for t in range(franchise.extent[1]):
        if serves[t] == dish and of_group[t] == group:
            u -= mass[t]
            if u < 0.0:
                return t
    return restaurants.CLOSED


@borrowing_kernel
def visit(
    rng: Generator,
    i: int,
    state: predictive_cache.SamplerState,
    likelihood: predictive_cache.Likelihood | None = None,
) -> float:
    """Re-seat guest i, or seat it if it has no table. Write the weights of the dishes and return their sum."""
    guests, franchise, dishes, prior = state.guests, state.franchise, state.dishes, state.prior
    frozen, group = state.log_frozen.shape[1], guests.group[i]
    old = own = restaurants.CLOSED
    if guests.table[i] != restaurants.CLOSED:
        old = restaurants.leave(franchise, guests.table[i], guests.weight[i])
        guests.table[i] = restaurants.CLOSED
        if old >= frozen:
            own = old
    if likelihood is None:
        total = weigh_dishes(i, own, state)
    else:
        total = weigh_remembered(i, own, state, likelihood)
    last = franchise.extent[0]
    dish = draw(rng, state.weights[: last + 1], total)
    new = dish == last
    if own != restaurants.CLOSED and dish != own:
        if new and dishes.size[own - frozen] == 1:
            dish = own  # alone before and alone again: the same subclass, held or not
        elif restaurants.menu_weight(franchise, own) > 0.0:
            predictive_cache.remove(dishes, own - frozen, i, guests.rows, prior, likelihood)
        else:
            dish_statistics.clear(dishes, own - frozen, prior)
            own = restaurants.CLOSED  # its slot is free now, perhaps for this very guest
    if new:
        if dish != own:
            dish = restaurants.free_dish(franchise, frozen)
            if dish == restaurants.CLOSED:
                return total
        franchise.owner[dish] = group if state.exclusive else restaurants.ANYONE
    if dish >= frozen and dish != own:
        predictive_cache.add(dishes, dish - frozen, i, guests.rows, prior, likelihood)
    table = restaurants.CLOSED if new else draw_table(rng, franchise, group, dish)
    if table == restaurants.CLOSED:
        table = restaurants.free_table(franchise)
        if table == restaurants.CLOSED:
            return total
    guests.table[i] = table
    restaurants.join(franchise, table, group, dish, guests.weight[i])
    return total


HOPELESS = 32.0
"""Least distance below the best, in nats, at which a dish is skipped. ``exp(-32)`` is 1e-14."""


@borrowing_kernel
def weigh_block(
    old: int,
    group: int,
    members: Array,
    block: Array,
    empty: dish_statistics.Dishes,
    state: predictive_cache.SamplerState,
    likelihood: predictive_cache.Likelihood | None = None,
) -> None:
    """Write the log weights of the dishes, and of a new one, for the whole table that serves ``old``.

    With cached forms, a dish is skipped if an upper bound on the weight is ``HOPELESS`` nats below a computed weight.
    A hundred skipped dishes together have a probability below 1e-11.
    """
    franchise, dishes, prior, weights = state.franchise, state.dishes, state.prior, state.weights
    frozen, last = state.log_frozen.shape[1], franchise.extent[0]
    menu, held, owner = franchise.menu, franchise.held, franchise.owner
    if old >= frozen and dishes.size[old - frozen] == members.shape[0]:  # without them nothing is left: the same
        log_fresh = dish_statistics.log_block_predictive(dishes, old - frozen, block, True, prior)
    else:
        log_fresh = dish_statistics.log_block_predictive(empty, 0, block, False, prior)
    weights[last] = np.log(franchise.gamma[0]) + log_fresh
    best = weights[last]
    remembered = likelihood is not None
    for k in range(last):
        tables = max(menu[k], held[k])
        weights[k] = -np.inf
        if tables == 0.0 or (owner[k] != restaurants.ANYONE and owner[k] != group):
            continue
        if k < frozen:
            weights[k] = np.log(tables)
            for i in members:
                weights[k] += state.log_frozen[i, k]
        elif not remembered or k == old:
            weights[k] = np.log(tables) + dish_statistics.log_block_predictive(
                dishes, k - frozen, block, k == old, prior
            )
        else:
            weights[k] = tables
            continue
        best = max(best, weights[k])
    if likelihood is not None and remembered:
        weigh_emerging(old, best, members, block, state, likelihood)


@borrowing_kernel
def weigh_emerging(
    old: int,
    best: float,
    members: Array,
    block: Array,
    state: predictive_cache.SamplerState,
    likelihood: predictive_cache.Likelihood,
) -> None:
    """Write the log weights of the emerging dishes except ``old``.

    Their table terms are in place, and ``best`` is the largest weight of the other dishes. The forms give an upper
    bound of a dish's weight. The most promising dish is computed first.
    """
    dishes, prior, franchise = state.dishes, state.prior, state.franchise
    frozen, size = state.log_frozen.shape[1], members.shape[0]
    count, half_power = franchise.extent[0] - frozen, 0.5 * (prior.nu + size)
    if count <= 0:
        return
    weights, trace = state.weights[frozen : frozen + count], likelihood.trace[:count]
    for k in range(count):
        trace[k] = 1.0
        if weights[k] > 0.0 and k != old - frozen:
            for i in members:
                trace[k] += max(likelihood.form[k, i], 0.0)
    log_each_using(likelihood.exponent[:count], trace)
    first, highest = -1, -np.inf
    for k in range(count):
        if weights[k] > 0.0 and k != old - frozen:
            n = dishes.size[k]
            constant = predictive_cache.constants(likelihood, n, size, prior)
            weights[k] = np.log(weights[k]) + constant - 0.5 * size * dishes.log_det[k]
            trace[k] = weights[k] - (half_power + 0.5 * n) * trace[k]
            if trace[k] > highest:
                first, highest = k, trace[k]
        else:
            trace[k] = -np.inf
    for turn in range(-1, count):
        k = first if turn < 0 else turn
        if trace[k] == -np.inf or turn == first:
            continue
        floor = best - HOPELESS
        if trace[k] < floor:
            weights[k] = -np.inf
            continue
        if prior.first.shape[0] > 0:  # a probability: the bound is one without it, too
            weights[k] += categories.log_block_predictive(dishes.counts[k], block, False, prior)
        power = half_power + 0.5 * dishes.size[k]
        enough = (weights[k] - floor) / power
        weights[k] -= power * gaussian.log_det_added(dishes.inverse[k], block, likelihood.form[k], members, enough)
        best = max(best, weights[k])


@borrowing_kernel
def redish(
    rng: Generator,
    table: int,
    members: Array,
    block: Array,
    empty: dish_statistics.Dishes,
    state: predictive_cache.SamplerState,
    likelihood: predictive_cache.Likelihood | None = None,
) -> None:
    """Draw the dish of a whole table given everything else, by equation (11). ``members`` are all its guests.

    ``block`` has their rows, and ``empty`` is a dish without instances.
    """
    guests, franchise, dishes, prior = state.guests, state.franchise, state.dishes, state.prior
    frozen, last, weights = state.log_frozen.shape[1], franchise.extent[0], state.weights
    group, old, mass = franchise.table_group[table], franchise.table_dish[table], franchise.table_mass[table]
    restaurants.serve(franchise, old, -1.0)
    alone = restaurants.menu_weight(franchise, old) == 0.0
    weigh_block(old, group, members, block, empty, state, likelihood)
    peak = largest(weights[: last + 1])
    for k in range(last + 1):
        weights[k] = np.exp(weights[k] - peak)
    dish = draw(rng, weights[: last + 1], total_of(weights[: last + 1]))
    nobody_else = old >= frozen and dishes.size[old - frozen] == len(members)
    if dish == old or (dish == last and nobody_else):
        restaurants.serve(franchise, old, 1.0)
        return
    if dish == last:
        dish = restaurants.free_dish(franchise, frozen)
        if dish == restaurants.CLOSED:
            return
        franchise.owner[dish] = group if state.exclusive else restaurants.ANYONE
    if old >= frozen:
        if alone:
            dish_statistics.clear(dishes, old - frozen, prior)
        else:
            for i in members:
                predictive_cache.remove(dishes, old - frozen, i, guests.rows, prior, likelihood)
    if dish >= frozen:
        for i in members:
            predictive_cache.add(dishes, dish - frozen, i, guests.rows, prior, likelihood)
    franchise.seated[group, old] = 0.0 if franchise.menu[old] == 0.0 else franchise.seated[group, old] - mass
    franchise.seated[group, dish] += mass
    franchise.table_dish[table] = dish
    restaurants.serve(franchise, dish, 1.0)


@kernel
def redish_tables(
    rng: Generator,
    first: int,
    state: predictive_cache.SamplerState,
    likelihood: predictive_cache.Likelihood | None = None,
) -> None:
    """Re-dish the tables all of whose guests are present, at least one with number ``first`` or later.

    Tables with one guest are skipped, because a visit to the guest has just done the same.
    """
    by_table, start = guests_by_table(state.guests, state.franchise)
    room, empty = np.empty(state.guests.rows.shape), dish_statistics.empty_dishes(1, state.prior)
    _redish_tables(rng, first, by_table, start, room, empty, state, likelihood)


@kernel
def guests_by_table(guests: restaurants.Guests, franchise: restaurants.Franchise) -> tuple[Array, Array]:
    """Guests sorted by table (those of table t from ``start[t]`` to ``start[t + 1] - 1``), and ``start``."""
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
    rng: Generator,
    first: int,
    by_table: Array,
    start: Array,
    room: Array,
    empty: dish_statistics.Dishes,
    state: predictive_cache.SamplerState,
    likelihood: predictive_cache.Likelihood | None = None,
) -> None:
    rows, franchise = state.guests.rows, state.franchise
    for t in range(start.shape[0] - 1):
        members = by_table[start[t] : start[t + 1]]
        size = members.shape[0]
        if size < 2 or members[size - 1] < first or franchise.table_residual[t] != 0.0:
            continue
        for position in range(size):
            for a in range(room.shape[1]):
                room[position, a] = rows[members[position], a]
        redish(rng, t, members, room[:size], empty, state, likelihood)
        if franchise.overflow[0]:
            return
