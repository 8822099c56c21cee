"""What is known of the references before they are asked: what follows from the frozen densities alone is kept."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stream_osr.model.known import Known, log_new
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.responsibilities import Asked, asked
from stream_osr.trust.balance import votes
from stream_osr.trust.levels import (
    N_LEVELS,
    Typical,
    level_bounds,
    levels_of,
    levels_within,
    nearest,
    references_below,
    typical_of,
)
from stream_osr.trust.references import References

ASKED = 256
"""References asked with each batch, those next in order."""
KEPT = 1 << 22
"""Products of the references' coordinates that are kept at most; more of them are made anew each time."""


class Model(NamedTuple):
    """What the references say of the frozen densities of one chain alone.

    Columns over the R references go on with those of the first :data:`ASKED`, so that all who are asked with a batch
    lie side by side.

    Attributes
    ----------
    many, total
        Number of references of each class and the sum of their log densities under it, shape (J,).
    below
        References of each class below each bound of the levels but the first, shape (J, L).
    spread
        Mean weight of the references of each class on each level, each counted by its weight, shape (J, L).
    bounds
        Bounds of the levels.
    confusion
        Mean over the references of each class of how probable each class is, shape (J, J).
    theirs
        What is known of the references.
    log_new
        Log densities under a new subclass, by the base measure that they were made with.
    asked
        What is asked of all states, by the covariance model.
    rows
        Whitened rows of the references, shape (R, d).
    """

    many: np.ndarray
    total: np.ndarray
    below: np.ndarray
    spread: np.ndarray
    bounds: np.ndarray
    confusion: np.ndarray
    theirs: Theirs
    log_new: dict[int, tuple[Known, np.ndarray]]
    asked: list[Asked]
    rows: np.ndarray

    def new_of(self, known: Known) -> np.ndarray:
        """Log density of each reference as the first of a new subclass, which no label changes."""
        key = id(known.prior)
        if key not in self.log_new:
            self.log_new[key] = (known, _twice(log_new(known, homogeneous(self.rows))))
        return self.log_new[key][1]

    def asked_of(self, prior: Prior) -> Asked | None:
        """Rows of the references, prepared; ``None``: that would take too much room."""
        if (len(self.rows) + ASKED) * (prior.n_features + 1) * (prior.n_features + 2) // 2 > KEPT:
            return None
        if not self.asked:
            self.asked.append(asked(_twice(self.rows), prior))
        return self.asked[0]

    def levels(self, log_density: np.ndarray) -> np.ndarray:
        """Level of each instance by its log densities under the known classes, (n, J); shape (n,)."""
        return levels_of(log_density, self.many, self.total, self.bounds, self.below)


class Theirs(NamedTuple):
    """What is known of n references.

    Attributes
    ----------
    group, level
        Class and level of each, shape (n,).
    log_density, vote
        Log density under each known class, given the instances before it where neighbours are dependent, and how
        probable the class is by that alone, shape (n, J).
    weight
        What each counts among those of its class, shape (n,).
    """

    group: np.ndarray
    level: np.ndarray
    log_density: np.ndarray
    vote: np.ndarray
    weight: np.ndarray


def _twice(column: np.ndarray) -> np.ndarray:
    """Let a column go on from its beginning."""
    return np.concatenate([column, column[:ASKED]])


def _spread(group: np.ndarray, level: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    """Mean weight of the references of each class on each level, each counted by its weight; else 1."""
    sums = np.zeros((2, n_classes, N_LEVELS))
    for power in range(2):
        np.add.at(sums[power], (group, level), weight ** (1 + power))
    return np.asarray(np.divide(sums[1], sums[0], out=np.ones(sums[0].shape), where=sums[0] > 0.0))


class Same:
    """References as the key of a cache: one is as good as itself only."""

    def __init__(self, references: References) -> None:
        self.references = references

    def __hash__(self) -> int:
        return id(self.references.group)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.references is other.references


def model_of(references: References, number: int) -> Model:
    """Sum up what the references say of the densities of chain ``number``; made once for each set of references."""
    return _model_of(Same(references), number % len(references.log_density))


@lru_cache(maxsize=64)
def _model_of(held: Same, number: int) -> Model:
    references = held.references
    log_density, group = references.log_density[number], references.group
    n_classes, weight = log_density.shape[1], references.weights
    count = np.bincount(group, minlength=n_classes).astype(float)
    total = np.bincount(group, weight * log_density[np.arange(len(group)), group], minlength=n_classes)
    score = nearest(log_density, count, total, group, weight)[1]
    below = references_below(log_density, group, references.weight)
    bounds = level_bounds(score, group, below, references.weight)
    vote, level = votes(log_density), levels_of(log_density, count, total, bounds, below, group, weight)
    confusion = np.eye(n_classes)
    for j in np.unique(group):
        own = group == j
        confusion[j] = (weight[own, None] * vote[own]).sum(axis=0) / own.sum()
    theirs = Theirs(*map(_twice, (group, level, log_density + references.gains[:, None], vote, weight)))
    spread = _spread(group, level, weight, n_classes)
    return Model(count, total, below, spread, bounds, confusion, theirs, {}, [], references.rows)


class OfTypical(NamedTuple):
    """What the references say of typicality: the levels, and that of each reference, as in :class:`Theirs`."""

    typical: Typical
    level: np.ndarray


def typicality_of(references: References) -> OfTypical:
    """Derive the levels of typicality from the references; made once for each set of references."""
    return _typicality_of(Same(references))


@lru_cache(maxsize=64)
def _typicality_of(held: Same) -> OfTypical:
    references = held.references
    typical, gain = typical_of(references), references.gains
    mean = np.mean(references.log_density, axis=0) + gain[:, None]
    return OfTypical(typical, _twice(levels_within(mean, gain, typical.bounds)))
