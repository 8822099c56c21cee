"""Noise: its density, and the classes that are hidden in it.

Instances that resemble nothing: how dense they would be, so that a candidate can be held against them.

Noise has no shape of its own. What it has is room: the range of the training data, about. So a candidate is a class
only if its instances are more probable as one subclass than as instances that came from anywhere in that range, each
by itself. The density of these is that of a Gaussian with the moments of a uniform one over the range, which is exact
where many raw features make few coordinates; how wide it is, the candidate's own instances say.

Whether a group of rows that resemble nothing is rather a class: hidden in noise, or so rare that its seats fade.

Each of some rows is looked at with its nearest neighbours. They are a class if they are more probable as one subclass
than as what lies around them: noise over the range of training, outliers of the known class nearest to them, the
subclass that they sit in with others. The Chinese restaurant's odds of so many among so many are asked in addition,
because the best of very many groups would nearly always win.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model import categories
from stream_osr.model import dishes as statistics
from stream_osr.model.edit import slot_of
from stream_osr.model.franchise import StreamState
from stream_osr.model.gaussian import dot, quadratic
from stream_osr.model.jit import Array, kernel
from stream_osr.model.known import Known
from stream_osr.model.marginal import log_marginal
from stream_osr.model.moves.splitting import MISMATCH
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.student_t import Location, log_placed
from stream_osr.model.whitening import Whitening
from stream_osr.model.yeo_johnson import bend

NARROWEST = 0.25
"""Variance of the background at least, in those of a uniform density over the range: noise may fill half of it."""
OWN_WIDTH = 1e-2
"""Variance of each whitened coordinate that is added: where training has no range the background has one."""


class Background(NamedTuple):
    """Distribution of instances that resemble no class, from training.

    Attributes
    ----------
    mean
        Middle of the range of the training data, whitened, shape (d,).
    covariance
        That of a uniform density over the range, whitened, shape (d, d).
    """

    mean: Array
    covariance: Array


def fit_noise_range(X: Array, whitening: Whitening) -> Background:
    """Take the range of training rows, NaN = missing, shape (n, p); categories have none.

    Examples
    --------
    >>> from stream_osr.model.whitening import fit_whitening
    >>> X = np.random.default_rng(0).uniform([0, 0], [6, 60], size=(500, 2))
    >>> background = fit_noise_range(X, fit_whitening(X, np.arange(500) % 2))
    >>> bool(np.allclose(background.covariance, np.eye(2), atol=0.2))
    True
    """
    bent = bend(whitening.yeo_johnson, X)
    filled = np.where(np.isnan(bent), whitening.fill, bent)
    low, high = filled.min(axis=0), filled.max(axis=0)
    spread = (high - low)[:, None] * whitening.forward / math.sqrt(12.0)
    covariance = spread.T @ spread + OWN_WIDTH * np.eye(whitening.forward.shape[1])
    return Background((0.5 * (low + high) - whitening.center) @ whitening.forward, covariance)


class NoiseModel(NamedTuple):
    """The Gaussian of the background, as densities are computed from it.

    Attributes
    ----------
    form
        Quadratic form of homogeneous rows: squared Mahalanobis distances, shape (d + 1, d + 1).
    log_det
        Log-determinant of the covariance.
    """

    form: Array
    log_det: float


def noise_model_of(noise_range: Background) -> NoiseModel:
    """Derive the densities of instances that resemble nothing, once."""
    mean, covariance = noise_range
    shifted = np.hstack([np.eye(len(mean)), -mean[:, None]])
    form = shifted.T @ np.linalg.solve(covariance, shifted)
    return NoiseModel(form, float(np.linalg.slogdet(covariance)[1]))


@kernel
def log_density(square: float, n: int, d: int, log_det: float, narrowest: float) -> float:
    """Log density of a group of rows under a Gaussian that is as many times wider as suits the group best.

    Parameters
    ----------
    square
        Sum of the squared distances of its rows.
    n, d
        Rows, and dimensions.
    log_det
        Log-determinant of the covariance.
    narrowest
        It is taken at least so many times.

    Examples
    --------
    A row at distance 2 of a Gaussian in one dimension: it is taken four times as wide.

    >>> round(log_density(4.0, 1, 1, 0.0, 1.0), 3)
    -2.112
    """
    if d == 0:
        return 0.0
    wider = max(square / (n * d), narrowest)
    return -0.5 * (n * (d * math.log(2.0 * math.pi * wider) + log_det) + square / wider)


@kernel
def gain(dishes: statistics.Dishes, k: int, noise: NoiseModel, prior: Prior, location: Location) -> float:
    """Log likelihood that the instances of a subclass gain as one over instances of the background, each by itself.

    Of these the categories are independent, each as frequent as in the base measure.

    Parameters
    ----------
    dishes, k
        The subclass.
    noise
        What instances that resemble nothing look like.
    prior, location
        Base measure, and where it places new subclasses.
    """
    n, matrix, log_det = dishes.size[k], dishes.matrix[k], dishes.log_det[k]
    d, square, beyond = prior.n_features, 0.0, noise.log_det
    square -= prior.beta * noise.form[d, d]
    for a in range(d + 1):
        square += dot(noise.form[a], matrix[a]) - (prior.psi * noise.form[a, a] if a < d else 0.0)
    together = log_marginal(n, matrix, log_det, prior, location)
    if prior.first.shape[0] > 0:
        together += categories.log_marginal(dishes.counts[k], prior)
        together -= categories.log_apart(dishes.counts[k], prior)
    return together - log_density(square, n, d, beyond, NARROWEST)


def is_broad(dishes: statistics.Dishes, prior: Prior, noise: NoiseModel) -> Array:
    """Say which subclasses are wider than halfway from a known class to the background, by volume, shape (K,)."""
    if noise.log_det <= 0.0:
        return np.zeros(len(dishes.size), bool)
    d = prior.n_features
    volume = dishes.log_det - d * np.log(np.maximum(prior.nu + dishes.size - d - 1.0, 1.0))
    volume -= np.log(prior.beta + dishes.size)
    return np.asarray(volume > 0.5 * noise.log_det)


SIZES = (8, 16)
"""Instances that are looked at together: one that has arrived and its nearest neighbours, ..."""
LATELY = (256, 2048, 1 << 40)
"""... of those that came within so many instances of the stream: a class that begins now need not outnumber the noise
of long ago."""
MARGIN = 3.0
"""Log odds that a candidate must have, ..."""
GAIN = 0.5
"""... and as much more for each of its instances: no noise is quite as the background has it."""
PASSES = 5
"""Times that a core may grow."""
LOOKED = math.log(len(SIZES) * len(LATELY)) + math.log(1000.0)
"""What the choice among them costs, and that it is made for each arrival anew."""


class UnassignedRows(NamedTuple):
    """Remembered unknown instances that are in no announced subclass, n of them.

    Attributes
    ----------
    seqs
        Positions in the stream, ascending, shape (n,).
    rows
        Whitened rows, shape (n, d).
    seat
        Emerging subclass that each sits in, or sat in before that left the model, shape (n,).
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
    """The same for kernels: base measure, subclasses known and emerging, an empty one, background, concentration."""

    prior: Prior
    location: Location
    known: statistics.Dishes
    emerging: statistics.Dishes
    nobody: statistics.Dishes
    noise: NoiseModel
    alpha: float


