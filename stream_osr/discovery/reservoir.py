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
        Their keys, shape (m,).
    priority
        Their priorities, ascending, shape (m,).
    """

    seq: np.ndarray
    rows: np.ndarray
    keys: np.ndarray
    priority: np.ndarray


def priority(seq: np.ndarray) -> np.ndarray:
    """Mix positions, shape (m,), into numbers that look random (the finaliser of splitmix64)."""
    z = (seq.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def objects(values: Sequence[Any]) -> np.ndarray:
    """Put values into a column as they are: a tuple is no row."""
    return np.fromiter(values, object, len(values))


def keep(seq: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> Reservoir:
    """Keep a sample of rows of shape (n, d) at distinct positions of shape (n,)."""
    mixed = priority(seq)
    chosen = np.argsort(mixed, kind="stable")[: max(LEAST_ROOM, rows.shape[1])]
    return Reservoir(seq[chosen], rows[chosen], keys[chosen], mixed[chosen])


def among(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Say of each position, shape (n,), whether it is among a few others: `np.isin`, without what makes that slow."""
    return np.asarray((some[:, None] == others).any(axis=1))


def wanted(kept: Reservoir, mixed: np.ndarray) -> np.ndarray:
    """Say which of some more positions, of these priorities, would be kept, if they are not yet."""
    if len(kept.seq) < max(LEAST_ROOM, kept.rows.shape[1]):
        return np.ones(len(mixed), bool)
    return np.asarray(mixed < kept.priority[-1])


def offer(kept: Reservoir, seq: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> Reservoir:
    """Let more rows in; those that are there already count once."""
    fresh = wanted(kept, priority(seq)) & ~among(seq, kept.seq)
    if not fresh.any():
        return kept
    more = (seq[fresh], rows[fresh], keys[fresh])
    return keep(*(np.concatenate(both) for both in zip(kept[:3], more, strict=True)))


def only(kept: Reservoir, inside: np.ndarray) -> Reservoir:
    """Keep the rows marked in a mask of shape (m,)."""
    return kept if inside.all() else Reservoir(*(column[inside] for column in kept))


def without(kept: Reservoir, seq: np.ndarray) -> Reservoir:
    """Let rows go whose instances are no longer in the subclass."""
    return only(kept, ~among(kept.seq, seq)) if len(seq) else kept


def exchange(
    samples: Sequence[Reservoir], gone: tuple[np.ndarray, np.ndarray], came: tuple[np.ndarray, ...]
) -> list[Reservoir]:
    """Let rows out of several samples, and more in (:func:`without`, then :func:`offer`), all at once.

    Parameters
    ----------
    samples
        The samples, at least one.
    gone
        From which sample each goes, and its position, shape (g,).
    came
        Number of the sample that each may come into, and its position, shape (n,), row, shape (n, d), and key, shape
        (n,).
    """
    room, mixed = max(LEAST_ROOM, came[2].shape[1]), priority(came[1])
    last = np.array([kept.priority[-1] if len(kept.seq) >= room else _ANY for kept in samples], np.uint64)
    low, touched = np.flatnonzero(mixed <= last[came[0]]), set[int]()
    for number, one in zip(came[0][low].tolist(), mixed[low], strict=True):
        if number not in touched and one not in samples[number].priority:
            touched.add(number)
    for number, seq in zip(gone[0].tolist(), gone[1], strict=True):
        if number not in touched and seq in samples[number].seq:
            touched.add(number)
    if not touched:
        return list(samples)
    some = sorted(touched)
    place = np.full(len(samples), -1)
    place[some] = np.arange(len(some))
    at, of = place[came[0]], place[gone[0]]
    left = of[of >= 0], gone[1][of >= 0]
    came = at[at >= 0], *(column[at >= 0] for column in came[1:])
    out = list(samples)
    for number, kept in zip(some, _exchange([samples[one] for one in some], left, came, room), strict=True):
        out[number] = kept
    return out


_ANY = np.uint64(0xFFFFFFFFFFFFFFFF)


def _exchange(
    samples: Sequence[Reservoir], gone: tuple[np.ndarray, np.ndarray], came: tuple[np.ndarray, ...], room: int
) -> list[Reservoir]:
    """Do what :func:`exchange` does, with samples that change, all of them."""
    first = sum(len(kept.seq) for kept in samples)
    owner = np.concatenate([np.repeat(np.arange(len(samples)), [len(kept.seq) for kept in samples]), came[0]])
    mixed = np.concatenate([*(kept.priority for kept in samples), priority(came[1])])
    seq, rows, keys = map(np.concatenate, zip(*(kept[:3] for kept in samples), came[1:], strict=True))
    stays = np.ones(len(seq), bool)
    stays[:first] = ~((seq[:first, None] == gone[1]) & (owner[:first, None] == gone[0])).any(axis=1)
    order = np.lexsort((mixed, owner))
    order = order[stays[order]]
    same = (np.diff(mixed[order]) == 0) & (np.diff(owner[order]) == 0)
    order = order[np.append(True, ~same)] if len(order) else order
    whose = owner[order]
    inside = np.arange(len(order)) - np.searchsorted(whose, whose) < room
    order, whose = order[inside], whose[inside]
    changed = {*owner[~stays].tolist(), *whose[order >= first].tolist()}
    begin, out = np.searchsorted(whose, np.arange(len(samples) + 1)), list(samples)
    for number in changed:
        at = order[begin[number] : begin[number + 1]]
        out[number] = Reservoir(seq[at], rows[at], keys[at], mixed[at])
    return out
