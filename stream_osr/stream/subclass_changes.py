"""Lifecycle of emerging subclasses through a batch, in each chain. Those of the leader are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stream_osr.discovery import lifecycle
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.histories import Lifecycle, SubclassHistory, places_of, united, with_fields, with_lives
from stream_osr.discovery.lifecycle import OnMenu
from stream_osr.discovery.membership import MemberColumns, NewSeats
from stream_osr.discovery.reservoir import Reservoir, exchange, keep
from stream_osr.model.edit import slot_of, tables_of
from stream_osr.model.lifecycle_moves import LEAST_PART, bound, merge_if_same, only_dormant, split_if_two
from stream_osr.model.noise import NoiseModel
from stream_osr.model.prior import width_of
from stream_osr.model.sampler import BatchResult
from stream_osr.parameters import Parameters
from stream_osr.stream import recent_instances
from stream_osr.stream.arrival_order import independent_of
from stream_osr.stream.batch_seating import BatchPosterior
from stream_osr.stream.chain import (
    Chain,
    IdentityChanges,
    LifecycleUpdate,
    SplitOff,
    changes_without,
    follow_identities,
    sizes_of,
)
from stream_osr.stream.frame import Explanations
from stream_osr.stream.hidden_classes import find_core, least_unknown, stands_out
from stream_osr.stream.monitoring import follow_unknown
from stream_osr.stream.recent_instances import DecidedBatch, RecentInstances
from stream_osr.stream.state import Stream
from stream_osr.stream.subclass_identities import ChainResult
from stream_osr.stream.subclass_owners import owned_by
from stream_osr.training.trained import TrainedModel

TRIED_AGAIN = 1.25
"""Growth after which the split test of a whole subclass is repeated.

