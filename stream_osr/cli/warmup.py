"""The command ``stream-osr warmup``: what a recognizer does at first, on made-up instances, compiled and kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import get_args

import numpy as np

from stream_osr.model.prior import Covariance
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.terminal import Terminal

CLASSES, EACH, STREAM = 3, 40, 128


def warmup() -> None:
    """Compile the sampler ahead of time, so that no first instance waits for it: one to two minutes, once.

    It is kept where NUMBA_CACHE_DIR says, else beside the installed package, else in the user's cache directory.

    Example: stream-osr warmup
    """
    console, begin = Terminal(stderr=True), time.perf_counter()
    for covariance in warm_up():
        console.say(f"{covariance} covariances: ready after {time.perf_counter() - begin:.0f} s")


def warm_up() -> Iterator[str]:
    """Train, decide, predict and learn late labels under every covariance model; yields the name of each when done.

    Examples
    --------
    >>> list(warm_up())
    ['full', 'diagonal', 'tied']
    """
    rng = np.random.default_rng(0)
    centres = 8.0 * np.eye(CLASSES + 1)
    noisy = centres[np.arange(STREAM) % (CLASSES + 1)] + rng.normal(size=(STREAM, CLASSES + 1))
    rows = [dict(enumerate(row)) for row in noisy.tolist()]
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
