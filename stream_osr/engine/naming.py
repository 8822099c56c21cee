"""A person names what emerged, or mutes it, or takes that back: promotions, mutes and undoing on streams as values.

The identities that people use are those of the first chain. What stands for the same instances in another chain goes
with them (:func:`counterparts`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.discovery import events as ev
from stream_osr.discovery.life import Subclass
from stream_osr.discovery.lives import lifecycle, with_lives, without_lives
from stream_osr.engine.actions import Labelling, Muting, Promotion, Tables, record
from stream_osr.engine.discover import describe, estimate_anew
from stream_osr.engine.evidence import widen
from stream_osr.engine.following import class_shifts, without_class
from stream_osr.engine.opened import with_references
from stream_osr.engine.past import Past, began, places, remembered, unshared
from stream_osr.engine.state import Chain, Stream, Waiting
from stream_osr.errors import InvalidSubclass, NothingToUndo
from stream_osr.model import naming as naming
from stream_osr.model import regroup
from stream_osr.model import step as sampler
from stream_osr.model.blas import one_thread
from stream_osr.model.dishes import log_predictives, means_and_scales
from stream_osr.model.known import Known, densities, log_densities
from stream_osr.model.prior import homogeneous
from stream_osr.showing import typed
from stream_osr.trained import TrainedModel


def promote(
    trained: TrainedModel,
    stream: Stream,
    subclass_ids: Iterable[int],
    label: Label,
    parameters: Parameters,
    number: int = 0,
) -> tuple[Stream, list[ev.Event]]:
    """Make emerging subclasses subclasses of a known class, with all that they have collected.

    Parameters
    ----------
    trained
        The trained model.
    stream
        The stream so far; it does not change.
    subclass_ids
        Identities, in the first chain.
    label
        Label of the class; a new one opens a class.
    parameters
        Settings.
    number
        Place in the order in which people have asked things of the stream.

    Returns
    -------
    The next stream, and what there is to tell.

    Raises
    ------
    InvalidSubclass
        If an id is not one of an emerging subclass.
    """
    with one_thread():
        keys = _checked(stream, subclass_ids, "promoted")
        stream = _awake(stream, keys)
        told = _told(trained, stream)
        events: list[ev.Event] = [
            ev.SubclassPromoted(**_describe(trained, stream, key), label=label, **told) for key in keys
        ]
        stream, subclasses = _with_counterparts(stream, keys, parameters)
        j = stream.labels.index(label) if label in stream.labels else -1
        ranks = tuple(chain.known.ranks[j] if j >= 0 else np.zeros(0) for chain in stream.chains)
        lives = tuple(_lives(chain, own) for chain, own in zip(stream.chains, subclasses, strict=True))
        tables = tuple(_tables(chain, own) for chain, own in zip(stream.chains, subclasses, strict=True))
        action = Promotion(number, label, subclasses, ranks, lives, tables)
        stream = adopt(stream, subclasses, label)._replace(actions=record(stream.actions, [action]))
        stream = with_references(trained, stream)
        return _estimate(trained, stream, events, told)


def mute(
    trained: TrainedModel, stream: Stream, subclass_ids: Iterable[int], parameters: Parameters, number: int = 0
) -> tuple[Stream, list[ev.Event]]:
    """Tell nothing more of emerging subclasses, whose instances stay unknown; arguments as of :func:`promote`."""
    keys = _checked(stream, subclass_ids, "muted")
    stream = _awake(stream, keys)
    for key in keys:
        if key in stream.life.subclasses and stream.life.subclasses[key].muted:
            raise InvalidSubclass(f"subclass {key} is muted already; nothing is told of it")
    told = _told(trained, stream)
    events: list[ev.Event] = [ev.SubclassMuted(**_describe(trained, stream, key), **told) for key in keys]
    subclasses = counterparts(stream, keys)
    chains = tuple(_set_muted(stream, at, own, muted=True) for at, own in enumerate(subclasses))
    actions = record(stream.actions, [Muting(number, subclasses)])
    return _estimate(trained, stream._replace(chains=chains, actions=actions), events, told)


def undo(trained: TrainedModel, stream: Stream, parameters: Parameters) -> tuple[Stream, list[ev.Event]]:
    """Take back the last promotion, mute or label that has taken effect.

    Raises
    ------
    NothingToUndo
        If there is none.
    """
    if not stream.actions:
        raise NothingToUndo(
            "no promotion, mute or late label is left to be taken back; labels from before freeze() stay"
        )
    action = stream.actions[-1]
    stream = stream._replace(actions=stream.actions[:-1])
    told = _told(trained, stream)
    with one_thread():
        if isinstance(action, Labelling):
            stream = _undo_label(stream, action, parameters)
            return with_references(trained, _close_class(trained, stream, action.label)), []
        before = set(stream.state.ids.tolist())
        if isinstance(action, Promotion):
            stream = with_references(trained, _close_class(trained, _undo_promotion(stream, action), action.label))
            again = tuple(key for key in action.subclasses[0] if key in set(stream.state.ids.tolist()) - before)
            event = ev.NamingUndone(action="promotion", subclass_ids=again, label=action.label, **told)
        else:
            chains = (_set_muted(stream, at, own, muted=False) for at, own in enumerate(action.subclasses))
            stream = stream._replace(chains=tuple(chains))
            again = tuple(key for key in action.subclasses[0] if key in before)
            event = ev.NamingUndone(action="mute", subclass_ids=again, **told)
        return _estimate(trained, stream, [event], told)


# Which subclasses


def counterparts(stream: Stream, keys: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Find in every chain the emerging subclasses that stand for the same instances as these of the first one.

    Those of whose remembered instances more than half sit in them in the first chain; of one without a remembered
    instance the place of its mean decides. There may be none.
    """
    seats = stream.past.subclass
    inside = np.isin(seats[0], keys)
    found = [tuple(keys)]
    for number in range(1, len(stream.chains)):
        state = stream.chains[number].state
        own = []
        for slot, key in enumerate(state.ids.tolist()):
            members = seats[number] == key
            if members.any():
                stands = 2 * int((members & inside).sum()) > int(members.sum())
            else:
                stands = _nearest(stream, number, slot) in keys
            if stands:
                own.append(key)
        found.append(tuple(own))
    return tuple(found)


