"""The latest decided instances, remembered for late labels, as one value of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import Annotated, Any, NamedTuple

import numpy as np

from stream_osr.discovery.membership import MemberColumns, moments_of
from stream_osr.discovery.reservoir import objects
from stream_osr.model import sampler
from stream_osr.support import rules

_CLAIMING = Lock()


class ColumnBuffer:
    """Shared columns for successive values, each of which sees its own range. Written entries never change.

    A value whose range ends at the last written entry may append once. Any other value copies its range to a new
    buffer before it appends.

    Parameters
    ----------
    capacity, width
        Number of instances, and length of a row.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self.rows = np.empty((capacity, width))
        self.times = np.empty(capacity, object)
        self.p_unknown = np.empty(capacity)
        self.keys = np.empty(capacity, object)
        self.taken = 0

    def claim(self, start: int, count: int) -> bool:
        """Claim the next ``count`` entries, if they begin at ``start`` and fit."""
        with _CLAIMING:
            free = start == self.taken and start + count <= len(self.rows)
            self.taken += count if free else 0
            return free

    def write(
        self,
        at: int,
        rows: np.ndarray,
        times: Sequence[float | None] | np.ndarray,
        p_unknown: np.ndarray,
        keys: np.ndarray,
    ) -> None:
        """Fill claimed entries."""
        till = at + len(rows)
        self.rows[at:till], self.times[at:till], self.p_unknown[at:till] = rows, times, p_unknown
        self.keys[at:till] = keys


class DecidedBatch(NamedTuple):
    """A decided batch.

    It has rows of shape (b, d), keys, times, first position in the stream, subclass ids in each of R chains, (R, b),
    and the initial p_unknown, (b,).
    """

    rows: Annotated[np.ndarray, rules.array("f", "N", "w", low=-1e12, high=1e12)]
    keys: Annotated[Sequence[Any], rules.length("N"), rules.some]
    times: Annotated[Sequence[rules.AnyNumber | None], rules.length("N")]
    seq: rules.Count
    subclass: Annotated[np.ndarray, rules.array("i", "R", "N", low=-1)]
    p_unknown: Annotated[np.ndarray, rules.array("f", "N", low=0.0, high=1.0)]


class RecentInstances(NamedTuple):
    """Instances of consecutive whole batches, n in all.

    Attributes
    ----------
    seq
        Position of the first in the stream.
    batches
        Positions of the first of each batch.
    keys
        Keys, ``None`` once a label has come, shape (n,). They are a view of the buffer until a label comes.
    subclass
        Subclass of each (-1 if none) in each of R chains, shape (R, n).
    room, start
        Buffer with rows, times, p_unknown and keys, and the first entry there.
    """

    seq: int
    batches: np.ndarray
    keys: np.ndarray
    subclass: np.ndarray
    room: ColumnBuffer
    start: int

    def __repr__(self) -> str:
        return f"RecentInstances{as_batches(self)}"

    def __reduce__(self) -> tuple[Any, ...]:
        # a room holds what others see
        return from_batches, (as_batches(self), self.subclass.shape[0], self.rows.shape[1])

    @property
    def rows(self) -> np.ndarray:
        """Whitened rows, shape (n, d)."""
        return self.room.rows[self.start : self.start + len(self.keys)]

    @property
    def times(self) -> np.ndarray:
        """Times or None, shape (n,)."""
        return self.room.times[self.start : self.start + len(self.keys)]

    @property
    def p_unknown(self) -> np.ndarray:
        """Initial probability of unknown of each, shape (n,)."""
        return self.room.p_unknown[self.start : self.start + len(self.keys)]


def as_batches(recent: RecentInstances) -> tuple[DecidedBatch, ...]:
    """Cut the remembered instances into batches, the form in archives."""
    ends = [*recent.batches.tolist(), recent.seq + len(recent.keys)]
    cut = [(first, slice(first - recent.seq, last - recent.seq)) for first, last in pairwise(ends)]
    return tuple(
        DecidedBatch(
            recent.rows[at].copy(),
            tuple(recent.keys[at].tolist()),
            tuple(recent.times[at].tolist()),
            first,
            recent.subclass[:, at].copy(),
            recent.p_unknown[at].copy(),
        )
        for first, at in cut
    )


def from_batches(batches: Sequence[DecidedBatch], n_chains: int, width: int) -> RecentInstances:
    """Restore instances from batches of :func:`as_batches`, with rows of this width."""
    first = np.array([batch.seq for batch in batches], np.int64)
    keys = objects([key for batch in batches for key in batch.keys])
    subclass = np.concatenate([np.zeros((n_chains, 0), np.int64), *(batch.subclass for batch in batches)], axis=1)
    seq, room = int(first[0]) if batches else 0, ColumnBuffer(len(keys), width)
    room.claim(0, len(keys))
    for batch in batches:
        room.write(batch.seq - seq, batch.rows, batch.times, batch.p_unknown, objects(batch.keys))
    return RecentInstances(seq, first, keys, subclass, room, 0)


