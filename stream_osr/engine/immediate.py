"""Predictions between batches, from the present state alone: nobody is seated, nothing changes."""

from __future__ import annotations

import numpy as np

from stream_osr.engine.state import Stream
from stream_osr.hdp import stream as sampler
from stream_osr.hdp.blas import one_thread
from stream_osr.hdp.glance import look, view
from stream_osr.hdp.prior import FULL
from stream_osr.hdp.space import whiten
from stream_osr.odds import shift_odds
from stream_osr.trained import TrainedModel


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

    def __init__(self, trained: TrainedModel, stream: Stream) -> None:
        self.stream = stream
        self._trained = trained
        self._views = None
        self._alone = len(stream.chains) == 1
        if stream.known.prior.covariance == FULL:
            shift = stream.odds.shift if self._alone else 0.0
            self._views = [view(chain.known, chain.frozen, chain.state, shift) for chain in stream.chains]
        space = trained.space
        self._map = (space.fill, space.center, space.forward)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Probabilities of raw rows, NaN = missing, shape (n, p): each known class and, last, unknown."""
        if self._views is None:
            return self.of_whitened(whiten(self._trained.space, values))
        if self._alone:
            return look(values, *self._map, *self._views[0])
        return self._average([look(values, *self._map, *each) for each in self._views])

    def of_whitened(self, rows: np.ndarray) -> np.ndarray:
        """Probabilities of whitened rows, shape (n, d)."""
        chains = self.stream.chains
        with one_thread():
            return self._average([sampler.immediate(c.known, c.frozen, c.state, rows) for c in chains])

    def _average(self, found: list[np.ndarray]) -> np.ndarray:
        mean = found[0] if len(found) == 1 else np.mean(found, axis=0)
        return shift_odds(self.stream.odds, mean)
