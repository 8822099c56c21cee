"""What a batch says about the emerging subclasses, in each chain; the first one's is told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.decision import Decision
from stream_osr.discovery import events as ev
from stream_osr.discovery import lifecycle
from stream_osr.discovery.candidates import Emerging, Measured, NewClasses, find_new_classes, measure_subclasses
from stream_osr.discovery.explain import exemplars, explain
from stream_osr.discovery.life import Subclass, trend
from stream_osr.discovery.lifecycle import (
    EXEMPLARS,
    HELD_WITH,
    Arrivals,
    Changes,
    Moves,
    OnMenu,
    best_supported,
    estimate_new_classes,
    forget,
    observe,
    worth_telling,
)
from stream_osr.discovery.lives import Lifecycle, places_of, united, with_lives
from stream_osr.discovery.reservoir import Reservoir, among, keep, offer, priority, wanted, without
from stream_osr.engine.cores import find_core, least_unknown, stands_out
from stream_osr.engine.followed import Followed, Parted
from stream_osr.engine.past import Past, members, places, relabel, remembered, reseat, sampled, since
from stream_osr.engine.state import Chain, Stream
from stream_osr.model import regroup
from stream_osr.model import step as sampler
from stream_osr.model.background import Background
from stream_osr.model.blas import one_thread
from stream_osr.model.marginal import both, log_ratios_together, of_slots, statistics_of
from stream_osr.model.parting import part
from stream_osr.model.prior import homogeneous
from stream_osr.trained import TrainedModel

LEAST_PART = 4
"""Rows that each part of a subclass must have for it to be parted."""
TRIED_AGAIN = 1.25
"""A subclass that stayed whole is tried again when it has grown by so much."""


def new_classes(stream: Stream, before: Sequence[Measured] | None = None) -> tuple[NewClasses, tuple[Measured, ...]]:
    """Find candidate new classes by what all chains say; the stream does not change.

    Parameters
    ----------
    stream
        The stream so far.
    before
        The distances that an earlier call returned: they save time and change nothing.

    Returns
    -------
    Candidates and their estimated number, and the distances in each chain.
    """
    chains = stream.chains
    known = repeat(None) if before is None else before
    with one_thread():
        measured = tuple(measure_subclasses(c.known, c.state, old) for c, old in zip(chains, known, strict=False))
        views = [Emerging(c.known, c.frozen, c.state, c.life) for c in chains]
        return find_new_classes(views, measured, stream.past.subclass, stream.labels), measured


def follow_subclasses(
    chain: Chain,
    number: int,
    past: Past,
    arrived: np.ndarray,
    result: sampler.BatchResult,
    joined: dict[int, int],
    parameters: Parameters,
    background: Background | None = None,
    unknown_share: float = 0.0,
) -> Followed:
    """Follow the emerging subclasses of one chain through a batch.

    Those of the first chain are told of: samples of their rows are kept, they are joined, parted and set aside. In
    the others what has emerged is held on the menu, or forgotten.

    Parameters
    ----------
    chain
        The chain, its state the one after the batch.
    number
        Its number.
    past
        The remembered instances, those of the batch included.
    arrived
        The instances of the batch, shape (b,) of ``MEMBER``.
    result
        What the sampler found out.
    joined
        Identities that ended in others as the sampler seated the batch.
    parameters
        Caps.
    background
        What instances that resemble nothing look like; ``None``: nobody asks.
    unknown_share
        Usual share of the stream that is unknown, or that of the batch if it is larger.
    """
    life, state = chain.life, chain.state
    for younger, older in joined.items():
        life = united(life, older, younger)
    at = places(past, result.moved)
    there = at >= 0
    moves = Moves(result.moved_from[there], result.moved_to[there], members(past, at[there]))
    menu = OnMenu(state.ids, state.dishes.size, regroup.tables_of(state) > 0)

    least = least_unknown(unknown_share)

    def is_class(key: int, first: int) -> bool:
        return background is None or stands_out(key, first, chain, number, past, background, least)

    life, changes = observe(life, Arrivals(result.subclass, arrived), moves, menu, is_class)
    followed = Followed(chain._replace(life=life), past, dict(joined), {}, changes, {}, state)
    if number:
        return _keep_within_bounds(followed, parameters.max_subclasses, 0)
    if background is not None:
        followed = find_core(followed, background, least)
    chain = followed.chain
    chain = chain._replace(life=_sample(chain.life, followed.changes, followed.past, result))
    followed = followed._replace(chain=chain)
    for key in (*followed.changes.emerged, *followed.changes.grew):
        followed = _join_same(followed, key)
    for key in _to_try(followed):
        followed = _part(followed, key)
    return _keep_within_bounds(followed, parameters.max_subclasses, parameters.max_dormant)


def _sizes(chain: Chain) -> dict[int, int]:
    return dict(zip(chain.state.ids.tolist(), chain.state.dishes.size.tolist(), strict=True))


def _sample(life: Lifecycle, changes: Changes, past: Past, result: sampler.BatchResult) -> Lifecycle:
    """Keep the samples of the emerged subclasses: begin those of new ones, let rows go that moved, new ones in."""
    kept = life.kept.copy()
    fresh = np.isin(life.ids, changes.emerged)
    for at in np.flatnonzero(fresh):
        kept[at] = keep(*sampled(past, remembered(past, 0, life.ids[at])))
    if len(past.keys):
        latest = since(past, int(min([past.batches[-1], *result.moved])))
        seat = latest.subclass[0]
        mixed = priority(latest.seq + np.arange(len(seat)))
        touched = np.isin(life.ids, np.concatenate([result.subclass, result.moved_from, result.moved_to]))
        for at in np.flatnonzero(touched & ~fresh & (life.kept != np.array(None))):
            sample = without(kept[at], result.moved[result.moved_from == life.ids[at]])
            if wanted(sample, mixed[seat == life.ids[at]]).any():
                sample = offer(sample, *sampled(latest, remembered(latest, 0, life.ids[at])))
            kept[at] = sample
    return life._replace(kept=kept)


def _join_same(followed: Followed, key: int) -> Followed:
    """Join a subclass with the emerged one that it is most probably the same as, on the menu or set aside, if any is.

    The test is the ratio of the marginal likelihoods of both as one and as two. One that comes anew may be a dormant
    one, if that has as many instances as there are dimensions. Otherwise both must have so many: with fewer nearly
    everything looks alike.
    """
    chain = followed.chain
    state, aside, prior, life = chain.state, chain.aside, chain.known.prior, chain.life
    if key not in life.ids or key not in state.ids:
        return followed  # it has been joined with another
    own = regroup.slot_of(state, key)
    large = bool(state.dishes.size[own] >= prior.n_features)
    may_be_it = life.ids[(life.emerged | life.muted) & (large | life.dormant) & (life.ids != key)]
    others = np.flatnonzero(np.isin(state.ids, may_be_it) & (state.dishes.size >= prior.n_features))
    there = np.flatnonzero(np.isin(aside.ids, may_be_it) & (aside.statistics.size >= prior.n_features))
    if not len(others) + len(there):
        return followed
    compared = both(statistics_of(state.dishes, others), of_slots(aside.statistics, there.tolist()))
    ratios = log_ratios_together(statistics_of(state.dishes, np.array([own])), compared, prior, chain.known.location)
    best = int(ratios.argmax())
    if ratios[best] <= 0.0:
        return followed
    is_aside = best >= len(others)
    other = int(aside.ids[there[best - len(others)]] if is_aside else state.ids[others[best]])
    older, younger = min(key, other), max(key, other)
    if is_aside:
        state, aside = regroup.bring_back(state, aside, other, key, prior)
        state = regroup.rename(state, other, older)
    else:
        state = regroup.join(state, older, younger, prior)
    lives = life.subclasses
    life = united(life, older, younger)
    life = life._replace(dormant=life.dormant & (life.ids != older))
    changes = Changes(*(tuple(one for one in kind if one != younger) for kind in followed.changes))
    if lives[older].dormant and not lives[older].muted:
        changes = changes._replace(recurred=(*changes.recurred, older))
    names = {younger: older}
    return followed._replace(
        chain=chain._replace(state=state, aside=aside, life=life),
        past=relabel(followed.past, 0, names),
        joined={was: names.get(now, now) for was, now in followed.joined.items()} | names,
        parted={names.get(new, new): part for new, part in followed.parted.items()},
        changes=changes,
    )


def _to_try(followed: Followed) -> list[int]:
    """Name the subclasses told of that have grown enough, since they were last tried, to be parted perhaps."""
    life, state = followed.chain.life, followed.chain.state
    size = np.append(state.dishes.size, 0)[places_of(state.ids, life.ids)]
    least = np.maximum(2 * LEAST_PART, TRIED_AGAIN * life.tried_size)
    return sorted(life.ids[life.told_of & (size >= least)].tolist())


def _part(followed: Followed, key: int) -> Followed:
    """Part a subclass in two if its remembered rows say so; those that are not remembered stay with the larger."""
    chain, prior = followed.chain, followed.chain.known.prior
    state, life = chain.state, chain.life.subclasses[key]
    seqs, rows, keys = sampled(followed.past, remembered(followed.past, 0, key))
    if life.kept is not None:
        more = ~among(life.kept.seq, seqs)
        seqs, rows = np.concatenate([seqs, life.kept.seq[more]]), np.concatenate([rows, life.kept.rows[more]])
        keys = np.concatenate([keys, life.kept.keys[more]])
    smaller = part(homogeneous(rows), float(state.franchise.alpha[0]), LEAST_PART, prior, chain.known.location)
    if smaller is None:
        tried = np.where(chain.life.ids == key, _sizes(chain)[key], chain.life.tried_size)
        return followed._replace(chain=chain._replace(life=chain.life._replace(tried_size=tried)))
    new = state.next_id
    held = state.ids[state.franchise.held[-len(state.ids) :] > 0.0].tolist()
    state = sampler.hold(chain.known, state, {*held, key})  # all of its tables may go with the smaller part
    state = regroup.separate(state, key, rows[smaller], seqs[smaller], prior)
    sizes = {one: int(state.dishes.size[regroup.slot_of(state, one)]) for one in (key, new)}
    own, rest = (keep(seqs[at], rows[at], keys[at]) for at in (smaller, ~smaller))
    lives = {
        new: _of_part(life, sizes[new], sum(sizes.values()), own)._replace(recent=()),
        key: _of_part(life, sizes[key], sum(sizes.values()), rest),
    }
    return followed._replace(
        chain=chain._replace(state=state, life=with_lives(chain.life, lives)),
        past=reseat(followed.past, 0, seqs[smaller], new),
        parted=followed.parted | {new: Parted(key, seqs[smaller])},
        changes=followed.changes._replace(grew=tuple(one for one in followed.changes.grew if one != key)),
    )


def _of_part(life: Subclass, size: int, whole: int, kept: Reservoir) -> Subclass:
    """Make the life of one part of a subclass, told of by the parting; it may be parted in turn."""
    share = size / whole
    life = life._replace(arrivals=life.arrivals * share, usual=life.usual * share)
    return life._replace(announced_size=size, tried_size=0, kept=kept)


def _keep_within_bounds(followed: Followed, most: int, most_aside: int) -> Followed:
    """Hold what has emerged; set aside the least supported that are too many, forget those too many there."""
    chain = followed.chain
    life, state, sizes = chain.life, chain.state, chain.state.dishes.size
    at = places_of(life.ids, state.ids)
    muted, told = (np.append(flag, False)[at] for flag in (life.muted, life.emerged))
    held = np.flatnonzero(muted | (told & (sizes >= HELD_WITH)))
    support = state.franchise.seated[0, len(chain.known.size) :]
    active = best_supported(life, state.ids[held], support[held], sizes[held], most)
    too_many = {*state.ids[held].tolist()} - active
    unserved = state.ids[regroup.tables_of(state) == 0].tolist()
    state = sampler.hold(chain.known, state, {*state.ids[held].tolist()})
    state, aside = regroup.set_aside(state, chain.aside, too_many.intersection(unserved))
    if len(aside.ids) > most_aside:
        sizes = aside.statistics.size
        aside = regroup.only_aside(aside, best_supported(life, aside.ids, 0 * sizes, sizes, most_aside))
    life, ended = forget(life, np.concatenate([state.ids, aside.ids]))
    return followed._replace(
        chain=chain._replace(state=state, aside=aside, life=life), ended=ended, seated=chain.state
    )


def without_owned(followed: Followed) -> Followed:
    """Take the subclasses that have an owner out of what is told."""
    chain = followed.chain
    assert chain.guard is not None
    owned = set(chain.guard.ids[chain.guard.owner >= 0].tolist())
    life, refuted = lifecycle.own(chain.life, owned)
    fresh = set(followed.changes.emerged)
    left = Changes(*(tuple(key for key in kind if key not in owned) for kind in followed.changes))
    return followed._replace(
        chain=chain._replace(life=life), changes=left, refuted=tuple(key for key in refuted if key not in fresh)
    )


def tell(
    trained: TrainedModel, labels: Sequence[Label], followed: Followed, decisions: Sequence[Decision], before: int
) -> tuple[Chain, list[ev.Event]]:
    """Turn what happened to the emerging subclasses of a chain into events.

    Parameters
    ----------
    trained, labels
        What explanations speak of.
    followed
        What happened.
    decisions
        Those of the batch.
    before
        The next identity before the batch. No decision bears one that is not below it and has ended.

    Returns
    -------
    The chain, which remembers the Delta it told, and the events.
    """
    chain, changes = followed.chain, followed.changes
    state = followed.seated
    told: dict[str, Any] = {"batch": decisions[0].batch, "seq": decisions[-1].seq, "model": trained.fingerprint}
    events: list[ev.Event] = []

    seated = chain._replace(state=state)

    def size(key: int) -> int:
        return int(state.dishes.size[regroup.slot_of(state, key)])

    for younger, older in followed.joined.items():
        if younger < before and older in state.ids:
            events.append(ev.SubclassMerged(subclass_id=younger, into=older, size=size(older), **told))
    for new, (old, _) in followed.parted.items():
        if new < before or new in changes.emerged:
            continue  # a core, found to be what was there already, or announced below
        about = describe(trained, labels, seated, new)
        why = {name: about[name] for name in ("exemplars", "explanation")}
        events.append(ev.SubclassSplit(subclass_id=old, new_id=new, sizes=(size(old), size(new)), **why, **told))
    kinds = (ev.SubclassEmerged, ev.SubclassGrew, ev.SubclassDormant, ev.SubclassRecurred)
    for kind, keys in zip(kinds, changes, strict=True):
        for key in keys:
            if key in chain.life.ids:
                events.append(kind(**describe(trained, labels, seated, key), **told))
    guard = chain.guard
    for key in followed.refuted:
        assert guard is not None
        at = guard.ids.tolist().index(key)
        events.append(
            ev.SubclassRefuted(
                subclass_id=key,
                label=labels[int(guard.owner[at])],
                known_share=float(guard.known[at]),
                size=_sizes(seated).get(key, 0),
                **told,
            )
        )
    for key, subclass in followed.ended.items():
        events.append(ev.SubclassForgotten(subclass_id=key, last_seen=subclass.last, **told))
    life, changed = estimate_anew(trained, chain.life, told)
    return chain._replace(life=life), [*events, *changed]


def estimate_anew(
    trained: TrainedModel, life: Lifecycle, told: dict[str, Any]
) -> tuple[Lifecycle, list[ev.NewClassesChanged]]:
    """Compute the paper's Delta, and say so when it has changed."""
    emerged = worth_telling(life)
    delta = estimate_new_classes(len(emerged), len(trained.known.ids), len(trained.labels))
    if delta == life.delta:
        return life, []
    return life._replace(delta=delta), [
        ev.NewClassesChanged(delta=delta, before=life.delta, subclasses=emerged, **told)
    ]


def describe(trained: TrainedModel, labels: Sequence[Label], chain: Chain, key: int) -> dict[str, Any]:
    """Say of a subclass on the menu what every :class:`stream_osr.discovery.events.SubclassEvent` says."""
    state, known, subclass = chain.state, chain.known, chain.life.subclasses[key]
    slot = regroup.slot_of(state, key)
    size = int(state.dishes.size[slot])
    recent = tuple(member.moment.key for member in reversed(subclass.recent))[:EXEMPLARS]
    return {
        "subclass_id": key,
        "first_seen": subclass.first,
        "last_seen": subclass.last,
        "size": size,
        "share": size / state.seen,
        "support": float(state.franchise.seated[0, len(labels) + slot]),
        "trend": trend(subclass, state.seen - 1),
        "exemplars": recent if subclass.kept is None else exemplars(state.dishes, slot, subclass.kept, known),
        "explanation": explain(state.dishes, slot, known, chain.frozen, trained.space, trained.names, labels),
    }
