"""The training phase: seat the known classes, then summarise them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stream_osr.model import restaurants
from stream_osr.model.background_components import add_background_component, fit_background_components
from stream_osr.model.categories import EXCLUSIVE
from stream_osr.model.dish_statistics import Dishes, copy_slots, dishes_with, empty_dishes, settle
from stream_osr.model.feature_space.whitening import Whitening
from stream_osr.model.jit import Array
from stream_osr.model.known import N_RANKS, ClassFields, Known, densities, leave_one_out
from stream_osr.model.missing_features import nothing_missing
from stream_osr.model.moves.hyperparameters import (
    ALPHA,
    GAMMA,
    Grid,
    draw_concentrations,
    draw_prior,
    resample_alpha,
    resample_gamma,
)
from stream_osr.model.moves.predictive_cache import SamplerState
from stream_osr.model.moves.sweeps import sweep_groups
from stream_osr.model.prior import Prior, homogeneous, numbers_of
from stream_osr.model.student_t import CONJUGATE, Location, log_new_densities

SPARE = 64

SETTLED = 0.6
"""Share of the sweeps after which the concentrations of categories are drawn.

While a class is one subclass, its counts are close to the base measure. Concentrations drawn then would be large, and
no subclass would differ from another.
"""


MOST_START, LEAST_START = 20, 10
"""Most initial subclasses of a class with categories, and the least mean number of instances in each."""


class Seating(NamedTuple):
    """Seats of a set of groups: the sampler's state between sweeps."""

    guests: restaurants.Guests
    franchise: restaurants.Franchise
    dishes: Dishes


def seat_by_groups(rows: Array, group: Array, dish: Array, prior: Prior, exclusive: bool) -> Seating:
    """Seat every instance at the one table that its group has for its dish.

    Parameters
    ----------
    rows
        Homogeneous rows, shape (n, d + 1).
    group, dish
        Group and initial dish of each, shape (n,). With ``dish = group`` each class starts as one subclass.
    """
    n_groups = int(group.max()) + 1
    n_dishes = int(dish.max()) + 1
    pairs, table = np.unique(np.stack([group, dish]), axis=1, return_inverse=True)
    alpha, gamma, n_tables = ALPHA.shape / ALPHA.rate, GAMMA.shape / GAMMA.rate, pairs.shape[1]
    franchise = restaurants.empty_franchise(n_groups, n_dishes + SPARE, n_tables + SPARE, alpha, gamma)
    guests = restaurants.Guests(
        rows, group.astype(np.int64), np.ones(len(rows)), np.asarray(table, np.int64).reshape(-1)
    )
    dishes = dishes_with(rows, dish.astype(np.int64), n_dishes + SPARE, prior)
    for i in range(len(rows)):
        restaurants.join(franchise, int(guests.table[i]), int(group[i]), int(dish[i]), 1.0)
    franchise.owner[dish] = group if exclusive else restaurants.ANYONE
    franchise.extent[:] = n_dishes, n_tables
    return Seating(guests, franchise, dishes)


def copy_seating(seating: Seating, spare: int = 0) -> Seating:
    """Copy the seating into arrays with ``spare`` more slots for dishes and for tables."""
    old = seating.franchise
    count, tables = len(old.menu), len(old.table_dish)
    new = restaurants.empty_franchise(len(old.alpha), count + spare, tables + spare, 1.0, 1.0)
    for name, source, target in zip(old._fields, old, new, strict=True):
        if name == "seated":
            target[:, :count] = source
        else:
            target[: len(source)] = source
    served = np.where((old.menu > 0) | (seating.dishes.size > 0), np.arange(count), -1)
    dishes = copy_slots(seating.dishes, served, count + spare)
    return Seating(restaurants.Guests(*(v.copy() for v in seating.guests)), new, dishes)


