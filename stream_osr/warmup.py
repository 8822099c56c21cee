"""Compile ahead: what a recognizer does in its first minute is done on made-up instances, and kept by numba."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np

from stream_osr.model.prior import Covariance
from stream_osr.recognizer import OpenSetRecognizer

CLASSES, EACH, STREAM = 3, 40, 128


def warm_up() -> Iterator[str]:
    """Train, decide, predict and learn late labels under every covariance model; yields the name of each when done.

    Examples
    --------
    >>> list(warm_up())
    ['full', 'diagonal', 'tied']
    """
    rng = np.random.default_rng(0)
    centres = 8.0 * np.eye(CLASSES + 1)
    rows = [dict(enumerate(row)) for row in (centres[np.arange(STREAM) % (CLASSES + 1)] + _noise(rng)).tolist()]
    for covariance in get_args(Covariance):
        model = OpenSetRecognizer(covariance=covariance, batch_size=STREAM // 2, training_sweeps=3, window=STREAM)
        for i in range(CLASSES * EACH):
            row = centres[i % CLASSES] + rng.normal(size=CLASSES + 1)
            model.learn_one(dict(enumerate(row.tolist())), i % CLASSES)
        model.freeze()
        for key, x in enumerate(rows):
            model.predict_proba_one(x)
            model.learn_one(x, key=key)
        model.learn_label(STREAM - 1, CLASSES)
        model.flush()
        yield str(covariance)


def _noise(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(STREAM, CLASSES + 1))
