"""Levels of density and of typicality.

Levels of density show how dense an instance is in the known classes. Each level has a share of the references.

Typicality shows how usual an instance is. It gives another estimate of the known share of a cell, and the odds of
each instance.

If neighbouring instances depend on each other, a run of known instances lies close together. It looks like a tight
new subclass. References are spread over the whole class and do not fall into it. The location is then no evidence,
but typicality is. In any part of a class, the instances of a run are as typical as some block of training instances
that the density has not seen. Instances of no known class are in the tail.

Let a be the share of the references up to a level, and F that of the instances of a cell. The share of new instances
is then ``(F - a) / (1 - a)``, if all of them are in the tail (the two-groups model, Efron and Tibshirani 2002). The
likelihood ratio of the two samples is the evidence that there are any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.trust.references import References

LEVELS = np.array([0.01, 0.05, 0.2, 0.5])
"""Shares of the references below the bounds of the levels."""
BEYOND = 2.0
"""Lower limit of the levels, as a multiple of the distance of the lowest reference below the median."""
N_LEVELS = len(LEVELS) + 2
LEAST_BELOW = 4.0
"""Least number of references of a typical class below a bound. With fewer, the bound is not used."""


def references_below(log_density: Array, group: Array, weight: Array | None = None) -> Array:
    """Count the references of each class below each of the ``LEVELS`` in it, shape (J, L).

    Parameters
    ----------
    log_density
        Log densities of the references under each known class, shape (R, J).
    group, weight
        Class and weight of each reference, shape (R,). ``None``: they have equal weights.
    """
    n_classes = log_density.shape[1]
    below = np.outer(np.bincount(group, minlength=n_classes), LEVELS)
    if weight is not None:
        for j in np.unique(group):
            own = group == j
            passed = np.cumsum(weight[own][np.argsort(log_density[own, j], kind="stable")])
            below[j] = np.searchsorted(passed, LEVELS * passed[-1], side="right")
    return below


def level_bounds(score: Array, group: Array, below: Array, weight: Array | None = None) -> Array:
    """Compute the bounds of the levels from the references' scores and weights, shape (L + 1,), ascending.

    The first bound is beyond all references. Another bound is dropped if too few references of a typical class are
    ``below`` it (:func:`references_below`).
    """
    if weight is None:
        middle, found = np.median(score), np.quantile(score, LEVELS)
    else:
        middle, *found = quantiles(score, np.append(0.5, LEVELS), weight)
    beyond, bounds = middle - BEYOND * (middle - float(score.min())), np.array(found)
    bounds[np.median(below[np.unique(group)], axis=0) < LEAST_BELOW] = beyond
    return np.append(beyond, bounds)


def quantiles(values: Array, shares: Array, weight: Array) -> Array:
    """Return weighted quantiles of values, shape (n,), with linear interpolation."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weight[order]) - 0.5 * weight[order]
    return np.asarray(np.interp(shares, passed / weight.sum(), values[order]))


@kernel
def levels_of(
    log_density: Array,
    count: Array,
    total: Array,
    bounds: Array,
    below: Array,
    group: Array | None = None,
    weight: Array | None = None,
) -> Array:
    """Return the level of each instance by its score (:func:`nearest`), shape (n,).

    The level is the number of ascending bounds below the score.

    If fewer than ``LEAST_BELOW`` references of the nearest class are ``below`` a bound, the lowest bound replaces it.
    If a class has no other bound, its references are in the highest level. Each of them is a large part of the class,
    and its own density was made without it.
    """
    near, score = nearest(log_density, count, total, group, weight)
    level = np.zeros(len(score), np.int64)
    for i in range(len(score)):
        if group is not None and below[group[i], -1] < LEAST_BELOW:
            level[i] = len(bounds)
            continue
        for at in range(len(bounds)):
            used = at > 0 and below[near[i], at - 1] >= LEAST_BELOW
            level[i] += bounds[at if used else 0] < score[i]
    return level


@kernel
def nearest(
    log_density: Array, count: Array, total: Array, group: Array | None = None, weight: Array | None = None
) -> tuple[Array, Array]:
    """Return the nearest class of each instance, (n,), and its excess over the mean of the class's references, (n,).

    The nearest class is the one under which the log density exceeds that mean most.

    Parameters
    ----------
    log_density
        Log densities under each known class, shape (n, J).
    count, total
        Number of references of each class, and the weighted sum of their log densities under it, shape (J,).
    group, weight
        Class and weight of each instance if the instances are references. The mean of the class then excludes the
        instance.
    """
    n, n_classes = log_density.shape
    near, score = np.zeros(n, np.int64), np.full(n, -np.inf)
    for i in range(n):
        for j in range(n_classes):
            of, whole = count[j], total[j]
            if group is not None and group[i] == j:
                own = 1.0 if weight is None else weight[i]
                of -= own
                whole -= own * log_density[i, j]
            excess = log_density[i, j] - whole / of if of > 0.0 else -np.inf
            if excess > score[i]:
                near[i], score[i] = j, excess
    return near, score


