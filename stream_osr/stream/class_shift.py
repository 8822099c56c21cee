"""Class shift: known classes follow slow movement of their instances (``follow_drift``).

Each class has a translation, the same in all chains. Its subclasses and its background component move together, so
covariances, weights and density ranks stay the same. The translation comes from a step of expectation and
maximisation. Each instance counts for a class by its probability. Its pull is its offset from the position that the
class expects: the mean of the subclasses, weighted by their responsibilities. If a class does not move, the offsets
cancel, even where two classes overlap.

Instances with a density rank below ``LEAST_RANK`` in their nearest class do not pull. This excludes outliers and
distant new classes. Instances with a rank above ``SURELY_USUAL`` pull whatever their label. An emerging subclass in
the middle of a known class is most probably that class, which would lag behind without these instances.

The offsets fade with ``SHIFT_HALF_LIFE`` instances of the class. A class moves only if their mean is more than
``STEP`` standard deviations of the class (root mean square over the dimensions). It moves by at most ``PACE`` for
each instance. So it moves once in some tens of instances, and costs little.

The risk: without a label, a moving class and a new class that replaces it step by step look the same. A new class
that overlaps a known one also pulls it, until it is found. After that its instances that are labelled as the known
class still pull. If two known classes cross, they may leave changed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model.dish_statistics import log_predictives
from stream_osr.model.known import Densities, Known
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import homogeneous, numbers_of
from stream_osr.stream.batch_seating import BatchPosterior
from stream_osr.stream.chain import move_classes
from stream_osr.stream.state import ClassShift, Stream

SHIFT_HALF_LIFE = 100.0
"""Instances of a class after which one counts half in the location of the class."""
PRIOR_WEIGHT = 20.0
"""Weight of the prior that a class has not moved, in instances."""
LEAST_RANK = 0.02
"""Density rank below which an instance does not pull."""
SURELY_USUAL = 0.2
"""Least density rank at which unknown instances also pull.

At 0.05, a new class 2.5 standard deviations away drags a known one half way along. Without such instances, a class
that has begun to dissolve lags behind.
"""
STEP = 0.05
"""Least offset for a class to move, in standard deviations of the class."""
PACE = 0.004
"""Largest mean movement of a class for each instance, in standard deviations."""
MOST_SAVED = 100.0
"""Most instances whose movement is saved for a later step. A class jumps by at most 0.4 standard deviations."""
LEAST_PROBABILITY = 1e-3


class ClassDistances(NamedTuple):
    """Offsets of the rows of a batch from the positions that the classes expect.

    Attributes
    ----------
    weight
        Total weight of the rows for each class, shape (J,).
    sums
        Weighted sums of the offsets, shape (J, d).
    spread
        Standard deviations of each class about its subclasses, shape (J, d).
    """

    weight: np.ndarray
    sums: np.ndarray
    spread: np.ndarray


def class_shifts(stream: Stream) -> np.ndarray:
    """Return the total translation of each known class since training or opening, whitened, shape (J, C + d)."""
    shift, places = _current(stream).shift, len(stream.known.prior.first)
    return np.hstack([np.zeros((len(shift), places)), shift]) if places else shift


def follow_classes(stream: Stream, posterior: BatchPosterior) -> Stream:
    """Move the known classes with a batch, by the leader's probabilities. The stream is the one after the batch."""
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
    """Measure the offsets of rows from the positions that the classes expect.

    Parameters
    ----------
    known, frozen
        The J known classes.
    rows
        Whitened rows, shape (n, C + d).
    weight
        Weight of each row for each class, shape (n, J).
    """
    n_classes, d = weight.shape[1], known.prior.n_features
    means, covariances = means_and_scales(known.dishes, known.prior)
    variances = np.einsum("kaa->ka", covariances)
    log_subclass = log_predictives(homogeneous(rows), known.dishes, known.prior)
    rows = numbers_of(rows, known.prior)
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
    """Add offsets, and return the movement of each class that is due, shape (J, d)."""
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
    """Delete the entry of a closed class."""
    if class_shift is None or j >= len(class_shift.weight):
        return class_shift
    return ClassShift(*(np.delete(v, j, axis=0) for v in class_shift))


def _current(stream: Stream) -> ClassShift:
    """Movement so far, with room for opened classes."""
    d = stream.known.prior.n_features
    before = stream.class_shift or ClassShift(np.zeros((0, d)), np.zeros(0), np.zeros((0, d)), np.zeros(0))
    added = len(stream.labels) - len(before.weight)
    return ClassShift(*(np.concatenate([v, np.zeros((added, *v.shape[1:]))]) for v in before))
