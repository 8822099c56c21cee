"""Slow twin of :mod:`stream_osr.discovery.new_classes`: pair by pair, merge by merge, instance by instance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np


def bhattacharyya(a: np.ndarray, A: np.ndarray, b: np.ndarray, B: np.ndarray) -> float:
    """Distance of two Gaussians of means a, b and covariances A, B, as it is written."""
    S = (A + B) / 2
    step = a - b
    volume = np.linalg.det(S) / np.sqrt(np.linalg.det(A) * np.linalg.det(B))
    return float(step @ np.linalg.inv(S) @ step / 8 + np.log(volume) / 2)


def merges(between: np.ndarray) -> list[tuple[float, list[set[int]]]]:
    """All partitions of average linkage, finest first, each with the height at which it comes about."""
    groups = [{k} for k in range(len(between))]
    out = [(0.0, [set(g) for g in groups])]
    while len(groups) > 1:
        height, a, b = min(
            (float(np.mean([between[i, j] for i in g for j in h])), x, y)
            for (x, g), (y, h) in combinations(enumerate(groups), 2)
        )
        groups = [g for n, g in enumerate(groups) if n not in (a, b)] + [groups[a] | groups[b]]
        out.append((height, [set(g) for g in groups]))
    return out


def cut(between: np.ndarray, threshold: float) -> list[set[int]]:
    """Groups of the tree cut at a distance."""
    return [groups for height, groups in merges(between) if height <= threshold][-1]


def threshold(between: np.ndarray, size: Sequence[int], owner: Sequence[int], nearly: float) -> float:
    """Lowest height at which the groups tell the classes nearly as well as they ever do."""
    from sklearn.metrics import normalized_mutual_info_score

    truth = np.repeat(owner, size)
    found = []
    for height, groups in merges(between):
        name = np.zeros(len(size), int)
        for number, members in enumerate(groups):
            name[list(members)] = number
        found.append((height, normalized_mutual_info_score(truth, np.repeat(name, size))))
    best = max(score for _, score in found)
    return next(height for height, score in found if score >= best - nearly)