def _nearest(stream: Stream, number: int, slot: int) -> int:
    """Emerging subclass of the first chain that is densest at the mean of one of another; -1: something else is."""
    chain, first = stream.chains[number], stream.chains[0]
    mean = homogeneous(means_and_scales(chain.state.dishes, chain.known.prior)[0][[slot]])
    known, _, new = log_densities(first.known, first.frozen, mean)
    emerging = log_predictives(mean, first.state.dishes, first.known.prior)[0]
    best = int(np.argmax(emerging))
    return int(first.state.ids[best]) if emerging[best] > max(known.max(), new[0]) else -1


def _with_counterparts(
    stream: Stream, keys: Sequence[int], parameters: Parameters
) -> tuple[Stream, tuple[tuple[int, ...], ...]]:
    """Find the counterparts; a chain without any gets subclasses like those of the first chain."""
    subclasses = list(counterparts(stream, keys))
    chains, past = list(stream.chains), stream.past
    for number in range(1, len(chains)):
        if subclasses[number]:
            continue
        own = []
        for key in keys:
            own.append(chains[number].state.next_id)
            chains[number], past = _split_off(chains[0], chains[number], number, past, key, parameters)
        subclasses[number] = tuple(own)
    return stream._replace(chains=tuple(chains), past=past), tuple(subclasses)


def _split_off(
    first: Chain, chain: Chain, number: int, past: Past, key: int, parameters: Parameters
) -> tuple[Chain, Past]:
    """Gather the instances of a subclass of the first chain, wherever another chain seats them."""
    state, slot = first.state, int(naming.slots_of(first.state.ids, [key])[0])
    dishes = naming.restated(state.dishes, slot, first.known.prior, chain.known.prior)
    at = np.flatnonzero((past.subclass[0] == key) & ~np.isin(past.subclass[number], chain.known.ids))
    home = past.subclass[number, at]
    weight = [0.5 ** ((state.seen - first) / parameters.half_life) for first in began(past, at).tolist()]
    moved = naming.split_off(chain.known, chain.state, dishes, past.rows[at], past.seq + at, home, np.array(weight))
    past = unshared(past)
    past.subclass[number, at] = chain.state.next_id
    return chain._replace(state=moved), past


