"""Split and merge: a group of guests leaves a frozen dish for a new subclass together, or returns.

Some new classes lie within the reach of a known class and are visible only collectively. No single instance gains by
founding a subclass, but twenty together do. Visits move guests one by one and cannot reach that state once the known
class has enough seats. This is a Metropolis-Hastings move after Dahl's sequentially allocated split-merge sampler
(2005). It changes how fast the sampler finds such a group, and it leaves the target distribution unchanged.

A split picks an anchor guest, which founds a subclass. It offers the subclass to the nearest guests of the same dish,
nearest first, until too many in a row have stayed. A merge picks an anchor at a table that is the only one of a
subclass. The guests of the table go to the tables of a frozen dish, as if they came one by one. ``docs/inference.md``
has the ratio.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from stream_osr.model import categories
from stream_osr.model.dish_statistics import Dishes, add_telling, clear, empty_dishes, log_predictive
from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.model.moves import predictive_cache
from stream_osr.model.moves.predictive_cache import Likelihood, SamplerState
from stream_osr.model.moves.seating import draw
from stream_osr.model.restaurants import CLOSED, Franchise, Guests, free_dish, free_table, join, leave, menu_weight

NEIGHBOURS = 64
"""Most guests to which a new subclass is offered."""

PATIENCE = 8
"""Guests in a row that may stay before the offers end. The remaining guests are farther away still."""

MISMATCH = 2.0
"""Squared distance of two guests for each differing category: the mean for a coordinate within one subclass."""

SPAN = 128
"""Largest distance of a guest from its anchor, in arrivals.

