"""Members of emerging subclasses in columns, and what lives note of those that come and go; compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.life import RECENT, TREND_HALF_LIFE, USUAL_HALF_LIFE, faded
from stream_osr.discovery.lives import FIRST, LAST, NEVER, Lifecycle, places_of
from stream_osr.model.jit import borrowing_kernel, kernel

NO_MOMENT = np.full((1, 2), None)


class Members(NamedTuple):
    """Instances of emerging subclasses, n of them.

    Attributes
    ----------
    seq, p_unknown, batch
        Positions, p_unknown at once, and positions of the first of their batches, shape (n,).
    """

    seq: np.ndarray
    p_unknown: np.ndarray
    batch: np.ndarray


class Coming(NamedTuple):
    """Instances that have taken a seat, n of them: the first m were re-seated, the others have arrived.

    Attributes
    ----------
    was
        Subclass that each of the first sat in, -1: a known one, shape (m,).
    key
        Subclass that each sits in, -1: a known one, shape (n,).
    member
        What lives note of them, by position.
    moments
        Their times and keys, shape (n, 2).
    """

    was: np.ndarray
    key: np.ndarray
    member: Members
    moments: np.ndarray


def moments_of(times: Sequence[float | None] | np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Put times and keys side by side, shape (n, 2)."""
    out = np.empty((len(keys), 2), object)
    out[:, 0], out[:, 1] = times, keys
    return out


def take_in(life: Lifecycle, coming: Coming, menu: np.ndarray) -> Lifecycle:
    """Note who has left and who has come, in a copy.

    Parameters
    ----------
    life
        The lives so far.
    coming
        Who has come.
    menu
        Identities of the subclasses on the menu: instances of others are passed over. Who has no life begins one.
    """
    ids, lives, touched, source = _take_in(life.ids, life.lives, menu, *coming[:3])
    more = np.full(len(ids) - len(life.ids), None)
    moments = np.empty((len(ids), *life.moments.shape[1:]), object)
    moments[: len(life.ids)] = life.moments
    pool = np.concatenate([moments[touched].reshape(-1, 2), coming.moments, NO_MOMENT])
    moments[touched] = pool[source]
    return Lifecycle(ids, lives, moments, np.concatenate([life.kept, more]), life.delta)


@kernel
def _take_in(
    ids: np.ndarray, lives: np.ndarray, menu: np.ndarray, was: np.ndarray, key: np.ndarray, member: Members
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Do what :func:`take_in` does to the numbers.

    Returns
    -------
    Identities, numbers, slots of the t lives that have changed, and where their moments come from, shape (t, p): one
    of theirs as they were, one after the other; then of those who have come; -1: there is none.
    """
    slot, ids, lives = _begin(ids, lives, places_of(menu, key), places_of(ids, key), key)
    left, places, n, moved = places_of(ids, was), 2 + RECENT, len(key), len(was)
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
            came[row[slot[i]], 0] += faded(age, TREND_HALF_LIFE)
            came[row[slot[i]], 1] += faded(age, USUAL_HALF_LIFE)
    for t in range(count):
        life = lives[touched[t]]
        gone = life.last - before[touched[t]]
        life.arrivals = life.arrivals * faded(gone, TREND_HALF_LIFE) + came[t, 0]
        life.usual = life.usual * faded(gone, USUAL_HALF_LIFE) + came[t, 1]
    return ids, lives, touched[:count], source


@kernel
def _begin(
    ids: np.ndarray, lives: np.ndarray, there: np.ndarray, slot: np.ndarray, key: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Begin the lives of subclasses on the menu that have none, in copies; with the slot of each instance, or -1."""
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
        out[k].first, out[k].last = -NEVER, NEVER
        out[k].seq[:] = NEVER
    return slot, named[:count].copy(), out


@borrowing_kernel
def _leave(lives: np.ndarray, k: int, seq: int, source: np.ndarray) -> None:
    """Take a member out of the latest, if it is among them."""
    life, r = lives[k], RECENT - 1
    while r >= 0:
        if life.seq[r] != seq:
            r -= 1
            continue
        for to in range(r, 0, -1):
            _move(lives, k, to - 1, to, source)
        life.seq[0], life.p_unknown[0], life.batch[0], source[2] = NEVER, 0.0, 0, -1


@borrowing_kernel
def _come(lives: np.ndarray, k: int, member: Members, i: int, source: np.ndarray, moment: int) -> None:
    """Note member ``i``, which has come; where its moment is."""
    life, seq, r = lives[k], member.seq[i], RECENT - 1
    if seq < life.first:
        life.first, source[FIRST] = seq, moment
    if seq > life.last:
        life.last, source[LAST] = seq, moment
    while r >= 0 and life.seq[r] > seq:
        r -= 1
    for to in range(r):
        _move(lives, k, to + 1, to, source)
    if r >= 0:
        life.seq[r], life.p_unknown[r], life.batch[r] = seq, member.p_unknown[i], member.batch[i]
        source[2 + r] = moment


@borrowing_kernel
def _move(lives: np.ndarray, k: int, at: int, to: int, source: np.ndarray) -> None:
    """Put one of the latest members into another place."""
    life = lives[k]
    life.seq[to], life.p_unknown[to], life.batch[to] = life.seq[at], life.p_unknown[at], life.batch[at]
    source[2 + to] = source[2 + at]