class _Seated(NamedTuple):
    """Homogeneous rows of strangers, shape (n, d + 1), and the slot that each sits in, -1: none, shape (n,)."""

    rows: Array
    slot: Array


def outweighs_noise(around: Alternatives, key: int, others: int) -> bool:
    """Say whether subclass ``key`` is one rather than as many instances that resemble nothing, beside so many."""
    known, state, noise = around
    k = slot_of(state, key)
    size = int(state.dishes.size[k])
    odds = _log_odds(size, size + others, float(state.franchise.alpha[0]))
    own = gain(state.dishes, k, noise, known.prior, known.location)
    return bool(own + odds > MARGIN + GAIN * size)


def find_group(unassigned: UnassignedRows, arrived: Array, around: Alternatives, announced: Array) -> Array | None:
    """Find the class that is hidden among strangers, around one that has just arrived; ``None``: there is none.

    Parameters
    ----------
    unassigned
        Among whom.
    arrived
        Positions of the arrivals in them.
    around
        What they are held against.
    announced
        Subclasses that somebody has noticed (`Lifecycle.noticed`).

    Returns
    -------
    Positions in ``unassigned``, ascending.
    """
    seqs, rows, seat = unassigned
    (known, state, noise), prior = around, around.known.prior
    begin = np.unique(np.searchsorted(seqs, seqs[-1] - np.array(LATELY)))[::-1].copy()
    alpha = float(state.franchise.alpha[0])
    scene = _Scene(prior, known.location, known.dishes, state.dishes, statistics.empty_dishes(1, prior), noise, alpha)
    no_home = (state.ids[:, None] == announced).any(axis=1)
    core = _find(homogeneous(rows), seat, arrived, begin, state.ids, no_home, scene)
    return np.flatnonzero(core) if core.any() else None


