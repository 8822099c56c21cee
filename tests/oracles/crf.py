"""The Chinese restaurant franchise by enumeration: every seating of a few instances, and its probability.

Instances 0 .. n-1, instance i in group ``groups[i]``, sit at tables of their own group's restaurant; each
table is served one dish, and dishes may be shared between tables and, unless ownership is exclusive, between
groups. With T_j tables and n_j instances in group j, n_jt instances at table t, m_k tables serving dish k,
K dishes and M tables in all (Teh et al. 2006; equations 8 and 9 of Geng & Chen multiplied out over all
instances):

    p(seating | alpha0, gamma) = prod_j [ alpha0^T_j prod_t (n_jt - 1)! / rising(alpha0, n_j) ]
                                 * gamma^K prod_k (m_k - 1)! / rising(gamma, M)

The joint target is

    p(alpha0) p(gamma) p(seating | alpha0, gamma) 1[no dish is served in two groups] prod_k p(x_k)

normalised *once*, over everything: p(x_k) is the marginal likelihood of the block of instances eating dish
k. So the conditionals of alpha0 and of gamma given a seating are what they are without the restriction, while
their marginals lean towards values under which the restriction is likely to hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tests.oracles import concentration
from tests.oracles.concentration import Prior
from tests.oracles.niw import BaseMeasure

Array = NDArray[np.float64]


class Seating(NamedTuple):
    """Table of each instance and dish of each table, in the one canonical numbering; hashable.

    ``tables[i]`` is the table of instance i, ``dishes[t]`` the dish of table t, both numbered by first
    appearance. In the stream variant tables and dishes that were there before keep their number, new ones
    come after them, and ``dishes`` lists the new tables only.
    """

    tables: tuple[int, ...]
    dishes: tuple[int, ...]


class Exact(NamedTuple):
    """A distribution over all seatings, with alpha0 and gamma integrated out."""

    seatings: tuple[Seating, ...]
    probabilities: Array
    mean_alpha: float
    mean_gamma: float


def canonical(
    groups: Sequence[int],
    table_of_item: Sequence[int],
    dish_of_table: Sequence[int] | Mapping[int, int],
    n_tables: int = 0,
    n_dishes: int = 0,
) -> Seating:
    """Renumber a sampler's tables and dishes by first appearance.

    Parameters
    ----------
    groups
        Group of every instance; no table may hold instances of two of them.
    table_of_item
        The sampler's number of the table of every instance, unique over the groups.
    dish_of_table
        The sampler's number of the dish, looked up by its number of the table.
    n_tables, n_dishes
        Stream variant: tables below ``n_tables`` and dishes below ``n_dishes`` were there before the batch
        and keep their number.

    Examples
    --------
    >>> canonical([0, 0, 1], [7, 3, 5], {3: 1, 5: 1, 7: 4})
    Seating(tables=(0, 1, 2), dishes=(0, 1, 1))
    >>> canonical([0, 0, 0], [1, 6, 4], {4: 9, 6: 2}, n_tables=2, n_dishes=3)
    Seating(tables=(1, 2, 3), dishes=(2, 3))
    """
    owner: dict[int, int] = {}
    tables: dict[int, int] = {}
    dishes: dict[int, int] = {}
    for group, table in zip(groups, table_of_item, strict=True):
        if table < 0:
            raise ValueError(f"table {table}: an instance is not seated")
        if owner.setdefault(table, group) != group:
            raise ValueError(f"table {table} holds instances of groups {owner[table]} and {group}")
        if table >= n_tables and table not in tables:
            tables[table] = n_tables + len(tables)
            dish = int(dish_of_table[table])
            if dish < 0:
                raise ValueError(f"table {table} serves no dish")
            if dish >= n_dishes:
                dishes.setdefault(dish, n_dishes + len(dishes))
    return Seating(
        tuple(int(tables.get(table, table)) for table in table_of_item),
        tuple(dishes.get(int(dish_of_table[table]), int(dish_of_table[table])) for table in tables),
    )


def growth_strings(n: int) -> Iterator[tuple[int, ...]]:
    """Set partitions of n things: block of each, blocks numbered by first appearance.

    Examples
    --------
    >>> list(growth_strings(3))
    [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, 2)]
    """
    for labels in product(*(range(i + 1) for i in range(n))):
        if all(label <= max(labels[:i], default=-1) + 1 for i, label in enumerate(labels)):
            yield labels


def enumerate_seatings(groups: Sequence[int], ownership: bool) -> list[Seating]:
    """All seatings of the instances; with `ownership`, those where no dish is served in two groups."""
    seatings = []
    for tables in growth_strings(len(groups)):
        guests = [{groups[i] for i in range(len(groups)) if tables[i] == t} for t in range(max(tables) + 1)]
        if any(len(visitors) > 1 for visitors in guests):
            continue
        for dishes in growth_strings(len(guests)):
            eaters = [
                set().union(*(guests[t] for t in range(len(guests)) if dishes[t] == k))
                for k in range(max(dishes) + 1)
            ]
            if not ownership or all(len(owners) == 1 for owners in eaters):
                seatings.append(Seating(tables, dishes))
    return seatings


def _log_arrangements(tables: Sequence[int], dishes: Sequence[int]) -> float:
    """The prior without alpha0 and gamma: ``sum_jt log (n_jt - 1)! + sum_k log (m_k - 1)!``."""
    at_table = np.unique(tables, return_counts=True)[1]
    serving_dish = np.unique(dishes, return_counts=True)[1]
    return float(scipy.special.gammaln(at_table).sum() + scipy.special.gammaln(serving_dish).sum())


def dish_of_items(seating: Seating) -> list[int]:
    """Dish of every instance (z_ji of the paper)."""
    return [seating.dishes[t] for t in seating.tables]


def log_likelihood(seating: Seating, rows: ArrayLike, base: BaseMeasure) -> float:
    """``log p(x | seating)``: the product of the marginal likelihoods of the dishes' blocks."""
    rows = base.block(rows)
    dish = np.array(dish_of_items(seating))
    return float(sum(base.log_marginal(rows[dish == k]) for k in range(dish.max() + 1)))