RARE = 0.01
"""Share of new instances in a cell without evidence of a new class."""
DEMANDED = math.log((1.0 - RARE) / RARE)
"""Evidence in nats from which a cell rather has a new class: the prior odds against it."""
SHARES = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])
"""Shares of the references below the stored quantiles of the scores."""
HALF = 7
"""Number of the median among the ``SHARES``."""


class Typical(NamedTuple):
    """Typicality of J classes, with Q quantiles and L levels.

    The score of an instance is the log odds that it is known, by the frozen classes alone.

    Attributes
    ----------
    bounds
        Ascending scores between the levels of each class, shape (2, J, L - 1). They are the lowest score of the
        class's references, and the quantiles ``LEVELS``. The first row is for frozen densities, the second for
        densities given the previous instances.
    tail
        Share of the known instances up to each level, in the block of arrival that has most of them, shape (L,).
    quantiles
        Ascending frozen scores of all references at the :data:`SHARES`, shape (Q,).
    effective
        Effective number of independent references of a typical class.
    """

    bounds: Array
    tail: Array
    quantiles: Array
    effective: float


def typical_of(references: References, log_odds: Array) -> Typical:
    """Derive typicality from the references.

    The tail shares have a lower limit. The effective number of independent references cannot exclude a rarer tail.

    Parameters
    ----------
    references
        The references.
    log_odds
        Their log odds of a new class by the frozen densities (:func:`log_odds_of_new`), shape (R,).
    """
    group, weights, n_classes = references.group, references.weights, references.log_density[0].shape[1]
    bounds = np.full((2, n_classes, len(LEVELS) + 1), np.inf)  # a class without references has no typical instances
    frozen, given = -log_odds, references.gains - log_odds
    worst = []
    for j in np.unique(group):
        own = group == j
        for at, score in enumerate((frozen[own], given[own])):
            bounds[at, j] = np.append(score.min(), quantiles(score, LEVELS, weights[own]))
        worst.append(_worst_tails(references, frozen, own, bounds[0, j, 1:]))
    count = references.effective or float(np.median(np.bincount(group)[np.unique(group)]))
    tail = np.maximum([0.0, *np.mean(worst, axis=0), 1.0], 1.0 / (count + 1.0))
    values = quantiles(frozen, SHARES, weights)
    values[[0, -1]] = frozen.min(), frozen.max()
    return Typical(bounds, np.minimum(tail, 1.0), values, count)


def _worst_tails(references: References, score: Array, own: Array, bound: Array) -> Array:
    """Shares of a class's references below the bounds, in the block of arrival that has most of them."""
    worst, weights = LEVELS.copy(), references.weights
    for part in np.unique(references.part[own & (references.part >= 0)]) if len(references.part) else ():
        theirs = own & (references.part == part)
        below = (score[theirs, None] <= bound) * weights[theirs, None]
        worst = np.maximum(worst, below.sum(axis=0) / weights[theirs].sum())
    return np.asarray(worst)


@kernel
def typicality(log_density: Array, log_odds: Array, gain: Array, typical: Typical) -> tuple[Array, Array]:
    """Return the level of each of n instances within its nearest class, and its own odds of a new class, both (n,).

    The level is the higher of two: the frozen one, and the one given the previous instances. The odds are frozen
    ones, ``(1 - rank) / rank`` with the rank among all references. Beyond these, the log odds grow linearly as within
    them, and like the frozen log odds where the frozen classes favour a new class. Elsewhere an instance alone is at
    most as probably new as not.

    Parameters
    ----------
    log_density
        Log densities under the classes, shape (n, J).
    log_odds
        Log odds of a new class by the frozen densities (:func:`log_odds_of_new`), shape (n,).
    gain
        Gain in log likelihood given the previous instances, shape (n,).
    typical
        Typicality of the references.
    """
    n, n_classes = log_density.shape
    level, odds, values = np.zeros(n, np.int64), np.empty(n), typical.quantiles
    middle = values[HALF]
    for i in range(n):
        near, score = 0, -log_odds[i]
        for j in range(1, n_classes):
            if log_density[i, j] > log_density[i, near]:
                near = j
        for given in range(2):
            own = 0
            for bound in typical.bounds[given, near]:
                own += bound < score + given * gain[i]
            level[i] = max(level[i], own)
        share = np.interp(score, values, SHARES)
        share = (share * typical.effective + 0.5) / (typical.effective + 1.0)
        alone, beyond = np.log((1.0 - share) / share), 0.0
        if score < values[0]:
            beyond = max(0.0, min(values[0], 0.0) - score)  # the frozen classes favour a new class
            alone += alone * (values[0] - score - beyond) / max(middle - values[0], 1e-9)
        alone = min(alone, np.log((1.0 - RARE) / RARE)) + beyond
        odds[i] = np.exp(min(alone, 500.0))
    return level, odds


