"""An emerged subclass keeps its identity when its instances go to another subclass together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.discovery.lifecycle import HELD_WITH
from stream_osr.engine.state import Chain
from stream_osr.model import regroup
from stream_osr.model import step as sampler
from stream_osr.model.restaurant import StreamState


class Kept(NamedTuple):
    """A step of one chain, the older identities kept.

    Attributes
    ----------
    state, result
        What the sampler returned, with the identities that go on.
    joined
        For each identity that ended in another: the one that goes on.
    """

    state: StreamState
    result: sampler.BatchResult
    joined: dict[int, int]


def keep_identities(chain: Chain, state: StreamState, result: sampler.BatchResult) -> Kept:
    """Follow the emerged subclasses most of whose instances moved to one other emerging subclass in a batch.

    Those that are left in it, if there are any, are fewer than hold a subclass, and go along. The identity that goes
    on is that of the subclass that more of them come from, or the older one, if that is the other.

    Parameters
    ----------
    chain
        The chain before the batch.
    state, result
        What the sampler made of it.
    """
    joined: dict[int, int] = {}
    if not len(result.moved):
        return Kept(state, result, joined)
    announced = set(chain.life.ids[chain.life.emerged].tolist())
    sizes = dict(zip(state.ids.tolist(), state.dishes.size.tolist(), strict=True))
    before = dict(zip(chain.state.ids.tolist(), chain.state.dishes.size.tolist(), strict=True))
    for key in np.unique(result.moved_from).tolist():
        if key not in announced or sizes.get(key, 0) >= HELD_WITH:
            continue
        target, count = _destination(result, key)
        if target not in sizes or 2 * count <= before[key]:
            continue
        if key not in sizes and int((result.moved_from == key).sum()) < before[key]:
            continue  # the rest has left the model with it
        others = sizes[target] - count
        older, younger = (target, key) if target < key or others > count else (key, target)
        if key in sizes:
            state = regroup.join(state, older, younger, chain.known.prior)
        else:
            state = regroup.rename(state, target, older)
        result = _renamed(result, younger, older)
        del sizes[target]
        sizes.pop(key, None)
        sizes[older] = int(state.dishes.size[regroup.slot_of(state, older)])
        joined = {was: older if now == younger else now for was, now in joined.items()} | {younger: older}
    return Kept(state, result, joined)


def _destination(result: sampler.BatchResult, key: int) -> tuple[int, int]:
    """Find the emerging subclass that most instances of another moved to, and how many did."""
    to = result.moved_to[(result.moved_from == key) & (result.moved_to >= 0)]
    if not len(to):
        return -1, 0
    targets, counts = np.unique(to, return_counts=True)
    return int(targets[counts.argmax()]), int(counts.max())


def _renamed(result: sampler.BatchResult, was: int, now: int) -> sampler.BatchResult:
    names = {name: getattr(result, name) for name in ("subclass", "moved_from", "moved_to", "window_subclass")}
    return result._replace(**{name: np.where(ids == was, now, ids) for name, ids in names.items()})
