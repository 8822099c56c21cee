"""The latest decided instances, remembered for labels that come late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
