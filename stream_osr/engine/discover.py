"""What a batch says about the emerging subclasses, in each chain; the first one's is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.decision import Decision
from stream_osr.discovery import events as ev
from stream_osr.discovery.candidates import Emerging, Measured, NewClasses, find_new_classes, measure_subclasses
from stream_osr.discovery.explain import exemplars, explain
from stream_osr.discovery.lifecycle import (
    HELD_WITH,
    Changes,
    Lifecycle,
    Member,
    Move,
    Subclass,
    best_supported,
    estimate_new_classes,
    forget,
    observe,
    trend,
    unite,
)
from stream_osr.discovery.reservoir import keep, offer, only, without
from stream_osr.engine.past import members, relabel, remembered, reseat, since
from stream_osr.engine.state import Chain, Past, Stream
from stream_osr.hdp import regroup
from stream_osr.hdp import stream as sampler
from stream_osr.hdp.blas import one_thread
from stream_osr.hdp.marginal import both, log_ratios_together, statistics_of
from stream_osr.hdp.parting import part
from stream_osr.hdp.prior import homogeneous
from stream_osr.hdp.restaurant import StreamState
from stream_osr.trained import TrainedModel

LEAST_PART = 8
"""Rows that each part of a subclass must have for it to be parted."""


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
        nobody = np.zeros((len(chains), 0), np.int64)
        seats = np.concatenate([nobody, *(chunk.subclass for chunk in stream.past)], axis=1)
        views = [Emerging(c.known, c.frozen, c.state, c.life) for c in chains]
        return find_new_classes(views, measured, seats, stream.labels), measured


class Parted(NamedTuple):
    """Where a new subclass comes from: the one it was parted from, and the positions of its instances, shape (n,)."""

    old: int
    seqs: np.ndarray


class Followed(NamedTuple):
    """The emerging subclasses of one chain after a batch, and what happened to them.

    Attributes
    ----------
    chain
        The chain, its lives included.
    past
        The remembered instances, under the identities that go on.
    joined
        For each identity that ended in another: the one that goes on.
    parted
        For each identity that is new because a subclass was parted: where it comes from.
    changes
        Who emerged, doubled, fell asleep, came back.
    ended
        Lives that ended, of those that had been announced.
    seated
        The state before subclasses were set aside and forgotten.
    """

    chain: Chain
    past: tuple[Past, ...]
    joined: dict[int, int]
    parted: dict[int, Parted]
    changes: Changes
    ended: dict[int, Subclass]
    seated: StreamState


def follow_subclasses(
    chain: Chain,
    number: int,
    past: tuple[Past, ...],
    decisions: Sequence[Decision],
    result: sampler.BatchResult,
    joined: dict[int, int],
    parameters: Parameters,
) -> Followed:
    """Follow the emerging subclasses of one chain through a batch.

    Parameters
    ----------
    chain
        The chain, its state the one after the batch.
    number
        Its number.
    past
        The remembered instances, those of the batch included.
    decisions
        The decisions of the batch.
    result
        What the sampler found out.
    joined
        Identities that ended in others as the sampler seated the batch.
    parameters
        Caps.
    """
    lives = dict(chain.life.subclasses)
    for younger, older in joined.items():
        _unite(lives, older, younger)
    sizes = _sizes(chain)
    arrivals = [
        (key, Member(ev.Moment(d.seq, d.t, d.key), d.p_unknown, decisions[0].seq))
        for key, d in zip(result.subclass.tolist(), decisions, strict=True)
        if key in sizes
    ]
    served = set(chain.state.ids[regroup.tables_of(chain.state) > 0].tolist())
    latest = since(past, int(result.moved.min())) if len(result.moved) else past[-1:]
    moves = [
        Move(was, now, member)
        for was, now, member in zip(
            result.moved_from.tolist(), result.moved_to.tolist(), members(latest, result.moved), strict=True
        )
        if member is not None
    ]
    life, changes = observe(chain.life._replace(subclasses=lives), arrivals, moves, sizes, served)
    chain = chain._replace(life=_sample(life, changes, number, past, latest, result))
    followed = Followed(chain, past, dict(joined), {}, changes, {}, chain.state)
    for key in (*changes.emerged, *changes.grew):
        followed = _join_same(followed, number, key)
    for key in changes.grew:
        if key not in followed.joined:
            followed = _part(followed, number, key)
    return _keep_within_bounds(followed, parameters)


def _sizes(chain: Chain) -> dict[int, int]:
    return dict(zip(chain.state.ids.tolist(), chain.state.dishes.size.tolist(), strict=True))


def _unite(lives: dict[int, Subclass], older: int, younger: int) -> None:
    """Let one life go on for two; either may be unknown here as yet."""
    second = lives.pop(younger, None)
    if second is not None:
        first = lives.get(older)
        lives[older] = second if first is None else unite(first, second)


def _sample(
    life: Lifecycle,
    changes: Changes,
    number: int,
    past: tuple[Past, ...],
    latest: tuple[Past, ...],
    result: sampler.BatchResult,
) -> Lifecycle:
    """Keep the samples of the emerged subclasses: begin those of new ones, let rows go that moved, new ones in."""
    lives = dict(life.subclasses)
    for key in changes.emerged:
        lives[key] = lives[key]._replace(kept=keep(*remembered(past, number, key)))
    touched = {*result.subclass.tolist(), *result.moved_from.tolist(), *result.moved_to.tolist()}
    for key in sorted((touched - set(changes.emerged)) & lives.keys()):
        kept = lives[key].kept
        if kept is not None:
            kept = without(kept, result.moved[result.moved_from == key])
            lives[key] = lives[key]._replace(kept=offer(kept, *remembered(latest, number, key)))
    return life._replace(subclasses=lives)


def _join_same(followed: Followed, number: int, key: int) -> Followed:
    """Join a subclass with the emerged one that it is most probably the same as, on the menu or set aside, if any is.

    The test is the ratio of the marginal likelihoods of both as one and as two.
    """
    chain = followed.chain
    state, aside, prior, lives = chain.state, chain.aside, chain.known.prior, chain.life.subclasses
    if key not in lives or key not in state.ids:
        return followed  # it has been joined with another
    own = regroup.slot_of(state, key)
    others = [at for at, other in enumerate(state.ids.tolist()) if at != own and _emerged(lives, other)]
    here = statistics_of(state.dishes, np.array(others, np.int64))
    compared = both(here, aside.statistics)
    if not len(compared.size):
        return followed
    ratios = log_ratios_together(statistics_of(state.dishes, np.array([own])), compared, prior)
    best = int(ratios.argmax())
    if ratios[best] <= 0.0:
        return followed
    is_aside = best >= len(others)
    other = int(aside.ids[best - len(others)] if is_aside else state.ids[others[best]])
    fresh = followed.changes.emerged
    older, younger = sorted((key, other), key=lambda one: (one in fresh, one))
    if is_aside:
        state, aside = regroup.bring_back(state, aside, other, key, prior)
        state = regroup.rename(state, other, older)
    else:
        state = regroup.join(state, older, younger, prior)
    united = dict(lives)
    _unite(united, older, younger)
    united[older] = united[older]._replace(dormant=False)
    changes = Changes(*(tuple(one for one in kind if one != younger) for kind in followed.changes))
    if lives[older].dormant:
        changes = changes._replace(recurred=(*changes.recurred, older))
    names = {younger: older}
    return followed._replace(
        chain=chain._replace(state=state, aside=aside, life=chain.life._replace(subclasses=united)),
        past=relabel(followed.past, number, names),
        joined={was: names.get(now, now) for was, now in followed.joined.items()} | names,
        changes=changes,
    )


def _emerged(lives: Mapping[int, Subclass], key: int) -> bool:
    return key in lives and lives[key].emerged


def _part(followed: Followed, number: int, key: int) -> Followed:
    """Part a subclass in two if its remembered rows say so; those that are not remembered stay with the larger."""
    chain, prior = followed.chain, followed.chain.known.prior
    life, state = chain.life.subclasses[key], chain.state
    seqs, rows, keys = remembered(followed.past, number, key)
    if life.kept is not None:
        more = ~np.isin(life.kept.seq, seqs)
        seqs, rows = np.concatenate([seqs, life.kept.seq[more]]), np.concatenate([rows, life.kept.rows[more]])
        keys = (*keys, *only(life.kept, more).keys)
    smaller = part(homogeneous(rows), float(state.franchise.alpha[0]), LEAST_PART, prior)
    if smaller is None:
        return followed
    new = state.next_id
    state = regroup.separate(state, key, rows[smaller], seqs[smaller], prior)
    sizes = {one: int(state.dishes.size[regroup.slot_of(state, one)]) for one in (key, new)}
    own = keep(seqs[smaller], rows[smaller], [keys[at] for at in np.flatnonzero(smaller)])
    share = sizes[new] / (sizes[key] + sizes[new])
    lives = dict(chain.life.subclasses)
    lives[new] = life._replace(recent=(), arrivals=share * life.arrivals, announced_size=sizes[new], kept=own)
    lives[key] = life._replace(
        arrivals=(1.0 - share) * life.arrivals,
        announced_size=sizes[key],
        kept=keep(seqs[~smaller], rows[~smaller], [keys[at] for at in np.flatnonzero(~smaller)]),
    )
    return followed._replace(
        chain=chain._replace(state=state, life=chain.life._replace(subclasses=lives)),
        past=reseat(followed.past, number, seqs[smaller], new),
        parted=followed.parted | {new: Parted(key, seqs[smaller])},
        changes=followed.changes._replace(grew=tuple(one for one in followed.changes.grew if one != key)),
    )


def _keep_within_bounds(followed: Followed, parameters: Parameters) -> Followed:
    """Hold what has emerged; set aside the least supported that are too many, forget those too many there."""
    chain = followed.chain
    lives, state = chain.life.subclasses, chain.state
    sizes, n_classes = _sizes(chain), len(chain.known.size)
    support = dict(zip(state.ids.tolist(), state.franchise.seated[0, n_classes:].tolist(), strict=True))
    emerged = {key for key in sizes if _emerged(lives, key) and sizes[key] >= HELD_WITH}
    active = best_supported(chain.life, emerged, support, sizes, parameters.max_subclasses)
    unserved = state.ids[regroup.tables_of(state) == 0].tolist()
    state = sampler.hold(chain.known, state, emerged)
    state, aside = regroup.set_aside(state, chain.aside, (emerged - active).intersection(unserved))
    if len(aside.ids) > parameters.max_dormant:
        kept = dict(zip(aside.ids.tolist(), aside.statistics.size.tolist(), strict=True))
        aside = regroup.only_aside(aside, best_supported(chain.life, kept, {}, kept, parameters.max_dormant))
    life, ended = forget(chain.life, {*state.ids.tolist(), *aside.ids.tolist()})
    return followed._replace(
        chain=chain._replace(state=state, aside=aside, life=life), ended=ended, seated=chain.state
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
    The chain, which remembers the estimate it told, and the events.
    """
    chain, changes = followed.chain, followed.changes
    lives, state, known = chain.life.subclasses, followed.seated, chain.known
    told: dict[str, Any] = {"batch": decisions[0].batch, "seq": decisions[-1].seq, "model": trained.fingerprint}
    events: list[ev.Event] = []

    def describe(key: int) -> dict[str, Any]:
        slot, life = regroup.slot_of(state, key), lives[key]
        return {
            "exemplars": () if life.kept is None else exemplars(state.dishes, slot, life.kept, known),
            "explanation": explain(state.dishes, slot, known, chain.frozen, trained.space, trained.names, labels),
        }

    def size(key: int) -> int:
        return int(state.dishes.size[regroup.slot_of(state, key)])

    for younger, older in followed.joined.items():
        if younger < before and older in state.ids:
            events.append(ev.SubclassMerged(subclass_id=younger, into=older, size=size(older), **told))
    for new, (old, _) in followed.parted.items():
        events.append(
            ev.SubclassSplit(subclass_id=old, new_id=new, sizes=(size(old), size(new)), **describe(new), **told)
        )
    kinds = (ev.SubclassEmerged, ev.SubclassGrew, ev.SubclassDormant, ev.SubclassRecurred)
    for kind, keys in zip(kinds, changes, strict=True):
        for key in keys:
            if key not in lives:
                continue
            life = lives[key]
            events.append(
                kind(
                    subclass_id=key,
                    first_seen=life.first,
                    last_seen=life.last,
                    size=size(key),
                    share=size(key) / state.seen,
                    support=float(state.franchise.seated[0, len(known.size) + regroup.slot_of(state, key)]),
                    trend=trend(life, decisions[-1].seq),
                    **describe(key),
                    **told,
                )
            )
    for key, life in followed.ended.items():
        events.append(ev.SubclassForgotten(subclass_id=key, last_seen=life.last, **told))
    emerged = tuple(key for key, life in lives.items() if life.emerged)
    delta = estimate_new_classes(len(emerged), len(trained.known.ids), len(trained.labels))
    if delta != chain.life.delta:
        events.append(ev.NewClassesChanged(delta=delta, before=chain.life.delta, subclasses=emerged, **told))
    return chain._replace(life=chain.life._replace(delta=delta)), events
