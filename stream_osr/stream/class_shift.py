"""Known classes follow slow movement of their instances, if asked (``follow_drift``).

Each class has a translation, one for all chains: its subclasses and its broad term are moved as they are, so that
covariances, weights and density ranks stay. What moves it is a step of expectation and maximisation. Every instance
counts for a class by its probability, and pulls by its way from where that class expects it: the mean of its
subclasses, by their responsibilities. Of instances of the classes as they are these ways cancel, also where two
classes overlap. Nobody pulls who is less usual for its nearest class than ``LEAST_RANK`` of the training instances
are, so that outliers and what is new at some distance do not. Whoever is more usual than ``SURELY_USUAL`` of them
pulls, whatever it is called: an emerging subclass in the midst of a known class is most probably the class, which
would stay behind without those that it has lost.

The ways fade with ``SHIFT_HALF_LIFE`` instances of the class. A class moves only when their mean is more than
``STEP`` standard deviations of the class (root mean square over the dimensions), and by no more than ``PACE`` for
each of its instances; so it moves once in some tens of them, and costs little.

What it risks: without a label nobody can tell a class that moves from a new one that takes its place step by step. A
new class that overlaps a known one pulls it, too, until it is found, and goes on pulling with what is taken for the
known one; and where two known classes run into each other they may leave changed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model.dishes import log_predictives
from stream_osr.model.known import Densities, Known
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import homogeneous
from stream_osr.stream.chain import move_classes
from stream_osr.stream.seating import BatchPosterior
from stream_osr.stream.state import ClassShift, Stream

SHIFT_HALF_LIFE = 100.0
"""Instances of a class after which one counts half in where the class lies."""
PRIOR_WEIGHT = 20.0
"""Instances that say that a class has stayed where it is, when nothing has come yet."""
LEAST_RANK = 0.02
"""Density rank below which an instance pulls nobody."""
SURELY_USUAL = 0.2
"""From this density rank on the unknown pull, too. From .05 on, a new class 2.5 standard deviations away drags a
known one half way along; without any, a class that has begun to dissolve is left behind."""
STEP = 0.05
"""A class whose place is off by less stays, in its standard deviations."""
PACE = 0.004
"""Standard deviations that a class moves for each of its instances, at most, on average."""
MOST_SAVED = 100.0
"""Instances whose pace is saved for a later step: .4 standard deviations is the most that a class jumps."""
LEAST_PROBABILITY = 1e-3


class ClassDistances(NamedTuple):
    """Distances of the rows of a batch from where a class expects them.

    Attributes
    ----------
    weight
        What the rows count for each class together, shape (J,).
    sums
        Weighted sums of their ways, shape (J, d).
    spread
        Standard deviations of each class about its subclasses, shape (J, d).
    """

    weight: np.ndarray
    sums: np.ndarray
    spread: np.ndarray


def class_shifts(stream: Stream) -> np.ndarray:
    """Return how far each known class has been moved since it was trained or opened, whitened, shape (J, C + d)."""
    shift, places = _current(stream).shift, len(stream.known.prior.first)
    return np.hstack([np.zeros((len(shift), places)), shift]) if places else shift


def follow_classes(stream: Stream, posterior: BatchPosterior) -> Stream:
    """Let the known classes follow a batch, as the leader judges it; the stream is the one after it."""
    leader, probabilities, rank = stream.chains[0], posterior.probabilities, posterior.rank
    if not leader.known.prior.n_features:  # categories do not move
        return stream
    log_density = posterior.leader.log_density
    among = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    among /= among.sum(axis=1, keepdims=True)
    unknown = np.where(rank >= SURELY_USUAL, probabilities[:, -1], 0.0)[:, None]
    weight = np.where(rank >= LEAST_RANK, 1.0, 0.0)[:, None] * probabilities[:, :-1] + unknown * among
    class_shift, move = _weigh(_current(stream), measure_ways(leader.known, leader.frozen, posterior.rows, weight))
    if not move.any():
        return stream._replace(class_shift=class_shift)
    class_shift = class_shift._replace(shift=class_shift.shift + move)
    return stream._replace(class_shift=class_shift, chains=move_classes(stream.chains, move))


def measure_ways(known: Known, frozen: Densities, rows: np.ndarray, weight: np.ndarray) -> ClassDistances:
    """Measure how far rows lie from where the classes expect them.

    Parameters
    ----------
    known, frozen
        The J known classes.
    rows
        Whitened rows, shape (n, C + d).
    weight
        What each row counts for each class, shape (n, J).
    """
    n_classes, d = weight.shape[1], known.prior.n_features
    means, covariances = means_and_scales(known.dishes, known.prior)
    variances = np.einsum("kaa->ka", covariances)
    log_subclass = log_predictives(homogeneous(rows), known.dishes, known.prior)
    rows = rows[:, len(known.prior.first) :]
    sums, spread = np.zeros((n_classes, d)), np.ones((n_classes, d))
    for j, log_weight in enumerate(frozen.log_weight):
        own = np.flatnonzero(np.isfinite(log_weight))
        if not len(own):
            continue
        share = np.exp(log_weight[own])
        spread[j] = np.sqrt(share @ variances[own] / share.sum())
        pulls = np.flatnonzero(weight[:, j] > LEAST_PROBABILITY)
        logits = log_subclass[np.ix_(pulls, own)] + log_weight[own]
        logits -= logits.max(axis=1, initial=-np.inf, keepdims=True)
        responsible = np.exp(logits)
        responsible /= responsible.sum(axis=1, keepdims=True)
        sums[j] = weight[pulls, j] @ (rows[pulls] - responsible @ means[own])
    counted = np.where(weight > LEAST_PROBABILITY, weight, 0.0)
    return ClassDistances(counted.sum(axis=0), sums, spread)


def _weigh(class_shift: ClassShift, ways: ClassDistances) -> tuple[ClassShift, np.ndarray]:
    """Take ways in, and say by how much each class is to be moved now, shape (J, d)."""
    fade = 0.5 ** (ways.weight / SHIFT_HALF_LIFE)
    weight = fade * class_shift.weight + ways.weight
    sums = fade[:, None] * class_shift.sums + ways.sums
    saved = np.minimum(class_shift.saved + ways.weight, MOST_SAVED)
    off = sums / (weight + PRIOR_WEIGHT)[:, None]
    far = np.sqrt(np.mean((off / ways.spread) ** 2, axis=1))
    length = far * math.sqrt(off.shape[1])
    share = np.minimum(1.0, PACE * saved / np.maximum(length, 1e-300))
    moves = (far > STEP) & ((share == 1.0) | (saved >= 0.5 * MOST_SAVED))
    move = np.where(moves, share, 0.0)[:, None] * off
    saved = np.where(moves, np.maximum(saved - share * length / PACE, 0.0), saved)
    return ClassShift(class_shift.shift, weight, sums - weight[:, None] * move, saved), move


def without_class(class_shift: ClassShift | None, j: int) -> ClassShift | None:
    """Forget a class that is closed."""
    if class_shift is None or j >= len(class_shift.weight):
        return class_shift
    return ClassShift(*(np.delete(v, j, axis=0) for v in class_shift))


def _current(stream: Stream) -> ClassShift:
    """Movement so far, with room for classes that have been opened."""
    d = stream.known.prior.n_features
    before = stream.class_shift or ClassShift(np.zeros((0, d)), np.zeros(0), np.zeros((0, d)), np.zeros(0))
    added = len(stream.labels) - len(before.weight)
    return ClassShift(*(np.concatenate([v, np.zeros((added, *v.shape[1:]))]) for v in before))