Frozen densities do not learn, but a subclass does. With enough guests, a separate subclass would describe part of any
known class better. The move looks for groups of the size of a micro-batch, however many instances are present. (One
batch of 3000 LETTER instances, known classes alone: accuracy 0.98, without this bound 0.87 to 0.94.)
"""


class NeighbourProposal(NamedTuple):
    """Scratch space for the guests that may join an anchor. n guests are present.

    Attributes
    ----------
    guest
        Their numbers, shape (n,).
    distance
        Squared distances from the anchor, infinite once they have been offered, shape (n,).
    members
        Whether each joins the anchor, shape (n,).
    member
        The anchor and the guests that join it, shape (n,).
    subclass
        The new subclass, one slot.
    scratch
        Scratch space for one row without categories, shape (d + 1,).
    """

    guest: Array
    distance: Array
    members: Array
    member: Array
    subclass: Dishes
    scratch: Array


@kernel
def make_proposal(state: SamplerState) -> NeighbourProposal:
    """Make the scratch space."""
    n, prior = state.guests.rows.shape[0], state.prior
    guest, member, subclass = np.empty(n, np.int64), np.empty(n, np.int64), empty_dishes(1, prior)
    return NeighbourProposal(
        guest, np.empty(n), np.empty(n, np.bool_), member, subclass, np.empty(prior.n_features + 1)
    )


@borrowing_kernel
def gather(anchor: int, dish: int, table: int, state: SamplerState, proposal: NeighbourProposal) -> int:
    """Gather the guests of a frozen dish and of one more table around an anchor, and return their number.

    The guests of the table are marked in ``proposal.members``.
    """
    guests, franchise = state.guests, state.franchise
    n, width = guests.rows.shape
    count, columns = 0, state.prior.first.shape[0]
    for i in range(max(0, anchor - SPAN), min(n, anchor + SPAN + 1)):
        t = guests.table[i]
        if i != anchor and (t == table or franchise.table_dish[t] == dish):
            total = 0.0
            if columns > 0:
                total = MISMATCH * categories.mismatches(guests.rows[i], guests.rows[anchor], columns)
            for a in range(columns, width):
                apart = guests.rows[i, a] - guests.rows[anchor, a]
                total += apart * apart
            proposal.guest[count] = i
            proposal.distance[count] = total
            proposal.members[count] = t == table
            count += 1
    return count


@borrowing_kernel
def allocate(
    rng: Generator, anchor: int, dish: int, count: int, given: bool, state: SamplerState, proposal: NeighbourProposal
) -> tuple[int, float, float]:
    """Offer guests to the subclass that the anchor founds, or (``given``) follow an allocation.

    Returns
    -------
    The final size of the subclass, the log probability of the allocation ``proposal.members``, and the log marginal
    likelihood of the new subclass. The allocation is written unless it is given.
    """
    rows, prior, subclass = state.guests.rows, state.prior, proposal.subclass
    clear(subclass, 0, prior)
    add_telling(subclass, 0, rows[anchor], prior, proposal.scratch)
    log_block, log_q = state.log_new[anchor], 0.0
    staying, in_a_row = 1.0, 0
    if not given:
        proposal.members[:count] = False
    for _ in range(min(count, NEIGHBOURS)):
        position = int(proposal.distance[:count].argmin())
        proposal.distance[position] = np.inf
        i = proposal.guest[position]
        log_in = log_predictive(subclass, 0, rows[i], prior)
        gap = math.log(staying) + state.log_frozen[i, dish] - math.log(float(subclass.size[0])) - log_in
        log_stay = -math.log1p(math.exp(-gap)) if gap > 0.0 else gap - math.log1p(math.exp(gap))
        if not given:
            proposal.members[position] = math.log(rng.random()) > log_stay
        if proposal.members[position]:
            log_q += log_stay - gap
            log_block += log_in
            add_telling(subclass, 0, rows[i], prior, proposal.scratch)
            in_a_row = 0
        else:
            log_q += log_stay
            staying += 1.0
            in_a_row += 1
            if in_a_row == PATIENCE:
                break
    return subclass.size[0], log_q, log_block


@borrowing_kernel
def put_together(anchor: int, count: int, proposal: NeighbourProposal, members: Array) -> None:
    """Write the numbers of the anchor and of the guests that join it, in order."""
    members[0] = anchor
    size = 1
    for position in range(count):
        if proposal.members[position]:
            place = size
            while place > 0 and members[place - 1] > proposal.guest[position]:
                members[place] = members[place - 1]
                place -= 1
            members[place] = proposal.guest[position]
            size += 1


@borrowing_kernel
def split_or_merge(
    rng: Generator, state: SamplerState, proposal: NeighbourProposal, likelihood: Likelihood | None = None
) -> bool:
    """Propose one split or merge around a random anchor, and return whether it was accepted.

    Parameters
    ----------
    rng
        Source of randomness.
    state
        One restaurant with all guests seated, changed in place.
    proposal
        Scratch space.
    likelihood
        Predictive cache, if there is one.
    """
    guests, franchise, frozen = state.guests, state.franchise, state.log_frozen.shape[1]
    anchor = int(rng.random() * guests.table.shape[0])
    table = guests.table[anchor]
    dish = franchise.table_dish[table]
    if dish < frozen:
        count = gather(anchor, dish, CLOSED, state, proposal)
        together, log_q, log_block = allocate(rng, anchor, dish, count, False, state, proposal)
        if together == 1:
            return False  # visits do that
        members = proposal.member[:together]
        put_together(anchor, count, proposal, members)
        return split(rng, members, dish, log_q, log_block, state, likelihood)
    size = franchise.table_live[table]
    alone = franchise.menu[dish] == 1.0 and franchise.held[dish] == 0.0 and franchise.table_residual[table] == 0.0
    if frozen == 0 or size == 1 or not alone or state.dishes.size[dish - frozen] != size:
        return False
    return merge(rng, anchor, state, proposal)


@kernel
def split(
    rng: Generator,
    members: Array,
    dish: int,
    log_q: float,
    log_block: float,
    state: SamplerState,
    likelihood: Likelihood | None = None,
) -> bool:
    """Accept or reject the split that takes the members out of a frozen dish, and return the outcome."""
    log_seats, _ = log_seat_norms(rng, members, dish, CLOSED, state.guests, state.franchise)
    if math.log(rng.random()) < log_odds(members, dish, log_block, log_q, log_seats, state):
        return found(members, state, likelihood)
    return False


@kernel
def merge(rng: Generator, anchor: int, state: SamplerState, proposal: NeighbourProposal) -> bool:
    """Accept or reject the merge of the anchor's one-table subclass into a frozen dish, and return the outcome."""
    guests = state.guests
    table = guests.table[anchor]
    members = np.flatnonzero(guests.table == table)
    sums = block_log_densities(members, state.log_frozen)
    weights = np.exp(sums - np.max(sums))
    into = draw(rng, weights, np.sum(weights))
    count = gather(anchor, into, table, state, proposal)
    together, log_q, log_block = allocate(rng, anchor, into, count, True, state, proposal)
    if together != len(members):
        return False  # the split could not have offered them all
    log_seats, chosen = log_seat_norms(rng, members, into, table, guests, state.franchise)
    if math.log(rng.random()) < -log_odds(members, into, log_block, log_q, log_seats, state):
        return dissolve(members, chosen, into, state)
    return False


