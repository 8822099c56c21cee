"""Identities of emerging subclasses in a batch: continued, merged, or gone from the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.histories import places_of
from stream_osr.discovery.lifecycle import LEAST_KEPT, few_members
from stream_osr.model import edit, sampler
from stream_osr.model.restaurants import StreamState
from stream_osr.stream.chain import Chain, IdentityChanges, ReferenceCheck, sizes_of

_SEATS = "subclass", "moved_from", "moved_to", "window_subclass"
"""Fields of a result that contain ids of subclasses."""


class ChainResult(NamedTuple):
    """A chain and its result for a batch.

    Attributes
    ----------
    before
        The chain before the batch.
    state, result
        Results of the sampler, with the continued identities.
    identities
        Changes of identities.
    check
        The reference check after the batch.
    references, probabilities
        Numbers of the scored references, shape (Q,), and their balanced probabilities, shape (Q, J + 1).
    mostly_new
        Identities of the subclasses with a small known share, supported by enough members.
    outliers
        Instances whose unannounced subclass left the model with this batch, counted for the leader.
    """

    before: Chain
    state: StreamState
    result: sampler.BatchResult
    identities: IdentityChanges
    check: ReferenceCheck | None = None
    references: np.ndarray = np.zeros(0, np.int64)
    probabilities: np.ndarray = np.zeros((0, 0))
    mostly_new: np.ndarray = np.zeros(0, np.int64)
    outliers: int = 0


def keep_identities(chain_result: ChainResult) -> ChainResult:
    """Continue the identity of emerged subclasses most of whose instances moved to one other emerging subclass.

    The remaining instances, if any, are too few for a subclass and move along. The target's identity continues if it
    is older, or if most instances of the result come from the target. Otherwise the identity of the moved subclass
    continues.
    """
    chain, state, result, changes = chain_result[:4]
    if not len(result.moved):
        return chain_result
    life = chain.life
    few = few_members(life.ids, life.lives, state.ids, state.dishes.size, result.moved_from)
    left = sorted({*result.moved_from[few].tolist()})
    sizes, before = (sizes_of(one) if left else {} for one in (state, chain.state))
    for key in left:
        if sizes.get(key, 0) >= LEAST_KEPT:
            continue
        leaves = result.moved_from == key
        targets, counts = np.unique(result.moved_to[leaves & (result.moved_to >= 0)], return_counts=True)
        if not len(targets):
            continue
        target, count = int(targets[counts.argmax()]), int(counts.max())
        if target not in sizes or 2 * count <= before[key]:
            continue
        if key not in sizes and int(leaves.sum()) < before[key]:
            continue  # the rest has left the model with it
        others = sizes[target] - count
        older, younger = (target, key) if target < key or others > count else (key, target)
        if key in sizes:
            state = edit.merge(state, older, younger, chain.known.prior)
        else:
            state = edit.rename(state, target, older)
        now: dict[str, Any] = {name: getattr(result, name) for name in _SEATS}
        for name, ids in now.items():
            now[name] = np.where(ids == younger, older, ids)
        result = result._replace(**now)
        sizes = sizes_of(state)
        changes = changes.then(IdentityChanges({younger: older}))
    changes = changes._replace(moved=(result.moved, result.moved_to))
    return chain_result._replace(state=state, result=result, identities=changes)


def count_outliers(chain: Chain, after: StreamState, result: sampler.BatchResult) -> int:
    """Count the instances whose unannounced subclass left the model with this batch."""
    before = chain.state
    count, moved, none = len(before.ids), len(result.moved), [-1]
    left = _left(chain, after, np.concatenate([before.ids, result.moved_to, result.subclass, none]))
    if not left.any():
        return 0
    n_classes = len(before.franchise.menu) - count
    dish = before.franchise.table_dish[before.window.table]
    was = left[np.where(dish >= n_classes, dish - n_classes, -1)]
    now = was.copy()
    now[np.searchsorted(before.window_seq, result.moved)] = left[count : count + moved]
    settled = before.dishes.size @ left[:count] - was.sum()
    return int(settled + now.sum() + left[count + moved :].sum())


def count_left_behind(chain: Chain, after: StreamState, withdrawn: Sequence[int]) -> int:
    """Count the instances whose unannounced subclass left the model because labels removed instances from it.

    Parameters
    ----------
    chain
        A chain before the labels.
    after
        The sampler's state after the labels.
    withdrawn
        Subclass of each removed instance.
    """
    before, out = chain.state, np.array(withdrawn, np.int64)
    out = out[places_of(before.ids, out) >= 0]
    return int(before.dishes.size @ _left(chain, after, before.ids) - _left(chain, after, out).sum())


def _left(chain: Chain, after: StreamState, keys: np.ndarray) -> np.ndarray:
    """Mark the subclasses of a chain (-1 for a known one) that have left the model unannounced."""
    left = (keys >= 0) & (places_of(after.ids, keys) < 0)
    if left.any():
        left &= places_of(chain.life.ids[chain.life.emerged], keys) < 0
    return left
