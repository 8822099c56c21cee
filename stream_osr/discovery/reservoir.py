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
    priority
        Their priorities, ascending, shape (m,).
    """

    seq: np.ndarray
    rows: np.ndarray
    keys: tuple[Any, ...]
    priority: np.ndarray


def priority(seq: np.ndarray) -> np.ndarray:
    """Mix positions, shape (m,), into numbers that look random (the finaliser of splitmix64)."""
    z = (seq.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def keep(seq: np.ndarray, rows: np.ndarray, keys: Sequence[Any]) -> Reservoir:
    """Keep a sample of rows of shape (n, d) at distinct positions of shape (n,)."""
    mixed = priority(seq)
    chosen = np.argsort(mixed, kind="stable")[: max(LEAST_ROOM, rows.shape[1])].tolist()
    return Reservoir(seq[chosen], rows[chosen], tuple(keys[at] for at in chosen), mixed[chosen])


def among(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Say of each position, shape (n,), whether it is among a few others: `np.isin`, without what makes that slow."""
    return np.asarray((some[:, None] == others).any(axis=1))


def wanted(kept: Reservoir, mixed: np.ndarray) -> np.ndarray:
    """Say which of some more positions, of these priorities, would be kept, if they are not yet."""
    if len(kept.seq) < max(LEAST_ROOM, kept.rows.shape[1]):
        return np.ones(len(mixed), bool)
    return np.asarray(mixed < kept.priority[-1])


def offer(kept: Reservoir, seq: np.ndarray, rows: np.ndarray, keys: Sequence[Any]) -> Reservoir:
    """Let more rows in; those that are there already count once."""
    fresh = np.flatnonzero(wanted(kept, priority(seq)) & ~among(seq, kept.seq)).tolist()
    if not fresh:
        return kept
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
    return Reservoir(kept.seq[inside], kept.rows[inside], keys, kept.priority[inside])


def without(kept: Reservoir, seq: np.ndarray) -> Reservoir:
    """Let rows go whose instances are no longer in the subclass."""
    return only(kept, ~among(kept.seq, seq)) if len(seq) else kept
