"""A uniform sample of the rows of a subclass, with their keys: what is left of its past beside its statistics.

Each position of the stream has a fixed pseudo-random priority, and those with the lowest are kept. So the sample does
not depend on the order in which rows come, and that of two subclasses together is the lowest of both samples. (When
instances move to another subclass their rows go, and later ones take the room.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, borrowing_kernel, kernel

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

    seq: Array
    rows: Array
    keys: Array
    priority: Array


@kernel
def priority(seq: Array) -> Array:
    """Mix positions, shape (m,), into numbers that look random (the finaliser of splitmix64)."""
    out = np.empty(len(seq), np.uint64)
    for i in range(len(seq)):
        z = (np.uint64(seq[i]) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = z ^ (z >> np.uint64(31))
    return out


def objects(values: Sequence[Any]) -> Array:
    """Put values into a column as they are: a tuple is no row."""
    return np.fromiter(values, object, len(values))


def keep(seq: Array, rows: Array, keys: Array) -> Reservoir:
    """Keep a sample of rows of shape (n, d) at distinct positions of shape (n,)."""
    mixed = priority(seq)
    chosen = np.argsort(mixed, kind="stable")[: max(LEAST_ROOM, rows.shape[1])]
    return Reservoir(seq[chosen], rows[chosen], keys[chosen], mixed[chosen])


def offer(kept: Reservoir, seq: Array, rows: Array, keys: Array) -> Reservoir:
    """Let more rows in; those that are there already count once."""
    fresh = ~np.isin(seq, kept.seq)
    more = (seq[fresh], rows[fresh], keys[fresh])
    out = keep(*(np.concatenate(both) for both in zip(kept[:3], more, strict=True)))
    return kept if np.array_equal(out.seq, kept.seq) else out


def without(kept: Reservoir, seq: Array) -> Reservoir:
    """Let rows go whose instances are no longer in the subclass."""
    inside = ~np.isin(kept.seq, seq)
    return kept if inside.all() else Reservoir(*(column[inside] for column in kept))


def exchange(samples: Sequence[Reservoir], gone: tuple[Array, Array], came: tuple[Array, ...]) -> list[Reservoir]:
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
    begin, room = np.cumsum([0, *(len(kept.seq) for kept in samples)]), max(LEAST_ROOM, came[2].shape[1])
    seq, out = np.concatenate([*(kept.seq for kept in samples), came[1]]), list(samples)
    order, ends, changed = _choose(begin, seq, came[0], *gone, room)
    if not changed.any():
        return out
    rows, keys = (np.concatenate([*(kept[at] for kept in samples), came[at + 1]]) for at in (1, 2))
    for number in np.flatnonzero(changed).tolist():
        chosen = order[ends[number] : ends[number + 1]]
        out[number] = Reservoir(seq[chosen], rows[chosen], keys[chosen], priority(seq[chosen]))
    return out


@kernel
def _choose(
    begin: Array, seq: Array, number: Array, left: Array, gone: Array, room: int
) -> tuple[Array, Array, Array]:
    """Choose what is in each of S samples then.

    Parameters
    ----------
    begin
        Sample k is in the places ``begin[k]`` to ``begin[k + 1] - 1``, those who come are behind, shape (S + 1,).
    seq
        Positions of all.
    number, left, gone
        Sample of each who comes, and of each who goes, and the position of that.
    room
        How many a sample holds.

    Returns
    -------
    Places by sample and priority, where those of each sample begin and end, shape (S + 1,), and which samples change.
    """
    count, first, mixed = len(begin) - 1, begin[-1], priority(seq)
    order, ends, changed = np.empty(count * room, np.int64), np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
    stays = np.ones(len(seq), np.bool_)
    for g in range(len(gone)):
        for i in range(begin[left[g]], begin[left[g] + 1]):
            if seq[i] == gone[g]:
                stays[i], changed[left[g]] = False, True
    for k in range(count):
        own, size = order[ends[k] :], 0
        for i in range(begin[k], begin[k + 1]):
            if stays[i]:
                own[size] = i
                size += 1
        for i in range(len(number)):
            if number[i] == k:
                size = _insert(own, size, first + i, mixed, room)
        for at in range(size):
            changed[k] |= own[at] >= first
        ends[k + 1] = ends[k] + size
    return order, ends, changed


@borrowing_kernel
def _insert(own: Array, size: int, place: int, mixed: Array, room: int) -> int:
    """Put a place among others, by priority, unless it is there or there is no room; how many they are then."""
    at = size
    while at > 0 and mixed[own[at - 1]] > mixed[place]:
        at -= 1
    if at == room or (at > 0 and mixed[own[at - 1]] == mixed[place]):
        return size
    size = min(size + 1, room)
    for to in range(size - 1, at, -1):
        own[to] = own[to - 1]
    own[at] = place
    return size
