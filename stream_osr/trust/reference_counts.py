"""Counts of stream instances and references in the cells of the mass balance. They decay with time."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel
from stream_osr.support import rules


class ReferenceCounts(NamedTuple):
    """Counts of J known classes, C cells and L levels.

    The cells are the known classes, K emerging subclasses, and new instances.

    Attributes
    ----------
    stream
        Decayed number of stream instances in each cell, shape (C, L).
    seen
        Decayed number of instances since each cell exists, shape (C,).
    taken
        Decayed number of references of each class in each cell, shape (J, C, L).
    total
        Decayed number of scored references of each class since each cell exists, shape (J, C).
    votes
        Decayed sums of the class probabilities of known instances, by densities alone, shape (J,).
    """

    stream: Annotated[Array, rules.array("f", "C", "L", low=0.0, high=1e12)]
    seen: Annotated[Array, rules.array("f", "C", low=0.0, high=1e12)]
    taken: Annotated[Array, rules.array("f", "J", "C", "L", low=0.0, high=1e12)]
    total: Annotated[Array, rules.array("f", "J", "C", low=0.0, high=1e12)]
    votes: Annotated[Array, rules.array("f", "J", low=0.0, high=1e12)]


@kernel
def counted(
    counts: ReferenceCounts, cell_counts: Array, level: Array, group: Array, weight: Array, n: int, fade: float
) -> ReferenceCounts:
    """Add references and stream instances to the counts, except for the votes.

    Parameters
    ----------
    counts
        Counts so far, which do not change.
    cell_counts, level
        Responsibilities of the cells and level of each row, shapes (m, C) and (m,). The references come first, then n
        instances, then any others.
    group, weight
        Class and weight of each reference, shape (Q,).
    n
        Number of stream instances.
    fade
        Decay factor of the counts so far.
    """
    (n_classes, count, levels), first = counts.taken.shape, len(group)
    total, taken = np.zeros(n_classes), np.zeros((first, count))
    place, n_places = np.full((n_classes, levels), -1), 0  # rows of `taken`, for classes and levels with a reference
    for i in range(first):
        j, at = group[i], level[i]
        if place[j, at] < 0:
            place[j, at] = n_places
            n_places += 1
        total[j] += weight[i]
        here = taken[place[j, at]]
        for c in range(count):
            here[c] += weight[i] * cell_counts[i, c]
    came = np.zeros((levels, count))
    for i in range(first, first + n):
        for c in range(count):
            came[level[i], c] += cell_counts[i, c]
    all_taken, all_asked = np.empty(counts.taken.shape), fade * counts.total
    flat, flat_before = all_taken.reshape(all_taken.size), counts.taken.reshape(all_taken.size)
    for at in range(len(flat)):  # several numbers at a time, in contrast to an expression in three dimensions
        flat[at] = fade * flat_before[at]
    for j in range(n_classes):
        for c in range(count):
            all_asked[j, c] += total[j]
        for at in range(levels):
            if place[j, at] >= 0:
                here = taken[place[j, at]]
                for c in range(count):
                    all_taken[j, c, at] += here[c]
    return ReferenceCounts(
        fade * counts.stream + came.T, fade * counts.seen + n, all_taken, all_asked, fade * counts.votes
    )
