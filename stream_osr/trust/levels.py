"""Levels of density and of typicality.

Levels of density: how far an instance lies in the known classes, in steps that hold shares of the references.

How typical of its nearest class an instance is, and what share of a cell is known by that alone.

Where neighbouring instances depend on each other, a run of known instances lies close together: it looks like a tight
new subclass, and references, which are spread over the whole class, do not fall into it. Location says nothing then.
Typicality does: whatever part of a class a run shows, its instances are as dense in the class as some block of
training instances was that the density has not seen. Instances that belong to no known class lie in the tail.

With r the share of a class's references that are no denser than an instance, and F the distribution of r over the
instances of a cell, the share of known ones among those in the tail is at most ``r / F(r)`` (the tail-area false
discovery rate of Efron and Tibshirani 2002, as in Benjamini and Hochberg 1995).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.trust.references import References

LEVELS = np.array([0.01, 0.05, 0.2, 0.5])
"""Shares of the references that lie below the bounds of the levels."""
BEYOND = 2.0
"""The lowest level of all lies beyond the references: further below their median than this many times the lowest."""
N_LEVELS = len(LEVELS) + 2
LEAST_BELOW = 4.0
"""A bound that fewer references of a typical class lie below is not used."""


def references_below(log_density: Array, group: Array, weight: Array | None = None) -> Array:
    """Count the references of each class that lie below each of the ``LEVELS`` in it, shape (J, L).

    Parameters
    ----------
    log_density
        Of the references under each known class, shape (R, J).
    group, weight
        Class and weight of each, shape (R,); ``None``: they weigh the same.
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
    """Bounds of the levels from the scores of the references and their weights, shape (L + 1,), ascending.

    The first is beyond all references; of the others those are left out that too few references lie ``below``
    (:func:`references_below`) in a typical class.
    """
    if weight is None:
        middle, found = np.median(score), np.quantile(score, LEVELS)
    else:
        middle, *found = quantiles(score, np.append(0.5, LEVELS), weight)
    beyond, bounds = middle - BEYOND * (middle - float(score.min())), np.array(found)
    bounds[np.median(below[np.unique(group)], axis=0) < LEAST_BELOW] = beyond
    return np.append(beyond, bounds)


def quantiles(values: Array, shares: Array, weight: Array) -> Array:
    """Take quantiles of values, shape (n,), each of which counts by its weight; between two values linear."""
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
    """Level of each instance by its score (:func:`nearest`): so many of the ascending bounds lie below, shape (n,).

    If fewer than ``LEAST_BELOW`` references of the nearest class lie ``below`` a bound, the lowest bound takes its
    place. The references of a class that is left with no other bound are in the highest level: each is a large part
    of what the class is known by, and its own density was made without it.
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
    """Find the nearest class of each instance, (n,), and the excess over the mean of its references, (n,).

    That is the class under which the log density exceeds the mean of the class's references most.

    Parameters
    ----------
    log_density
        Under each known class, shape (n, J).
    count, total
        Number of the references of each class, and the weighted sum of their log densities under it, shape (J,).
    group, weight
        Class and weight of each, when they are references themselves: its own mean is then that of the others.
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


USUAL = 4.0
"""Independent typical instances that each cell has in any case: a few in the tail are no evidence."""
DEMANDED = 5.0
"""Log likelihood ratio from which on a cell more probably holds a new class than not."""
FROZEN, TEMPERED = np.exp(1.5), np.exp(6.0)
"""Odds for or against a new class that the frozen classes add at most, and those whose statistics are tempered: these
know how little the training episodes say of others, and references, which are of the same episodes, do not."""


class Typical(NamedTuple):
    """The L levels of typicality of J classes.

    Attributes
    ----------
    bounds
        Ascending log densities under each class between the levels: the least dense reference, and the quantiles
        ``LEVELS`` of the references; frozen densities, and those given what came before, shape (2, J, L - 1).
    tail
        Share of the known instances up to each level, shape (L,).
    """

    bounds: Array
    tail: Array


