"""Equations (10) and (11) of the paper, table by table and dish by dish, for plain lists.

Tables are triples (restaurant, dish, seats taken); ``menu[k]`` is the number of tables m_k that counts for dish
k. A dish may be barred to the restaurant in question (``allowed``); its tables count in m.. all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

Seat = tuple[int | None, int | None]
"""Table and dish of a choice; None stands for a new one."""


def seat_probabilities(
    restaurant: int,
    tables: Sequence[tuple[int, int, float]],
    menu: Mapping[int, float],
    allowed: Collection[int],
    log_density: Callable[[int | None], float],
    alpha0: float,
    gamma: float,
) -> dict[Seat, float]:
    """Where one instance sits, by equation (10); ``log_density(None)`` is that under a new dish.

    Examples
    --------
    >>> found = seat_probabilities(0, [(0, 5, 2.0)], {5: 1.0}, {5}, lambda dish: 0.0, alpha0=1.0, gamma=3.0)
    >>> {seat: round(p, 4) for seat, p in found.items()}
    {(0, 5): 0.6667, (None, 5): 0.0833, (None, None): 0.25}
    """
    tables_in_all = sum(menu.values())
    weights: dict[Seat, float] = {}
    densities = {k: log_density(k) for k in (*allowed, None)}
    peak = max(densities.values())
    f = {k: np.exp(value - peak) for k, value in densities.items()}
    for t, (where, dish, seats) in enumerate(tables):
        if where == restaurant:
            weights[t, dish] = seats * f[dish]
    for dish in allowed:
        weights[None, dish] = alpha0 * menu[dish] / (tables_in_all + gamma) * f[dish]
    weights[None, None] = alpha0 * gamma / (tables_in_all + gamma) * f[None]
    total = sum(weights.values())
    return {seat: float(weight / total) for seat, weight in weights.items()}


def dish_probabilities(seats: Mapping[Seat, float]) -> dict[int | None, float]:
    """What the instance eats: the seats' probabilities added up."""
    out: dict[int | None, float] = {}
    for (_, dish), probability in seats.items():
        out[dish] = out.get(dish, 0.0) + probability
    return out


def table_dish_probabilities(
    menu: Mapping[int, float], allowed: Collection[int], log_density: Callable[[int | None], float], gamma: float
) -> dict[int | None, float]:
    """What a whole table is served, by equation (11); the table itself does not count in ``menu``."""
    log_weights = {k: np.log(menu[k]) + log_density(k) for k in allowed if menu[k] > 0}
    log_weights[None] = np.log(gamma) + log_density(None)
    peak = max(log_weights.values())
    total = sum(np.exp(value - peak) for value in log_weights.values())
    return {k: float(np.exp(value - peak) / total) for k, value in log_weights.items()}
