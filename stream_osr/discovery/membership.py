"""Members that join and leave emerging subclasses: compiled updates of the columns of their histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.discovery import histories
from stream_osr.model.jit import Array, borrowing_kernel, kernel

NO_MOMENT = np.full((1, 2), None)


class MemberColumns(NamedTuple):
    """Columns of n instances of emerging subclasses.

    Attributes
    ----------
    seq, p_unknown, batch
        Positions, first p_unknown, and first positions of their batches, shape (n,).
    """

    seq: Array
    p_unknown: Array
    batch: Array


class NewSeats(NamedTuple):
    """Columns of n instances with a new seat. The first m were re-seated, the others have arrived.

    Attributes
    ----------
    was
        Former subclass of each re-seated instance, shape (m,). -1: a known one.
    key
        Present subclass of each instance, shape (n,). -1: a known one.
    member
        Columns that histories record, by position.
    moments
        Times and keys, shape (n, 2).
    """

    was: Array
    key: Array
    member: MemberColumns
    moments: Array


def moments_of(times: Sequence[float | None] | Array, keys: Array) -> Array:
    """Put times and keys side by side, shape (n, 2)."""
    out = np.empty((len(keys), 2), object)
    out[:, 0], out[:, 1] = times, keys
    return out


def record_members(life: histories.Lifecycle, coming: NewSeats, menu: Array) -> histories.Lifecycle:
    """Record the members that left and arrived, in a copy.

    Parameters
    ----------
    life
        Histories so far.
    coming
        Instances with a new seat.
    menu
        Ids of the subclasses on the menu. Instances of others are ignored. A subclass without a history begins one.
    """
    ids, lives, touched, source = _record_members(life.ids, life.lives, menu, *coming[:3])
    more = len(ids) - len(life.ids)
    moments, kept = (
        np.concatenate([column, np.full((more, *column.shape[1:]), None)]) for column in (life.moments, life.kept)
    )
    if len(touched):
        pool = np.concatenate([moments[touched].reshape(-1, 2), coming.moments, NO_MOMENT])
        moments[touched] = pool.take(source, 0)
    return histories.Lifecycle(ids, lives, moments, kept, life.delta)


@kernel
def _record_members(
    ids: Array, lives: Array, menu: Array, was: Array, key: Array, member: MemberColumns
) -> tuple[Array, Array, Array, Array]:
    """Compute :func:`record_members` on the numbers.

    Returns
    -------
    Ids, numbers, slots of the t changed histories, and the sources of their moments, shape (t, p). A source is a
    place among their previous moments, one history after the other, then among the new instances. -1: there is none.
    """
    slot, ids, lives = _begin(ids, lives, histories.places_of(menu, key), histories.places_of(ids, key), key)
    left, places, n, moved = histories.places_of(ids, was), 2 + histories.RECENT, len(key), len(was)
    row, touched = np.full(len(ids), -1), np.empty(len(ids), np.int64)
    count = 0
    for i in range(n + moved):
        k = slot[i] if i < n else left[i - n]
        if k >= 0 and row[k] < 0:
            row[k], touched[count] = count, k
            count += 1
    source = np.arange(count * places).reshape((count, places))
    for i in range(moved):
        if left[i] >= 0:
            _leave(lives, left[i], member.seq[i], source[row[left[i]]])
    before = lives["last"].copy()
    for i in range(n):
        if slot[i] >= 0:
            _come(lives, slot[i], member, i, source[row[slot[i]]], count * places + i)
    came = np.zeros((count, 2))
    for i in range(moved, n):
        if slot[i] >= 0:
            age = lives[slot[i]].last - member.seq[i]
            came[row[slot[i]], 0] += histories.faded(age, histories.TREND_HALF_LIFE)
            came[row[slot[i]], 1] += histories.faded(age, histories.USUAL_HALF_LIFE)
    for t in range(count):
        life = lives[touched[t]]
        gone = life.last - before[touched[t]]
        life.arrivals = life.arrivals * histories.faded(gone, histories.TREND_HALF_LIFE) + came[t, 0]
        life.usual = life.usual * histories.faded(gone, histories.USUAL_HALF_LIFE) + came[t, 1]
    return ids, lives, touched[:count], source


@kernel
def _begin(ids: Array, lives: Array, there: Array, slot: Array, key: Array) -> tuple[Array, Array, Array]:
    """Begin histories of subclasses on the menu that have none, in copies.

    Return the slot of each instance too, or -1.
    """
    old, count = len(ids), len(ids)
    named = np.empty(old + len(key), np.int64)
    named[:old] = ids
    for i in range(len(key)):
        if there[i] < 0:
            slot[i] = -1
        elif slot[i] < 0:
            k = old
            while k < count and named[k] != key[i]:
                k += 1
            named[k], slot[i] = key[i], k
            count = max(count, k + 1)
    out = np.zeros(count, lives.dtype)
    out[:old] = lives
    for k in range(old, count):
        out[k].first, out[k].last = -histories.NEVER, histories.NEVER
        out[k].seq[:] = histories.NEVER
    return slot, named[:count].copy(), out


@borrowing_kernel
def _leave(lives: Array, k: int, seq: int, source: Array) -> None:
    """Remove a member from the latest ones."""
    life, r = lives[k], histories.RECENT - 1
    while r >= 0:
        if life.seq[r] != seq:
            r -= 1
            continue
        for to in range(r, 0, -1):
            _move(lives, k, to - 1, to, source)
        life.seq[0], life.p_unknown[0], life.batch[0], source[2] = histories.NEVER, 0.0, 0, -1


@borrowing_kernel
def _come(lives: Array, k: int, member: MemberColumns, i: int, source: Array, moment: int) -> None:
    """Record member ``i``, which has arrived, and the place of the moment."""
    life, seq, r = lives[k], member.seq[i], histories.RECENT - 1
    if seq < life.first:
        life.first, source[histories.FIRST] = seq, moment
    if seq > life.last:
        life.last, source[histories.LAST] = seq, moment
    while r >= 0 and life.seq[r] > seq:
        r -= 1
    for to in range(r):
        _move(lives, k, to + 1, to, source)
    if r >= 0:
        life.seq[r], life.p_unknown[r], life.batch[r] = seq, member.p_unknown[i], member.batch[i]
        source[2 + r] = moment


@borrowing_kernel
def _move(lives: Array, k: int, at: int, to: int, source: Array) -> None:
    """Move one of the latest members to another place."""
    life = lives[k]
    life.seq[to], life.p_unknown[to], life.batch[to] = life.seq[at], life.p_unknown[at], life.batch[at]
    source[2 + to] = source[2 + at]
