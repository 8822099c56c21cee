"""Known classes follow slow movement of their instances, if asked (``follow_drift``).

Each class has a translation, one for all chains: its subclasses and its broad term are moved as they are, so that
covariances, weights and density ranks stay. What moves it is a step of expectation and maximisation. Every instance
counts for a class by its probability, and pulls by its way from where that class expects it: the mean of its
subclasses, by their responsibilities. Of instances of the classes as they are these ways cancel, also where two
classes overlap. Nobody pulls who is less usual for its nearest class than ``LEAST_RANK`` of the training instances
are, so that outliers and what is new at some distance do not. Whoever is more usual than ``SURELY_USUAL`` of them
pulls, whatever it is called: an emerging subclass in the midst of a known class is most probably the class, which
would stay behind without those that it has lost.

The ways fade with ``HALF_LIFE`` instances of the class. A class moves only when their mean is more than ``STEP``
standard deviations of the class (root mean square over the dimensions), and by no more than ``PACE`` for each of its
instances; so it moves once in some tens of them, and costs little.

What it risks: without a label nobody can tell a class that moves from a new one that takes its place step by step. A
new class that overlaps a known one pulls it, too, until it is found, and goes on pulling with what is taken for the
known one; and where two known classes run into each other they may leave changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.engine.state import Chain, Following, Stream
from stream_osr.model.dishes import Dishes, copy_slots, log_predictives, means_and_scales
from stream_osr.model.gaussian.full import invert
from stream_osr.model.known import Densities, Known, densities
from stream_osr.model.prior import DIAGONAL, FULL, Prior, homogeneous

HALF_LIFE = 100.0
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


class Ways(NamedTuple):
    """How far the rows of a batch lie from where a class expects them.

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
    """Return how far each known class has been moved since it was trained or opened, whitened, shape (J, d)."""
    shape = (len(stream.labels), stream.known.prior.n_features)
    following = stream.following
    return np.zeros(shape) if following is None else _fit(following, *shape).shift


def follow_classes(
    stream: Stream, rows: np.ndarray, log_density: np.ndarray, rank: np.ndarray, probabilities: np.ndarray
) -> Stream:
    """Let the known classes follow a batch.

    Parameters
    ----------
    stream
        The stream after the batch; it does not change.
    rows
        Whitened rows, shape (b, d).
    log_density
        Log density of each under each known class of the first chain, shape (b, J).
    rank
        Density rank of each in its nearest class, shape (b,).
    probabilities
        Of each known class and, last, unknown, shape (b, J + 1).
    """
    first, d = stream.chains[0], rows.shape[1]
    n_classes = len(stream.labels)
    following = _fit(_start(d) if stream.following is None else stream.following, n_classes, d)
    among = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    among /= among.sum(axis=1, keepdims=True)
    unknown = np.where(rank >= SURELY_USUAL, probabilities[:, -1], 0.0)[:, None]
    weight = np.where(rank >= LEAST_RANK, 1.0, 0.0)[:, None] * probabilities[:, :-1] + unknown * among
    ways = measure_ways(first.known, first.frozen, rows, weight)
    following, move = _weigh(following, ways)
    stream = stream._replace(following=following)
    return move_classes(stream, move) if move.any() else stream


def measure_ways(known: Known, frozen: Densities, rows: np.ndarray, weight: np.ndarray) -> Ways:
    """Measure how far rows lie from where the classes expect them.

    Parameters
    ----------
    known, frozen
        The J known classes.
    rows
        Whitened rows, shape (n, d).
    weight
        What each row counts for each class, shape (n, J).
    """
    n_classes, d = weight.shape[1], rows.shape[1]
    means, covariances = means_and_scales(known.dishes, known.prior)
    variances = np.einsum("kaa->ka", covariances)
    log_subclass = log_predictives(homogeneous(rows), known.dishes, known.prior)
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
    return Ways(counted.sum(axis=0), sums, spread)