def draw_rows(dish: Array, base: BaseMeasure, rng: np.random.Generator) -> Array:
    """Draw rows given the dish of each, of shape (n, d): each dish draws its parameters, then its block."""
    rows = np.empty((len(dish), base.dimension))
    for k in set(dish.tolist()):
        rows[dish == k] = base.draw_rows(int((dish == k).sum()), rng)
    return rows


class Franchise:
    """The franchise of a few instances: exact prior, exact posterior and exact draws.

    Parameters
    ----------
    groups
        Group of every instance.
    alpha, gamma
        Gamma priors (shape, rate), or fixed values.
    ownership
        Whether seatings where two groups share a dish are ruled out.
    """

    def __init__(self, groups: Sequence[int], alpha: Prior, gamma: Prior, ownership: bool) -> None:
        self.groups = tuple(groups)
        self.alpha = alpha
        self.gamma = gamma
        self.seatings = tuple(enumerate_seatings(groups, ownership))
        self.sizes = [int(n) for n in np.unique(groups, return_counts=True)[1]]
        self.log_weights = np.array([self._log_weight(seating) for seating in self.seatings])
        """Log prior of every allowed seating, alpha0 and gamma integrated out, not normalised."""

    def _log_weight(self, seating: Seating) -> float:
        tables, dishes = seating
        return (
            concentration.log_mass(self.alpha, len(dishes), self.sizes)
            + concentration.log_mass(self.gamma, len(set(dishes)), [len(dishes)])
            + _log_arrangements(tables, dishes)
        )

    def _exact(self, log_likelihoods: Array) -> Exact:
        log_joint = self.log_weights + log_likelihoods
        probabilities = np.exp(log_joint - scipy.special.logsumexp(log_joint))
        means = np.array([self.mean_concentrations(seating) for seating in self.seatings])
        mean_alpha, mean_gamma = probabilities @ means
        return Exact(self.seatings, probabilities, float(mean_alpha), float(mean_gamma))

    def prior(self) -> Exact:
        """The distribution of seating, alpha0 and gamma without data."""
        return self._exact(np.zeros(len(self.seatings)))

    def posterior(self, rows: ArrayLike, base: BaseMeasure) -> Exact:
        """The distribution of seating, alpha0 and gamma given the instances, an array of shape (n, d)."""
        return self._exact(np.array([log_likelihood(seating, rows, base) for seating in self.seatings]))

    def mean_concentrations(self, seating: Seating) -> tuple[float, float]:
        """Means of alpha0 and gamma given a seating (data add nothing to it)."""
        _, dishes = seating
        return (
            concentration.mean(self.alpha, len(dishes), self.sizes),
            concentration.mean(self.gamma, len(set(dishes)), [len(dishes)]),
        )

    def draw(self, rng: np.random.Generator) -> tuple[float, float, Seating]:
        """(alpha0, gamma, seating) from the prior, restricted with `ownership`."""
        weights = np.exp(self.log_weights - scipy.special.logsumexp(self.log_weights))
        seating = self.seatings[rng.choice(len(self.seatings), p=weights)]
        alpha0 = concentration.draw(self.alpha, len(seating.dishes), self.sizes, rng)
        gamma = concentration.draw(self.gamma, len(set(seating.dishes)), [len(seating.dishes)], rng)
        return alpha0, gamma, seating
