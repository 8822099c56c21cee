"""Levels of density and of typicality.

Levels of density show how dense an instance is in the known classes. Each level has a share of the references.

Typicality shows how usual an instance is for its nearest class. It gives another estimate of the known share of a
cell.

If neighbouring instances depend on each other, a run of known instances lies close together. It looks like a tight
new subclass. References are spread over the whole class and do not fall into it. The location is then no evidence,
but typicality is. In any part of a class, the instances of a run are as dense as some block of training instances
that the density has not seen. Instances of no known class are in the tail.

Let r be the share of a class's references that are at most as dense as an instance. Let F be the distribution of r
over the instances of a cell. The share of known ones among those in the tail is at most ``r / F(r)``. This is the
tail-area false discovery rate (Efron and Tibshirani 2002, as in Benjamini and Hochberg 1995).
"""

from __future__ import annotations

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


USUAL = 4.0
"""Number of independent typical instances added to each cell, so that a few in the tail are no evidence."""
DEMANDED = 5.0
"""Log likelihood ratio above which a cell is more likely to have a new class than not."""
FROZEN, TEMPERED = np.exp(1.5), np.exp(6.0)
"""Largest factors on the odds of a new class from the frozen classes, without and with tempered statistics. Tempered
statistics allow for the limited evidence of training episodes. References come from the same episodes and do not."""


class Typical(NamedTuple):
    """The L levels of typicality of J classes.

    Attributes
    ----------
    bounds
        Ascending log densities under each class between the levels, shape (2, J, L - 1). They are the least dense
        reference, and the quantiles ``LEVELS`` of the references. The first row is for frozen densities, the second
        for densities given the previous instances.
    tail
        Share of the known instances up to each level, shape (L,).
    """

    bounds: Array
    tail: Array


def typical_of(references: References) -> Typical:
    """Derive the levels from the references, by the mean of their log densities over the models.

    The tail shares have a lower limit. The effective number of independent references cannot exclude a rarer tail.
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
    """Return the level of each of n instances within its nearest class, shape (n,): the higher of the two.

    Parameters
    ----------
    log_density
        Log densities under the classes given the previous instances, shape (n, J).
    gain
        Excess over the frozen log densities, shape (n,).
    bounds
        As in :class:`Typical`.
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
    """Return the known share of each cell by typicality alone, level by level, shape (C, L).

    Parameters
    ----------
    stream
        Number of stream instances in each cell, shape (C, L).
    tail
        Share of the known instances up to each level, shape (L,).
    independent
        Effective number of independent instances for each instance of the stream.
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
    """Return the odds, by the frozen classes alone, that each of n instances is new, within bounds, shape (n,).

    Parameters
    ----------
    log_density, log_density_new
        Log densities under the known classes, shape (n, J), and under a new subclass, shape (n,).
    seats
        Log weight of each class and, last, of a new one at the beginning of a stream, shape (J + 1,).
    tempered
        As in :class:`stream_osr.trust.references.References`.
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
    """Combine a known share by typicality alone with the odds of a new class from other evidence."""
    return known / (known + (1.0 - known) * odds)
