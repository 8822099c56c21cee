"""Unassigned rows: the detection of classes hidden among them.

A group of unassigned rows may be a class that noise hides, or one so rare that its seats fade. The search takes each
arrival with its nearest neighbours. They form a class if they are more probable as one subclass than under each
alternative. The alternatives are noise over the range of training, outliers of the nearest known class, and the
emerging subclass in which they sit. The Chinese restaurant's log odds of such a group are added, because otherwise
the best of very many groups would nearly always win.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model import categories, dish_statistics
from stream_osr.model.edit import slot_of
from stream_osr.model.gaussian import dot, quadratic
from stream_osr.model.jit import Array, kernel
from stream_osr.model.known import Known
from stream_osr.model.moves.splitting import MISMATCH
from stream_osr.model.noise import NARROWEST, NoiseModel, gain, log_density
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.restaurants import StreamState
from stream_osr.model.student_t import Location, log_placed

SIZES = (8, 16)
"""Sizes of candidate groups: an arrival with its nearest neighbours."""
LATELY = (256, 2048, 1 << 40)
"""Ranges of latest instances in which to search.

With a short range, a class that begins now need not outnumber old noise.
"""
MOST_NEEDED = 512.0
"""Most rows that a class needs, however dependent they are: half of the rows that are remembered."""
MARGIN = 3.0
"""Least log odds of a candidate."""
GAIN = 0.5
"""Additional log odds required for each instance, because no noise matches the noise model exactly."""
PASSES = 5
"""Most passes in which a core may grow."""
LOG_CANDIDATES = math.log(len(SIZES) * len(LATELY)) + math.log(1000.0)
"""Log odds subtracted for the choice among the searches, which is repeated with each arrival."""


class UnassignedRows(NamedTuple):
    """Remembered unknown instances that are in no announced subclass, n in all.

    Attributes
    ----------
    seqs
        Positions in the stream, ascending, shape (n,).
    rows
        Whitened rows, shape (n, d).
    seat
        Emerging subclass of each, possibly one that has left the model, shape (n,).
    """

    seqs: Array
    rows: Array
    seat: Array


class Alternatives(NamedTuple):
    """Alternatives to a group of unassigned rows: known classes, the sampler's state, and noise."""

    known: Known
    state: StreamState
    noise: NoiseModel


class _Scene(NamedTuple):
    """The same for kernels: base measure, known and emerging subclasses, an empty one, noise, concentration."""

    prior: Prior
    location: Location
    known: dish_statistics.Dishes
    emerging: dish_statistics.Dishes
    nobody: dish_statistics.Dishes
    noise: NoiseModel
    alpha: float


class _Seated(NamedTuple):
    """Homogeneous unassigned rows, shape (n, d + 1), and the slot of each, -1 if none, shape (n,)."""

    rows: Array
    slot: Array


def outweighs_noise(around: Alternatives, key: int, others: int) -> bool:
    """Return whether subclass ``key`` is more probable than noise, beside ``others`` other unassigned instances."""
    known, state, noise = around
    k = slot_of(state, key)
    size = int(state.dishes.size[k])
    odds = _log_odds(size, size + others, float(state.franchise.alpha[0]))
    own = gain(state.dishes, k, noise, known.prior, known.location)
    return bool(own + odds > MARGIN + GAIN * size)


def find_group(
    unassigned: UnassignedRows, arrived: Array, around: Alternatives, announced: Array, independent: float = 1.0
) -> Array | None:
    """Find a class hidden among the unassigned rows, around one that has just arrived, or return ``None``.

    If neighbours depend on each other, a few of them are always similar. The neighbours of the latest arrival are
    then a class only with all rows that resemble them, and with the information of ``SIZES[-1]`` independent ones.

    Parameters
    ----------
    unassigned
        The unassigned rows.
    arrived
        Positions of the arrivals in these rows.
    around
        Alternatives to a class.
    announced
        Subclasses that people know about (`Lifecycle.noticed`).
    independent
        Number of independent instances with the information of one instance.

    Returns
    -------
    Positions in ``unassigned``, ascending.
    """
    seqs, rows, seat = unassigned
    (known, state, noise), prior = around, around.known.prior
    begin = np.unique(np.searchsorted(seqs, seqs[-1] - np.array(LATELY)))[::-1].copy()
    alpha = float(state.franchise.alpha[0])
    scene = _Scene(
        prior, known.location, known.dishes, state.dishes, dish_statistics.empty_dishes(1, prior), noise, alpha
    )
    no_home = (state.ids[:, None] == announced).any(axis=1)
    places = homogeneous(rows), seat, arrived, begin, state.ids, no_home
    if independent < 1.0:
        core = _find_large(*places, scene, min(SIZES[-1] / independent, MOST_NEEDED))
    else:
        core = _find(*places, scene)
    return np.flatnonzero(core) if core.any() else None