If it is repeated after each quarter of growth, 0.95 of the new classes of COIL20 and 0.71 of those of YALEB are
announced within 30 of their instances. After doublings it is 0.88 and 0.64 (``benchmarks/results/discovery.md``).
"""
TRIED_AGAIN_LARGE, LARGE = 1.6, 64
"""Growth for a subclass that was tested with that many instances: the test is slower then, and seldom splits it."""


Came = tuple[MemberColumns, np.ndarray]
"""Data of some instances for the histories, with their times and keys."""


class LifecycleTerms(NamedTuple):
    """Settings for following emerging subclasses.

    Attributes
    ----------
    most, most_aside
        Most emerged subclasses that stay active, and most dormant ones.
    noise_model
        Noise model.
    unknown_share
        Usual unknown share of the stream, or that of the batch if it is larger.
    announces
        Whether to announce new subclasses. False while all known classes have moved away at once.
    is_explained
        Whether a move of all known classes explains a subclass with this mean, shape (d,).
    independent
        Number of independent instances with the information of one instance.
    """

    most: int
    most_aside: int
    noise_model: NoiseModel
    unknown_share: float
    announces: bool
    is_explained: Callable[[np.ndarray], bool]
    independent: float


def follow(
    trained: TrainedModel, stream: Stream, posterior: BatchPosterior, batch: DecidedBatch, parameters: Parameters
) -> tuple[Stream, LifecycleUpdate, list[Event]]:
    """Update the emerging subclasses of every chain after a batch, and the unknown share of the stream.

    Those of the leader are reported: their rows are sampled, and they are merged, split and made dormant. In the
    other chains emerged subclasses are held on the menu, or forgotten.

    Parameters
    ----------
    trained, stream
        The model, and the stream with the chains and remembered instances after the batch.
    posterior, batch
        The results of the chains for the batch, and its instances.
    parameters
        Settings.

    Returns
    -------
    The next stream, the changes of the leader's subclasses, and an event if the unknown share has jumped.
    """
    rate, jumped = follow_unknown(trained, stream, posterior)
    arrival, frame = stream.arrival, stream.frame
    share = max(rate.rate, float(batch.p_unknown.mean()))
    announces = arrival is None or not (arrival.counts_typicality and arrival.has_left)
    announces &= frame is None or not frame.has_moved
    bounds = parameters.max_subclasses, parameters.max_dormant
    explanations = Explanations(trained, frame, posterior, arrival)
    student_terms = LifecycleTerms(*bounds, trained.noise, share, announces, explanations, independent_of(arrival))
    recent, came, updates = stream.recent, recent_instances.arrivals(batch), list[LifecycleUpdate]()
    for number, (chain, one) in enumerate(zip(stream.chains, posterior.seated, strict=True)):
        update = _follow(chain, number, one, recent, came, student_terms)
        if chain.check is not None:
            check = follow_identities(update.chain.check, update.identities)
            update = _without_owned(update._replace(chain=update.chain._replace(check=check)))
        recent = update.recent
        updates.append(update)
    chains = tuple(update.chain for update in updates)
    return stream._replace(chains=chains, recent=recent, unknown_rate=rate), updates[0], jumped


def _follow(
    chain: Chain,
    number: int,
    chain_result: ChainResult,
    recent: RecentInstances,
    came: Came,
    parameters: LifecycleTerms,
) -> LifecycleUpdate:
    """Update the subclasses of one chain."""
    result, merged = chain_result.result, chain_result.identities.merged
    life, state = chain.life, chain.state
    for younger, older in merged.items():
        life = united(life, older, younger)
    coming = _new_seats(result, recent, came)
    menu = OnMenu(state.ids, state.dishes.size, tables_of(state) > 0)
    noise_model, least = parameters.noise_model, least_unknown(parameters.unknown_share)

    def is_class(key: int, first: int) -> bool:
        if not parameters.announces or not stands_out(key, first, chain, number, recent, noise_model, least):
            return False
        slot, d = slot_of(state, key), chain.known.prior.n_features
        return not parameters.is_explained(state.dishes.matrix[slot, d, :d] / state.dishes.matrix[slot, d, d])

    life, changes = lifecycle.observe(life, coming, menu, is_class, chain_result.mostly_new)
    update = LifecycleUpdate(chain._replace(life=life), recent, chain_result.identities, changes, {}, state)
    if number:
        return _keep_within_bounds(update, parameters.most, 0)
    if parameters.announces:
        update = find_core(update, noise_model, least, parameters.is_explained, parameters.independent)
    chain = update.chain
    update = update._replace(chain=chain._replace(life=_sample(chain.life, update, result)))
    for key in (*update.changes.emerged, *update.changes.grew):
        update = _join_same(update, key)
    update = _part_each(update)
    return _keep_within_bounds(update, parameters.most, parameters.most_aside)


def _new_seats(result: BatchResult, recent: RecentInstances, came: Came) -> NewSeats:
    """List the re-seated instances and those of the batch."""
    if not len(result.moved):
        return NewSeats(result.moved_from, result.subclass, *came)
    at = recent_instances.places(recent, result.moved)
    there = at >= 0
    moved = recent_instances.members(recent, at[there])
    seats = np.concatenate([result.moved_to[there], result.subclass])
    both = MemberColumns(*map(np.concatenate, zip(moved[0], came[0], strict=True)))
    return NewSeats(result.moved_from[there], seats, both, np.concatenate([moved[1], came[1]]))


def _sample(life: Lifecycle, update: LifecycleUpdate, result: BatchResult) -> Lifecycle:
    """Update the samples of the emerged subclasses: begin new ones, remove moved rows, add new rows."""
    recent, ids, kept = update.recent, life.ids, life.kept.copy()
    fresh = places_of(ids, np.array(update.changes.emerged, np.int64))
    for at in fresh[fresh >= 0].tolist():
        kept[at] = keep(*recent_instances.sampled(recent, recent_instances.remembered(recent, 0, ids[at])))
    changed = np.zeros(len(ids) + 1, bool)
    for seats in (result.subclass, result.moved_from, result.moved_to):
        changed[places_of(ids, seats)] = True
    changed[[-1, *fresh.tolist()]] = False
    slots = [at for at in np.flatnonzero(changed).tolist() if kept[at] is not None]
    if slots and len(recent.keys):
        number = np.full(len(ids) + 1, -1)
        number[slots] = np.arange(len(slots))
        latest = recent_instances.since(recent, int(min([recent.batches[-1], *result.moved])))
        whose, left = (number[places_of(ids, seats)] for seats in (latest.subclass[0], result.moved_from))
        came = np.flatnonzero(whose >= 0)
        gone = left[left >= 0], result.moved[left >= 0]
        samples = exchange([kept[at] for at in slots], gone, (whose[came], *recent_instances.sampled(latest, came)))
        for at, sample in zip(slots, samples, strict=True):
            kept[at] = sample
    return life._replace(kept=kept)


def _join_same(update: LifecycleUpdate, key: int) -> LifecycleUpdate:
    """Merge a subclass with the emerged one that it most probably equals, on the menu or dormant, if any.

    A new subclass may equal a dormant one that has as many instances as there are dimensions. Otherwise both must
    have that many: with fewer nearly all subclasses look alike.
    """
    chain, life = update.chain, update.chain.life
    if key not in life.ids or key not in chain.state.ids:
        return update  # it has been joined with another
    large = chain.state.dishes.size[slot_of(chain.state, key)] >= width_of(chain.known.prior)
    may_be = life.ids[life.noticed & (large | life.dormant)]
    found = merge_if_same(chain.known, chain.state, chain.dormant, key, may_be)
    if found is None:
        return update
    state, dormant, other = found
    older, younger = min(key, other), max(key, other)
    life = united(life, older, younger)
    life = with_fields(life, [older], dormant=False)
    changes = changes_without(update.changes, {younger})
    if older in chain.life.ids[chain.life.asleep]:
        changes = changes._replace(recurred=(*changes.recurred, older))
    chain = chain._replace(state=state, dormant=dormant, life=life)
    return update.then(IdentityChanges({younger: older}), chain)._replace(changes=changes)


def _part_each(update: LifecycleUpdate) -> LifecycleUpdate:
    """Split the reported subclasses that have grown enough since their last test, if they are two."""
    life, state = update.chain.life, update.chain.state
    size = np.append(state.dishes.size, 0)[places_of(state.ids, life.ids)]
    tried = life.lives["tried_size"]
    least = np.maximum(2 * LEAST_PART, np.where(tried < LARGE, TRIED_AGAIN, TRIED_AGAIN_LARGE) * tried)
    grown = np.flatnonzero(life.announced_unmuted & (size >= least))
    whole = []
    for at in grown[np.argsort(life.ids[grown])].tolist():
        split = _part(update, int(life.ids[at]))
        if split is None:
            whole.append(at)
        else:
            update = split
    chain = update.chain
    life = with_fields(chain.life, life.ids[whole], tried_size=size[whole])
    return update._replace(chain=chain._replace(life=life))


def _part(update: LifecycleUpdate, key: int) -> LifecycleUpdate | None:
    """Split a subclass in two if its remembered rows favour it. Forgotten instances stay with the larger part."""
    chain, life = update.chain, update.chain.life
    own, new = life.ids == key, chain.state.next_id
    at = recent_instances.remembered(update.recent, 0, key)
    seqs, rows, kept = update.recent.seq + at, update.recent.rows[at], life.kept[own][0]
    if kept is not None:
        more = np.append(seqs, -1)[np.searchsorted(seqs, kept.seq)] != kept.seq
        seqs, rows = np.concatenate([seqs, kept.seq[more]]), np.concatenate([rows, kept.rows[more]])
    found = split_if_two(chain.known, chain.state, key, rows, seqs)
    if found is None:
        return None
    keys = update.recent.keys[at]
    if kept is not None:
        keys = np.concatenate([keys, kept.keys[more]])
    state, smaller = found
    sizes, one = sizes_of(state), life.subclasses[key]
    whole = sizes[key] + sizes[new]
    less, rest = (keep(seqs[side], rows[side], keys[side]) for side in (smaller, ~smaller))
    parts = {
        new: _of_part(one, sizes[new] / whole, sizes[new], less)._replace(recent=()),
        key: _of_part(one, sizes[key] / whole, sizes[key], rest),
    }
    chain = chain._replace(state=state, life=with_lives(life, parts))
    update = update.then(IdentityChanges({}, {new: SplitOff(key, seqs[smaller])}), chain)
    grew = tuple(one for one in update.changes.grew if one != key)
    return update._replace(changes=update.changes._replace(grew=grew))


def _of_part(life: SubclassHistory, share: float, size: int, kept: Reservoir) -> SubclassHistory:
    """Make the history of one part of a split subclass, reported by the split. It may be split again."""
    life = life._replace(arrivals=life.arrivals * share, usual=life.usual * share)
    return life._replace(announced_size=size, tried_size=0, kept=kept)


def _keep_within_bounds(update: LifecycleUpdate, most: int, most_aside: int) -> LifecycleUpdate:
    """Hold emerged subclasses within bounds: make the least supported dormant, and forget dormant ones in excess."""
    chain = update.chain
    life, state, sizes = chain.life, chain.state, chain.state.dishes.size
    held = lifecycle.kept_on_menu(life.ids, life.lives, state.ids, sizes)
    active = held
    if held.sum() > most:
        seats = state.franchise.seated[0, len(chain.known.size) :]
        chosen = lifecycle.best_supported(life, state.ids[held], seats[held], sizes[held], most)
        active = np.isin(state.ids, list(chosen))
    state, dormant = bound(state, chain.dormant, held, active)
    if len(dormant.ids) > most_aside:
        sizes = dormant.statistics.size
        dormant = only_dormant(dormant, lifecycle.best_supported(life, dormant.ids, 0 * sizes, sizes, most_aside))
    life, ended = lifecycle.forget(life, np.concatenate([state.ids, dormant.ids]))
    after = chain._replace(state=state, dormant=dormant, life=life)
    return update._replace(chain=after, ended=ended, seated=chain.state)


def _without_owned(update: LifecycleUpdate) -> LifecycleUpdate:
    """Remove the subclasses that have an owner from the changes."""
    chain, changes = update.chain, update.changes
    owned = owned_by(chain)
    life, refuted = lifecycle.own(chain.life, owned)
    refuted = tuple(key for key in refuted if key not in changes.emerged)
    chain, changes = chain._replace(life=life), changes_without(changes, owned)
    return update._replace(chain=chain, changes=changes, refuted=refuted)
