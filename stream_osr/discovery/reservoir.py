"""Uniform sample of the rows of a subclass, with their keys.

Each position of the stream has a fixed pseudo-random priority, and the lowest ones are kept. The sample does
therefore not depend on the order of arrival. The sample of two merged subclasses consists of the lowest priorities in
both. When instances move to another subclass, their rows are removed, and later rows replace them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.support import rules

LEAST_ROOM = 16
"""Number of rows that are kept for each subclass. It is the number of dimensions if that is larger."""

LOWEST = np.iinfo(np.uint64).max
"""The lowest priority."""


class Reservoir(NamedTuple):
    """Sampled rows of a subclass.

    Attributes
    ----------
    seq
        Positions in the stream, shape (m,), by priority.
    rows
        Whitened rows, shape (m, d).
    keys
        Keys of the rows, shape (m,).
    priority
        Priorities of the rows, ascending, shape (m,).
    """

    seq: Annotated[Array, rules.array("i", "m", low=0), rules.distinct]
    rows: Annotated[Array, rules.array("f", "m", "d", low=-1e12, high=1e12)]
    keys: Array
    priority: Annotated[Array, rules.array("u", "m"), rules.ascending]


@kernel
def priority(seq: Array) -> Array:
    """Mix positions, shape (m,), into pseudo-random numbers (the finaliser of splitmix64)."""
    out = np.empty(len(seq), np.uint64)
    for i in range(len(seq)):
        z = (np.uint64(seq[i]) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = z ^ (z >> np.uint64(31))
    return out


def objects(values: Sequence[Any]) -> Array:
    """Put values into an array of objects, without converting tuples to rows."""
    return np.fromiter(values, object, len(values))


def keep(seq: Array, rows: Array, keys: Array) -> Reservoir:
    """Sample rows of shape (n, d) at distinct positions of shape (n,)."""
    mixed = priority(seq)
    chosen = np.argsort(mixed, kind="stable")[: max(LEAST_ROOM, rows.shape[1])]
    return Reservoir(seq[chosen], rows[chosen], keys[chosen], mixed[chosen])


def offer(kept: Reservoir, seq: Array, rows: Array, keys: Array) -> Reservoir:
    """Add rows to a sample. Rows that are already there count once."""
    fresh = ~np.isin(seq, kept.seq)
    more = (seq[fresh], rows[fresh], keys[fresh])
    out = keep(*(np.concatenate(both) for both in zip(kept[:3], more, strict=True)))
    return kept if np.array_equal(out.seq, kept.seq) else out


def without(kept: Reservoir, seq: Array) -> Reservoir:
    """Remove rows whose instances have left the subclass."""
    inside = ~np.isin(kept.seq, seq)
    return kept if inside.all() else Reservoir(*(column[inside] for column in kept))


def exchange(samples: Sequence[Reservoir], gone: tuple[Array, Array], came: tuple[Array, ...]) -> list[Reservoir]:
    """Remove rows from several samples and add others (:func:`without`, then :func:`offer`), all at once.

    Parameters
    ----------
    samples
        The samples, at least one.
    gone
        Number of the sample and position of each row to remove, shape (g,).
    came
        Sample number and position of each row to add, shape (n,), the rows, shape (n, d), and the keys, shape (n,).
    """
    out, room = list(samples), max(LEAST_ROOM, came[2].shape[1])
    last = np.array([kept.priority[-1] if len(kept.seq) == room else LOWEST for kept in samples], np.uint64)
    may_change = np.zeros(len(samples), bool)  # few do: a row rarely enters the sample of a large subclass
    may_change[gone[0]] = True
    may_change[came[0][priority(came[1]) <= last[came[0]]]] = True
    slots, place = np.flatnonzero(may_change).tolist(), np.cumsum(may_change) - 1
    if not slots:
        return out
    own, some = [samples[slot] for slot in slots], may_change[came[0]]
    number, *new = (column[some] for column in came)
    begin = np.cumsum([0, *(len(kept.seq) for kept in own)])
    seq = np.concatenate([*(kept.seq for kept in own), new[0]])
    order, ends, changed = _choose(begin, seq, place[number], place[gone[0]], gone[1], room)
    if not changed.any():
        return out
    rows, keys = (np.concatenate([*(kept[at] for kept in own), new[at]]) for at in (1, 2))
    for at in np.flatnonzero(changed).tolist():
        chosen = order[ends[at] : ends[at + 1]]
        out[slots[at]] = Reservoir(seq[chosen], rows[chosen], keys[chosen], priority(seq[chosen]))
    return out


@kernel
def _choose(
    begin: Array, seq: Array, number: Array, left: Array, gone: Array, room: int
) -> tuple[Array, Array, Array]:
    """Choose the rows in each of S samples.

    Parameters
    ----------
    begin
        Limits of the samples, shape (S + 1,). Sample k has the places ``begin[k]`` to ``begin[k + 1] - 1``. New rows
        follow.
    seq
        Positions of all rows.
    number, left, gone
        Sample of each new row, sample of each removed row, and its position.
    room
        Capacity of a sample.

    Returns
    -------
    Places by sample and priority, limits of each sample, shape (S + 1,), and the mask of changed samples.
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
    """Insert a place by priority, unless it is there or the sample is full. Return the new size."""
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
