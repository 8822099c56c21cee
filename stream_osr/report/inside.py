"""What a report reads of a model. Nothing is changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.engine import Stream
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.trained import TrainedModel


class Inside(NamedTuple):
    """Both parts of a trained recognizer."""

    trained: TrainedModel
    stream: Stream


def look_inside(model: OpenSetRecognizer) -> Inside:
    """Return the trained part and the stream's part.

    Raises
    ------
    NotTrained
        If training has not ended.
    """
    return Inside(*model.value.running)


def emerged_slots(stream: Stream) -> dict[int, int]:
    """Return the place in the sampler's tables of each subclass that has been announced, by its id."""
    announced = set(stream.life.ids[stream.life.emerged].tolist())
    return {int(key): slot for slot, key in enumerate(stream.state.ids) if int(key) in announced}


class Remembered(NamedTuple):
    """Instances that the model still holds for late labels.

    Attributes
    ----------
    rows
        In whitened coordinates, shape (n, d).
    subclass
        Emerging subclass of each, -1: none, shape (n,).
    """

    rows: NDArray[np.float64]
    subclass: NDArray[np.int64]


def remembered(stream: Stream, most: int) -> Remembered:
    """Return instances that the model still holds, spread evenly over what it holds, at most so many."""
    count = len(stream.past.keys)
    chosen = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
    return Remembered(stream.past.rows[chosen], stream.past.subclass[0, chosen])
