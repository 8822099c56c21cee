"""Labels that come while the stream runs: sequential updates of their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.stream.chain_labels import Earlier, Labelled, Taken, learn
from stream_osr.stream.class_shift import class_shifts
from stream_osr.stream.monitoring import tally
from stream_osr.stream.recent_instances import began, recall, unshared
from stream_osr.stream.seating import count_left_behind
from stream_osr.stream.state import Stream, widen
from stream_osr.stream.undo_log import Labelling, record


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
    (:func:`stream_osr.stream.naming.promote`).

    Returns
    -------
    The next stream, and keys that are not (or no longer) remembered.
    """
    if not evidence:
        return stream, []
    labels, past, decided = list(stream.labels), unshared(stream.past), list(stream.decided)
    unknown_keys = []
    rows: list[Labelled] = []
    for label, row, key, number in evidence:
        earlier = None
        if row is None:
            at = recall(past, key)
            if at < 0:
                unknown_keys.append(key)
                continue
            row = past.rows[at].copy()
            earlier = Earlier(key, past.seq + at, int(began(past, np.array(at))), past.subclass[:, at].copy())
            past.keys[at], past.subclass[:, at] = None, -1  # a label counts once
        if label not in labels:
            labels.append(label)
            decided.insert(-1, 0)
        rows.append(Labelled(labels.index(label), row, earlier, number))
    chains, done = learn(stream.chains, rows, parameters)
    actions = [_labelling(labels, each, taken, stream) for each, taken in zip(rows, done, strict=True)]
    withdrawn = [int(row.earlier.subclass[0]) for row in rows if row.earlier is not None]
    outliers = count_left_behind(stream.chains[0], chains[0].state, withdrawn)
    stream = stream._replace(
        labels=tuple(labels),
        chains=chains,
        past=past,
        waiting=widen(stream.waiting, len(labels)),
        decided=tuple(decided),
        signals=tally(stream.signals, [], outliers),
        actions=record(stream.actions, actions),
    )
    return stream, unknown_keys


def _labelling(labels: Sequence[Label], labelled: Labelled, taken: Sequence[Taken], stream: Stream) -> Labelling:
    """Write down what it takes to undo a label; the stream is the one before it."""
    j, row, earlier, number = labelled
    into, opened = tuple(one.into for one in taken), tuple(one.opened for one in taken)
    shift = None
    if stream.following is not None:
        shift = class_shifts(stream)[j] if j < len(stream.labels) else np.zeros(len(row))
    action = Labelling(number, labels[j], row, into, opened, shift=shift)
    if earlier is None:
        return action
    seats = tuple(one.seat for one in taken if one.seat is not None)
    return action._replace(
        key=earlier.key,
        seq=earlier.seq,
        subclass=tuple(earlier.subclass.tolist()),
        seats=seats,
        classes=tuple(labels[seat.j] if seat.j >= 0 else None for seat in seats),
        seen=stream.state.seen,
    )
