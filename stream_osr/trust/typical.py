"""How typical of its nearest class an instance is, and what share of a cell is known by that alone.

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

from stream_osr.model.jit import kernel
from stream_osr.trust.levels import LEVELS

USUAL = 16.0
"""Typical instances that each cell has in any case: a few in the tail are no evidence."""
SURE = 10.0
"""Odds against a new class where the sampler seats an instance in a known one: the tail must be so much heavier."""


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

    bounds: np.ndarray
    tail: np.ndarray


def typical_of(log_density: np.ndarray, group: np.ndarray, gain: np.ndarray) -> Typical:
    """Derive the levels from R references: frozen log class densities, (R, J), classes, (R,), gains, (R,)."""
    n_classes = log_density.shape[1]
    bounds = np.full((2, n_classes, len(LEVELS) + 1), np.inf)  # a class without references has no typical instances
    for j in np.unique(group):
        own = log_density[group == j, j]
        bounds[:, j] = np.quantile([own, own + gain[group == j]], [0.0, *LEVELS], axis=1).T
    count = np.median(np.bincount(group)[np.unique(group)])
    return Typical(bounds, np.maximum([0.0, *LEVELS, 1.0], 1.0 / (count + 1.0)))


@kernel
def levels_within(log_density: np.ndarray, gain: np.ndarray, bounds: np.ndarray) -> np.ndarray:
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
def known_by_typicality(stream: np.ndarray, tail: np.ndarray, n_classes: int) -> np.ndarray:
    """Share of each cell that is known, level by level, shape (C, L).

    Parameters
    ----------
    stream
        Instances of the stream in each cell, shape (C, L).
    tail
        Share of the known instances up to each level, shape (L,).
    n_classes
        Cells that are known classes, which come first.
    """
    count, levels = stream.shape
    known = np.ones((count, levels))
    for c in range(count):
        below, whole = 0.0, USUAL + stream[c].sum()
        for level in range(levels):
            below += stream[c, level]
            share = tail[level] * whole / (below + USUAL * tail[level])
            known[c, level] = min(1.0, share * SURE if c < n_classes else share)
    return known