@kernel
def known_by_typicality(stream: Array, typical: Typical, independent: float) -> Array:
    """Return two numbers for each cell, by typicality alone, shape (C, 2).

    They are the probability that the cell has a new class, and the known share of the cell if it has one. Evidence is
    the largest log likelihood ratio over the levels: the cell and the references have one share up to the level,
    or two. The number of independent instances limits both.

    Parameters
    ----------
    stream
        Number of stream instances in each cell, shape (C, L).
    typical
        Typicality of the references.
    independent
        Effective number of independent instances for each instance of the stream.
    """
    count, levels = stream.shape
    hypotheses, n = np.empty((count, 2)), typical.effective
    for c in range(count):
        whole, below, evidence, new = independent * stream[c].sum(), 0.0, 0.0, RARE
        for level in range(levels - 1):
            below += independent * stream[c, level]
            share, usual = below / max(whole, 1e-300), typical.tail[level]
            if share <= usual:
                continue
            both = (below + n * usual) / (whole + n)
            gain = whole * _divergence(share, both) + n * _divergence(usual, both)
            if gain > evidence:
                evidence, new = gain, (share - usual) / (1.0 - usual)
        hypotheses[c, 0] = 1.0 / (1.0 + np.exp(DEMANDED - evidence))
        hypotheses[c, 1] = min(max(1.0 - new, RARE), 1.0 - RARE)
    return hypotheses


@kernel
def mean_known(hypotheses: Array) -> Array:
    """Return the mean known share of each cell, shape (C,), from the numbers of :func:`known_by_typicality`."""
    return 1.0 - hypotheses[:, 0] * (1.0 - hypotheses[:, 1]) - (1.0 - hypotheses[:, 0]) * RARE


@borrowing_kernel
def _divergence(share: float, other: float) -> float:
    """Kullback-Leibler divergence of two shares."""
    out = 0.0
    if share > 0.0:
        out += share * np.log(share / other)
    if share < 1.0:
        out += (1.0 - share) * np.log((1.0 - share) / (1.0 - other))
    return out


@kernel
def log_odds_of_new(log_density: Array, log_density_new: Array, seats: Array) -> Array:
    """Return the log odds, by the frozen classes alone, that each of n instances is new, shape (n,).

    Parameters
    ----------
    log_density, log_density_new
        Log densities under the known classes, shape (n, J), and under a new subclass, shape (n,).
    seats
        Log weight of each class and, last, of a new one at the beginning of a stream, shape (J + 1,).
    """
    n, n_classes = log_density.shape
    out = np.empty(n)
    for i in range(n):
        known = -np.inf
        for j in range(n_classes):
            known = np.logaddexp(known, log_density[i, j] + seats[j])
        out[i] = log_density_new[i] + seats[n_classes] - known
    return out


def mean_log_odds(log_odds: Sequence[Array]) -> Array:
    """Log odds of the mean of the probabilities that several chains give, shape (n,).

    >>> mean_log_odds([np.array([0.0, 2.0]), np.array([0.0, 2.0])])
    array([0., 2.])
    """
    both = np.stack([-np.logaddexp(0.0, sign * np.array(log_odds)) for sign in (-1.0, 1.0)])
    new, known = np.logaddexp.reduce(both, axis=1)
    return np.asarray(new - known)


@borrowing_kernel
def with_odds(cell: Array, odds: float) -> float:
    """Probability that an instance is known, given the odds of a new class from the instance and from the cell.

    The two hypotheses on the cell, with a new class and without one, are averaged.
    """
    holds_new, known = cell[0], cell[1]
    with_new = known / (known + (1.0 - known) * odds)
    without = (1.0 - RARE) / (1.0 - RARE + RARE * odds)
    return float(holds_new * with_new + (1.0 - holds_new) * without)