def remember(
    recent: RecentInstances, batch: DecidedBatch, horizon: int, results: Sequence[sampler.BatchResult] = ()
) -> RecentInstances:
    """Append a batch, record the moves of earlier instances, and drop batches beyond the horizon."""
    n, count = len(recent.keys), len(batch.keys)
    room, at, as_given = recent.room, recent.start + n, recent.keys.base is recent.room.keys
    new = objects(batch.keys)
    if not room.claim(at, count):
        room, at, as_given = ColumnBuffer(n + count + (n + count) // 4, recent.rows.shape[1]), n, True
        room.claim(0, n + count)
        room.write(0, recent.rows, recent.times, recent.p_unknown, recent.keys)
    room.write(at, batch.rows, batch.times, batch.p_unknown, new)
    keys = room.keys[at - n : at + count] if as_given else np.concatenate([recent.keys, new])
    batches, end = np.append(recent.batches, batch.seq), batch.seq + count
    subclass = np.concatenate([recent.subclass, batch.subclass], axis=1)
    for number, result in enumerate(results):
        moved = places(recent, result.moved)
        subclass[number, moved[moved >= 0]] = result.moved_to[moved >= 0]
    longer = RecentInstances(int(batches[0]), batches, keys, subclass, room, at - n)
    ends = np.append(batches[1:], end)
    return since(longer, int(np.append(batches, end)[(end - ends >= horizon).sum()]))


def since(recent: RecentInstances, seq: int) -> RecentInstances:
    """Return the batches from that of position ``seq`` on."""
    kept = recent.batches[max(int(np.searchsorted(recent.batches, seq, "right")) - 1, 0) :]
    end = recent.seq + len(recent.keys)
    first = int(kept[0]) if len(kept) and seq < end else end
    at, batches = first - recent.seq, kept if seq < end else kept[:0]
    return RecentInstances(first, batches, recent.keys[at:], recent.subclass[:, at:], recent.room, recent.start + at)


def places(recent: RecentInstances, seqs: np.ndarray) -> np.ndarray:
    """Index of each stream position, -1 if it is forgotten, shape (n,)."""
    at = seqs - recent.seq
    return np.where((at >= 0) & (at < len(recent.keys)), at, -1)


def began(recent: RecentInstances, at: np.ndarray) -> np.ndarray:
    """Stream position of the first instance in the batch of each index, shape (n,)."""
    return np.asarray(recent.batches[np.searchsorted(recent.batches, recent.seq + at, "right") - 1])


def members(recent: RecentInstances, at: np.ndarray) -> tuple[MemberColumns, np.ndarray]:
    """Return the data of these instances for the histories, and their times and keys, shape (n, 2)."""
    columns = MemberColumns(recent.seq + at, recent.p_unknown[at], began(recent, at))
    return columns, moments_of(recent.times[at], recent.keys[at])


def arrivals(batch: DecidedBatch) -> tuple[MemberColumns, np.ndarray]:
    """Return the same data for the instances of a batch."""
    seq, p_unknown = batch.seq + np.arange(len(batch.keys)), np.ascontiguousarray(batch.p_unknown)
    return MemberColumns(seq, p_unknown, np.full(len(seq), batch.seq)), moments_of(batch.times, objects(batch.keys))


def relabel(recent: RecentInstances, number: int, names: Mapping[int, int]) -> RecentInstances:
    """Replace the identities of some subclasses of chain ``number``."""
    if not names:
        return recent
    before, recent = recent.subclass[number], unshared(recent)
    for was, now in names.items():
        recent.subclass[number, before == was] = now
    return recent


def reseat(recent: RecentInstances, number: int, seqs: np.ndarray, key: int) -> RecentInstances:
    """Set the subclass of the instances at these positions to ``key`` in chain ``number``."""
    at, recent = places(recent, seqs), unshared(recent)
    recent.subclass[number, at[at >= 0]] = key
    return recent


def remembered(recent: RecentInstances, number: int, key: int) -> np.ndarray:
    """Find the remembered instances of a subclass of chain ``number``: their indices, shape (n,)."""
    return np.flatnonzero(recent.subclass[number] == key)


def sampled(recent: RecentInstances, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, rows and keys of the instances at these indices."""
    return recent.seq + at, recent.rows[at], recent.keys[at]


def recall(recent: RecentInstances, key: Any) -> int:
    """Find the index of the latest instance with a key, or -1 if it is forgotten."""
    same = np.flatnonzero(recent.keys == objects([key]))
    return int(same[-1]) if len(same) and key is not None else -1


def unshared(recent: RecentInstances) -> RecentInstances:
    """Copy the mutable parts, keys and subclasses, so that they can be changed."""
    return recent._replace(keys=recent.keys.copy(), subclass=recent.subclass.copy())