def _weigh(following: Following, ways: Ways) -> tuple[Following, np.ndarray]:
    """Take ways in, and say by how much each class is to be moved now, shape (J, d)."""
    fade = 0.5 ** (ways.weight / HALF_LIFE)
    weight = fade * following.weight + ways.weight
    sums = fade[:, None] * following.sums + ways.sums
    saved = np.minimum(following.saved + ways.weight, MOST_SAVED)
    off = sums / (weight + PRIOR_WEIGHT)[:, None]
    far = np.sqrt(np.mean((off / ways.spread) ** 2, axis=1))
    length = far * math.sqrt(off.shape[1])
    share = np.minimum(1.0, PACE * saved / np.maximum(length, 1e-300))
    moves = (far > STEP) & ((share == 1.0) | (saved >= 0.5 * MOST_SAVED))
    move = np.where(moves, share, 0.0)[:, None] * off
    return Following(
        shift=following.shift,
        weight=weight,
        sums=sums - weight[:, None] * move,
        saved=np.where(moves, np.maximum(saved - share * length / PACE, 0.0), saved),
    ), move


def move_classes(stream: Stream, move: np.ndarray) -> Stream:
    """Move the known classes of every chain by vectors of whitened coordinates, shape (J, d)."""
    assert stream.following is not None
    chains = tuple(_moved_chain(chain, move) for chain in stream.chains)
    return stream._replace(chains=chains, following=stream.following._replace(shift=stream.following.shift + move))


def _moved_chain(chain: Chain, move: np.ndarray) -> Chain:
    known = moved(chain.known, move)
    return chain._replace(known=known, frozen=densities(known))


def moved(known: Known, move: np.ndarray) -> Known:
    """Translate known classes by vectors of shape (J, d): the densities are the same, elsewhere.

    A subclass that several classes share goes by the mean of their ways, by their instances in it.
    """
    held = known.seated.sum(axis=0)
    by = (known.seated / np.maximum(held, 1.0)).T @ move
    broad = tuple(
        shape if shape is None else shape._replace(mean=shape.mean + way)
        for shape, way in zip(known.broad, move, strict=False)
    )
    return known._replace(dishes=_translated(known.dishes, by, known.prior), broad=broad)


def _translated(dishes: Dishes, by: np.ndarray, prior: Prior) -> Dishes:
    """Translate subclasses, what the prior has put into their statistics included: scatters stay as they are."""
    count = len(dishes.size)
    out = copy_slots(dishes, np.arange(count), count)
    for k in np.flatnonzero(by.any(axis=1)).tolist():
        way, r = by[k], prior.beta + float(dishes.size[k])
        if prior.covariance == FULL:
            lift = np.eye(len(way) + 1)
            lift[-1, :-1] = way
            matrix = lift.T @ dishes.matrix[k] @ lift
            out.matrix[k] = 0.5 * (matrix + matrix.T)
            out.log_det[k] = invert(out.matrix[k], out.inverse[k])
            out.updates[k] = 0
            continue
        out.matrix[k, 0] += r * way
        if prior.covariance == DIAGONAL:
            out.matrix[k, 1] += 2.0 * way * dishes.matrix[k, 0] + r * way**2
        out.inverse[k, 0] += way  # the mean; a scatter does not change
    return out


def without_class(following: Following | None, j: int) -> Following | None:
    """Forget a class that is closed."""
    if following is None or j >= len(following.weight):
        return following
    return Following(*(np.delete(v, j, axis=0) for v in following))


def _start(n_features: int) -> Following:
    return Following(np.zeros((0, n_features)), np.zeros(0), np.zeros((0, n_features)), np.zeros(0))


def _fit(following: Following, n_classes: int, n_features: int) -> Following:
    """Make room for classes that have been opened."""
    added = n_classes - len(following.weight)
    if not added:
        return following
    nothing: Sequence[np.ndarray] = (
        np.zeros((added, n_features)),
        np.zeros(added),
        np.zeros((added, n_features)),
        np.zeros(added),
    )
    return Following(*(np.concatenate([v, zeros]) for v, zeros in zip(following, nothing, strict=True)))
