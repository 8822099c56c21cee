"""Known classes hold: on closed streams, what was promised, what the frozen model does, and what came."""

from __future__ import annotations

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


def frozen(trained: TrainedModel, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Ask a recognizer that has seen no stream: the share of a sample that it labels right."""
    at = np.arange(len(X))
    if len(at) > SAMPLE:
        at = np.sort(np.random.default_rng([seed, len(X)]).choice(at, SAMPLE, replace=False))
    asked = OpenSetRecognizer.from_trained(trained, n_jobs=1, seed=seed)
    said = asked.predict_many(pd.DataFrame(X[at], columns=list(trained.names))).tolist()
    right = [label == truth for label, truth in zip(said, y[at].tolist(), strict=True)]
    return float(np.mean(right))


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run a closed stream."""
    given = problem(stream, seed, length)
    model, report, train_seconds = train(given, seed)
    n = len(given.y)
    last = slice(n - max(n // 5, 1), n)
    frozen_right = frozen(model.trained, given.X[last], given.y[last], seed)
    heard = follow(model, given.X, given.y, min(max(n // 10, SHORTEST), LONGEST))
    return {
        "n_train": len(given.y_train),
        "n": n,
        "promised": report.known_recall,
        "frozen": frozen_right,
        "right": float(heard.right.mean()),
        "right_last": float(heard.right[last].mean()),
        "unknown": float(heard.unknown.mean()),
        "unknown_last": float(heard.unknown[last].mean()),
        "announced": sum(isinstance(event, SubclassEmerged) for event in heard.events),
        "standing": len(model.new_classes().candidates),
        "windows": heard.windows,
        "train_seconds": train_seconds,
        "seconds": heard.seconds,
    }
