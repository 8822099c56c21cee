"""The latest decided instances, remembered for labels that come late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment
from stream_osr.discovery.lifecycle import Member
from stream_osr.model import step as sampler


class Past(NamedTuple):
    """A decided batch, kept for labels that come late.

    Rows of shape (b, d), keys, times, first position in the stream, subclass ids in each of R chains, (R, b), and
    p_unknown as it was at once, (b,).
    """

    rows: np.ndarray
    keys: tuple[Any, ...]
    times: tuple[float | None, ...]
    seq: int
    subclass: np.ndarray
    p_unknown: np.ndarray


def follow_moves(past: tuple[Past, ...], results: Sequence[sampler.BatchResult]) -> tuple[Past, ...]:
    """Note where window instances have moved to."""
    moved = [result.moved for result in results if len(result.moved)]
    if not moved:
        return past
    earliest = min(int(positions.min()) for positions in moved)
    out = list(past)
    for at in range(len(past) - 1, -1, -1):
        chunk = past[at]
        if chunk.seq + len(chunk.keys) <= earliest:
            break
        subclass = chunk.subclass.copy()
        for number, result in enumerate(results):
            inside = (result.moved >= chunk.seq) & (result.moved < chunk.seq + len(chunk.keys))
            subclass[number, result.moved[inside] - chunk.seq] = result.moved_to[inside]
        out[at] = chunk._replace(subclass=subclass)
    return tuple(out)


def remember(past: tuple[Past, ...], chunk: Past, horizon: int) -> tuple[Past, ...]:
    """Append a batch and drop those that lie wholly beyond the horizon."""
    past = (*past, chunk)
    total = sum(len(p.keys) for p in past)
    while past and total - len(past[0].keys) >= horizon:
        total -= len(past[0].keys)
        past = past[1:]
    return past


def since(past: tuple[Past, ...], seq: int) -> tuple[Past, ...]:
    """Return the batches from that of position ``seq`` on."""
    at = len(past)
    while at and past[at - 1].seq + len(past[at - 1].keys) > seq:
        at -= 1
    return past[at:]


def members(past: Sequence[Past], seqs: np.ndarray) -> list[Member | None]:
    """Recall instances by their positions, ascending; ``None`` for those that are forgotten."""
    out: list[Member | None] = []
    chunks = iter(past)
    chunk = next(chunks, None)
    for seq in seqs.tolist():
        while chunk is not None and chunk.seq + len(chunk.keys) <= seq:
            chunk = next(chunks, None)
        if chunk is None or seq < chunk.seq:
            out.append(None)
        else:
            at = seq - chunk.seq
            out.append(Member(Moment(seq, chunk.times[at], chunk.keys[at]), float(chunk.p_unknown[at]), chunk.seq))
    return out


def relabel(past: tuple[Past, ...], number: int, names: Mapping[int, int]) -> tuple[Past, ...]:
    """Write other identities for some subclasses of chain ``number``."""
    if not names:
        return past
    out = []
    for chunk in past:
        subclass = chunk.subclass.copy()
        for was, now in names.items():
            subclass[number, chunk.subclass[number] == was] = now
        out.append(chunk._replace(subclass=subclass))
    return tuple(out)


def reseat(past: tuple[Past, ...], number: int, seqs: np.ndarray, key: int) -> tuple[Past, ...]:
    """Write that the instances at these positions sit in subclass ``key`` of chain ``number``."""
    out = []
    for chunk in past:
        subclass = chunk.subclass
        inside = seqs[(seqs >= chunk.seq) & (seqs < chunk.seq + len(chunk.keys))] - chunk.seq
        if len(inside):
            subclass = subclass.copy()
            subclass[number, inside] = key
        out.append(chunk._replace(subclass=subclass))
    return tuple(out)


def remembered(past: Sequence[Past], number: int, key: int) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    """Find the remembered instances of a subclass of chain ``number``.

    Returns
    -------
    Their positions in the stream, shape (n,), whitened rows, shape (n, d), and keys.
    """
    seqs, rows, keys = [], [], []
    for chunk in past:
        inside = np.flatnonzero(chunk.subclass[number] == key)
        if len(inside):
            seqs.append(chunk.seq + inside)
            rows.append(chunk.rows[inside])
            keys += [chunk.keys[at] for at in inside]
    if not seqs:
        width = past[0].rows.shape[1] if past else 0
        return np.zeros(0, np.int64), np.zeros((0, width)), ()
    return np.concatenate(seqs), np.concatenate(rows), tuple(keys)


def recall(past: Sequence[Past], key: Any) -> tuple[int, int] | None:
    """Find the latest instance of a key: its batch and its place in it."""
    for chunk in range(len(past) - 1, -1, -1):
        keys = past[chunk].keys
        for at in range(len(keys) - 1, -1, -1):
            if keys[at] is not None and keys[at] == key:
                return chunk, at
    return None


def at_position(past: Sequence[Past], seq: int) -> tuple[int, int] | None:
    """Find the instance of a position in the stream: its batch and its place in it."""
    for chunk in range(len(past) - 1, -1, -1):
        at = seq - past[chunk].seq
        if 0 <= at < len(past[chunk].keys):
            return chunk, at
    return None


def rewrite(past: tuple[Past, ...], chunk: int, at: int, key: Any, subclass: Any) -> tuple[Past, ...]:
    """Give a remembered instance another key and other subclasses, one for each chain."""
    old = past[chunk]
    seats, keys = old.subclass.copy(), list(old.keys)
    seats[:, at], keys[at] = subclass, key
    return (*past[:chunk], old._replace(subclass=seats, keys=tuple(keys)), *past[chunk + 1 :])


def all_seats(past: Sequence[Past], n_chains: int) -> np.ndarray:
    """Subclass of every remembered instance in each chain, shape (R, n)."""
    nobody = np.zeros((n_chains, 0), np.int64)
    return np.concatenate([nobody, *(chunk.subclass for chunk in past)], axis=1)
