"""Undo of commands by inverse steps: the stream keeps later learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_osr.discovery.event_base import Event
from stream_osr.discovery.events import ActionUndone
from stream_osr.discovery.histories import lifecycle
from stream_osr.errors import NothingToUndo
from stream_osr.model import class_edits, edit
from stream_osr.model.edit import Seat
from stream_osr.model.transfer import translated
from stream_osr.parameters import Label, Parameters
from stream_osr.stream.announcements import about
from stream_osr.stream.chain import Chain, awake, refreshed
from stream_osr.stream.class_shift import class_shifts, without_class
from stream_osr.stream.naming import with_estimate, with_muted
from stream_osr.stream.new_class_references import with_references
from stream_osr.stream.recent_instances import RecentInstances, places, unshared
from stream_osr.stream.state import Stream
from stream_osr.stream.undo_log import FrameVerdict, Labelling, MovedTables, Promotion
from stream_osr.support.parallel import one_thread
from stream_osr.training.trained import TrainedModel


def undo_last(trained: TrainedModel, stream: Stream, parameters: Parameters) -> tuple[Stream, list[Event]]:
    """Undo the last promotion, mute, label or verdict on a moved frame that has taken effect.

    Raises
    ------
    NothingToUndo
        If there is none.
    """
    if not stream.undo_log:
        raise NothingToUndo(
            "there is no promotion, mute, late label or verdict on a moved frame to undo. "
            "Labels from before freeze() stay"
        )
    action = stream.undo_log[-1]
    stream = stream._replace(undo_log=stream.undo_log[:-1])
    common = about(trained, stream.state)
    with one_thread():
        if isinstance(action, Labelling):
            stream = _undo_label(stream, action, parameters)
            return with_references(trained, _close_class(trained, stream, action.label)), []
        if isinstance(action, FrameVerdict):
            if stream.frame is not None:
                own: dict[str, Any] = dict(zip(action._fields[1:], action[1:], strict=True))
                stream = stream._replace(frame=stream.frame._replace(**own))
            return stream, [ActionUndone(action="frame", subclass_ids=(), **common)]
        before = set(stream.state.ids.tolist())
        if isinstance(action, Promotion):
            stream = _give_back(stream, action)
            stream = with_references(trained, _close_class(trained, stream, action.label))
            again = tuple(key for key in action.subclasses[0] if key in set(stream.state.ids.tolist()) - before)
            event = ActionUndone(action="promotion", subclass_ids=again, label=action.label, **common)
        else:
            stream = with_muted(stream, action.subclasses, muted=False)
            again = tuple(key for key in action.subclasses[0] if key in before)
            event = ActionUndone(action="mute", subclass_ids=again, **common)
        return with_estimate(trained, stream, [event])


# Promotions


def _give_back(stream: Stream, action: Promotion) -> Stream:
    """Make named subclasses emerging again in every chain, together with the guests at their tables.

    They followed the class shift since. They return to their former location, with the instances that they have now.
    """
    j, recent, chains = stream.labels.index(action.label), stream.recent, []
    back = np.zeros(0) if action.shift is None else action.shift - class_shifts(stream)[j]
    for number, chain in enumerate(stream.chains):
        if back.any():
            slots = class_edits.slots_of(chain.known.ids, action.subclasses[number])
            chain = chain._replace(known=translated(chain.known, slots, back))
        given, recent = _given_back(chain, number, recent, action, j)
        chains.append(given)
    return _renumber(stream._replace(chains=tuple(chains), recent=recent), stream.known.ids)


def _given_back(
    chain: Chain, number: int, recent: RecentInstances, action: Promotion, j: int
) -> tuple[Chain, RecentInstances]:
    known, state, window = chain.known, chain.state, chain.state.window
    keys = [key for key in action.subclasses[number] if key in known.ids]
    at, tables = places(recent, state.window_seq), action.tables[number]
    sat = dict(zip(tables.seq.tolist(), tables.owner_subclass.tolist(), strict=True))
    then = np.array([sat.get(seq, -1) for seq in state.window_seq.tolist()], np.int64)
    sits = np.where(at < 0, then, np.append(recent.subclass[number], -1)[at])
    home = _homes(chain, tables, keys, sits, j)
    goes = home[window.table]
    member = sits == goes
    for i in np.flatnonzero(np.isin(sits, keys) & ~member):  # it has sat down elsewhere since
        known = class_edits.take_out(known, int(sits[i]), window.rows[i, :-1], j)
    changed = (np.isin(sits, keys) | (goes >= 0)) & ~member & (at >= 0)
    recent = unshared(recent)
    recent.subclass[number, at[changed]] = goes[changed]
    size = known.dishes.size[class_edits.slots_of(known.ids, keys)]
    empty = [key for key, n in zip(keys, size.tolist(), strict=True) if not n and key not in goes]
    if empty:
        known = class_edits.without_subclasses(known, class_edits.slots_of(known.ids, empty))
        home = np.where(np.isin(home, empty), -1, home)
    keys = [key for key in keys if key not in empty]
    lives = {key: life for key, life in action.lives[number].subclasses.items() if key in keys}
    held = {key for key in keys if key not in home or (key in lives and (lives[key].emerged or lives[key].muted))}
    if len(action.ranks[number]):
        ranks = known.ranks.copy()
        ranks[j] = action.ranks[number]
        known = known._replace(ranks=ranks)
    moved = class_edits.give_back(known, state, keys, home, member, held)
    both = sorted({**chain.life.subclasses, **lives}.items(), key=lambda item: item[1].first.seq)
    life = lifecycle(dict(both), chain.life.delta)
    return chain._replace(known=moved.known, frozen=moved.frozen, state=moved.state, life=life), recent


def _homes(chain: Chain, tables: MovedTables, keys: Sequence[int], sits: np.ndarray, j: int) -> np.ndarray:
    """Find the subclass to which every table returns, -1 if none, shape (T,).

    While the tables are the same as at the naming, each returns to its own subclass. Later, tables of the class with
    one of their instances go to them. All tables do if nothing else of the class is left.
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
    slots = class_edits.slots_of(known.ids, keys)
    emptied = known.seated[j, slots].sum() >= known.size[j]
    largest = keys[int(np.argmax(known.dishes.size[slots]))]
    for table in np.flatnonzero(serving):
        guests = sits[chain.state.window.table == table]
        members, counts = np.unique(guests[np.isin(guests, keys)], return_counts=True)
        if len(members):
            home[table] = members[np.argmax(counts)]
        elif emptied:
            home[table] = largest
    return home


