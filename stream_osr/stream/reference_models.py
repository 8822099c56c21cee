"""References under the frozen densities of a chain: levels, typicality, and columns prepared for all batches.

The results depend on the frozen densities alone. They are cached for each set of references
(:class:`ReferenceModel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.known import Known, log_new
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.responsibilities import QueryRows, query_rows
from stream_osr.stream.chain import Chain, opening_seats
from stream_osr.trust import density_levels
from stream_osr.trust.balance import votes
from stream_osr.trust.references import References, once

BATCH_REFERENCES = 256
"""Most references scored with each batch, in turn. A smaller batch is scored with as many as it has instances."""
MOST_CACHED = 1 << 22
"""Most cached products of the references' coordinates. Larger ones are recomputed each time."""


class ReferenceLevels(NamedTuple):
    """Densities of the references of J classes, by L levels.

    Attributes
    ----------
    many, total
        Number of references of each class, and the sum of their log densities under it, shape (J,).
    below
        References of each class below each bound of the levels except the first, shape (J, L).
    spread
        Weighted mean weight of the references of each class on each level, shape (J, L).
    bounds
        Bounds of the levels.
    confusion
        Mean probability of each class over the references of each class, shape (J, J).
    """

    many: np.ndarray
    total: np.ndarray
    below: np.ndarray
    spread: np.ndarray
    bounds: np.ndarray
    confusion: np.ndarray


class ReferenceModel(NamedTuple):
    """References under the frozen densities of one chain alone.

    Columns over the R references repeat the first :data:`BATCH_REFERENCES` at the end, so that the references of a
    batch are always adjacent.

    Attributes
    ----------
    levels
        Their density levels.
    theirs
        Columns of the references.
    log_new
        Log densities under a new subclass, by base measure.
    asked
        Rows prepared for all states, by covariance model.
    rows
        Whitened rows of the references, shape (R, d).
    typicality
        Their typicality, by known classes.
    """

    levels: ReferenceLevels
    theirs: ReferenceRows
    log_new: dict[int, tuple[Known, np.ndarray]]
    asked: list[QueryRows]
    rows: np.ndarray
    typicality: dict[int, tuple[Known, ReferenceTypicality]]

    def new_of(self, known: Known) -> np.ndarray:
        """Log density of each reference as the first instance of a new subclass, which no label changes."""
        key = id(known.prior)
        if key not in self.log_new:
            self.log_new[key] = (known, _twice(log_new(known, homogeneous(self.rows))))
        return self.log_new[key][1]

    def asked_of(self, prior: Prior) -> QueryRows | None:
        """Prepare the rows of the references, or return ``None`` if they would take too much memory."""
        if (len(self.rows) + BATCH_REFERENCES) * (prior.n_features + 1) * (prior.n_features + 2) // 2 > MOST_CACHED:
            return None
        if not self.asked:
            self.asked.append(query_rows(_twice(self.rows), prior))
        return self.asked[0]

    def levels_of(self, log_density: np.ndarray) -> np.ndarray:
        """Level of each instance, shape (n,), by its log densities under the known classes, shape (n, J)."""
        levels = self.levels
        return density_levels.levels_of(log_density, levels.many, levels.total, levels.bounds, levels.below)


class ReferenceRows(NamedTuple):
    """Columns over n references.

    Attributes
    ----------
    group, level
        Class and level of each, shape (n,).
    log_density, vote
        Log density under each known class, given earlier instances if neighbours are dependent. Then the probability
        of the class by that alone, shape (n, J).
    weight
        Weight of each reference within its class, shape (n,).
    """

    group: np.ndarray
    level: np.ndarray
    log_density: np.ndarray
    vote: np.ndarray
    weight: np.ndarray


def _twice(column: np.ndarray) -> np.ndarray:
    """Append the beginning of a column to its end."""
    return np.concatenate([column, column[:BATCH_REFERENCES]])


def _spread(group: np.ndarray, level: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    """Weighted mean weight of the references of each class on each level, 1 without references."""
    sums = np.zeros((2, n_classes, density_levels.N_LEVELS))
    for power in range(2):
        np.add.at(sums[power], (group, level), weight ** (1 + power))
    return np.asarray(np.divide(sums[1], sums[0], out=np.ones(sums[0].shape), where=sums[0] > 0.0))


@once
def model_of(references: References, number: int) -> ReferenceModel:
    """Summarise the references under the densities of chain ``number``."""
    if number >= len(references.log_density):
        return model_of(references, number % len(references.log_density))
    log_density, group = references.log_density[number], references.group
    n_classes, weight = log_density.shape[1], references.weights
    count = np.bincount(group, minlength=n_classes).astype(float)
    total = np.bincount(group, weight * log_density[np.arange(len(group)), group], minlength=n_classes)
    score = density_levels.nearest(log_density, count, total, group, weight)[1]
    below = density_levels.references_below(log_density, group, references.weight)
    bounds = density_levels.level_bounds(score, group, below, references.weight)
    vote, level = (
        votes(log_density),
        density_levels.levels_of(log_density, count, total, bounds, below, group, weight),
    )
    confusion = np.eye(n_classes)
    for j in np.unique(group):
        own = group == j
        confusion[j] = (weight[own, None] * vote[own]).sum(axis=0) / own.sum()
    theirs = ReferenceRows(*map(_twice, (group, level, log_density + references.gains[:, None], vote, weight)))
    spread = _spread(group, level, weight, n_classes)
    levels = ReferenceLevels(count, total, below, spread, bounds, confusion)
    return ReferenceModel(levels, theirs, {}, [], references.rows, {})


class ReferenceTypicality(NamedTuple):
    """Typicality of the references, and columns as in :class:`ReferenceRows`: their levels and odds, both (2R,)."""

    typical: density_levels.Typical
    level: np.ndarray
    odds: np.ndarray


def typicality_of(references: References, chains: Sequence[Chain]) -> ReferenceTypicality:
    """Compute typicality from the references under the frozen densities of all chains."""
    kept, known = model_of(references, 0).typicality, chains[0].known
    if id(known) not in kept:
        own = []
        for number, chain in enumerate(chains):
            density = references.log_density[number % len(references.log_density)]
            fresh = model_of(references, number).new_of(chain.known)[: len(density)]
            own.append(log_odds_of_chain(chain, density, fresh))
        log_odds = density_levels.mean_log_odds(own)
        typical = density_levels.typical_of(references, log_odds)
        found = density_levels.typicality(
            np.mean(references.log_density, axis=0), log_odds, references.gains, typical
        )
        kept[id(known)] = known, ReferenceTypicality(typical, *map(_twice, found))
    return kept[id(known)][1]


def log_odds_of_chain(chain: Chain, log_density: np.ndarray, log_density_new: np.ndarray) -> np.ndarray:
    """Log odds of a new class by the frozen classes of a chain, as a stream opens, shape (n,)."""
    return density_levels.log_odds_of_new(log_density, log_density_new, opening_seats(chain.known, chain.frozen))
