"""Who goes with an anchor when a group of guests leaves a frozen dish: the proposals of splits and merges.

Guests near the anchor are offered, nearest first, to the subclass that it founds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from stream_osr.model import categories
from stream_osr.model.dishes import Dishes, add_telling, clear, empty_dishes, log_predictive
from stream_osr.model.jit import borrowing_kernel, kernel
from stream_osr.model.moves.likelihood import Sitting

NEIGHBOURS = 64
"""Guests that are offered to a new subclass."""

PATIENCE = 8
"""Nobody else is offered when so many in a row have stayed: those who follow are farther away still."""

MISMATCH = 2.0
"""Squared distance of two guests for each category that differs: as of a coordinate of one subclass, on average."""

SPAN = 128
"""How many places before or after its anchor a guest may have arrived to be one of them.

Frozen densities do not learn, a subclass does: with guests enough, part of any known class would be described
better by a subclass of its own. The groups looked for are those of a micro-batch, however many instances are present
(one batch of 3000 LETTER instances, known classes alone: accuracy .98, without this bound .87 to .94).
"""


class Company(NamedTuple):
    """Room for the guests that may go with an anchor; n guests are present.

    Attributes
    ----------
    guest
        Their numbers, shape (n,).
    distance
        Squared distances from the anchor, infinite once they have been offered, shape (n,).
    inside
        Whether each goes with the anchor, shape (n,).
    member
        The anchor and those who go with it, shape (n,).
    subclass
        The subclass that is founded, one slot.
    scratch
        Room for one row without categories, shape (d + 1,).
    """

    guest: np.ndarray
    distance: np.ndarray
    inside: np.ndarray
    member: np.ndarray
    subclass: Dishes
    scratch: np.ndarray


@kernel
def make_company(sitting: Sitting) -> Company:
    """Make the room."""
    n, prior = sitting.guests.rows.shape[0], sitting.prior
    guest, member, subclass = np.empty(n, np.int64), np.empty(n, np.int64), empty_dishes(1, prior)
    return Company(guest, np.empty(n), np.empty(n, np.bool_), member, subclass, np.empty(prior.n_features + 1))


@borrowing_kernel
def gather(anchor: int, dish: int, table: int, sitting: Sitting, company: Company) -> int:
    """Gather the guests of a frozen dish, and of one more table (they are inside), around an anchor; how many."""
    guests, franchise = sitting.guests, sitting.franchise
    n, width = guests.rows.shape
    count, columns = 0, sitting.prior.first.shape[0]
    for i in range(max(0, anchor - SPAN), min(n, anchor + SPAN + 1)):
        t = guests.table[i]
        if i != anchor and (t == table or franchise.table_dish[t] == dish):
            total = 0.0
            if columns > 0:
                total = MISMATCH * categories.mismatches(guests.rows[i], guests.rows[anchor], columns)
            for a in range(columns, width):
                total += (guests.rows[i, a] - guests.rows[anchor, a]) ** 2
            company.guest[count] = i
            company.distance[count] = total
            company.inside[count] = t == table
            count += 1
    return count


@borrowing_kernel
def nearest(company: Company, count: int) -> int:
    """Position of the nearest guest who has not been offered yet, the first of several."""
    distance = company.distance
    best = 0
    for position in range(1, count):
        if distance[position] < distance[best]:
            best = position
    return best


@borrowing_kernel
def allocate(
    rng: Generator, anchor: int, dish: int, count: int, given: bool, sitting: Sitting, company: Company
) -> tuple[int, float, float]:
    """Offer guests to the subclass that the anchor founds, or (``given``) follow an allocation.

    Returns
    -------
    How many the subclass has in the end, the log probability of the allocation ``company.inside`` (written unless it
    is given), and the log marginal likelihood of the founded subclass.
    """
    rows, prior, subclass = sitting.guests.rows, sitting.prior, company.subclass
    clear(subclass, 0, prior)
    add_telling(subclass, 0, rows[anchor], prior, company.scratch)
    log_block, log_q = sitting.log_new[anchor], 0.0
    staying, in_a_row = 1.0, 0
    if not given:
        company.inside[:count] = False
    for _ in range(min(count, NEIGHBOURS)):
        position = nearest(company, count)
        company.distance[position] = np.inf
        i = company.guest[position]
        log_in = log_predictive(subclass, 0, rows[i], prior)
        gap = math.log(staying) + sitting.log_frozen[i, dish] - math.log(float(subclass.size[0])) - log_in
        log_stay = -math.log1p(math.exp(-gap)) if gap > 0.0 else gap - math.log1p(math.exp(gap))
        if not given:
            company.inside[position] = math.log(rng.random()) > log_stay
        if company.inside[position]:
            log_q += log_stay - gap
            log_block += log_in
            add_telling(subclass, 0, rows[i], prior, company.scratch)
            in_a_row = 0
        else:
            log_q += log_stay
            staying += 1.0
            in_a_row += 1
            if in_a_row == PATIENCE:
                break
    return subclass.size[0], log_q, log_block


@borrowing_kernel
def put_together(anchor: int, count: int, company: Company, members: np.ndarray) -> None:
    """Write the numbers, in order, of the anchor and those who go with it."""
    members[0] = anchor
    size = 1
    for position in range(count):
        if company.inside[position]:
            place = size
            while place > 0 and members[place - 1] > company.guest[position]:
                members[place] = members[place - 1]
                place -= 1
            members[place] = company.guest[position]
            size += 1
