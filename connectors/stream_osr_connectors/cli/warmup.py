"""The command ``stream-osr warmup``: what a recognizer does at first, on made-up instances, compiled and kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, get_args

from stream_osr_connectors.cli.messages import progress_bar
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    import numpy as np

    from stream_osr import OpenSetRecognizer
    from stream_osr.model.prior import Covariance

CLASSES, EACH, STREAM = 3, 40, 128


def warmup() -> None:
    """Compile the sampler ahead of time, so that no first instance waits for it: one to two minutes, once.

    It is kept where NUMBA_CACHE_DIR says, else beside the installed package, else in the user's cache directory.

    Example: stream-osr warmup
    """
    from stream_osr.model.prior import Covariance  # slow to import, and --help does without

    console, begin = Terminal(stderr=True), time.perf_counter()
    with progress_bar(console, total=True) as bar:
        for covariance in bar.track(warm_up(), total=len(get_args(Covariance)), description="compiling"):
            console.say(f"{covariance} covariances: ready after {time.perf_counter() - begin:.0f} s")


def warm_up() -> Iterator[str]:
    """Do all that a recognizer ever does, under every covariance model; yields the name of each when done.

    Train, decide, predict, miss values, learn late labels, name what has emerged and undo that, save, go on under
    another model.

    Examples
    --------
    >>> list(warm_up())
    ['full', 'diagonal', 'tied']
    """
    import numpy as np

    from stream_osr.model.prior import Covariance

    rng = np.random.default_rng(0)
    centres = 8.0 * np.eye(CLASSES + 1)
    noisy = centres[np.arange(STREAM) % (CLASSES + 1)] + rng.normal(size=(STREAM, CLASSES + 1))
    rows = [dict(enumerate(row)) for row in noisy.tolist()]
    _trained("full", centres, np.random.default_rng(1), flag=True)
    for covariance in get_args(Covariance):
        model, later = (_trained(covariance, centres, rng) for _ in range(2))
        for key, x in enumerate(rows):
            model.predict_proba_one(x)
            model.learn_one({**x, key % len(x): None} if key % 7 == 0 else x, key=key)
        for key in range(STREAM - CLASSES - 1, STREAM):
            model.learn_label(key, key % (CLASSES + 1))
        emerging, _, _ = model.summary().emerging[0]
        model.promote([emerging], CLASSES + 1)
        model.flush()
        for x in rows:
            model.learn_one(x)
        model.undo()
        with TemporaryDirectory() as folder:
            model.save(Path(folder, "model.osr"))
        _in_order(covariance, centres, np.random.default_rng(2))
        if covariance != "diagonal":  # those fit their own coordinates alone
            later.carry_over(model)
        yield str(covariance)


def _in_order(covariance: Covariance, centres: np.ndarray, rng: np.random.Generator) -> None:
    """Train on instances that depend on their neighbours, and decide others, of which one column fails."""
    import numpy as np

    from stream_osr import ModelOptions, OpenSetRecognizer

    model = OpenSetRecognizer(
        batch_size=STREAM // 2, model=ModelOptions(covariance=covariance, training_sweeps=3, window=STREAM)
    )
    slow = np.zeros(CLASSES + 1)
    for i in range(4 * CLASSES * EACH + STREAM):
        slow = 0.95 * slow + 0.3 * rng.normal(size=CLASSES + 1)
        trains = i < 4 * CLASSES * EACH
        row = centres[i % CLASSES] + slow
        if not trains:
            row[0] = 0.0
        model.learn_one(dict(enumerate(row.tolist())), i % CLASSES if trains else None)
    model.flush()


def _trained(
    covariance: Covariance, centres: np.ndarray, rng: np.random.Generator, *, flag: bool = False
) -> OpenSetRecognizer:
    """Train a recognizer on all classes but the last, their features numbers, or one of them a flag."""
    from stream_osr import ModelOptions, OpenSetRecognizer

    model = OpenSetRecognizer(
        batch_size=STREAM // 2, model=ModelOptions(covariance=covariance, training_sweeps=3, window=STREAM)
    )
    for i in range(CLASSES * EACH):
        row = centres[i % CLASSES] + rng.normal(size=CLASSES + 1)
        if flag:
            row[0] = i % 2
        model.learn_one(dict(enumerate(row.tolist())), i % CLASSES)
    model.freeze()
    return model
