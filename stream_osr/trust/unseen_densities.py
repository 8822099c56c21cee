"""Densities of the training instances as unseen by the model.

To be comparable with the stream, each training instance is scored by densities that were made without it. Its fold (a
tenth) is left out of the whitening and of all statistics, while the seats of the others stay. With very many
instances, leaving out only the instance itself gives the same result. This does not apply to categories. A fold takes
its rare values with it, just as a stream has values that training did not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import InvalidParameter
from stream_osr.model.categories import base_of
from stream_osr.model.feature_space.binary_features import OF_CONSTANT, OF_FLAG
from stream_osr.model.feature_space.mixed_whitening import fit_mixed
from stream_osr.model.feature_space.subspace import Plan
from stream_osr.model.feature_space.whitening import Whitening, aligned, even_where_open, whiten
from stream_osr.model.jit import Array
from stream_osr.model.known import N_RANKS, Known, densities, log_densities
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.training import Training, dish_of_guests, seat_by_groups, summarize
from stream_osr.parameters import Parameters

FOLDS = 10
BLOCKS = 4
"""Number of blocks of arrival in each class if neighbours are dependent."""
PLENTY = 20.0
"""Within-class degrees of freedom for each dimension from which an instance is left out without its fold."""


class TrainingRows(NamedTuple):
    """Training instances.

    Attributes
    ----------
    X
        Raw rows, NaN = missing, shape (n, p).
    group
        Class of each row, 0 to J - 1, shape (n,).
    units
        Number of the person, device or day of each row, shape (n,). An instance is not scored by its unit.
        ``None``: not known.
    """

    X: Array
    group: Array
    units: Array | None = None


def unseen_densities(
    rows: TrainingRows,
    p: Parameters,
    trainings: Sequence[Training],
    left_out: Sequence[Array],
    plan: Plan | None = None,
    order: Array | None = None,
    effective: float = 1.0,
    within: bool = False,
) -> list[Array]:
    """Return log class densities of the training instances as unseen by the model, one (n, J) for each model.

    Parameters
    ----------
    rows
        Training instances.
    p
        Hyperparameters and seed.
    trainings
        Trained models. The densities refer to their whitened coordinates.
    left_out
        Log class densities with each instance left out alone (:func:`stream_osr.model.training.summarize`).
    plan
        Plan for the features.
    order
        Position of each row in the order of arrival, shape (n,), if neighbours are dependent. Folds are then blocks
        of arrival, so that no instance is scored by its neighbours.
    effective
        As for :func:`stream_osr.model.training.summarize`.
    within
        Score an instance by its unit as well. Blocks of arrival are then blocks of each unit.

    Returns
    -------
    Minus infinity, under its own class, for an instance that is alone in its class.
    """
    fold = divided(rows, p, trainings[0], order, within)
    if fold is None:
        return list(left_out)
    seen, out = _without_own_values(rows.X, trainings[0].whitening, fold), [each.copy() for each in left_out]
    for number in range(int(fold.max(initial=-1)) + 1):
        member_rows = fold == number
        if member_rows.any():
            unseen = _without(member_rows, seen, rows, p, trainings, plan, effective)
            for each, found in zip(out, unseen, strict=True):
                each[member_rows] = found
    return out


def own_density(log_density: Sequence[Array], group: Array) -> float:
    """Return the mean log density of the instances under their own classes, over the models.

    Instances that are alone in their class are excluded.
    """
    own = np.mean(log_density, axis=0)[np.arange(len(group)), group]
    return float(own[np.isfinite(own)].mean())


def unseen_rows(rows: TrainingRows, p: Parameters, training: Training, order: Array | None = None) -> Array:
    """Return whitened training rows, shape (n, C + d), as unseen by the model.

    A category value that only one fold has counts as a new value. Arguments as for :func:`unseen_densities`.
    """
    whitened, whitening = training.seating.guests.rows[:, :-1], training.whitening
    fold, count = divided(rows, p, training, order), len(whitening.places)
    if fold is None or not count:
        return whitened
    seen = _without_own_values(rows.X, whitening, fold)
    return np.hstack([whiten(whitening, seen)[:, :count], whitened[:, count:]])


def divided(
    rows: TrainingRows, p: Parameters, training: Training, order: Array | None, within: bool = False
) -> Array | None:
    """Return the fold number of each instance, shape (n,). ``None``: each is left out alone."""
    _, group, units = rows
    freedom = len(group) - len(np.unique(group))
    plenty = freedom >= PLENTY * training.seating.guests.rows.shape[1] and not len(training.whitening.columns)
    if plenty and order is None and (units is None or within):
        return None
    cells = group
    if units is not None and within:
        cells = np.unique(group * (int(units.max()) + 1) + units, return_inverse=True)[1]
    fold = _folds(group, p.seed) if order is None else _blocks(cells, order)
    return fold if units is None or within else _units_apart(group, units, fold)


def _without_own_values(X: Array, whitening: Whitening, fold: Array) -> Array:
    """Replace category values that only one fold has by a new value, in raw rows.

    With very many values, only the commonest have a place of their own. Some values occur as often in the other rows
    as the rarest of these. Of those values, a share has a place.
    """
    out, rng = X, np.random.default_rng(len(X))
    for at, places in zip(whitening.columns.tolist(), whitening.places.tolist(), strict=False):
        there = np.flatnonzero(X[:, at] < places - 2)
        value, without = X[there, at].astype(np.int64), int((X[:, at] >= places - 2).sum())
        count = np.bincount(value)
        pair, within = np.unique(np.stack([value, fold[there]]), axis=1, return_inverse=True, return_counts=True)[1:]
        elsewhere = count[value] - within[pair.ravel()]
        rare = elsewhere == 0
        if without:
            least = count[count > 0].min(initial=len(X))
            kept = int((count == least).sum())
            share = kept / (kept + without / least)
            rare = (elsewhere < least) | ((elsewhere == least) & (rng.random(len(there)) >= share))
        own = there[rare & (fold[there] >= 0)]
        if len(own):
            out = out.copy() if out is X else out
            out[own, at] = places - 2
    return out


def _folds(group: Array, seed: int) -> Array:
    """Divide each class among the folds. The only instance of a class is in none (-1)."""
    rng = np.random.default_rng([seed, 18])
    fold = np.full(len(group), -1)
    for j in range(int(group.max()) + 1):
        own = rng.permutation(np.flatnonzero(group == j))
        if len(own) > 1:
            fold[own] = (np.arange(len(own)) + rng.integers(FOLDS)) % FOLDS
    return fold


def _blocks(group: Array, order: Array) -> Array:
    """Divide each class into consecutive blocks of arrival. The only instance of a class is in none (-1)."""
    turn, size = np.lexsort((order, group)), np.bincount(group)
    own, fold = size[group[turn]], np.empty(len(group), np.int64)
    rank = np.arange(len(group)) - (np.cumsum(size) - size)[group[turn]]
    fold[turn] = np.where(own > 1, rank * BLOCKS // own, -1)
    return fold


def _units_apart(group: Array, units: Array, otherwise: Array) -> Array:
    """Put whole units (persons, devices, days) into at most :data:`FOLDS` folds of similar size.

    A class must keep instances without the fold. If one fold has all units of a class, the class has separate folds,
    one for each unit. The instances of a class with one unit are in the folds ``otherwise``.
    """
    size = np.bincount(units)
    of_unit = np.arange(len(size))
    if len(size) > FOLDS:
        filled = np.zeros(FOLDS, np.int64)
        for unit in np.argsort(-size, kind="stable"):
            of_unit[unit] = filled.argmin()
            filled[of_unit[unit]] += size[unit]
    fold: Array = of_unit[units]
    for j in np.unique(group):
        own = np.flatnonzero(group == j)
        if (fold[own] == fold[own[0]]).all():
            place = np.unique(units[own], return_inverse=True)[1]
            fold[own] = place % FOLDS if place.any() else otherwise[own]
    return fold


def _without(
    member_rows: Array,
    seen: Array,
    training_rows: TrainingRows,
    p: Parameters,
    trainings: Sequence[Training],
    plan: Plan | None,
    effective: float,
) -> list[Array]:
    """Return log class densities of some instances, as ``seen``, by models of the others with their seats."""
    (X, group, _), whitening, rest = training_rows, trainings[0].whitening, ~member_rows
    try:
        places = np.zeros(X.shape[1], np.int64)
        places[whitening.columns] = whitening.places[: len(whitening.columns)]
        places[whitening.binary_features.members] = OF_FLAG
        places[whitening.constant & ~whitening.forward.any(axis=1)] = OF_CONSTANT
        kinds: dict[str, Any] = {
            "binary_features": whitening.binary_features,
            "yeo_johnson": whitening.yeo_johnson,
            "open_categories": whitening.open,
        }
        other = fit_mixed(X[rest], group[rest], places, **kinds, plan=plan, pca=p.pca)
    except InvalidParameter:  # the others do not span the components of the PCA
        other = whitening
    if other.forward.shape != whitening.forward.shape:
        other = whitening
    elif any((training.prior.spread != 1.0).any() for training in trainings):
        other = aligned(other, whitening)
    volume = float(np.linalg.slogdet(whitening.backward @ other.forward)[1])  # of a unit of the coordinates
    rows, total = homogeneous(whiten(other, X[rest])), homogeneous(whiten(other, seen[member_rows]))
    out = []
    for training in trainings:
        dish = np.unique(dish_of_guests(training.seating)[rest], return_inverse=True)[1]
        prior = _rebased(training.prior, rows, group[rest], whitening)
        seating = seat_by_groups(rows, group[rest], dish, prior, exclusive=True)
        seating.franchise.alpha[:] = training.seating.franchise.alpha[0]
        seating.franchise.gamma[:] = training.seating.franchise.gamma[0]
        known, _ = summarize(
            training._replace(whitening=other, prior=prior, seating=seating),
            p.epsilon,
            p.background_component,
            effective,
        )
        out.append(log_densities(known, densities(known), total)[0] + volume)
    return out


def _rebased(prior: Prior, rows: Array, group: Array, whitening: Whitening) -> Prior:
    """Set the base measure of the categories to that of the given instances. Concentrations stay."""
    if not len(prior.first):
        return prior
    concentration = np.repeat(prior.pseudo[prior.first], whitening.places)
    return prior._replace(pseudo=concentration * even_where_open(base_of(rows, group, whitening.places), whitening))


def with_ranks(known: Known, group: Array, log_density: Array) -> Known:
    """Compute the quantiles of density ranks from log class densities of the training instances."""
    ranks = known.ranks.copy()
    for j in range(len(ranks)):
        own = log_density[group == j, j]
        if np.isfinite(own).all():
            ranks[j] = np.quantile(own, np.linspace(0.0, 1.0, N_RANKS))
    return known._replace(ranks=ranks)
