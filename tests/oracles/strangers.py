"""The search for a hidden class, group by group, as ``docs/subclasses.md`` describes it."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import scipy

from tests.oracles.niw import Array, BaseMeasure, Full


class World(NamedTuple):
    """Base measure, blocks of the known subclasses, of the emerging ones by identity, background, concentration."""

    measure: Full
    known: list[Array]
    emerging: dict[int, Array]
    mean: Array
    covariance: Array
    alpha: float


class Limits(NamedTuple):
    """Sizes of groups, how far back they reach, the price of having looked, the background at its narrowest."""

    sizes: tuple[int, ...]
    lately: tuple[int, ...]
    looked: float
    narrowest: float
    passes: int


def find(
    world: World, limits: Limits, seqs: Array, rows: Array, seat: Array, arrived: list[int], named: set[int]
) -> list[int]:
    """Positions of the strangers of the class that is hidden around one that has just arrived; empty: none is."""
    found = []
    for size, lately in product(limits.sizes, limits.lately):
        recent = np.flatnonzero(seqs >= seqs[-1] - lately)
        for at in arrived if len(recent) >= size else []:
            away = ((rows[recent] - rows[at]) ** 2).sum(axis=1)
            group = recent[np.argsort(away, kind="stable")[:size]]
            alone = world.measure.log_marginal(rows[group]) + odds(world, size, len(recent)) - limits.looked
            ahead = alone - wide(rows[group], world.mean, world.covariance, limits.narrowest)
            found.append((ahead, alone, group, recent))
    for ahead, alone, group, recent in sorted(found, key=lambda one: -one[0]):
        if ahead > 0 and stands_out(world, limits, alone, group, recent, rows, seat, named):
            return grown(world, limits, group, rows, seat)
    return []


def odds(world: World, size: int, among: int) -> float:
    log_gamma = scipy.special.gammaln
    return float(np.log(world.alpha) + log_gamma(size) + log_gamma(among - size + 1) - log_gamma(among))


def wide(block: Array, mean: Array, covariance: Array, narrowest: float) -> float:
    """Log density under the Gaussian, as many times wider as suits the block best."""
    square = np.einsum("na,ab,nb->", block - mean, np.linalg.inv(covariance), block - mean)
    wider = max(square / block.size, narrowest)
    return float(scipy.stats.multivariate_normal(mean, wider * covariance).logpdf(block).sum())


def predicted(measure: BaseMeasure, block: Array, members: Array) -> float:
    return sum(measure.log_predictive(row, members) for row in block)


def stands_out(
    world: World,
    limits: Limits,
    alone: float,
    group: Array,
    recent: Array,
    rows: Array,
    seat: Array,
    named: set[int],
) -> bool:
    measure, block = world.measure, rows[group]
    nearest = max(world.known, key=lambda members: predicted(measure, block, members))
    mean, _, freedom, scale = measure.posterior(nearest)
    covariance = scale / max(freedom - measure.dimension - 1, 1)
    if alone <= wide(block, mean, covariance, 1.0):
        return False
    for key, members in world.emerging.items():
        inside = group[seat[group] == key]
        if len(inside) and (key in named or 2 * len(inside) < len(members)):
            own = measure.log_marginal(rows[inside]) - limits.looked
            own += odds(world, len(inside), int((seat[recent] == key).sum()))
            if own <= predicted(measure, rows[inside], members):
                return False
    return True


def grown(world: World, limits: Limits, group: Array, rows: Array, seat: Array) -> list[int]:
    core = set(group.tolist())
    for _ in range(limits.passes):
        members, wider = rows[sorted(core)], set(core)
        for i, row in enumerate(rows):
            beside = wide(row[None], world.mean, world.covariance, 1.0) + np.log(len(rows))
            if seat[i] in world.emerging:
                home = world.emerging[seat[i]]
                beside = max(beside, world.measure.log_predictive(row, home) + np.log(len(home)))
            if world.measure.log_predictive(row, members) + np.log(len(members)) > beside:
                wider.add(i)
        if wider == core:
            break
        core = wider
    return sorted(core)
