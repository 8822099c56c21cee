"""Split and merge: a group of guests leaves a frozen dish for a new subclass together, or goes back.

A new class that lies within the reach of a known one is only seen collectively: no single instance gains by
founding a subclass, twenty together do. Visits move guests one by one and cannot get there once the known class
has seats enough. This is a Metropolis-Hastings move in the manner of Dahl's sequentially allocated split-merge
sampler (2005), so it changes how fast the sampler finds such a group and nothing about its target.

Split: an anchor guest is picked, and the guests of its class's dish nearest to it are offered, nearest first, to
the subclass that the anchor founds, until too many in a row have stayed. Merge: an anchor is picked at a table that
is its subclass's only one; its guests go to the tables of a frozen dish, as if they came one by one.
``docs/inference.md`` has the ratio.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from stream_osr.model.dishes import clear
from stream_osr.model.franchise import CLOSED, Franchise, Guests, free_dish, free_table, join, leave, menu_weight
from stream_osr.model.jit import borrowing_kernel, kernel
from stream_osr.model.moves import likelihood as memory
from stream_osr.model.moves.company import Company, allocate, gather, put_together
from stream_osr.model.moves.likelihood import Likelihood, Sitting
from stream_osr.model.moves.seating import draw


@borrowing_kernel
def split_or_merge(rng: Generator, sitting: Sitting, company: Company, likelihood: Likelihood | None = None) -> bool:
    """Propose one split or merge around an anchor picked at random; tell whether it was accepted.

    Parameters
    ----------
    rng
        Source of randomness.
    sitting
        One restaurant, everybody seated; changed in place.
    company
        Room to work in.
    likelihood
        Remembered densities, if they are.
    """
    guests, franchise, frozen = sitting.guests, sitting.franchise, sitting.log_frozen.shape[1]
    anchor = int(rng.random() * guests.table.shape[0])
    table = guests.table[anchor]
    dish = franchise.table_dish[table]
    if dish < frozen:
        count = gather(anchor, dish, CLOSED, sitting, company)
        together, log_q, log_block = allocate(rng, anchor, dish, count, False, sitting, company)
        if together == 1:
            return False  # visits do that
        members = company.member[:together]
        put_together(anchor, count, company, members)
        return split(rng, members, dish, log_q, log_block, sitting, likelihood)
    size = franchise.table_live[table]
    alone = franchise.menu[dish] == 1.0 and franchise.held[dish] == 0.0 and franchise.table_residual[table] == 0.0
    if frozen == 0 or size == 1 or not alone or sitting.dishes.size[dish - frozen] != size:
        return False
    return merge(rng, anchor, sitting, company)


@kernel
def split(
    rng: Generator,
    members: np.ndarray,
    dish: int,
    log_q: float,
    log_block: float,
    sitting: Sitting,
    likelihood: Likelihood | None = None,
) -> bool:
    """Accept or refuse the split that takes the members out of a frozen dish; tell which."""
    log_seats, _ = log_seat_norms(rng, members, dish, CLOSED, sitting.guests, sitting.franchise)
    if math.log(rng.random()) < log_odds(members, dish, log_block, log_q, log_seats, sitting):
        return found(members, sitting, likelihood)
    return False


@kernel
def merge(rng: Generator, anchor: int, sitting: Sitting, company: Company) -> bool:
    """Accept or refuse the merge of the anchor's subclass, which has one table, into a frozen dish; tell which."""
    guests = sitting.guests
    table = guests.table[anchor]
    members = np.flatnonzero(guests.table == table)
    sums = block_log_densities(members, sitting.log_frozen)
    weights = np.exp(sums - np.max(sums))
    into = draw(rng, weights, np.sum(weights))
    count = gather(anchor, into, table, sitting, company)
    together, log_q, log_block = allocate(rng, anchor, into, count, True, sitting, company)
    if together != len(members):
        return False  # the split could not have offered them all
    log_seats, chosen = log_seat_norms(rng, members, into, table, guests, sitting.franchise)
    if math.log(rng.random()) < -log_odds(members, into, log_block, log_q, log_seats, sitting):
        return dissolve(members, chosen, into, sitting)
    return False