@kernel
def _find(rows: Array, seat: Array, arrived: Array, begin: Array, ids: Array, no_home: Array, scene: _Scene) -> Array:
    """Say which strangers are of the class; they are looked for from each of these positions on."""
    slot, core = np.full(len(rows), -1), np.zeros(len(rows), np.bool_)
    for k in range(len(ids)):
        for i in range(len(rows)):
            slot[i] = k if seat[i] == ids[k] else slot[i]
    among = _Seated(rows, slot)
    near, count = _nearest(rows, arrived, begin, scene.prior.first.shape[0]), len(arrived)
    alone, odds = np.full((len(SIZES), len(near)), -np.inf), np.full(len(SIZES) * len(near), -np.inf)
    for a in range(len(SIZES)):
        for g in range(len(near)):
            if near[g, SIZES[a] - 1] >= 0:
                block, n = _rows_at(rows, near[g, : SIZES[a]]), len(rows) - begin[g // count]
                alone[a, g] = _together(block, scene) + _log_odds(SIZES[a], n, scene.alpha) - LOOKED
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
def _nearest(rows: Array, arrived: Array, begin: Array, columns: int) -> Array:
    """Find the nearest strangers of each arrival, from each position on, the nearest first; -1: there are no more."""
    near = np.full((len(begin) * len(arrived), SIZES[-1]), -1)
    away, least = np.empty(len(rows)), np.empty(SIZES[-1])
    for i in range(len(arrived)):
        for j in range(len(rows)):
            away[j] = 0.0
            if columns > 0:
                away[j] = MISMATCH * categories.mismatches(rows[arrived[i]], rows[j], columns)
            for a in range(columns, rows.shape[1]):
                away[j] += (rows[arrived[i], a] - rows[j, a]) ** 2
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
    """Log odds that the Chinese restaurant gives to so many of so many at a dish of their own."""
    return math.log(alpha) + math.lgamma(size) + math.lgamma(among - size + 1) - math.lgamma(among)


@kernel
def _together(block: Array, scene: _Scene) -> float:
    """Log marginal likelihood of a few homogeneous rows as a subclass, up to what ``log_marginals`` leaves out."""
    d, skip, squares = scene.prior.n_features, scene.prior.first.shape[0], 0.0
    mean = np.zeros(d + 1)
    for i in range(len(block)):
        for a in range(d + 1):
            mean[a] += block[i, skip + a] / len(block)
        squares += dot(block[i, skip : skip + d], block[i, skip : skip + d])
    total = statistics.log_block_predictive(scene.nobody, 0, block, False, scene.prior)
    return total + log_placed(mean, scene.prior, scene.location)


@kernel
def _of_nothing(block: Array, scene: _Scene, narrowest: float) -> float:
    """Log density of a group of rows as instances of the background."""
    (noise, prior), square, of_values = (scene.noise, scene.prior), 0.0, 0.0
    skip, nobody = prior.first.shape[0], np.zeros(prior.pseudo.shape[0])
    for i in range(len(block)):
        square += quadratic(noise.form, block[i, skip:])
        of_values += categories.log_predictive(nobody, block[i], prior)
    return log_density(square, len(block), prior.n_features, noise.log_det, narrowest) + of_values


@kernel
def _predicted(block: Array, dishes: statistics.Dishes, k: int, floor: float, prior: Prior) -> float:
    """Log density of rows, each by itself, under a subclass; minus infinity as soon as it must be below ``floor``."""
    total, most = 0.0, dishes.constant[k, 0] - 0.5 * dishes.log_det[k]
    for i in range(len(block)):
        total += statistics.log_predictive(dishes, k, block[i], prior)
        if total + (len(block) - 1 - i) * most < floor:
            return -np.inf
    return total


@kernel
def _is_no_outlier(alone: float, group: Array, among: _Seated, scene: _Scene) -> bool:
    """Say whether a group, of these log odds, is rather a subclass than outliers of the known one nearest to it."""
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
        square += wider * statistics.mahalanobis(known, near, block[i], prior) ** 2
        of_values += categories.log_predictive(known.counts[near], block[i], prior)
    return alone > log_density(square, len(block), d, log_det, 1.0) + of_values


@kernel
def _sits_nowhere(group: Array, recent: int, among: _Seated, no_home: Array, scene: _Scene) -> bool:
    """Say whether what of a group sits in an emerging subclass is rather one of its own, unless that is about all."""
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
        odds = _together(block, scene) + _log_odds(count, beside, scene.alpha) - LOOKED
        if odds <= _predicted(block, dishes, k, odds, scene.prior):
            return False
    return True


@kernel
def _grow(core: Array, among: _Seated, scene: _Scene) -> None:
    """Add the strangers that the core predicts better than all that is around it does."""
    (rows, slot), (prior, dishes) = among, (scene.prior, scene.emerging)
    own, n = statistics.empty_dishes(1, prior), len(rows)
    beside = np.empty(n)
    for i in range(n):
        beside[i] = _of_nothing(rows[i : i + 1], scene, 1.0) + math.log(n)
        if slot[i] >= 0:
            there = statistics.log_predictive(dishes, slot[i], rows[i], prior) + math.log(dishes.size[slot[i]])
            beside[i] = max(beside[i], there)
    for _ in range(PASSES):
        block = rows[core]
        statistics.sum_up(own, np.zeros(len(block), np.int64), block, prior)
        for i in range(n):
            core[i] |= statistics.log_predictive(own, 0, rows[i], prior) + math.log(len(block)) > beside[i]
        if core.sum() == len(block):
            break