def sweep(
    seating: Seating, prior: Prior, rng: np.random.Generator, exclusive: bool, log_new: Array | None = None
) -> Seating:
    """Run one Gibbs sweep over all groups. The argument does not change.

    If the slots run out, the sweep is repeated with more slots, from the same state and the same randomness.
    """
    if log_new is None:
        log_new = log_new_densities(seating.guests.rows, prior)
    state, log_frozen, spare = rng.bit_generator.state, np.empty((len(log_new), 0)), 0
    while True:
        out = copy_seating(seating, spare)
        weights = np.empty(len(out.franchise.menu) + 1)
        sweep_groups(rng, SamplerState(*out, prior, log_frozen, log_new, exclusive, weights, nothing_missing(0, 0)))
        if not out.franchise.overflow[0]:
            return out
        rng.bit_generator.state = state
        spare = max(2 * spare, SPARE)


class Training(NamedTuple):
    """Result of the training sweeps: final whitened space, base measure, and seats."""

    whitening: Whitening
    prior: Prior
    seating: Seating
    location: Location = CONJUGATE


def train(
    rows: Array,
    group: Array,
    whitening: Whitening,
    prior: Prior,
    rng: np.random.Generator,
    *,
    sweeps: int,
    start: Array | None = None,
    grid: Grid | None = None,
    location: Location = CONJUGATE,
    moves: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Training:
    """Sweep the training groups.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, C + d).
    group
        Class of each, 0 to J - 1, shape (n,).
    whitening
        Whitening of the rows.
    prior
        Base measure.
    rng
        Source of randomness.
    sweeps
        Number of Gibbs sweeps.
    start
        Initial subclass of each row, numbered from 0 (:func:`stream_osr.model.modes.find_modes`). ``None``: each
        class starts as one. With categories each is spread over several.
    grid
        Candidate values of the base measure, drawn before each sweep from its conditional given the seats. ``None``:
        ``prior`` stays.
    location
        Density of the first instance of a new subclass.
    moves
        Whether the instances move. Otherwise each stays in its initial subclass, the base measure is drawn once, and
        the sweeps draw alpha0 and gamma alone.
    progress
        Function called with the number of each finished sweep.
    """
    start = group if start is None else start
    if moves and (prior.pseudo[prior.first] != EXCLUSIVE).any():
        start = spread(start, rng)
    seating = seat_by_groups(homogeneous(rows), group, start, prior, exclusive=True)
    log_new = log_new_densities(seating.guests.rows, prior, location)
    if not moves:
        prior, seating = _draw_base_measure(rng, rows, seating, grid, prior, settled=True)
    for number in range(sweeps):
        if not moves:
            resample_alpha(rng, seating.franchise, ALPHA, False)
            resample_gamma(rng, seating.franchise, GAMMA)
            continue
        if grid is not None or len(prior.first):
            settled = number >= SETTLED * sweeps
            prior, seating = _draw_base_measure(rng, rows, seating, grid, prior, settled=settled)
            log_new = log_new_densities(seating.guests.rows, prior, location)
        seating = sweep(seating, prior, rng, exclusive=True, log_new=log_new)
        if progress is not None:
            progress(number + 1)
    return Training(whitening, prior, seating, location)


def spread(group: Array, rng: np.random.Generator) -> Array:
    """Spread each class, or mode of a class, at random over several initial subclasses, shape (n,).

    With categorical columns no single instance gains by leaving a large subclass: the first instance of a new
    subclass has the probabilities of the base measure. Parts of a class diverge during the sweeps, and similar parts
    merge.
    """
    count = np.clip(np.bincount(group) // LEAST_START, 1, MOST_START)
    first = np.cumsum(count) - count
    start = first[group] + (rng.random(len(group)) * count[group]).astype(np.int64)
    return np.asarray(np.unique(start, return_inverse=True)[1])


def _draw_base_measure(
    rng: np.random.Generator, rows: Array, seating: Seating, grid: Grid | None, prior: Prior, *, settled: bool
) -> tuple[Prior, Seating]:
    """Draw nu, scale, beta and the concentrations of categories given the seats, and recompute the subclasses."""
    dish = dish_of_guests(seating)
    if grid is not None:
        prior = draw_prior(rng, numbers_of(rows, prior), dish, grid, prior)
    if len(prior.first) and settled:
        prior = draw_concentrations(rng, rows, dish, prior)
    dishes = dishes_with(seating.guests.rows, dish, len(seating.dishes.size), prior)
    return prior, seating._replace(dishes=dishes)


def dish_of_guests(seating: Seating) -> Array:
    """Dish of each guest, shape (n,)."""
    return np.asarray(seating.franchise.table_dish[seating.guests.table])


def summarize(
    training: Training, epsilon: float, background_components: bool = False, effective: float = 1.0
) -> tuple[Known, Array]:
    """Summarise the seats: drop subclasses below the share epsilon, keep statistics and tables of the rest.

    Parameters
    ----------
    training
        Result of the sweeps.
    epsilon
        Least share of a class that a subclass needs.
    background_components
        Whether to add background components to each class density.
    effective
        Number of independent instances with the information of one training instance. At the end the statistics of
        the subclasses are :func:`tempered` by it.

    Returns
    -------
    The known classes, and the leave-one-out log class densities of the training instances, shape (n, J).
    """
    prior, seating = training.prior, training.seating
    guests, franchise = seating.guests, seating.franchise
    dish = dish_of_guests(seating)
    n_groups, n_dishes = franchise.seated.shape
    tables = np.zeros((n_groups, n_dishes))
    used = franchise.table_dish != restaurants.CLOSED
    np.add.at(tables, (franchise.table_group[used], franchise.table_dish[used]), 1.0)
    seated = franchise.seated
    size = seated.sum(axis=1)
    holds = (seated >= epsilon * size[:, None]) & (seated > 0)
    kept = np.flatnonzero(holds.any(axis=0))
    order = kept[np.lexsort((-seated[:, kept].max(axis=0), seated[:, kept].argmax(axis=0)))]
    known = Known(
        prior=prior,
        dishes=copy_slots(seating.dishes, order, len(order)),
        ids=np.arange(len(order)),
        seated=np.ascontiguousarray(seated[:, order]),
        tables=np.ascontiguousarray(tables[:, order]),
        size=size,
        alpha=float(franchise.alpha[0]),
        gamma=float(franchise.gamma[0]),
        epsilon=float(epsilon),
        ranks=np.zeros((n_groups, N_RANKS)),
        location=training.location,
    )
    position = np.full(n_dishes, -1)
    position[order] = np.arange(len(order))
    frozen = densities(known)
    holding = ClassFields(known.dishes, frozen.log_weight, known.seated, size, known.alpha, prior)
    log_density = leave_one_out(guests.rows, guests.group, position[dish], holding)
    own = log_density[np.arange(len(dish)), guests.group]
    if background_components:
        kept_dish = np.where(holds[guests.group, dish], position[dish], -1)
        fitted, own = fit_background_components(guests.rows[:, :-1], guests.group, kept_dish, own, known.alpha, prior)
        known = known._replace(background_components=fitted)
        log_density = add_background_component(log_density, fitted, frozen.log_weight, guests.rows)
        log_density[np.arange(len(dish)), guests.group] = own
    own = np.where(np.isfinite(own), own, log_new_densities(guests.rows, prior, training.location))
    levels = np.linspace(0.0, 1.0, N_RANKS)
    for j in range(n_groups):
        known.ranks[j] = np.quantile(own[guests.group == j], levels)
    return known._replace(dishes=tempered(known.dishes, prior, effective)), log_density


def tempered(dishes: Dishes, prior: Prior, effective: float) -> Dishes:
    """Weight each instance as ``effective`` independent ones.

    The posterior of a subclass is then that of ``max(2, effective * n)`` instances with the same mean and scatter.
    """
    if effective >= 1.0:
        return dishes
    n = dishes.size
    size = np.minimum(n, np.maximum(2, np.rint(effective * n))).astype(np.int64)
    share = (size / np.maximum(n, 1))[:, None]
    nothing = empty_dishes(1, prior).matrix[0]
    out = copy_slots(dishes, np.arange(len(n)), len(n))
    out.matrix[:] = nothing + share[:, :, None] * (dishes.matrix - nothing)
    out.counts[:] = share * dishes.counts
    for k, count in enumerate(size.tolist()):
        settle(out, k, count, prior)
    return out
