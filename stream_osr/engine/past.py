"""The latest decided instances, remembered for labels that come late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_osr.engine.state import Past
from stream_osr.hdp import stream as sampler


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