def _checked(stream: Stream, subclass_ids: Iterable[int], done: str) -> tuple[int, ...]:
    """Check that these are ids of emerging subclasses; each once, in order."""
    if isinstance(subclass_ids, str) or not isinstance(subclass_ids, Iterable):
        raise InvalidSubclass(f"subclass_ids is {typed(subclass_ids)}; expected a list of ids, such as [7]")
    keys: list[int] = []
    for key in subclass_ids:
        try:
            keys.append(index(key))
        except TypeError:
            raise InvalidSubclass(f"subclass id is {typed(key)}; expected whole numbers, such as [7]") from None
    if not keys:
        raise InvalidSubclass(f"no subclass id was given; name those to be {done}, such as [7]")
    known, state = stream.known, stream.state
    aside = stream.chains[0].aside.ids
    for key in keys:
        if key in state.ids or key in aside:
            continue
        if key in known.ids:
            label = stream.labels[naming.owner_of(known, key)]
            raise InvalidSubclass(
                f"subclass {key} is one of the known class {label!r}; only emerging subclasses can be {done}"
            )
        what = "has left the model" if 0 <= key < state.next_id else "does not exist"
        there = ", ".join(map(str, sorted([*state.ids.tolist(), *aside.tolist()]))) or "none"
        raise InvalidSubclass(
            f"subclass {key} {what}; the emerging subclasses are: {there} (summary() has their sizes)"
        )
    return tuple(dict.fromkeys(keys))


def _awake(stream: Stream, keys: Sequence[int]) -> Stream:
    """Put those that are set aside on the menu again, and in the other chains what stands for them."""
    seats = stream.past.subclass
    inside = np.isin(seats[0], keys)
    woken = [set(keys)]
    for number, chain in enumerate(stream.chains[1:], start=1):
        members = [(key, seats[number] == key) for key in chain.aside.ids.tolist()]
        woken.append({key for key, own in members if 2 * int((own & inside).sum()) > int(own.sum())})
    chains = tuple(_bring_back(chain, own) for chain, own in zip(stream.chains, woken, strict=True))
    return stream._replace(chains=chains)


def _bring_back(chain: Chain, keys: Collection[int]) -> Chain:
    for key in chain.aside.ids.tolist():
        if key in keys:
            state, aside = regroup.bring_back(chain.state, chain.aside, key, None, chain.known.prior)
            chain = chain._replace(state=state, aside=aside)
    return chain


# What is told


def _told(trained: TrainedModel, stream: Stream) -> dict[str, Any]:
    state = stream.state
    return {"batch": state.batches - 1, "seq": state.seen - 1, "model": trained.fingerprint}


def _describe(trained: TrainedModel, stream: Stream, key: int) -> dict[str, Any]:
    first = stream.chains[0]
    life = with_lives(first.life, {key: _life(stream, 0, key)})
    return describe(trained, stream.labels, first._replace(life=life), key)


def _estimate(
    trained: TrainedModel, stream: Stream, events: Sequence[ev.Event], told: dict[str, Any]
) -> tuple[Stream, list[ev.Event]]:
    """Estimate the number of new classes anew; the first chain tells of it."""
    first = stream.chains[0]
    life, changed = estimate_anew(trained, first.life, told)
    return stream._replace(chains=(first._replace(life=life), *stream.chains[1:])), [*events, *changed]


def _life(stream: Stream, number: int, key: int) -> Subclass:
    """Life of a subclass; made of the remembered instances where nothing has arrived in it."""
    known = stream.chains[number].life.subclasses.get(key)
    if known is not None:
        return known
    past = stream.past
    at = remembered(past, number, key)
    if not len(at):
        now = ev.Moment(stream.state.seen - 1, None, None)
        return Subclass(now, now)
    first, last = (ev.Moment(past.seq + end, past.times[end], past.keys[end]) for end in at[[0, -1]].tolist())
    return Subclass(first, last)


def _lives(chain: Chain, keys: Sequence[int]) -> dict[int, Subclass]:
    lives = chain.life.subclasses
    return {key: lives[key] for key in keys if key in lives}


def _set_muted(stream: Stream, number: int, keys: Sequence[int], *, muted: bool) -> Chain:
    chain = stream.chains[number]
    changed = {key: _life(stream, number, key)._replace(muted=muted) for key in keys if key in chain.state.ids}
    return chain._replace(life=with_lives(chain.life, changed))