@kernel
def log_seat_norms(
    rng: Generator, members: Array, dish: int, table: int, guests: Guests, franchise: Franchise
) -> tuple[float, Array]:
    """Sum of log normalisers as the members sit down, one by one, at the tables of a frozen dish.

    Without ``table`` the members are at the dish already and keep their places. From ``table``, the only one of that
    dish, they draw places: a table slot, or -2, -3, ... for the first, second, ... new table.

    Returns
    -------
    The sum of ``log(n_.k + alpha0 m_.k / (m_.. + gamma))`` before each member sits down, and the places.
    """
    guest_weight, guest_table, alpha, gamma = guests.weight, guests.table, franchise.alpha[0], franchise.gamma[0]
    table_dish, table_residual, tables = franchise.table_dish, franchise.table_residual, len(franchise.table_dish)
    mass = np.zeros(tables + len(members))
    live = np.zeros(tables + len(members), np.int64)
    table_mass, table_live = franchise.table_mass, franchise.table_live
    for t in range(tables):
        if table_dish[t] == dish:
            mass[t] = table_mass[t]
            live[t] = table_live[t]
    serving = menu_weight(franchise, dish)
    total = franchise.total[0]
    seats = franchise.seated[0, dish]
    drawing = table != CLOSED
    if drawing:
        total -= 1.0
    else:
        for i in members:
            t = guest_table[i]
            live[t] -= 1
            mass[t] -= guest_weight[i]
            seats -= guest_weight[i]
            if live[t] == 0 and table_residual[t] == 0.0:
                mass[t] = 0.0
                serving -= 1.0
                total -= 1.0
    places = np.empty(len(members), np.int64)
    log_norms = 0.0
    new_tables = 0
    for position in range(len(members)):
        i = members[position]
        new = alpha * serving / (total + gamma)
        log_norms += math.log(max(seats, 0.0) + new)
        place = guest_table[i]
        if drawing:
            u = rng.random() * (seats + new)
            place = CLOSED
            for t in range(tables + new_tables):
                u -= mass[t]
                if mass[t] > 0.0 and u < 0.0:
                    place = t
                    break
            if place == CLOSED:
                place = tables + new_tables
                new_tables += 1
        if mass[place] == 0.0:
            serving += 1.0
            total += 1.0
        mass[place] += guest_weight[i]
        seats += guest_weight[i]
        places[position] = place if place < tables else tables - 2 - place
    return log_norms, places


@kernel
def log_odds(
    members: Array, dish: int, log_block: float, log_q: float, log_seats: float, state: SamplerState
) -> float:
    """Log Metropolis-Hastings ratio of the split that founds a subclass of ``members`` out of a frozen dish."""
    guests, franchise, log_frozen = state.guests, state.franchise, state.log_frozen
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
def block_log_densities(members: Array, log_frozen: Array) -> Array:
    """Log density of all members together under each frozen dish, shape (C,)."""
    sums = np.zeros(log_frozen.shape[1])
    for i in members:
        sums += log_frozen[i]
    return sums


@kernel
def emptied(members: Array, guests: Guests, franchise: Franchise) -> float:
    """Count the tables that would be empty without the members."""
    table, live, residual = guests.table, franchise.table_live, franchise.table_residual
    count, leaving = 0.0, np.zeros(live.shape[0], np.int64)
    for i in members:
        t = table[i]
        leaving[t] += 1
        if leaving[t] == live[t] and residual[t] == 0.0:
            count += 1.0
    return count


@kernel
def found(members: Array, state: SamplerState, likelihood: Likelihood | None = None) -> bool:
    """Seat the members at one new table that serves a new dish."""
    guests, franchise, frozen = state.guests, state.franchise, state.log_frozen.shape[1]
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
        predictive_cache.add(state.dishes, dish - frozen, i, guests.rows, state.prior, likelihood)
    return True


@kernel
def dissolve(members: Array, places: Array, dish: int, state: SamplerState) -> bool:
    """Send the members of a one-table subclass to the places that they drew at a frozen dish."""
    guests, franchise = state.guests, state.franchise
    old = franchise.table_dish[guests.table[members[0]]]
    for i in members:
        leave(franchise, guests.table[i], guests.weight[i])
        guests.table[i] = CLOSED
    clear(state.dishes, old - state.log_frozen.shape[1], state.prior)
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
