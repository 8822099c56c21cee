"""A uniform sample of the rows of a subclass, with their keys: what is left of its past beside its statistics.

Each position of the stream has a fixed pseudo-random priority, and those with the lowest are kept. So the sample does
not depend on the order in which rows come, and that of two subclasses together is the lowest of both samples. (When
instances move to another subclass their rows go, and later ones take the room.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

LEAST_ROOM = 16
"""Rows that are kept of each subclass, or as many as there are dimensions if those are more."""


class Reservoir(NamedTuple):
    """Rows kept of a subclass.

    Attributes
    ----------
    seq
        Positions in the stream, shape (m,), by priority.
    rows
        Whitened rows, shape (m, d).
    keys
        Their keys.
    """

    seq: np.ndarray
    rows: np.ndarray
    keys: tuple[Any, ...]


def priority(seq: np.ndarray) -> np.ndarray:
    """Mix positions, shape (m,), into numbers that look random (the finaliser of splitmix64)."""
    z = (seq.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def keep(seq: np.ndarray, rows: np.ndarray, keys: Sequence[Any]) -> Reservoir:
    """Keep a sample of rows of shape (n, d) at distinct positions of shape (n,)."""
    room = max(LEAST_ROOM, rows.shape[1])
    chosen = np.argsort(priority(seq), kind="stable")[:room].tolist()
    return Reservoir(seq[chosen], rows[chosen], tuple(keys[at] for at in chosen))


def offer(kept: Reservoir, seq: np.ndarray, rows: np.ndarray, keys: Sequence[Any]) -> Reservoir:
    """Let more rows in; those that are there already count once."""
    if len(kept.seq) >= max(LEAST_ROOM, rows.shape[1]):
        low = np.flatnonzero(priority(seq) < priority(kept.seq[-1:])).tolist()
        if not low:
            return kept
        seq, rows, keys = seq[low], rows[low], [keys[at] for at in low]
    fresh = np.flatnonzero(~np.isin(seq, kept.seq)).tolist()
    return keep(
        np.concatenate([kept.seq, seq[fresh]]),
        np.concatenate([kept.rows, rows[fresh]]),
        (*kept.keys, *(keys[at] for at in fresh)),
    )


def only(kept: Reservoir, inside: np.ndarray) -> Reservoir:
    """Keep the rows marked in a mask of shape (m,)."""
    if inside.all():
        return kept
    keys = tuple(key for key, stays in zip(kept.keys, inside.tolist(), strict=True) if stays)
    return Reservoir(kept.seq[inside], kept.rows[inside], keys)


def without(kept: Reservoir, seq: np.ndarray) -> Reservoir:
    """Let rows go whose instances are no longer in the subclass."""
    return only(kept, ~np.isin(kept.seq, seq))
