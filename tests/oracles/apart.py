"""Known classes told from one that is left out: one class, fold and number of coordinates at a time."""

from __future__ import annotations

import numpy as np

from stream_osr.evaluation import auroc
from stream_osr.model.subspace import RIDGE


def areas(rows: np.ndarray, group: np.ndarray, part: np.ndarray, ranks: list[int]) -> np.ndarray:
    """Area under the ROC curve for each number of coordinates and class, mean over the parts, shape (R, J)."""
    out = np.zeros((len(ranks), int(group.max()) + 1))
    for a, rank in enumerate(ranks):
        for j in range(out.shape[1]):
            for fold in range(int(part.max()) + 1):
                out[a, j] += one(rows[:, :rank], group, part == fold, j) / (part.max() + 1)
    return out


def one(rows: np.ndarray, group: np.ndarray, held: np.ndarray, j: int) -> float:
    """Area for class j and the instances that are held back."""
    known = [(group == k) & ~held for k in np.unique(group) if k != j]
    train = np.any(known, axis=0)
    means = [rows[own].mean(axis=0) for own in known]
    freedom = train.sum() - len(known)
    within = sum(np.cov(rows[own], rowvar=False, ddof=0) * own.sum() for own in known) / freedom
    within = np.atleast_2d(within)
    shrink = max(0.0, 1.0 - freedom / (2.0 * rows.shape[1]))
    precision = np.linalg.inv((1.0 - shrink) * within + (shrink + RIDGE) * np.diag(rows[train].var(axis=0)))
    asked = np.flatnonzero((group == j) | held)
    novelty = [min((rows[i] - m) @ precision @ (rows[i] - m) for m in means) for i in asked]
    return auroc(np.array(novelty), group[asked] == j)
