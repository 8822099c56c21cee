"""What a batch says about the emerging subclasses, in each chain; the leader's are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stream_osr.discovery import lifecycle
from stream_osr.discovery.events import Moment
from stream_osr.discovery.lifecycle import HELD_WITH, Lifecycle, Member, Move, Subclass
from stream_osr.discovery.reservoir import Reservoir, among, keep, offer, only, priority, wanted, without
from stream_osr.ensemble import guard
from stream_osr.ensemble.chain import Chain, Chains, Followed, IdentityChanges, Parted, follow_identities, sizes_of
from stream_osr.ensemble.chain import without as left_out
from stream_osr.ensemble.cores import find_core, least_unknown, stands_out
from stream_osr.ensemble.past import Past, members, remembered, since
from stream_osr.ensemble.step import Judged, Seated
from stream_osr.model.aside import only_aside
from stream_osr.model.background import Background
from stream_osr.model.between import LEAST_PART, bound, join_if_same, part_if_two, served
from stream_osr.model.step import BatchResult

TRIED_AGAIN = 1.25
"""A subclass that stayed whole is tried again when it has grown by so much."""


class Terms(NamedTuple):
    """By what subclasses are followed.

    Attributes
    ----------
    most, most_aside
        So many that have emerged stay active, and so many of the others are kept aside.
    background
        What instances that resemble nothing look like; ``None``: nobody asks.
    unknown_share
        Usual share of the stream that is unknown, or that of the batch if it is larger.
    """

    most: int
    most_aside: int
    background: Background | None = None
    unknown_share: float = 0.0


def follow(
    chains: Chains, judged: Judged, past: tuple[Past, ...], batch: Past, terms: Terms
) -> tuple[Chains, tuple[Past, ...], Followed]:
    """Follow the emerging subclasses of every chain through a batch.

    Those of the leader are told of: samples of their rows are kept, they are joined, parted and set aside. In the
    others what has emerged is held on the menu, or forgotten.

    Parameters
    ----------
    chains
        The chains, with the states after the batch.
    judged
        What the batch has made of them.
    past
        The remembered instances, those of the batch included.
    batch
        Those of the batch.
    terms
        Caps, and what says that a candidate is more than noise.

    Returns
    -------
    The chains and what is remembered then, and what happened to the leader's subclasses.
    """
    after, told = [], []
    for number, (chain, one) in enumerate(zip(chains, judged.seated, strict=True)):
        followed = _follow(chain, number, one, past, batch, terms)
        if chain.guard is not None:
            chain = followed.chain
            chain = chain._replace(guard=follow_identities(chain.guard, followed.identities))
            followed = _without_owned(followed._replace(chain=chain))
        past = followed.past
        after.append(followed.chain)
        told.append(followed)
    return tuple(after), past, told[0]


def _follow(chain: Chain, number: int, seated: Seated, past: tuple[Past, ...], batch: Past, terms: Terms) -> Followed:
    """Follow the subclasses of one chain."""
    result, joined = seated.result, seated.identities.joined
    lives = dict(chain.life.subclasses)
    for younger, older in joined.items():
        _unite(lives, older, younger)
    sizes = sizes_of(chain.state)
    told = zip(result.subclass.tolist(), batch.times, batch.keys, batch.p_unknown.tolist(), strict=True)
    arrivals = [
        (key, Member(Moment(batch.seq + at, t, name), p_unknown, batch.seq))
        for at, (key, t, name, p_unknown) in enumerate(told)
        if key in sizes
    ]
    latest = since(past, int(result.moved.min())) if len(result.moved) else past[-1:]
    moved = zip(result.moved_from.tolist(), result.moved_to.tolist(), members(latest, result.moved), strict=True)
    moves = [Move(was, now, member) for was, now, member in moved if member is not None]
    background, least = terms.background, least_unknown(terms.unknown_share)

    def is_class(key: int, subclass: Subclass) -> bool:
        return background is None or stands_out(key, subclass, chain, number, past, background, least)

    life, changes = lifecycle.observe(
        chain.life._replace(subclasses=lives), arrivals, moves, sizes, set(served(chain.state)), is_class
    )
    followed = Followed(chain._replace(life=life), past, seated.identities, changes, {}, chain.state)
    if number:
        return _keep_within_bounds(followed, terms.most, 0)
    if background is not None:
        followed = find_core(followed, background, least)
        latest = since(followed.past, latest[0].seq) if latest else latest
    chain = followed.chain
    followed = followed._replace(chain=chain._replace(life=_sample(chain.life, followed, latest, result)))
    for key in (*followed.changes.emerged, *followed.changes.grew):
        followed = _join_same(followed, key)
    for key in _to_try(followed.chain):
        followed = _part(followed, key)
    return _keep_within_bounds(followed, terms.most, terms.most_aside)


def _unite(lives: dict[int, Subclass], older: int, younger: int) -> None:
    """Let one life go on for two; either may be unknown here as yet."""
    second = lives.pop(younger, None)
    if second is not None:
        first = lives.get(older) or Subclass(second.first, second.last)
        lives[older] = lifecycle.unite(first, second)


def _sample(life: Lifecycle, followed: Followed, latest: tuple[Past, ...], result: BatchResult) -> Lifecycle:
    """Keep the samples of the emerged subclasses: begin those of new ones, let rows go that moved, new ones in."""
    lives, emerged = dict(life.subclasses), followed.changes.emerged
    for key in emerged:
        lives[key] = lives[key]._replace(kept=keep(*remembered(followed.past, 0, key)))
    if not latest:
        return life._replace(subclasses=lives)
    seat = np.concatenate([chunk.subclass[0] for chunk in latest])
    mixed = priority(latest[0].seq + np.arange(len(seat)))
    touched = {*result.subclass.tolist(), *result.moved_from.tolist(), *result.moved_to.tolist()}
    for key in sorted((touched - set(emerged)) & lives.keys()):
        kept = lives[key].kept
        if kept is not None:
            kept = without(kept, result.moved[result.moved_from == key])
            if wanted(kept, mixed[seat == key]).any():
                kept = offer(kept, *remembered(latest, 0, key))
            lives[key] = lives[key]._replace(kept=kept)
    return life._replace(subclasses=lives)


def _join_same(followed: Followed, key: int) -> Followed:
    """Join a subclass with the emerged one that it is most probably the same as, on the menu or set aside, if any is.

    One that comes anew may be a dormant one, if that has as many instances as there are dimensions. Otherwise both
    must have so many: with fewer nearly everything looks alike.
    """
    chain = followed.chain
    lives = chain.life.subclasses
    if key not in lives or key not in chain.state.ids:
        return followed  # it has been joined with another

    def may_be(other: int, size: int, large: bool) -> bool:
        return size >= chain.known.prior.n_features and _emerged(lives, other) and (large or lives[other].dormant)

    found = join_if_same(chain.known, chain.state, chain.aside, key, may_be)
    if found is None:
        return followed
    state, aside, other = found
    older, younger = min(key, other), max(key, other)
    united = dict(lives)
    _unite(united, older, younger)
    united[older] = united[older]._replace(dormant=False)
    changes = left_out(followed.changes, {younger})
    if lives[older].dormant and not lives[older].muted:
        changes = changes._replace(recurred=(*changes.recurred, older))
    chain = chain.after(state, united)._replace(aside=aside)
    return followed.then(IdentityChanges({younger: older}), chain)._replace(changes=changes)


def _emerged(lives: Mapping[int, Subclass], key: int) -> bool:
    return key in lives and (lives[key].emerged or lives[key].muted)


def _to_try(chain: Chain) -> list[int]:
    """Name the subclasses told of that have grown enough, since they were last tried, to be parted perhaps."""
    lives, sizes, told = chain.life.subclasses, sizes_of(chain.state), lifecycle.worth_telling(chain.life)
    least = {key: max(2 * LEAST_PART, TRIED_AGAIN * lives[key].tried_size) for key in told}
    return [key for key in sorted(sizes.keys() & least) if sizes[key] >= least[key]]


def _part(followed: Followed, key: int) -> Followed:
    """Part a subclass in two if its remembered rows say so; those that are not remembered stay with the larger."""
    chain = followed.chain
    lives, new = dict(chain.life.subclasses), chain.state.next_id
    life = lives[key]
    seqs, rows, keys = remembered(followed.past, 0, key)
    if life.kept is not None:
        more = ~among(life.kept.seq, seqs)
        seqs, rows = np.concatenate([seqs, life.kept.seq[more]]), np.concatenate([rows, life.kept.rows[more]])
        keys = (*keys, *only(life.kept, more).keys)
    found = part_if_two(chain.known, chain.state, key, rows, seqs)
    if found is None:
        lives[key] = life._replace(tried_size=sizes_of(chain.state)[key])
        return followed._replace(chain=chain.after(chain.state, lives))
    state, smaller = found
    sizes = sizes_of(state)
    whole = sizes[key] + sizes[new]
    own, rest = (
        keep(seqs[side], rows[side], [keys[at] for at in np.flatnonzero(side)]) for side in (smaller, ~smaller)
    )
    lives[new] = _of_part(life, sizes[new] / whole, sizes[new], own)._replace(recent=())
    lives[key] = _of_part(life, sizes[key] / whole, sizes[key], rest)
    followed = followed.then(IdentityChanges({}, {new: Parted(key, seqs[smaller])}), chain.after(state, lives))
    grew = tuple(one for one in followed.changes.grew if one != key)
    return followed._replace(changes=followed.changes._replace(grew=grew))


def _of_part(life: Subclass, share: float, size: int, kept: Reservoir) -> Subclass:
    """Make the life of one part of a subclass, told of by the parting; it may be parted in turn."""
    life = life._replace(arrivals=life.arrivals * share, usual=life.usual * share)
    return life._replace(announced_size=size, tried_size=0, kept=kept)


def _keep_within_bounds(followed: Followed, most: int, most_aside: int) -> Followed:
    """Hold what has emerged; set aside the least supported that are too many, forget those too many there."""
    chain = followed.chain
    lives, state, sizes = chain.life.subclasses, chain.state, sizes_of(chain.state)
    seats = state.franchise.seated[0, len(chain.known.size) :]
    support = dict(zip(state.ids.tolist(), seats.tolist(), strict=True))
    emerged = {key for key in sizes if _emerged(lives, key) and (lives[key].muted or sizes[key] >= HELD_WITH)}
    active = lifecycle.best_supported(chain.life, emerged, support, sizes, most)
    state, aside = bound(chain.known, state, chain.aside, emerged, active)
    if len(aside.ids) > most_aside:
        kept = dict(zip(aside.ids.tolist(), aside.statistics.size.tolist(), strict=True))
        aside = only_aside(aside, lifecycle.best_supported(chain.life, kept, {}, kept, most_aside))
    life, ended = lifecycle.forget(chain.life, {*state.ids.tolist(), *aside.ids.tolist()})
    return followed._replace(
        chain=chain._replace(state=state, aside=aside, life=life), ended=ended, seated=chain.state
    )


def _without_owned(followed: Followed) -> Followed:
    """Take the subclasses that have an owner out of what is told."""
    chain = followed.chain
    owned = guard.owned_by(chain)
    life, refuted = lifecycle.own(chain.life, owned)
    fresh = set(followed.changes.emerged)
    return followed._replace(
        chain=chain._replace(life=life),
        changes=left_out(followed.changes, owned),
        refuted=tuple(key for key in refuted if key not in fresh),
    )
