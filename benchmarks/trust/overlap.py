"""Does p_unknown mean what it says where a new class overlaps a known one: by how much, the streams' names say.

Classes are standard normal. Overlap is the share of probability mass that two of them have in common, the integral of
the lesser of both densities: ``2 Phi(-delta / 2)`` with means ``delta`` apart. The known classes lie far from each
other; the new one lies beside the first of them, comes after a third of the stream, and then as often as each known
class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.deciding import scores
from benchmarks.trust.problems import Problem, follow, train
from stream_osr.evaluation import expected_calibration_error

KNOWN = 3
TRAINING = 200
"""Of each known class."""
INSTANCES = 6_000
FAR = 12.0
"""Between the means of known classes, and to a new class without overlap: 2e-9 in common."""
SETTLED = 1_000
"""Instances after the new class began, from which on calibration is judged by itself."""

FEATURES = (4, 10)
SHARES = (0, 20, 50, 80)
"""Overlap in percent."""
STREAMS = tuple(f"{d}-features/{share}" for d in FEATURES for share in SHARES)


def distance(overlap: float) -> float:
    """Return the distance of two means at which so much of the mass is in common, ``FAR`` at most.

    Examples
    --------
    >>> round(distance(0.5), 3), distance(0.0)
    (1.349, 12.0)
    """
    return FAR if overlap <= 0 else min(FAR, float(-2 * norm.ppf(overlap / 2)))


def make(stream: str, seed: int, length: int | None = None) -> tuple[Problem, int, np.ndarray]:
    """Draw a training part and a stream, in which the new class is numbered after the known ones.

    Returns
    -------
    The problem; the place of the first instance that may be new; and the probability of being unknown of each
    instance, given the true densities and shares, shape (n,).
    """
    head, _, share = stream.partition("-features/")
    d, n = int(head), length or INSTANCES
    rng = np.random.default_rng([seed, d, int(share)])
    means = np.zeros((KNOWN + 1, d))
    means[np.arange(KNOWN), np.arange(KNOWN)] = FAR / np.sqrt(2.0)
    means[KNOWN] = means[0]
    means[KNOWN, -1] += distance(int(share) / 100)
    y_train = np.repeat(np.arange(KNOWN), TRAINING)
    begins = n // 3
    y = np.concatenate([rng.integers(KNOWN, size=begins), rng.integers(KNOWN + 1, size=n - begins)])
    X_train, X = (means[labels] + rng.normal(size=(len(labels), d)) for labels in (y_train, y))
    log_density = -0.5 * ((X[:, None] - means) ** 2).sum(axis=2)
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    density[:begins, KNOWN] = 0.0
    return Problem(X_train, y_train, X, y, {}), begins, density[:, KNOWN] / density.sum(axis=1)


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run a stream with a new class beside a known one."""
    given, begins, bayes = make(stream, seed, length)
    model, _ = train(given, seed)
    heard = follow(model, given.X, given.y)
    new = given.y == KNOWN
    late = slice(begins + SETTLED, None)
    there = bool(new[late].any())
    return {
        **scores(given.y.tolist(), heard.label, heard.p_unknown, range(KNOWN)),
        "ece_late": expected_calibration_error(heard.p_unknown[late], new[late]) if there else None,
        "ece_bayes": expected_calibration_error(bayes, new),
        "ece_late_bayes": expected_calibration_error(bayes[late], new[late]) if there else None,
        "p_unknown_late": float(heard.p_unknown[late].mean()) if there else None,
        "share_late": float(new[late].mean()) if there else None,
        "number": model.new_classes().number,
        "seconds": heard.seconds,
    }
