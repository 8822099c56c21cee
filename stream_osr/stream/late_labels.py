"""Late labels: sequential updates of their classes while the stream runs, in every chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from stream_osr.discovery.histories import only, places_of
from stream_osr.discovery.lifecycle import without_row
from stream_osr.model import class_edits, edit
from stream_osr.model.edit import Seat
from stream_osr.model.known import Known, learn_labelled
from stream_osr.model.lifecycle_moves import withdraw_dormant
from stream_osr.model.prior import homogeneous
from stream_osr.parameters import Label, Parameters
from stream_osr.stream.chain import Chain, refreshed
from stream_osr.stream.class_shift import class_shifts
from stream_osr.stream.monitoring import tally
from stream_osr.stream.recent_instances import RecentInstances, began, recall, unshared
from stream_osr.stream.state import Stream, widen
from stream_osr.stream.subclass_identities import count_left_behind
from stream_osr.stream.undo_log import Labelling, record
from stream_osr.support import rules


class Evidence(NamedTuple):
    """A label that waits for the next batch: for a new row, or (``row`` is None) for an earlier key.

    ``number`` is its place in the order of commands to the stream.
    """

    label: Label
    row: Annotated[np.ndarray, rules.array("f", "*", low=-1e12, high=1e12)] | None
    key: Any = None
    number: rules.Count = 0


def learn_evidence(stream: Stream, evidence: Sequence[Evidence], parameters: Parameters) -> tuple[Stream, list[Any]]:
    """Apply labels in order: each is a sequential update of a class (or opens one).

    A class opened by a few labels has the weight of those few instances. That is almost nothing compared with the
    emerged subclass of these instances, which keeps its seats. To name the whole subclass, promote it
    (:func:`stream_osr.stream.naming.promote`).

    Returns
    -------
    The next stream, and the keys that are not (or no longer) remembered.
    """
    if not evidence:
        return stream, []
    labels, recent, decided = list(stream.labels), unshared(stream.recent), list(stream.decided)
    unknown_keys = []
    undo_log: list[Labelling] = []
    for label, row, key, number in evidence:
        if row is None:
            at = recall(recent, key)
            if at < 0:
                unknown_keys.append(key)
                continue
            seats, seen = tuple(recent.subclass[:, at].tolist()), stream.state.seen
            action = Labelling(number, label, recent.rows[at].copy(), (), (), key, recent.seq + at, seats, seen=seen)
            recent.keys[at], recent.subclass[:, at] = None, -1  # a label counts once
        else:
            action = Labelling(number, label, row, (), ())
        if label not in labels:
            labels.append(label)
            decided.insert(-1, 0)
        undo_log.append(action._replace(label=labels[labels.index(label)]))
    learnt = [_learn(chain, at, undo_log, labels, recent, parameters) for at, chain in enumerate(stream.chains)]
    chains = tuple(chain for chain, _ in learnt)
    undo_log = [
        _with_inverse(action, parts, labels, stream)
        for action, *parts in zip(undo_log, *(parts for _, parts in learnt), strict=True)
    ]
    withdrawn = [action.subclass[0] for action in undo_log if action.seq >= 0]
    outliers = count_left_behind(stream.chains[0], chains[0].state, withdrawn)
    stream = stream._replace(
        labels=tuple(labels),
        chains=chains,
        recent=recent,
        waiting=widen(stream.waiting, len(labels)),
        decided=tuple(decided),
        signals=tally(stream.signals, [], outliers),
        undo_log=record(stream.undo_log, undo_log),
    )
    return stream, unknown_keys


_Taken = tuple[int, bool, Seat | None]
"""Result of a label in one chain: the row's new subclass, whether it opened a table there, and its seat before."""


def _with_inverse(action: Labelling, parts: Sequence[_Taken], labels: Sequence[Label], stream: Stream) -> Labelling:
    """Add the inverse of a label to its record. ``stream`` is the stream before the label."""
    into, new_classes, seats = zip(*parts, strict=True)
    seats = tuple(seat for seat in seats if seat is not None)
    shift, j = None, labels.index(action.label)
    if stream.class_shift is not None:
        shift = class_shifts(stream)[j] if j < len(stream.labels) else np.zeros(len(action.row))
    classes = tuple(labels[seat.j] if seat.j >= 0 else None for seat in seats)
    return action._replace(into=into, opened_table=new_classes, seats=seats, classes=classes, shift=shift)


def _learn(
    chain: Chain,
    number: int,
    undo_log: Sequence[Labelling],
    labels: Sequence[Label],
    recent: RecentInstances,
    parameters: Parameters,
) -> tuple[Chain, list[_Taken]]:
    before, state, life, dormant = chain.known, chain.state, chain.life, chain.dormant
    rng = np.random.default_rng([parameters.seed, state.batches, int(before.size.sum()), number])
    known, done = before, list[_Taken]()
    for action in undo_log:
        row, seq, seat = action.row, action.seq, None
        if seq >= 0:
            weight = 0.5 ** ((state.seen - int(began(recent, np.array(seq - recent.seq)))) / parameters.half_life)
            home = action.subclass[number]
            seat = edit.seat_of(state, seq, home, weight)
            state = edit.withdraw(state, row, seq, home, weight, before.prior)
            life = without_row(life, home, seq)
            if home in dormant.ids:
                dormant = withdraw_dormant(dormant, home, row, before.prior)
            if home in known.ids:  # it was named meanwhile
                known = class_edits.take_out(known, home, row, class_edits.owner_of(known, home))
        old = known
        known = learn_labelled(known, homogeneous(row[None])[0], labels.index(action.label), rng, state.next_id)
        state = state._replace(next_id=max(state.next_id, int(known.ids.max()) + 1))
        done.append((*_grown(old, known), seat))
    left = places_of(np.concatenate([state.ids, dormant.ids]), life.ids) < 0  # by their last instance
    gone = left & ~life.announced_unmuted
    life = only(life, ~gone) if gone.any() else life
    return refreshed(chain._replace(state=state, life=life, dormant=dormant), known), done


def _grown(before: Known, after: Known) -> tuple[int, bool]:
    """Return the subclass that gained one instance, and whether a table was opened for it."""
    count = len(before.ids)
    fresh = len(after.ids) > count
    slot = count if fresh else int(np.argmax(after.dishes.size - before.dishes.size))
    return int(after.ids[slot]), bool(after.tables.sum() > before.tables.sum())