def typical_of(references: References) -> Typical:
    """Derive the levels from the references, by the mean of their log densities over the models.

    So many independent instances as the references are worth cannot show that a rarer tail is none of the class's.
    """
    group, gain, log_density = references.group, references.gains, np.mean(references.log_density, axis=0)
    n_classes = log_density.shape[1]
    bounds = np.full((2, n_classes, len(LEVELS) + 1), np.inf)  # a class without references has no typical instances
    for j in np.unique(group):
        own = group == j
        for given, part in enumerate((log_density[own, j], log_density[own, j] + gain[own])):
            bounds[given, j] = np.append(part.min(), quantiles(part, LEVELS, references.weights[own]))
    count = references.effective or float(np.median(np.bincount(group)[np.unique(group)]))
    return Typical(bounds, np.maximum([0.0, *LEVELS, 1.0], 1.0 / (count + 1.0)))


@kernel
def levels_within(log_density: Array, gain: Array, bounds: Array) -> Array:
    """Level of each of n instances within its nearest class: the higher of the two, shape (n,).

    Parameters
    ----------
    log_density
        Log densities under the classes given what came before, shape (n, J).
    gain
        By how much these are larger than the frozen ones, shape (n,).
    bounds
        Those of :class:`Typical`.
    """
    n, n_classes = log_density.shape
    level = np.zeros(n, np.int64)
    for i in range(n):
        near, frozen, given = 0, 0, 0
        for j in range(1, n_classes):
            if log_density[i, j] > log_density[i, near]:
                near = j
        for bound in bounds[0, near]:
            frozen += bound < log_density[i, near] - gain[i]
        for bound in bounds[1, near]:
            given += bound < log_density[i, near]
        level[i] = max(frozen, given)
    return level


@kernel
def known_by_typicality(stream: Array, tail: Array, independent: float) -> Array:
    """Share of each cell that is known by typicality alone, level by level, shape (C, L).

    Parameters
    ----------
    stream
        Instances of the stream in each cell, shape (C, L).
    tail
        Share of the known instances up to each level, shape (L,).
    independent
        Number of independent instances that say as much as one of the stream.
    """
    count, levels = stream.shape
    known = np.ones((count, levels))
    for c in range(count):
        whole, below, evidence = independent * stream[c].sum(), 0.0, 0.0
        for level in range(levels - 1):
            below += independent * stream[c, level]
            share = below / max(whole, 1e-300)
            if share > tail[level]:
                gain = share * np.log(share / tail[level])
                if share < 1.0:
                    gain += (1.0 - share) * np.log((1.0 - share) / (1.0 - tail[level]))
                evidence = max(evidence, whole * gain)
            known[c, level] = min(1.0, tail[level] * (whole + USUAL) / (below + USUAL * tail[level]))
        holds_new = 1.0 / (1.0 + np.exp(DEMANDED - evidence))
        known[c] = 1.0 - holds_new * (1.0 - known[c])
    return known


@kernel
def odds_of_new(log_density: Array, log_density_new: Array, seats: Array, tempered: bool) -> Array:
    """Odds, by the frozen classes alone, that each of n instances is new, within their bounds, shape (n,).

    Parameters
    ----------
    log_density, log_density_new
        Under the known classes, shape (n, J), and under a new subclass, shape (n,).
    seats
        Log weight of each class and, last, of a new one when a stream begins, shape (J + 1,).
    tempered
        That of the :class:`stream_osr.trust.references.References`.
    """
    n, n_classes = log_density.shape
    out, bound = np.empty(n), TEMPERED if tempered else FROZEN
    for i in range(n):
        known = -np.inf
        for j in range(n_classes):
            known = np.logaddexp(known, log_density[i, j] + seats[j])
        out[i] = np.exp(log_density_new[i] + seats[n_classes] - known)
        out[i] = min(max(out[i], 1.0 / bound), bound)
    return out


@borrowing_kernel
def with_odds(known: float, odds: float) -> float:
    """Share that is known, given that by typicality alone and the odds of what else speaks for a new class."""
    return known / (known + (1.0 - known) * odds)