# Labels


def _undo_label(stream: Stream, action: Labelling, parameters: Parameters) -> Stream:
    """Remove a labelled instance from its current subclass, wherever that is now, and restore its former seat."""
    row, chains = action.row, stream.chains
    j = stream.labels.index(action.label) if action.label in stream.labels else -1
    if j >= 0 and action.shift is not None:
        row = row + class_shifts(stream)[j] - action.shift
    if action.seq >= 0:
        chains = tuple(awake(chain, {home}) for chain, home in zip(chains, action.subclass, strict=True))
    each = zip(chains, action.into, action.opened_table, strict=True)
    chains = tuple(_unlearn(chain, into, row, j, new_classes) for chain, into, new_classes in each)
    after = _renumber(stream._replace(chains=chains), stream.known.ids)
    return after if action.seq < 0 else _seat_again(after, action, parameters)


def _unlearn(chain: Chain, into: int, row: np.ndarray, j: int, opened_table: bool) -> Chain:
    if into in chain.known.ids:
        known = class_edits.take_out(chain.known, into, row, j, float(opened_table))
        slot = class_edits.slots_of(known.ids, [into])
        if not known.dishes.size[slot[0]] and into not in known.named:
            known = class_edits.without_subclasses(known, slot)
        return refreshed(chain, known)
    if into in chain.state.ids:
        return chain._replace(state=edit.withdraw(chain.state, row, -1, into, 0.0, chain.known.prior))
    return chain


