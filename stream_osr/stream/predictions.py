"""Predictions between batches, from the present state alone. They seat no instance and change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.instances.labels import unknown_label
from stream_osr.model import missing_features
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.feature_space.yeo_johnson import bend
from stream_osr.model.jit import kernel
from stream_osr.model.known import log_class_densities
from stream_osr.model.native import Native, native
from stream_osr.model.prior import homogeneous
from stream_osr.model.responsibilities import View, log_seats_of, look, look_closely, view
from stream_osr.parameters import Parameters
from stream_osr.stream.batch_seating import mean_of
from stream_osr.stream.chain import opening_seats
from stream_osr.stream.faults import believable
from stream_osr.stream.frame import at_training, features_at_training
from stream_osr.stream.monitoring import references_of
from stream_osr.stream.odd_columns import ForeignColumns
from stream_osr.stream.reference_check import current_shares
from stream_osr.stream.reference_models import model_of, typicality_of
from stream_osr.stream.state import Stream
from stream_osr.stream.subclass_owners import fit_check
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.balance import balance, votes
from stream_osr.trust.density_levels import known_by_typicality, levels_of, log_odds_of_new, mean_log_odds, typicality
from stream_osr.trust.false_unknown_bound import call_known, plausible
from stream_osr.trust.prior_odds import shift_odds

GROUPED = 4
"""Largest number of chains in one call of the kernel. It is fixed, as each number needs different machine code."""


class PredictiveCache:
    """Precomputed parts of a stream's present state for predictions, valid for this stream only.

    Parameters
    ----------
    trained, stream
        The model and the stream.
    parameters
        Settings: the label of unknown instances, and the bound on false unknowns.

    Attributes
    ----------
    stream
        The stream.
    labels
        Labels of the known classes and, last, of unknown instances.
    """

    def __init__(self, trained: TrainedModel, stream: Stream, parameters: Parameters) -> None:
        self._foreign = ForeignColumns(trained, stream)
        self.stream, self._chains, self._space = stream, stream.chains, trained.whitening
        self._trained = trained
        self.labels = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
        self._references = references_of(trained, stream)
        self._max_false_unknown = None if self._references is None else parameters.max_false_unknown
        self._shares = current_shares(stream.chains)
        self._closely = self._max_false_unknown is not None or any(shares is not None for shares in self._shares)
        self._shifted = len(stream.chains) == 1 and not self._closely  # by the sampler itself
        odds = stream.odds.shift if self._shifted else 0.0
        self._log_seats = [log_seats_of(chain.state.franchise) for chain in stream.chains]
        self._levels = [
            model_of(self._references, at) for at in range(len(stream.chains)) if self._references is not None
        ]
        self._views = [view(c.known, c.frozen, c.state, trained.whitening, odds) for c in stream.chains]
        self._at_once = self._converted() if self._closely else []

    def _converted(self) -> list[Native]:
        """Convert the chains in groups for :func:`_add_group`, or none if it cannot be used."""
        checks, shares = [chain.check for chain in self._chains], [each for each in self._shares if each is not None]
        if len(shares) < len(checks) or any(check is None or check.dependent for check in checks):
            return []
        levels = [
            (each.levels.many, each.levels.total, each.levels.bounds, each.levels.below) for each in self._levels
        ]
        chains = [native(each) for each in zip(self._views, self._log_seats, levels, shares, strict=True)]
        groups, last = [], (len(chains) - 1) // GROUPED
        for number in range(last + 1):
            members = chains[number * GROUPED : (number + 1) * GROUPED]
            filled = (*members, *[members[0]] * (GROUPED - len(members)))
            groups.append(native((filled, len(members), len(chains) if number == last else 1)))
        return groups

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Predict raw rows, NaN = missing, shape (n, p): each known class and, last, unknown, shape (n, J + 1)."""
        values = self._foreign.without(believable(self.stream, values))
        if np.isnan(values).any() and not missing_features.is_complete(
            gaps := missing_features.missing_of(self._space, values)
        ):
            found = self._with_gaps(values, gaps)
        else:
            found = self._look(self._features(values), self._views)
        return found[0] if self._shifted else self._final(*found)

    def _features(self, values: np.ndarray) -> np.ndarray:
        """Transform raw rows, and move them to the training place, shape (n, p)."""
        return features_at_training(self._trained, self.stream.frame, bend(self._space.yeo_johnson, values))

    def _final(self, mean: np.ndarray, log_density: np.ndarray | None) -> np.ndarray:
        """Apply the bound on false unknowns, and shift the odds of unknown."""
        if self._max_false_unknown is not None and self._references is not None and log_density is not None:
            mean = call_known(mean, plausible(self._references, log_density, self._max_false_unknown))
        return shift_odds(self.stream.odds, mean)

    def _with_gaps(
        self, values: np.ndarray, missing: missing_features.MissingPattern
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Predict rows with missing values, one pattern at a time."""
        whole, parts, bent = self._views, [], self._features(values)
        for pattern in range(missing_features.NOTHING, len(missing.rank)):
            at = np.flatnonzero(missing.pattern == pattern)
            if pattern == missing_features.NOTHING:
                parts.append((at, *self._look(bent[at], whole)))
                continue
            of = missing._replace(pattern=missing.pattern[at])
            whitened = at_training(self._trained, self.stream.frame, whiten(self._space, values[at]))
            middle = missing_features.complete_rows(whole[0], whitened, of, None)
            views = [missing_features.with_open_directions(each, missing, pattern) for each in whole]
            parts.append((at, *self._look(bent[at], views, middle, 0.5 * float(missing.rank[pattern]))))
        order = np.argsort(np.concatenate([at for at, _, _ in parts]))
        together = np.concatenate([found for _, found, _ in parts])[order]
        if self._max_false_unknown is None:
            return together, None
        return together, np.concatenate([density for _, _, density in parts if density is not None])[order]

    def _look(
        self, values: np.ndarray, views: Sequence[View], middle: np.ndarray | None = None, excess: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Predict transformed rows with the same missing features.

        ``middle`` is their likeliest completion, and ``excess`` is subtracted from the log density of the completion.
        """
        if not self._closely:
            return mean_of([look(values, each) for each in views]), None
        if middle is None and self._at_once:
            mean = np.zeros((len(values), len(self.labels)))
            density = np.zeros((len(values), len(self.labels) - 1))
            for group in self._at_once:
                _add_group(values, group, mean, density)
            return mean, density if self._max_false_unknown is not None else None
        looked, densities = [], []
        for chain, seats, own in zip(self._chains, self._log_seats, views, strict=True):
            responsibilities, log_weight = look_closely(values, own, len(chain.state.ids))
            density = whole = log_weight - seats[: len(chain.known.size)]
            if middle is not None:
                whole = log_class_densities(chain.known, chain.frozen, homogeneous(middle))[0] - excess
            densities.append(whole)
            looked.append((responsibilities, whole, density))
        mean = np.asarray(np.mean(densities, axis=0))
        level = odds = None
        check = self._chains[0].check
        if check is not None and check.dependent and self._references is not None:
            log_odds = mean_log_odds([self._log_odds(number, *each) for number, each in enumerate(looked)])
            typical = typicality_of(self._references, self._chains).typical
            level, odds = typicality(mean, log_odds, np.zeros(len(mean)), typical)
        return mean_of([self._balanced(number, *each, level, odds) for number, each in enumerate(looked)]), mean

    def _log_odds(
        self, number: int, responsibilities: np.ndarray, log_density: np.ndarray, without_gaps: np.ndarray
    ) -> np.ndarray:
        """Log odds of a new class by the frozen classes of one chain, shape (n,)."""
        seats, at, chain = self._log_seats[number], np.arange(len(responsibilities)), self._chains[number]
        near = responsibilities[:, : log_density.shape[1]].argmax(axis=1)
        log_share = np.log(np.maximum(responsibilities, 1e-300))
        log_new = log_share[:, -1] - log_share[at, near] - seats[-1] + seats[near] + without_gaps[at, near]
        return log_odds_of_new(without_gaps, log_new, opening_seats(chain.known, chain.frozen))

    def _balanced(
        self,
        number: int,
        responsibilities: np.ndarray,
        log_density: np.ndarray,
        without_gaps: np.ndarray,
        level: np.ndarray | None,
        odds: np.ndarray | None,
    ) -> np.ndarray:
        """Balance the cells of one chain. ``level`` and ``odds`` are those of typicality, if it decides."""
        shares, n_classes, chain = self._shares[number], log_density.shape[1], self._chains[number]
        if shares is None or self._references is None or chain.check is None:
            return np.column_stack([responsibilities[:, :n_classes], responsibilities[:, n_classes:].sum(axis=1)])
        if level is None:
            level = self._levels[number].levels_of(log_density)
        nobody, hypotheses, arrival = np.full(len(responsibilities), np.nan), None, self.stream.arrival
        if odds is not None and arrival is not None:
            counts = fit_check(chain.check, chain.state.ids, n_classes).counts.stream
            typical = typicality_of(self._references, self._chains).typical
            hypotheses = known_by_typicality(counts, typical, arrival.independent)
        return balance(shares, nobody, responsibilities, level, votes(without_gaps), odds, hypotheses)


@kernel
def _add_group(values: np.ndarray, group: Native, mean: np.ndarray, density: np.ndarray) -> None:
    """Add the predictions of a group of chains for transformed rows without gaps, whose neighbours are independent.

    ``group`` has :data:`GROUPED` chains, the number of chains to use, and the divisor of the sums. A chain has its
    view, the log weight of each class, what :func:`levels_of` needs, and the known shares.

    ``mean`` has the sums of the balanced probabilities, shape (n, J + 1), and ``density`` those of the log densities
    under the known classes, shape (n, J).
    """
    chains, used, divisor = group.value
    for number in range(used):
        view, log_seats, levels, shares = chains[number].value
        n_classes, emerging = shares.owner.shape[0], shares.owner.shape[1] - 1
        responsibilities, log_weight = look_closely(values, view, emerging)
        log_density = log_weight - log_seats[:n_classes]
        level = levels_of(log_density, levels[0], levels[1], levels[2], levels[3])
        unknown = np.full(len(values), np.nan)
        mean += balance(shares, unknown, responsibilities, level, votes(log_density))
        density += log_density
    mean /= divisor
    density /= divisor
