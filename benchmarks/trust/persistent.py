"""A new class that stays, a million instances of independent draws: nothing drifts, and nothing may be said to.

The classes of `benchmarks.discovery.gaussians`, one of them new; each of the six is a sixth of the stream.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from benchmarks.discovery.gaussians import KNOWN, Gaussians, make
from benchmarks.trust.problems import follow
from stream_osr import OpenSetRecognizer

INSTANCES = 1_000_000
CHUNK = 20_000
STREAMS = ("gaussians",)


def bayes(classes: Gaussians, X: np.ndarray) -> np.ndarray:
    """Return the class that is most probable given the true densities, all being as frequent, shape (n,)."""
    score = np.empty((len(X), len(classes.mean)))
    for k, (mean, lower) in enumerate(zip(classes.mean, classes.lower, strict=True)):
        away = np.linalg.solve(lower, (X - mean).T)
        score[:, k] = -0.5 * (away**2).sum(axis=0) - np.log(np.diag(lower)).sum()
    return score.argmax(axis=1)


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run known classes and a new one for a long time."""
    n = length or INSTANCES
    classes = make(1, seed)
    model = OpenSetRecognizer.from_trained(classes.trained, n_jobs=1, seed=seed)
    y = np.random.default_rng([seed, n]).integers(KNOWN + 1, size=n)
    parts = [classes.draw(y[at : at + CHUNK], np.random.default_rng([seed, at])) for at in range(0, n, CHUNK)]
    heard = follow(model, np.concatenate(parts), y)
    events = Counter(type(event).__name__ for event in heard.events)
    right = heard.right | (heard.unknown & (y == KNOWN))
    return {
        "accuracy": float(right.mean()),
        "accuracy_last": float(right[-max(n // 5, 1) :].mean()),
        "accuracy_bayes": float((np.concatenate([bayes(classes, X) for X in parts]) == y).mean()),
        "known_right": float(right[y < KNOWN].mean()),
        "unknown_recall": float(right[y == KNOWN].mean()),
        "drifted": events["ClassDrifted"],
        "announced": events["SubclassEmerged"],
        "number": model.new_classes().number,
        "seconds": heard.seconds,
    }