@kernel
def log_seat_norms(
    rng: Generator, members: np.ndarray, dish: int, table: int, guests: Guests, franchise: Franchise
) -> tuple[float, np.ndarray]:
    """Sum of log normalisers as the members sit down, one by one, at the tables of a frozen dish.

    Without ``table`` they are there already and sit down where they sit; from ``table``, the only one of its
    dish, they draw their places: a table slot, or -2, -3, ... for the first, second, ... new table.

    Returns
    -------
    The sum of ``log(n_.k + alpha0 m_.k / (m_.. + gamma))`` before each sits down, and the places.
    """
    tables = franchise.table_dish.shape[0]
    mass = np.zeros(tables + len(members))
    live = np.zeros(tables + len(members), np.int64)
    for t in range(tables):
        if franchise.table_dish[t] == dish:
            mass[t] = franchise.table_mass[t]
            live[t] = franchise.table_live[t]
    serving = menu_weight(franchise, dish)
    total = franchise.total[0]
    seats = franchise.seated[0, dish]
    drawing = table != CLOSED
    if drawing:
        total -= 1.0
    else:
        for i in members:
            t = guests.table[i]
            live[t] -= 1
            mass[t] -= guests.weight[i]
            seats -= guests.weight[i]
            if live[t] == 0 and franchise.table_residual[t] == 0.0:
                mass[t] = 0.0
                serving -= 1.0
                total -= 1.0
    places = np.empty(len(members), np.int64)
    log_norms = 0.0
    opened = 0
    for position in range(len(members)):
        i = members[position]
        new = franchise.alpha[0] * serving / (total + franchise.gamma[0])
        log_norms += math.log(max(seats, 0.0) + new)
        place = guests.table[i]
        if drawing:
            u = rng.random() * (seats + new)
            place = CLOSED
            for t in range(tables + opened):
                u -= mass[t]
                if mass[t] > 0.0 and u < 0.0:
                    place = t
                    break
            if place == CLOSED:
                place = tables + opened
                opened += 1
        if mass[place] == 0.0:
            serving += 1.0
            total += 1.0
        mass[place] += guests.weight[i]
        seats += guests.weight[i]
        places[position] = place if place < tables else tables - 2 - place
    return log_norms, places


@kernel
def log_odds(
    members: np.ndarray, dish: int, log_block: float, log_q: float, log_seats: float, sitting: Sitting
) -> float:
    """Log Metropolis-Hastings ratio of the split that founds a subclass of ``members`` out of a frozen dish."""
    guests, franchise, log_frozen = sitting.guests, sitting.franchise, sitting.log_frozen
    sums = block_log_densities(members, log_frozen)
    peak = np.max(sums)
    log_back = sums[dish] - peak - math.log(np.sum(np.exp(sums - peak)))
    total = franchise.total[0]
    first = guests.table[members[0]]
    if franchise.table_dish[first] >= log_frozen.shape[1]:
        total -= 1.0  # the subclass exists: the odds are those of founding it again
    else:
        total -= emptied(members, guests, franchise)
    seats = math.log(franchise.alpha[0] * franchise.gamma[0] / (total + franchise.gamma[0]))
    mass = guests.weight[members[0]]
    for i in members[1:]:
        seats += math.log(mass)
        mass += guests.weight[i]
    return seats + log_block + log_back - log_seats - sums[dish] - log_q


@kernel
def block_log_densities(members: np.ndarray, log_frozen: np.ndarray) -> np.ndarray:
    """Log density of all members together under each frozen dish, shape (C,)."""
    sums = np.zeros(log_frozen.shape[1])
    for i in members:
        sums += log_frozen[i]
    return sums


@kernel
def emptied(members: np.ndarray, guests: Guests, franchise: Franchise) -> float:
    """Count the tables that would be empty without the members."""
    count, leaving = 0.0, np.zeros(franchise.table_live.shape[0], np.int64)
    for i in members:
        t = guests.table[i]
        leaving[t] += 1
        if leaving[t] == franchise.table_live[t] and franchise.table_residual[t] == 0.0:
            count += 1.0
    return count


@kernel
def found(members: np.ndarray, sitting: Sitting, likelihood: Likelihood | None = None) -> bool:
    """Seat the members at one new table that serves a new dish."""
    guests, franchise, frozen = sitting.guests, sitting.franchise, sitting.log_frozen.shape[1]
    for i in members:
        leave(franchise, guests.table[i], guests.weight[i])
        guests.table[i] = CLOSED
    dish = free_dish(franchise, frozen)
    table = free_table(franchise)
    if franchise.overflow[0]:
        return False
    for i in members:
        guests.table[i] = table
        join(franchise, table, 0, dish, guests.weight[i])
        memory.add(sitting.dishes, dish - frozen, i, guests.rows, sitting.prior, likelihood)
    return True


@kernel
def dissolve(members: np.ndarray, places: np.ndarray, dish: int, sitting: Sitting) -> bool:
    """Send the members of a one-table subclass to the places that they drew at a frozen dish."""
    guests, franchise = sitting.guests, sitting.franchise
    old = franchise.table_dish[guests.table[members[0]]]
    for i in members:
        leave(franchise, guests.table[i], guests.weight[i])
        guests.table[i] = CLOSED
    clear(sitting.dishes, old - sitting.log_frozen.shape[1], sitting.prior)
    slots = np.full(len(members), CLOSED)
    for position in range(len(members)):
        table = places[position]
        if table < CLOSED:
            if slots[-2 - table] == CLOSED:
                slots[-2 - table] = free_table(franchise)
                if franchise.overflow[0]:
                    return False
            table = slots[-2 - table]
        i = members[position]
        guests.table[i] = table
        join(franchise, table, 0, dish, guests.weight[i])
    return True
