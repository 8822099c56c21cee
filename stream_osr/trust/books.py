"""Books: which cells the stream's instances and the references fall into, as counts that fade."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import kernel


class Books(NamedTuple):
    """Counts of J known classes and C cells: the known classes, K emerging subclasses, and what is new; L levels.

    Attributes
    ----------
    stream
        Instances of the stream in each cell, faded, shape (C, L).
    seen
        Instances that came since each cell is there, faded, shape (C,).
    taken
        References of each class in each cell, faded, shape (J, C, L).
    asked
        References of each class that were asked since each cell is there, faded, shape (J, C).
    votes
        What the classes' densities alone say of the known instances, faded, shape (J,).
    """

    stream: np.ndarray
    seen: np.ndarray
    taken: np.ndarray
    asked: np.ndarray
    votes: np.ndarray


@kernel
def counted(
    books: Books, cells: np.ndarray, level: np.ndarray, group: np.ndarray, weight: np.ndarray, n: int, fade: float
) -> Books:
    """Take references and instances of the stream into the books, but for the votes.

    Parameters
    ----------
    books
        The counts so far; they do not change.
    cells, level
        Responsibilities of the cells and the level of each, shapes (m, C) and (m,): first the references, then n
        instances, and whoever else there is.
    group, weight
        Class of each reference and what it counts, shape (Q,).
    n
        Instances of the stream.
    fade
        What is left of the counts so far.
    """
    (n_classes, count, levels), first = books.taken.shape, len(group)
    asked, taken = np.zeros(n_classes), np.zeros((n_classes, levels, count))
    for i in range(first):
        asked[group[i]] += weight[i]
        here = taken[group[i], level[i]]
        for c in range(count):
            here[c] += weight[i] * cells[i, c]
    came = np.zeros((levels, count))
    for i in range(first, first + n):
        for c in range(count):
            came[level[i], c] += cells[i, c]
    all_taken, all_asked = fade * books.taken, fade * books.asked
    for j in range(n_classes):
        for c in range(count):
            all_asked[j, c] += asked[j]
            for at in range(levels):
                all_taken[j, c, at] += taken[j, at, c]
    return Books(fade * books.stream + came.T, fade * books.seen + n, all_taken, all_asked, fade * books.votes)
