"""Predictions between batches, from the present state alone: nobody is seated, nothing changes."""

from __future__ import annotations

import numpy as np

from stream_osr.engine.guard import balance, cells_of, fit_guard, log_seats_of, model_of
from stream_osr.engine.state import Stream, references_of
from stream_osr.model import step as sampler
from stream_osr.model.blas import one_thread
from stream_osr.model.known import log_class_densities
from stream_osr.model.predictive import View, look, look_closely, view
from stream_osr.model.prior import FULL, homogeneous
from stream_osr.model.space import whiten
from stream_osr.trained import TrainedModel
from stream_osr.trust.balance import Shares
from stream_osr.trust.conformal import call_known, plausible
from stream_osr.trust.odds import shift_odds


def predict(trained: TrainedModel, stream: Stream, rows: np.ndarray) -> np.ndarray:
    """Probabilities from the present state alone: nobody is seated, nothing changes.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).

    Returns
    -------
    Probability of each known class and, last, unknown, shape (n, J + 1).
    """
    return Glance(trained, stream).of_whitened(rows)


class Glance:
    """What immediate predictions need of a stream's present state: made once, good for as long as it is that stream.

    Attributes
    ----------
    stream
        The stream it was made of.
    """

    def __init__(self, trained: TrainedModel, stream: Stream, max_false_unknown: float | None = None) -> None:
        self.stream = stream
        self._trained = trained
        self._views = None
        self._references = references_of(trained, stream)
        self._max_false_unknown = None if self._references is None else max_false_unknown
        self._guards = [self._guard_of(number) for number in range(len(stream.chains))]
        self._alone = len(stream.chains) == 1 and self._guards[0] is None and self._max_false_unknown is None
        if stream.known.prior.covariance == FULL:
            shift = stream.odds.shift if self._alone else 0.0
            self._views = [view(chain.known, chain.frozen, chain.state, shift) for chain in stream.chains]
        space = trained.space
        self._map = (space.fill, space.center, space.forward)

    def _guard_of(self, number: int) -> Shares | None:
        chain = self.stream.chains[number]
        if self._references is None or chain.guard is None:
            return None
        return fit_guard(chain.guard, chain.state.ids, len(chain.known.size)).shares

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Probabilities of raw rows, NaN = missing, shape (n, p): each known class and, last, unknown."""
        if self._views is None:
            return self.of_whitened(whiten(self._trained.space, values))
        if self._alone:
            return look(values, *self._map, *self._views[0])
        if self._max_false_unknown is None and all(shares is None for shares in self._guards):
            return self._average([look(values, *self._map, *each) for each in self._views])
        found = [self._closely(values, number, each) for number, each in enumerate(self._views)]
        return self._average([p for p, _ in found], [density for _, density in found])

    def _closely(self, values: np.ndarray, number: int, of: View) -> tuple[np.ndarray, np.ndarray]:
        """Balance the probabilities of raw rows in one chain; with their log densities under the known classes."""
        chain = self.stream.chains[number]
        n_classes = len(chain.known.size)
        cells, log_weight = look_closely(values, *self._map, *of, len(chain.state.ids))
        log_density = log_weight - log_seats_of(chain.state)[:n_classes]
        return self._balanced(number, cells, log_density), log_density

    def _balanced(self, number: int, cells: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        n_classes, shares = log_density.shape[1], self._guards[number]
        plain = np.column_stack([cells[:, :n_classes], cells[:, n_classes:].sum(axis=1)])
        if shares is None:
            return plain
        assert self._references is not None
        model = model_of(self._references, number)
        return balance(shares, plain, cells, model.levels(log_density), log_density)

    def of_whitened(self, rows: np.ndarray) -> np.ndarray:
        """Probabilities of whitened rows, shape (n, d)."""
        chains = self.stream.chains
        with one_thread():
            if self._max_false_unknown is None and all(shares is None for shares in self._guards):
                return self._average([sampler.immediate(c.known, c.frozen, c.state, rows) for c in chains])
            instances = homogeneous(rows)
            densities = [log_class_densities(c.known, c.frozen, instances)[0] for c in chains]
            found = [
                self._balanced(number, cells_of(chain, chain.state, rows, density), density)
                for number, (chain, density) in enumerate(zip(chains, densities, strict=True))
            ]
            return self._average(found, densities)

    def _average(self, found: list[np.ndarray], log_density: list[np.ndarray] | None = None) -> np.ndarray:
        mean = found[0] if len(found) == 1 else np.mean(found, axis=0)
        if self._max_false_unknown is not None and self._references is not None and log_density is not None:
            possible = plausible(self._references, np.mean(log_density, axis=0), self._max_false_unknown)
            mean = call_known(mean, possible)
        return shift_odds(self.stream.odds, mean)