# Promotions, chain by chain


def adopt(stream: Stream, subclasses: Sequence[Sequence[int]], label: Label) -> Stream:
    """Make these emerging subclasses of every chain subclasses of the class with this label, perhaps a new one."""
    j = stream.labels.index(label) if label in stream.labels else len(stream.labels)
    chains = tuple(_adopt(stream, at, own, j) for at, own in enumerate(subclasses))
    if j == len(stream.labels):
        stream = stream._replace(
            labels=(*stream.labels, label),
            waiting=_widen(stream, chains[0], subclasses[0]),
            decided=(*stream.decided[:-1], 0, stream.decided[-1]),
        )
    return stream._replace(chains=chains)


def _adopt(stream: Stream, number: int, keys: Sequence[int], j: int) -> Chain:
    """Make these subclasses of one chain subclasses of class j."""
    chain = stream.chains[number]
    before = chain.known.size[j] if j < len(chain.known.size) else 0.0
    inside = np.isin(stream.past.subclass[number], keys)
    rows, held_by = stream.past.rows[inside], stream.past.subclass[number, inside]
    known, frozen, state = naming.adopt(chain.known, chain.state, keys, j, rows)
    ranks = known.ranks.copy()
    ranks[j] = naming.rank_levels(known, frozen, j, rows, held_by, float(known.size[j] - before))
    life = without_lives(chain.life, keys)
    return chain._replace(known=known._replace(ranks=ranks), frozen=frozen, state=state, life=life)


def _widen(stream: Stream, first: Chain, keys: Sequence[int]) -> Waiting:
    """Make room for the class that was opened; in it the subclass that an instance sits in is responsible for it."""
    waiting = widen(stream.waiting, len(stream.labels) + 1)
    inside = np.isin(waiting.subclass, keys)
    responsible = waiting.responsible.copy()
    responsible[inside, -1] = naming.slots_of(first.known.ids, waiting.subclass[inside].tolist())
    return waiting._replace(responsible=responsible)


def _tables(chain: Chain, keys: Sequence[int]) -> Tables:
    """Tables that serve these emerging subclasses."""
    state, franchise = chain.state, chain.state.franchise
    served = franchise.table_dish - (len(franchise.menu) - len(state.ids))
    subclass = np.append(-1, state.ids)[np.maximum(served, -1) + 1]
    at = np.flatnonzero(np.isin(subclass, keys))
    guests = np.flatnonzero(np.isin(state.window.table, at))
    return Tables(
        at,
        subclass[at],
        franchise.table_mass[at],
        state.window_seq[guests],
        subclass[state.window.table[guests]],
    )


def _undo_promotion(stream: Stream, action: Promotion) -> Stream:
    """Give the subclasses back in every chain."""
    j = stream.labels.index(action.label)
    names = stream.known.ids
    chains, past = [], stream.past
    for number, chain in enumerate(stream.chains):
        given, past = _give_back(chain, number, past, action, j)
        chains.append(given)
    return _renumber(stream._replace(chains=tuple(chains), past=past), names)


def _give_back(chain: Chain, number: int, past: Past, action: Promotion, j: int) -> tuple[Chain, Past]:
    """Give the subclasses of one chain back; guests at their tables go with them."""
    known, state = chain.known, chain.state
    keys = [key for key in action.subclasses[number] if key in known.ids]
    window = state.window
    place = places(past, state.window_seq)
    tables = action.tables[number]
    sat = dict(zip(tables.seq.tolist(), tables.held_by.tolist(), strict=True))
    then = np.array([sat.get(seq, -1) for seq in state.window_seq.tolist()], np.int64)
    sits = np.where(place < 0, then, np.append(past.subclass[number], -1)[place])
    home = _homes(chain, tables, keys, sits, j)
    goes = home[window.table]
    member = sits == goes
    for i in np.flatnonzero(np.isin(sits, keys) & ~member):  # it has sat down elsewhere since
        known = naming.take_out(known, int(sits[i]), window.rows[i, :-1], j)
    goes_now = (np.isin(sits, keys) | (goes >= 0)) & ~member & (place >= 0)
    past = unshared(past)
    past.subclass[number, place[goes_now]] = goes[goes_now]
    size = known.dishes.size[naming.slots_of(known.ids, keys)]
    empty = [key for key, n in zip(keys, size.tolist(), strict=True) if not n and key not in goes]
    if empty:
        known = naming.without_subclasses(known, naming.slots_of(known.ids, empty))
        home = np.where(np.isin(home, empty), -1, home)
    keys = [key for key in keys if key not in empty]
    lives = {key: life for key, life in action.lives[number].items() if key in keys}
    held = {key for key in keys if key not in home or (key in lives and (lives[key].emerged or lives[key].muted))}
    if len(action.ranks[number]):
        ranks = known.ranks.copy()
        ranks[j] = action.ranks[number]
        known = known._replace(ranks=ranks)
    moved = naming.give_back(known, state, keys, home, member, held)
    both = {**chain.life.subclasses, **lives}
    life = lifecycle(dict(sorted(both.items(), key=lambda item: item[1].first.seq)), chain.life.delta)
    return chain._replace(known=moved.known, frozen=moved.frozen, state=moved.state, life=life), past


