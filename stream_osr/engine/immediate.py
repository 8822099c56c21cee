"""Predictions between batches, from the present state alone: nobody is seated, nothing changes."""

from __future__ import annotations

import numpy as np

from stream_osr.engine.faults import believable
from stream_osr.engine.state import Stream
from stream_osr.engine.watch import references_of
from stream_osr.ensemble.views import Views
from stream_osr.parallel import one_thread
from stream_osr.trained import TrainedModel
from stream_osr.trust.odds import shift_odds
from stream_osr.trust.references import call_known, plausible


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
        self._references = references_of(trained, stream)
        self._max_false_unknown = None if self._references is None else max_false_unknown
        closely = self._max_false_unknown is not None
        self._views = Views(stream.chains, self._references, trained.space, shift=stream.odds.shift, closely=closely)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Probabilities of raw rows, NaN = missing, shape (n, p): each known class and, last, unknown."""
        values = believable(self.stream, values)
        found, log_density = self._views.of_values(values)
        return found if self._views.shifted else self._told(found, log_density)

    def of_whitened(self, rows: np.ndarray) -> np.ndarray:
        """Probabilities of whitened rows, shape (n, d)."""
        with one_thread():
            return self._told(*self._views.of_whitened(rows))

    def _told(self, mean: np.ndarray, log_density: np.ndarray | None) -> np.ndarray:
        if self._max_false_unknown is not None and self._references is not None and log_density is not None:
            mean = call_known(mean, plausible(self._references, log_density, self._max_false_unknown))
        return shift_odds(self.stream.odds, mean)