def _seat_again(stream: Stream, action: Labelling, parameters: Parameters) -> Stream:
    """Restore the former seat of an instance whose label was undone, in each chain where the seat still exists."""
    state, recent = stream.state, stream.recent
    seats = [_place(chain, number, action, stream.labels) for number, chain in enumerate(stream.chains)]
    latest = state.seen - int(recent.batches[-1]) if len(recent.batches) else 0
    first = min([state.seen - parameters.window_after(latest), *state.window_seq[:1].tolist()])
    live = action.seq >= first and all(seat is not None and seat.live for seat in seats)
    share = 0.5 ** ((state.seen - action.seen) / parameters.half_life)
    back = []
    for chain, place, home in zip(stream.chains, seats, action.subclass, strict=True):
        if place is not None:
            if home in chain.known.ids:  # it was named
                owner = class_edits.owner_of(chain.known, home)
                chain = refreshed(chain, class_edits.put_in(chain.known, home, action.row, owner))
            weight = share * place.weight
            prior = chain.known.prior
            state = edit.put_back(chain.state, action.row, action.seq, place, weight, live, prior)
            chain = chain._replace(state=state)
        back.append(chain)
    if (at := int(places(recent, np.array(action.seq)))) >= 0:
        recent, homes = unshared(recent), zip(action.subclass, seats, strict=True)
        recent.keys[at], recent.subclass[:, at] = action.key, [-1 if seat is None else key for key, seat in homes]
    return stream._replace(chains=tuple(back), recent=recent)


def _place(chain: Chain, number: int, action: Labelling, labels: Sequence[Label]) -> Seat | None:
    """Find the former seat of a labelled instance in one chain, or None if its subclass or class has gone."""
    home, seat, label = action.subclass[number], action.seats[number], action.classes[number]
    if home in chain.state.ids:
        return seat._replace(subclass=home, j=-1)
    if home in chain.known.ids:
        return seat._replace(subclass=-1, j=class_edits.owner_of(chain.known, home))
    if home >= 0 or (label is not None and label not in labels):
        return None
    return seat._replace(subclass=-1, j=-1 if label is None else labels.index(label))


# Classes and subclasses that are gone


def _renumber(stream: Stream, before: np.ndarray) -> Stream:
    """Update the positions of the leader's known subclasses in the delayed decisions."""
    now = {int(key): slot for slot, key in enumerate(stream.known.ids)}
    place = np.array([now.get(int(key), -1) for key in before] + [-1])
    waiting = stream.waiting
    return stream._replace(waiting=waiting._replace(responsible=place[waiting.responsible]))


def _close_class(trained: TrainedModel, stream: Stream, label: Label) -> Stream:
    """Drop an empty class, unless instances of the stream were decided as it or sit in it.

    Such a class stays without a density. No instance is recognized as it until a person labels or names something.
    """
    if label not in stream.labels:
        return stream
    j = stream.labels.index(label)
    if j < len(trained.labels) or any(chain.known.size[j] for chain in stream.chains):
        return stream
    probabilities, waiting = stream.waiting.probabilities.copy(), stream.waiting
    probabilities[:, -1] = np.minimum(probabilities[:, -1] + probabilities[:, j], 1.0)
    probabilities[:, j] = 0.0
    stream = stream._replace(waiting=waiting._replace(probabilities=probabilities))
    if stream.decided[j] or any(label in (d.label, d.first_label) for d in waiting.decisions):
        return stream
    if any((chain.state.franchise.table_dish == j).any() for chain in stream.chains):  # somebody still sits there
        return stream
    dropped = (class_edits.drop_class(chain.known, chain.state, j)._asdict() for chain in stream.chains)
    fewer, responsible = (np.delete(each, j, axis=1) for each in (probabilities, waiting.responsible))
    return stream._replace(
        labels=(*stream.labels[:j], *stream.labels[j + 1 :]),
        chains=tuple(chain._replace(**parts) for chain, parts in zip(stream.chains, dropped, strict=True)),
        decided=(*stream.decided[:j], *stream.decided[j + 1 :]),
        class_shift=without_class(stream.class_shift, j),
        waiting=waiting._replace(probabilities=fewer, responsible=responsible),
    )
