"""Truths drawn from the model, and rows drawn from the truths: for tests of the whole of training, and of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from stream_osr.model.franchise import StreamState
from stream_osr.model.known import Densities, Known
from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA, STREAM_ALPHA
from tests.oracles import concentration, niw


def draw_one(rng: np.random.Generator, weights: Sequence[float]) -> int:
    total = np.cumsum(weights)
    return min(int(np.searchsorted(total, rng.random() * total[-1])), len(total) - 1)


class Groups(NamedTuple):
    """A training set's truth: concentrations, number of tables, and the dish of each instance."""

    alpha: float
    gamma: float
    tables: int
    dish: np.ndarray


def draw_groups(groups: Sequence[int], rng: np.random.Generator) -> Groups:
    """Draw from the franchise, one instance after the other, until no dish is served in two groups (section 1)."""
    while True:
        alpha, gamma = rng.gamma(ALPHA.shape) / ALPHA.rate, rng.gamma(GAMMA.shape) / GAMMA.rate
        tables: list[list[int]] = []  # group, seats, dish
        menu: list[int] = []
        dish = []
        for j in groups:
            own = [table for table in tables if table[0] == j]
            at = draw_one(rng, [*(seats for _, seats, _ in own), alpha])
            if at == len(own):
                k = draw_one(rng, [*menu, gamma])
                if k == len(menu):
                    menu.append(0)
                menu[k] += 1
                own.append([j, 0, k])
                tables.append(own[-1])
            own[at][1] += 1
            dish.append(own[at][2])
        if len({(j, k) for j, _, k in tables}) == len(menu):
            return Groups(alpha, gamma, len(tables), np.array(dish))


def draw_rows(dish: np.ndarray, base: niw.BaseMeasure, rng: np.random.Generator) -> np.ndarray:
    """Draw rows given their dishes: parameters for each dish, then its rows."""
    rows = np.empty((len(dish), base.dimension))
    for k in set(dish.tolist()):
        rows[dish == k] = base.draw_rows(int((dish == k).sum()), rng)
    return rows


# The stream


class Past(NamedTuple):
    """Where a stream stands: the known classes, the state, and the rows behind the statistics of both.

    Attributes
    ----------
    known_rows
        Rows of each known subclass.
    emerging_rows
        Rows of each emerging subclass, all of them settled.
    """

    known: Known
    frozen: Densities
    state: StreamState
    base: niw.BaseMeasure
    known_rows: list[np.ndarray]
    emerging_rows: list[np.ndarray]


class Batch(NamedTuple):
    """The truth of some instances: alpha0, the tables that they opened, their dishes, and their rows.

    Dishes are numbered: the J known classes, the emerging subclasses, new ones in any order.
    """

    alpha: float
    tables: int
    dish: np.ndarray
    rows: np.ndarray


def draw_batch(past: Past, n: int, rng: np.random.Generator) -> Batch:
    """Draw alpha0 given the past, seats one after the other, and a row each from the law of its dish."""
    franchise, n_known = past.state.franchise, len(past.known.size)
    dishes, seats = franchise.table_dish.tolist(), franchise.table_mass.tolist()
    menu, settled = np.maximum(franchise.menu, franchise.held).tolist(), len(franchise.table_dish)
    alpha = concentration.draw(STREAM_ALPHA, settled, [sum(seats)], rng)
    there = [*past.emerging_rows]
    dish, rows = [], []
    for _ in range(n):
        t = draw_one(rng, [*seats, alpha])
        if t == len(seats):
            k = draw_one(rng, [*menu, float(franchise.gamma[0])])
            if k == len(menu):
                menu.append(0.0)
                there.append(past.base.block([]))
            menu[k] += 1.0
            seats.append(0.0)
            dishes.append(k)
        seats[t] += 1.0
        k = dishes[t]
        if k < n_known:
            rows.append(draw_known(past, k, rng))
        else:
            rows.append(draw_next(past.base, there[k - n_known], rng))
            there[k - n_known] = np.vstack([there[k - n_known], rows[-1]])
        dish.append(k)
    return Batch(alpha, len(seats) - settled, np.array(dish), np.array(rows))


def draw_known(past: Past, j: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a row of a known class: of one of its kept subclasses, or of its broad term, which has what they leave."""
    shares = np.exp(past.frozen.log_weight[j]).tolist()
    k = draw_one(rng, [*shares, 1.0 - sum(shares)])
    if k < len(shares):
        return draw_next(past.base, past.known_rows[k], rng)
    shape = past.known.background_components[j]
    assert shape is not None
    normal = np.linalg.solve(shape.factor, rng.standard_normal(len(shape.mean)))
    return np.asarray(shape.mean + normal * np.sqrt(shape.freedom / rng.chisquare(shape.freedom)))


def draw_next(base: niw.BaseMeasure, block: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one more row of a subclass from its posterior predictive."""
    location, scale = base.predictive_scale(block)
    freedom = base.posterior(block).nu - base.dimension + 1
    return np.asarray(stats.multivariate_t.rvs(location, scale, freedom, random_state=rng)).reshape(-1)