def _homes(chain: Chain, tables: Tables, keys: Sequence[int], sits: np.ndarray, j: int) -> np.ndarray:
    """Say which of the subclasses every table goes to, -1: none, shape (T,).

    As long as the tables stand as they did when the subclasses were named, each goes back to its own. Later those of
    the class with one of their instances go to them; and all do if nothing else is left of the class.
    """
    franchise, known = chain.state.franchise, chain.known
    home = np.full(len(franchise.table_dish), -1)
    if not keys:
        return home
    serving, at = franchise.table_dish == j, tables.table
    stand = bool(np.all(at < len(home)) and np.isin(tables.subclass, keys).all() and serving[at].all())
    if stand and np.array_equal(franchise.table_mass[at], tables.mass):
        home[at] = tables.subclass
        return home
    slots = naming.slots_of(known.ids, keys)
    emptied = known.seated[j, slots].sum() >= known.size[j]
    largest = keys[int(np.argmax(known.dishes.size[slots]))]
    for table in np.flatnonzero(serving):
        guests = sits[chain.state.window.table == table]
        inside, counts = np.unique(guests[np.isin(guests, keys)], return_counts=True)
        if len(inside):
            home[table] = inside[np.argmax(counts)]
        elif emptied:
            home[table] = largest
    return home


def let_go(past: Past, chains: Sequence[Chain], results: Sequence[sampler.BatchResult]) -> list[Chain]:
    """Take instances that have left a named subclass for an emerging one out of its statistics: each counts once.

    Parameters
    ----------
    past
        What is remembered, as it was before the batch.
    chains
        The chains after it.
    results
        What the batch moved in each.
    """
    out = []
    for number, (chain, result) in enumerate(zip(chains, results, strict=True)):
        known = chain.known
        if known.named:
            at = places(past, result.moved)
            for place in at[at >= 0].tolist():
                key = int(past.subclass[number, place])
                if key in known.named:
                    known = naming.take_out(known, key, past.rows[place], naming.owner_of(known, key))
        out.append(chain if known is chain.known else _changed(chain, known))
    return out


# Labels taken back


def _undo_label(stream: Stream, action: Labelling, parameters: Parameters) -> Stream:
    """Take the instance out of the subclass that took it in, and seat it where it sat."""
    if action.seq >= 0:
        woken = zip(stream.chains, action.subclass, strict=True)
        stream = stream._replace(chains=tuple(_bring_back(chain, {home}) for chain, home in woken))
    names = stream.known.ids
    j = stream.labels.index(action.label) if action.label in stream.labels else -1
    row = action.row
    if j >= 0 and action.shift is not None:
        row = row + class_shifts(stream)[j] - action.shift
    chains = tuple(
        _unlearn(chain, into, row, j, opened)
        for chain, into, opened in zip(stream.chains, action.into, action.opened, strict=True)
    )
    stream = _renumber(stream._replace(chains=chains), names)
    if action.seq < 0:
        return stream
    found = [_place(stream, number, action) for number in range(len(chains))]
    window = stream.state.window_seq
    first = min([stream.state.seen - parameters.window, *window[:1].tolist()])
    live = action.seq >= first and all(place is not None and place.live for place in found)
    share = 0.5 ** ((stream.state.seen - action.seen) / parameters.half_life)
    back = []
    for number, (chain, place) in enumerate(zip(chains, found, strict=True)):
        if place is None:
            back.append(chain)
            continue
        home = action.subclass[number]
        if home in chain.known.ids:  # it was named
            known = naming.put_in(chain.known, home, action.row, naming.owner_of(chain.known, home))
            chain = _changed(chain, known)
        state = naming.put_back(chain.known, chain.state, action.row, action.seq, place, share * place.weight, live)
        back.append(chain._replace(state=state))
    past = unshared(stream.past)
    if (at := int(places(past, np.array(action.seq)))) >= 0:
        subclass = [-1 if place is None else key for key, place in zip(action.subclass, found, strict=True)]
        past.keys[at], past.subclass[:, at] = action.key, subclass
    return stream._replace(chains=tuple(back), past=past)