@kernel
def _find(rows: Array, seat: Array, arrived: Array, begin: Array, ids: Array, no_home: Array, scene: _Scene) -> Array:
    """Mark the unassigned rows of the class. The search tries each start position in ``begin``."""
    core, among = np.zeros(len(rows), np.bool_), _seated(rows, seat, ids)
    near, count = _nearest(rows, arrived, begin, scene.prior.first.shape[0]), len(arrived)
    alone, odds = np.full((len(SIZES), len(near)), -np.inf), np.full(len(SIZES) * len(near), -np.inf)
    for a in range(len(SIZES)):
        for g in range(len(near)):
            if near[g, SIZES[a] - 1] >= 0:
                block, n = _rows_at(rows, near[g, : SIZES[a]]), len(rows) - begin[g // count]
                alone[a, g] = _together(block, scene) + _log_odds(SIZES[a], n, scene.alpha) - LOG_CANDIDATES
                odds[a * len(near) + g] = alone[a, g] - _of_nothing(block, scene, NARROWEST)
    for _ in range(len(odds)):
        best = int(odds.argmax())
        if odds[best] <= 0.0:
            break
        a, g = best // len(near), best % len(near)
        group, recent = near[g, : SIZES[a]], begin[g // count]
        if _sits_nowhere(group, recent, among, no_home, scene) and _is_no_outlier(alone[a, g], group, among, scene):
            for i in group:
                core[i] = True
            _grow(core, among, scene)
            break
        odds[best] = -np.inf
    return core


@kernel
def _find_large(
    rows: Array, seat: Array, arrived: Array, begin: Array, ids: Array, no_home: Array, scene: _Scene, least: float
) -> Array:
    """Mark the unassigned rows of a class with at least this many rows, around the latest arrival."""
    core, among = np.zeros(len(rows), np.bool_), _seated(rows, seat, ids)
    near = _nearest(rows, arrived[-1:], begin[:1], scene.prior.first.shape[0])[0]
    if len(rows) <= least or near[-1] < 0:
        return core
    for i in near:
        core[i] = True
    _grow(core, among, scene)
    group = np.flatnonzero(core)
    block = _rows_at(rows, group)
    alone = _together(block, scene) + _log_odds(len(group), len(rows), scene.alpha) - LOG_CANDIDATES
    is_class = len(group) >= least and alone > _of_nothing(block, scene, NARROWEST)
    is_class = is_class and _sits_nowhere(group, 0, among, no_home, scene)
    if not (is_class and _is_no_outlier(alone, group, among, scene)):
        core[:] = False
    return core


@kernel
def _seated(rows: Array, seat: Array, ids: Array) -> _Seated:
    """Find the slot of each row by the identity of the subclass."""
    slot = np.full(len(rows), -1)
    for k in range(len(ids)):
        for i in range(len(rows)):
            slot[i] = k if seat[i] == ids[k] else slot[i]
    return _Seated(rows, slot)


@kernel
def _nearest(rows: Array, arrived: Array, begin: Array, columns: int) -> Array:
    """Find the nearest rows of each arrival, from each start position on, nearest first, -1 if there are no more."""
    near = np.full((len(begin) * len(arrived), SIZES[-1]), -1)
    away, least, numbers = np.zeros(len(rows)), np.empty(SIZES[-1]), categories.numbers_of(rows, columns)
    for i in range(len(arrived)):
        away[:] = 0.0
        for j in range(len(rows) if columns > 0 else 0):
            away[j] = MISMATCH * categories.mismatches(rows[arrived[i]], rows[j], columns)
        for a in range(len(numbers)):  # several rows at a time
            here = numbers[a, arrived[i]]
            for j in range(len(rows)):
                away[j] += (here - numbers[a, j]) ** 2
        for since in range(len(begin)):
            found = near[since * len(arrived) + i]
            least[:] = np.inf
            for j in range(begin[since], len(rows)):
                at = SIZES[-1]
                while at > 0 and away[j] < least[at - 1]:
                    at -= 1
                    if at + 1 < SIZES[-1]:
                        least[at + 1], found[at + 1] = least[at], found[at]
                if at < SIZES[-1]:
                    least[at], found[at] = away[j], j
    return near


@kernel
def _rows_at(rows: Array, at: Array) -> Array:
    out = np.empty((len(at), rows.shape[1]))
    for i in range(len(at)):
        out[i] = rows[at[i]]
    return out


@kernel
def _log_odds(size: int, among: int, alpha: float) -> float:
    """Log odds in the Chinese restaurant of ``size`` out of ``among`` guests at a dish of their own."""
    return math.log(alpha) + math.lgamma(size) + math.lgamma(among - size + 1) - math.lgamma(among)


@kernel
def _together(block: Array, scene: _Scene) -> float:
    """Log marginal likelihood of a few homogeneous rows as a subclass, up to a factor common to all seatings."""
    d, skip, squares = scene.prior.n_features, scene.prior.first.shape[0], 0.0
    mean = np.zeros(d + 1)
    for i in range(len(block)):
        for a in range(d + 1):
            mean[a] += block[i, skip + a] / len(block)
        squares += dot(block[i, skip : skip + d], block[i, skip : skip + d])
    total = dish_statistics.log_block_predictive(scene.nobody, 0, block, False, scene.prior)
    return total + log_placed(mean, scene.prior, scene.location)


@kernel
def _of_nothing(block: Array, scene: _Scene, narrowest: float) -> float:
    """Log density of a group of rows as noise."""
    (noise, prior), square, of_values = (scene.noise, scene.prior), 0.0, 0.0
    skip, nobody = prior.first.shape[0], np.zeros(prior.pseudo.shape[0])
    for i in range(len(block)):
        square += quadratic(noise.form, block[i, skip:])
        of_values += categories.log_predictive(nobody, block[i], prior)
    return log_density(square, len(block), prior.n_features, noise.log_det, narrowest) + of_values


@kernel
def _predicted(block: Array, dishes: dish_statistics.Dishes, k: int, floor: float, prior: Prior) -> float:
    """Log density of rows, each by itself, under a subclass, or minus infinity once it must be below ``floor``."""
    total, most = 0.0, dishes.constant[k, 0] - 0.5 * dishes.log_det[k]
    for i in range(len(block)):
        total += dish_statistics.log_predictive(dishes, k, block[i], prior)
        if total + (len(block) - 1 - i) * most < floor:
            return -np.inf
    return total


@kernel
def _is_no_outlier(alone: float, group: Array, among: _Seated, scene: _Scene) -> bool:
    """Return whether a group with these log odds is a subclass rather than outliers of the nearest known one."""
    (prior, known), block = (scene.prior, scene.known), _rows_at(among.rows, group)
    near, highest = 0, -np.inf
    for k in range(len(known.size)):
        density = _predicted(block, known, k, highest, prior)
        if density > highest:
            near, highest = k, density
    # of the mean covariance, which is narrower than the predictive
    d, r, freedom = prior.n_features, prior.beta + known.size[near], prior.nu + known.size[near] - prior.n_features
    wider, log_det = (r + 1.0) / r, 0.0
    wider *= max(freedom - 1.0, 1.0) / (freedom + 1.0)
    log_det = known.log_det[near] - d * math.log(max(freedom - 1.0, 1.0))
    log_det -= math.log(r)
    square, of_values = 0.0, 0.0
    for i in range(len(block)):
        square += wider * dish_statistics.mahalanobis(known, near, block[i], prior) ** 2
        of_values += categories.log_predictive(known.counts[near], block[i], prior)
    return alone > log_density(square, len(block), d, log_det, 1.0) + of_values


@kernel
def _sits_nowhere(group: Array, recent: int, among: _Seated, no_home: Array, scene: _Scene) -> bool:
    """Return whether the part of a group in each emerging subclass is more probable as a separate subclass.

    The test skips a subclass if the group has at least half its instances, unless ``no_home`` marks the subclass.
    """
    dishes = scene.emerging
    for i in range(len(group)):
        k, count, beside = among.slot[group[i]], 0, 0
        members = np.empty(len(group), np.int64)
        for j in range(len(group)):
            if among.slot[group[j]] == k:
                members[count] = group[j]
                count += 1
        if k < 0 or members[0] != group[i] or not (no_home[k] or 2 * count < dishes.size[k]):
            continue
        for j in range(recent, len(among.slot)):
            beside += among.slot[j] == k
        block = _rows_at(among.rows, members[:count])
        odds = _together(block, scene) + _log_odds(count, beside, scene.alpha) - LOG_CANDIDATES
        if odds <= _predicted(block, dishes, k, odds, scene.prior):
            return False
    return True


@kernel
def _grow(core: Array, among: _Seated, scene: _Scene) -> None:
    """Add the unassigned rows that the core predicts better than all alternatives."""
    (rows, slot), (prior, dishes) = among, (scene.prior, scene.emerging)
    own, n = dish_statistics.empty_dishes(1, prior), len(rows)
    beside = np.empty(n)
    for i in range(n):
        beside[i] = _of_nothing(rows[i : i + 1], scene, 1.0) + math.log(n)
        if slot[i] >= 0:
            there = dish_statistics.log_predictive(dishes, slot[i], rows[i], prior) + math.log(dishes.size[slot[i]])
            beside[i] = max(beside[i], there)
    for _ in range(PASSES):
        block = rows[core]
        dish_statistics.sum_up(own, np.zeros(len(block), np.int64), block, prior)
        for i in range(n):
            core[i] |= dish_statistics.log_predictive(own, 0, rows[i], prior) + math.log(len(block)) > beside[i]
        if core.sum() == len(block):
            break
