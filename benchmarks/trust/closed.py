"""Known classes hold: on closed streams, what was promised, what the frozen model does, and what came."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.trust.closed_streams import STREAMS, problem
from benchmarks.trust.problems import follow, train
from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.training.trained import TrainedModel

__all__ = ["STREAMS", "measure"]

SAMPLE = 4_000
"""Instances of the last fifth, at most, that the frozen model is asked about."""

SHORTEST, LONGEST = 100, 1_000
"""Of the windows of the live figure: a tenth of the stream, within these."""


def window_of(length: int) -> int:
    """Return the number of decisions from one asking for the live figure to the next."""
    return min(max(length // 10, SHORTEST), LONGEST)


def frozen(trained: TrainedModel, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    """Ask a recognizer that has seen no stream: shares of a sample that it labels right, and calls unknown."""
    at = np.arange(len(X))
    if len(at) > SAMPLE:
        at = np.sort(np.random.default_rng([seed, len(X)]).choice(at, SAMPLE, replace=False))
    asked = OpenSetRecognizer.from_trained(trained, n_jobs=1, seed=seed)
    said = asked.predict_many(pd.DataFrame(X[at], columns=list(trained.names))).tolist()
    right = [label == truth for label, truth in zip(said, y[at].tolist(), strict=True)]
    return float(np.mean(right)), float(np.mean([label not in trained.labels for label in said]))


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run a closed stream."""
    given = problem(stream, seed, length)
    model, report, train_seconds = train(given, seed)
    n = len(given.y)
    last = slice(n - max(n // 5, 1), n)
    frozen_right, frozen_unknown = frozen(model.trained, given.X[last], given.y[last], seed)
    heard = follow(model, given.X, given.y, window_of(n))
    interval = getattr(report, "recall_interval", None)
    fifths = [float(part.mean()) for part in np.array_split(heard.right, 5) if len(part)]
    return {
        "n_train": len(given.y_train),
        "n_classes": len(report.instances),
        "n": n,
        "batch_size": model.batch_size,
        "promised": report.known_recall,
        "promised_interval": None if interval is None else list(interval),
        "frozen": frozen_right,
        "frozen_unknown": frozen_unknown,
        "right": float(heard.right.mean()),
        "right_last": float(heard.right[last].mean()),
        "right_by_fifths": fifths,
        "unknown": float(heard.unknown.mean()),
        "unknown_last": float(heard.unknown[last].mean()),
        "events": dict(Counter(type(event).__name__ for event in heard.events)),
        "announced": sum(isinstance(event, SubclassEmerged) for event in heard.events),
        "standing": len(model.new_classes().candidates),
        "windows": [list(window) for window in heard.windows],
        "train_seconds": train_seconds,
        "seconds": heard.seconds,
    }