def _unlearn(chain: Chain, into: int, row: np.ndarray, j: int, opened: bool) -> Chain:
    """Take a labelled row out of the subclass that took it in, wherever that lives now."""
    if into in chain.known.ids:
        known = naming.take_out(chain.known, into, row, j, float(opened))
        slot = naming.slots_of(known.ids, [into])
        if not known.dishes.size[slot[0]] and into not in known.named:
            known = naming.without_subclasses(known, slot)
        return _changed(chain, known)
    if into in chain.state.ids:
        return chain._replace(state=sampler.withdraw(chain.known, chain.state, row, -1, into, 0.0))
    return chain


def _place(stream: Stream, number: int, action: Labelling) -> naming.Seat | None:
    """Where a labelled instance may sit again in one chain; None if what held it has gone."""
    chain, home, seat = stream.chains[number], action.subclass[number], action.seats[number]
    if home in chain.state.ids:
        return seat._replace(subclass=home, j=-1)
    if home in chain.known.ids:
        return seat._replace(subclass=-1, j=naming.owner_of(chain.known, home))
    label = action.classes[number]
    if home >= 0 or (label is not None and label not in stream.labels):
        return None
    return seat._replace(subclass=-1, j=-1 if label is None else stream.labels.index(label))


def _changed(chain: Chain, known: Known) -> Chain:
    """Carry a chain over to known classes that have changed; their number is the same."""
    frozen = densities(known)
    state = sampler.refresh_classes(chain.state, chain.known, known, frozen)
    return chain._replace(known=known, frozen=frozen, state=state)


# Classes and subclasses that are gone


def _renumber(stream: Stream, before: np.ndarray) -> Stream:
    """Follow known subclasses of the first chain to their new places in the decisions held back."""
    now = {int(key): slot for slot, key in enumerate(stream.known.ids)}
    place = np.array([now.get(int(key), -1) for key in before] + [-1])
    waiting = stream.waiting
    return stream._replace(waiting=waiting._replace(responsible=place[waiting.responsible]))


def _close_class(trained: TrainedModel, stream: Stream, label: Label) -> Stream:
    """Drop a class that nothing is left of, unless instances of the stream were decided as it or sit in it.

    Such a class stays, without a density: nothing is recognized as it until somebody labels or names something.
    """
    if label not in stream.labels:
        return stream
    j = stream.labels.index(label)
    if j < len(trained.labels) or any(chain.known.size[j] for chain in stream.chains):
        return stream
    probabilities, waiting = stream.waiting.probabilities.copy(), stream.waiting
    probabilities[:, -1] += probabilities[:, j]
    probabilities[:, j] = 0.0
    waiting = waiting._replace(probabilities=probabilities)
    told = any(label in (d.label, d.first_label) for d in waiting.decisions)
    sits = any((chain.state.franchise.table_dish == j).any() for chain in stream.chains)
    if stream.decided[j] or told or sits:
        return stream._replace(waiting=waiting)
    chains = []
    for chain in stream.chains:
        known, frozen, state = naming.drop_class(chain.known, chain.state, j)
        chains.append(chain._replace(known=known, frozen=frozen, state=state))
    return stream._replace(
        labels=(*stream.labels[:j], *stream.labels[j + 1 :]),
        chains=tuple(chains),
        decided=(*stream.decided[:j], *stream.decided[j + 1 :]),
        following=without_class(stream.following, j),
        waiting=waiting._replace(
            probabilities=np.delete(probabilities, j, axis=1),
            responsible=np.delete(waiting.responsible, j, axis=1),
        ),
    )
