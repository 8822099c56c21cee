"""Labels that come while the stream runs: sequential updates of their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.discovery.lifecycle import without_row
from stream_osr.engine.actions import Labelling, record
from stream_osr.engine.following import class_shifts
from stream_osr.engine.past import began, recall, unshared
from stream_osr.engine.signals import count_left_behind, tally
from stream_osr.engine.state import Chain, Stream, Waiting
from stream_osr.model import step as sampler
from stream_osr.model.known import Known, densities, learn_labelled
from stream_osr.model.naming import Seat, owner_of, seat_of, take_out
from stream_osr.model.prior import homogeneous
from stream_osr.model.regroup import withdraw_aside


class Evidence(NamedTuple):
    """A label that waits for the next batch: for a new row, or (``row`` is None) for an earlier key.

    ``number`` is its place in the order in which people have asked things of the stream.
    """

    label: Label
    row: np.ndarray | None
    key: Any = None
    number: int = 0


def learn_evidence(stream: Stream, evidence: Sequence[Evidence], parameters: Parameters) -> tuple[Stream, list[Any]]:
    """Let labels take effect, in order: each is a sequential update of its class (or opens a class).

    A class that a few labels open has the weight of those few instances: beside the emerged subclass that they came
    from, which keeps its seats, that is almost nothing. Who means the subclass promotes it
    (:func:`stream_osr.engine.naming.promote`).

    Returns
    -------
    The next stream, and keys that are not (or no longer) remembered.
    """
    if not evidence:
        return stream, []
    labels, past, decided = list(stream.labels), unshared(stream.past), list(stream.decided)
    unknown_keys = []
    rows: list[_Labelled] = []
    for label, row, key, number in evidence:
        earlier = None
        if row is None:
            at = recall(past, key)
            if at < 0:
                unknown_keys.append(key)
                continue
            row = past.rows[at].copy()
            earlier = _Earlier(key, past.seq + at, int(began(past, np.array(at))), past.subclass[:, at].copy())
            past.keys[at], past.subclass[:, at] = None, -1  # a label counts once
        if label not in labels:
            labels.append(label)
            decided.insert(-1, 0)
        rows.append(_Labelled(labels.index(label), row, earlier, number))
    learnt = [_learn_labelled(chain, number, rows, parameters) for number, chain in enumerate(stream.chains)]
    done = zip(*(seats for _, seats in learnt), strict=True)
    actions = [_labelling(labels, each, list(taken), stream) for each, taken in zip(rows, done, strict=True)]
    withdrawn = [int(row.earlier.subclass[0]) for row in rows if row.earlier is not None]
    outliers = count_left_behind(stream.chains[0], learnt[0][0].state, withdrawn)
    return (
        stream._replace(
            labels=tuple(labels),
            chains=tuple(chain for chain, _ in learnt),
            past=past,
            waiting=widen(stream.waiting, len(labels)),
            decided=tuple(decided),
            signals=tally(stream.signals, [], outliers),
            actions=record(stream.actions, actions),
        ),
        unknown_keys,
    )


class _Earlier(NamedTuple):
    """Where a labelled instance sat: key, place in the stream, that of its batch, its subclass in each chain."""

    key: Any
    seq: int
    batch_seq: int
    subclass: np.ndarray


class _Labelled(NamedTuple):
    """A whitened row of shape (d,), its class number, its seat if it was decided before, and when it was asked."""

    j: int
    row: np.ndarray
    earlier: _Earlier | None
    number: int


class _Taken(NamedTuple):
    """What became of a labelled row in one chain: the subclass, whether it opened a table, its seat before."""

    into: int
    opened: bool
    seat: Seat | None


def _learn_labelled(
    chain: Chain, number: int, rows: Sequence[_Labelled], parameters: Parameters
) -> tuple[Chain, list[_Taken]]:
    """Update the known classes of one chain by labelled rows, in order."""
    before, state, life, aside = chain.known, chain.state, chain.life, chain.aside
    rng = np.random.default_rng([parameters.seed, state.batches, int(before.size.sum()), number])
    known = before
    done = []
    for j, row, earlier, _ in rows:
        seat = None
        if earlier is not None:
            weight = 0.5 ** ((state.seen - earlier.batch_seq) / parameters.half_life)
            home = int(earlier.subclass[number])
            seat = seat_of(before, state, earlier.seq, home, weight)
            state = sampler.withdraw(before, state, row, earlier.seq, home, weight)
            life = without_row(life, home, earlier.seq)
            if home in aside.ids:
                aside = withdraw_aside(aside, home, row, before.prior)
            if home in known.ids:  # it was named meanwhile
                known = take_out(known, home, row, owner_of(known, home))
        old = known
        known = learn_labelled(known, homogeneous(row[None])[0], j, rng, state.next_id)
        state = state._replace(next_id=max(state.next_id, int(known.ids.max()) + 1))
        done.append(_Taken(*_grown(old, known), seat))
    frozen = densities(known)
    state = sampler.refresh_classes(state, before, known, frozen)
    return chain._replace(known=known, frozen=frozen, state=state, life=life, aside=aside), done


def _grown(before: Known, after: Known) -> tuple[int, bool]:
    """Say which subclass has taken in one instance, and whether a table was opened for it."""
    count = len(before.ids)
    fresh = len(after.ids) > count
    slot = count if fresh else int(np.argmax(after.dishes.size - before.dishes.size))
    return int(after.ids[slot]), bool(after.tables.sum() > before.tables.sum())


def _labelling(labels: Sequence[Label], labelled: _Labelled, taken: Sequence[_Taken], stream: Stream) -> Labelling:
    """Write down what it takes to undo a label; the stream is the one before it."""
    label, earlier = labels[labelled.j], labelled.earlier
    into, opened = tuple(one.into for one in taken), tuple(one.opened for one in taken)
    shift = None
    if stream.following is not None:
        shift = class_shifts(stream)[labelled.j] if labelled.j < len(stream.labels) else np.zeros(len(labelled.row))
    if earlier is None:
        return Labelling(labelled.number, label, labelled.row, into, opened, shift=shift)
    seats = tuple(one.seat for one in taken if one.seat is not None)
    return Labelling(
        labelled.number,
        label,
        labelled.row,
        into,
        opened,
        earlier.key,
        earlier.seq,
        tuple(earlier.subclass.tolist()),
        seats,
        tuple(labels[seat.j] if seat.j >= 0 else None for seat in seats),
        stream.state.seen,
        shift,
    )


def widen(waiting: Waiting, n_classes: int) -> Waiting:
    """Make room for classes that have been opened."""
    old = waiting.responsible.shape[1]
    return waiting._replace(
        probabilities=np.insert(waiting.probabilities, [old] * (n_classes - old), 0.0, axis=1),
        responsible=np.insert(waiting.responsible, [old] * (n_classes - old), -1, axis=1),
    )
