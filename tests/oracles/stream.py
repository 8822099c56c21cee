"""The stream step's target by enumeration: a small batch seated in the stream's restaurant, given the state.

Dishes on the menu are numbered: known classes 0 .. C-1 (each one dish with a fixed density), emerging
subclasses C .. C+E-1 (their density is the posterior predictive of their rows), new dishes from C+E on. The
stream's restaurant has tables 0 .. T-1 already; table t serves dish d_t and has s_t seats taken, a real
number since seats fade. Dish k has menu weight m_k, which counts all its tables so far, those of the stream
included.

The next instance, when the batch has raised the counts to s_t and m_k so far, sits

    at table t                       with probability  s_t / (sum s + alpha0)
    at a new table serving dish k    with probability  alpha0 / (sum s + alpha0) * m_k / (sum m + gamma)
    at a new table with a new dish   with probability  alpha0 / (sum s + alpha0) * gamma / (sum m + gamma)

upon which the table's s grows by 1 (from 0 for a new one) and, for a new table, the dish's m by 1. With S and
m the sums over the state, a batch of n that opens T' tables and K' dishes, seats c_t at table t and opens r_k
tables on dish k has, multiplied out,

    alpha0^T' / rising(S + alpha0, n) prod_{old t} rising(s_t, c_t) prod_{new t} (c_t - 1)!
        * gamma^K' / rising(m + gamma, T') prod_{old k} rising(m_k, r_k) prod_{new k} (r_k - 1)!

which does not depend on the order of the instances. The likelihood multiplies it: the fixed density for a
known class, ``p(rows_e + batch) / p(rows_e)`` for an emerging subclass, the marginal likelihood for a new
one.

The past of the restaurant is evidence about alpha0: a Gamma prior is first updated by
``alpha0^T0 / rising(alpha0, S0)``, T0 and S0 being the number of tables and of taken seats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tests.oracles import concentration
from tests.oracles.concentration import Prior, log_rising
from tests.oracles.crf import Seating
from tests.oracles.niw import BaseMeasure

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StreamState:
    """What the step is given.

    Parameters
    ----------
    base
        Base measure of emerging and new subclasses.
    alpha
        Gamma prior (shape, rate) of the stream restaurant's alpha0, or its fixed value.
    gamma
        Fixed.
    known_weights
        Menu weight m_c of each known class; C of them.
    emerging_rows
        Rows of each emerging subclass; E arrays of shape (n_e, d).
    emerging_weights
        Menu weight m_e of each emerging subclass.
    tables
        Tables of the stream's restaurant: pairs (dish, taken seats).
    """

    base: BaseMeasure
    alpha: Prior
    gamma: float
    known_weights: Sequence[float] = ()
    emerging_rows: Sequence[Array] = ()
    emerging_weights: Sequence[float] = ()
    tables: Sequence[tuple[int, float]] = ()

    @property
    def n_known(self) -> int:
        return len(self.known_weights)

    @property
    def n_dishes(self) -> int:
        """C + E."""
        return len(self.known_weights) + len(self.emerging_weights)

    def alpha_grid(self) -> tuple[Array, Array]:
        """Values of alpha0 and the log mass of each, the past of the restaurant taken into account."""
        values, log_mass = concentration.grid(self.alpha)
        log_mass = log_mass + len(self.tables) * np.log(values)
        log_mass = log_mass - log_rising(values, sum(seats for _, seats in self.tables))
        return values, log_mass - scipy.special.logsumexp(log_mass)


class StreamExact(NamedTuple):
    """The exact distribution over the seatings of a batch."""

    seatings: tuple[Seating, ...]
    probabilities: Array
    mean_alpha: float
    dish_probabilities: Array
    """Shape (n, C + E + 1): what each instance eats; the last column is a dish not on the menu yet."""


def enumerate_stream_seatings(n: int, n_tables: int, n_dishes: int) -> list[Seating]:
    """All ways to seat n new instances at old or new tables and to serve the new ones old or new dishes."""
    seatings = []
    for tables in _continued_growth(n, n_tables):
        n_new = len({t for t in tables if t >= n_tables})
        seatings.extend(Seating(tables, dishes) for dishes in _continued_growth(n_new, n_dishes))
    return seatings


def _continued_growth(n: int, n_old: int) -> list[tuple[int, ...]]:
    """Labels of n things, each below n_old (old) or new; new ones are numbered by first appearance."""
    # A growth string whose first n_old letters are 0 .. n_old - 1 continues just so.
    head = tuple(range(n_old))
    tails = [head]
    for _ in range(n):
        tails = [(*labels, label) for labels in tails for label in range(max(labels, default=-1) + 2)]
    return [labels[n_old:] for labels in tails]


def log_prior(seating: Seating, state: StreamState, alpha0: float | Array) -> Array:
    """Log probability of a seating of the batch given alpha0 (a number or an array): the rule above."""
    seats = [weight for _, weight in state.tables]
    menu = [*state.known_weights, *state.emerging_weights]
    total = np.zeros_like(np.asarray(alpha0, dtype=np.float64))
    n_old = len(state.tables)
    for table in seating.tables:
        room = sum(seats) + np.asarray(alpha0)
        if table < len(seats):
            total = total + np.log(seats[table] / room)
            seats[table] += 1
            continue
        total = total + np.log(alpha0 / room)
        seats.append(1)
        dish = seating.dishes[table - n_old]
        if dish < len(menu):
            total = total + np.log(menu[dish] / (sum(menu) + state.gamma))
            menu[dish] += 1
        else:
            total = total + np.log(state.gamma / (sum(menu) + state.gamma))
            menu.append(1)
    return total


def dish_of_items(seating: Seating, state: StreamState) -> list[int]:
    """Dish of every instance of the batch."""
    dish_of_table = [dish for dish, _ in state.tables] + list(seating.dishes)
    return [dish_of_table[t] for t in seating.tables]


def log_likelihood(seating: Seating, state: StreamState, rows: ArrayLike, log_known: ArrayLike) -> float:
    """``log p(batch | seating, state)``."""
    rows = state.base.block(rows)
    log_known = np.asarray(log_known, dtype=np.float64).reshape(len(rows), state.n_known)
    dish = np.array(dish_of_items(seating, state))
    total = 0.0
    for k in sorted(set(dish.tolist())):
        if k < state.n_known:
            total += float(log_known[dish == k, k].sum())
        elif k < state.n_dishes:
            before = state.base.block(state.emerging_rows[k - state.n_known])
            after = np.concatenate([before, rows[dish == k]])
            total += state.base.log_marginal(after) - state.base.log_marginal(before)
        else:
            total += state.base.log_marginal(rows[dish == k])
    return total


def target(state: StreamState, rows: ArrayLike, log_known: ArrayLike = ()) -> StreamExact:
    """Every seating of the batch with its exact probability, alpha0 integrated out.

    Parameters
    ----------
    state
        What came before.
    rows
        The batch, of shape (n, d); n at most 4 or so.
    log_known
        Log density of every instance under every known class, of shape (n, C).
    """
    rows = state.base.block(rows)
    return _exact(state, len(rows), lambda seating: log_likelihood(seating, state, rows, log_known))


def prior(state: StreamState, n: int) -> StreamExact:
    """The distribution of the seating of a batch of n before it is looked at."""
    return _exact(state, n, lambda seating: 0.0)


def _exact(state: StreamState, n: int, log_factor: Callable[[Seating], float]) -> StreamExact:
    seatings = enumerate_stream_seatings(n, len(state.tables), state.n_dishes)
    alpha0, log_mass = state.alpha_grid()
    log_joint = np.empty(len(seatings))
    means = np.empty(len(seatings))
    for i, seating in enumerate(seatings):
        terms = log_mass + log_prior(seating, state, alpha0)
        log_joint[i] = scipy.special.logsumexp(terms) + log_factor(seating)
        means[i] = np.exp(scipy.special.logsumexp(terms, b=alpha0) - scipy.special.logsumexp(terms))
    probabilities = np.exp(log_joint - scipy.special.logsumexp(log_joint))
    eats = np.zeros((n, state.n_dishes + 1))
    for seating, probability in zip(seatings, probabilities, strict=True):
        for i, dish in enumerate(dish_of_items(seating, state)):
            eats[i, min(dish, state.n_dishes)] += probability
    return StreamExact(tuple(seatings), probabilities, float(probabilities @ means), eats)
