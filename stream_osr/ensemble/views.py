"""What the chains say between batches: predictions of their present states, and which new classes there may be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery.new_classes import Emerging, Measured, NewClasses, find_new_classes, measure_subclasses
from stream_osr.ensemble.asked import model_of, typicality_of
from stream_osr.ensemble.chain import Chain, Chains, opening_seats
from stream_osr.ensemble.guard import shares_of
from stream_osr.ensemble.past import Past
from stream_osr.model import step as sampler
from stream_osr.model.known import log_class_densities, unseen
from stream_osr.model.missing import NOTHING, Gaps, complete_rows, gaps_of, is_complete, opened
from stream_osr.model.powers import bend
from stream_osr.model.prior import homogeneous
from stream_osr.model.responsibilities import View, asked, cells_of, log_seats_of, look, look_closely, view
from stream_osr.model.whitening import Space, whiten
from stream_osr.trust.balance import balance, votes
from stream_osr.trust.levels import levels_within, odds_of_new
from stream_osr.trust.references import References


class Views:
    """Immediate predictions of an ensemble: made once, good for as long as the chains are these.

    Parameters
    ----------
    chains
        The chains.
    references
        Those that guard the known classes.
    space
        Whitened coordinates.
    shift
        Of the log odds of unknown: of one chain with full covariances, of which nothing else is asked, raw rows have
        it in what is returned (``shifted``).
    closely
        The densities under the known classes are asked for, too.
    """

    def __init__(
        self, chains: Chains, references: References | None, space: Space, *, shift: float, closely: bool
    ) -> None:
        self._chains, self._references, self._space = chains, references, space
        self._guards = shares_of(chains)
        self._closely = closely or any(shares is not None for shares in self._guards)
        self.shifted = len(chains) == 1 and not self._closely
        odds = shift if self.shifted else 0.0
        self._views = [view(c.known, c.frozen, c.state, space, odds) for c in chains]

    def of_values(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Predict raw rows, NaN = missing, (n, p): probabilities, and mean log densities of classes if asked."""
        if np.isnan(values).any() and not is_complete(gaps := gaps_of(self._space, values)):
            return self._with_gaps(values, gaps)
        return self._look(bend(self._space.powers, values), self._views)

    def _with_gaps(self, values: np.ndarray, gaps: Gaps) -> tuple[np.ndarray, np.ndarray | None]:
        """Predict rows of which something is missing, a pattern at a time."""
        whole, parts, bent = self._views, [], bend(self._space.powers, values)
        for pattern in range(NOTHING, len(gaps.rank)):
            at = np.flatnonzero(gaps.pattern == pattern)
            if pattern == NOTHING:
                parts.append((at, *self._look(bent[at], whole)))
                continue
            of = gaps._replace(pattern=gaps.pattern[at])
            middle = complete_rows(whole[0], whiten(self._space, values[at]), of, None)
            views = [opened(each, gaps, pattern) for each in whole]
            parts.append((at, *self._look(bent[at], views, middle, 0.5 * float(gaps.rank[pattern]))))
        order = np.argsort(np.concatenate([at for at, _, _ in parts]))
        densities = [density for _, _, density in parts if density is not None]
        together = np.concatenate([found for _, found, _ in parts])[order]
        return together, np.concatenate(densities)[order] if densities else None

    def _look(
        self, values: np.ndarray, views: Sequence[View], middle: np.ndarray | None = None, excess: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Predict bent rows that lack the same; ``middle`` is their likeliest completion, ``excess`` above most."""
        if not self._closely:
            return _mean([look(values, each) for each in views]), None
        looked, densities = [], []
        for chain, own in zip(self._chains, views, strict=True):
            cells, log_weight = look_closely(values, own, len(chain.state.ids))
            density = whole = log_weight - log_seats_of(chain.state.franchise)[: len(chain.known.size)]
            if middle is not None:
                whole = log_class_densities(chain.known, chain.frozen, homogeneous(middle))[0] - excess
            densities.append(whole)
            looked.append((cells, whole, density))
        mean = np.asarray(np.mean(densities, axis=0))
        return _mean([self._balanced(number, *each, mean) for number, each in enumerate(looked)]), mean

    def of_whitened(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Predict the same of whitened rows, shape (n, d)."""
        chains = self._chains
        if not self._closely:
            return _mean([sampler.immediate(c.known, c.frozen, c.state, rows) for c in chains]), None
        who = asked(rows, chains[0].known.prior)
        densities = [log_class_densities(c.known, c.frozen, who.rows)[0] for c in chains]
        mean = np.asarray(np.mean(densities, axis=0))
        found = [
            self._balanced(number, cells_of(chain.known, chain.state, who, density), density, density, mean)
            for number, (chain, density) in enumerate(zip(chains, densities, strict=True))
        ]
        return _mean(found), mean

    def _balanced(
        self, number: int, cells: np.ndarray, log_density: np.ndarray, without_gaps: np.ndarray, mean: np.ndarray
    ) -> np.ndarray:
        """Balance the cells of one chain; ``mean`` is the log density over all chains."""
        shares, n_classes, chain = self._guards[number], log_density.shape[1], self._chains[number]
        if shares is None or self._references is None or chain.guard is None:
            return np.column_stack([cells[:, :n_classes], cells[:, n_classes:].sum(axis=1)])
        odds, level = None, model_of(self._references, number).levels(log_density)
        if chain.guard.dependent:
            typical = typicality_of(self._references).typical
            level = levels_within(mean, np.zeros(len(mean)), typical.bounds)
            seats, at = log_seats_of(chain.state.franchise), np.arange(len(cells))
            near = cells[:, :n_classes].argmax(axis=1)
            ratio = np.log(np.maximum(cells[:, -1], 1e-300)) - np.log(np.maximum(cells[at, near], 1e-300))
            log_new = ratio - seats[-1] + seats[near] + without_gaps[at, near]
            seats = opening_seats(chain.known, chain.frozen)
            odds = odds_of_new(without_gaps, log_new, seats, self._references.tempered)
        return balance(shares, np.full(len(cells), np.nan), cells, level, votes(without_gaps), odds)


def _mean(found: Sequence[np.ndarray]) -> np.ndarray:
    return found[0] if len(found) == 1 else np.asarray(np.mean(found, axis=0))


def find_classes(
    chains: Chains, past: Past, labels: Sequence[Label], before: Sequence[Measured] | None = None
) -> tuple[NewClasses, tuple[Measured, ...]]:
    """Find candidate new classes by what all chains say, with the distances in each (``before``: earlier ones)."""
    known = repeat(None, len(chains)) if before is None else before
    measured = tuple(measure_subclasses(c.known, c.state, old) for c, old in zip(chains, known, strict=True))
    views = [Emerging(c.known, c.frozen, c.state, c.life) for c in chains]
    return find_new_classes(views, measured, past.subclass, labels), measured


class Members(NamedTuple):
    """Remembered instances of opened classes.

    Attributes
    ----------
    rows, group
        Whitened rows, shape (n, d), and numbers of their classes, shape (n,).
    subclass
        Known subclass that holds each in each chain, shape (R, n).
    """

    rows: np.ndarray
    group: np.ndarray
    subclass: np.ndarray


def reference_densities(chains: Chains, base: References, members: Members) -> list[np.ndarray]:
    """Log class densities in each chain: of the trained references, then of members of opened classes, unseen."""
    return [
        _unseen(chain, base, base.log_density[number % len(base.log_density)], members, members.subclass[number])
        for number, chain in enumerate(chains)
    ]


def _unseen(
    chain: Chain, base: References, log_density: np.ndarray, members: Members, subclass: np.ndarray
) -> np.ndarray:
    known = chain.known
    old = log_class_densities(known, chain.frozen, homogeneous(base.rows))[0]
    old[:, : log_density.shape[1]] = log_density
    if not len(members.group):
        return old
    instances = homogeneous(members.rows)
    new = log_class_densities(known, chain.frozen, instances)[0]
    slot = np.argsort(known.ids)
    at = np.append(slot, 0)[np.searchsorted(known.ids[slot], subclass)]
    own = np.where(np.append(known.ids, -1)[at] == subclass, at, -1)
    new[np.arange(len(own)), members.group] = unseen(known, chain.frozen, instances, members.group, own)
    return np.concatenate([old, new])
