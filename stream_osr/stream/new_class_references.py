"""References of new classes: opened by promotions or labels, or carried over from an earlier model.

The references of a new class are its remembered instances, scored leave-one-out. Training references are scored under
the new classes as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.known import log_class_densities, unseen
from stream_osr.model.prior import homogeneous, width_of
from stream_osr.stream.chain import Chain
from stream_osr.stream.state import Stream
from stream_osr.stream.undo_log import Labelling
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.references import References

MOST_OF_CLASS = 200
"""Most references of an opened class, the latest ones."""


class ClassMembers(NamedTuple):
    """Remembered instances of opened classes.

    Attributes
    ----------
    rows, group
        Whitened rows, shape (n, d), and numbers of their classes, shape (n,).
    subclass
        Known subclass of each in each chain, shape (R, n).
    """

    rows: np.ndarray
    group: np.ndarray
    subclass: np.ndarray


def with_references(trained: TrainedModel, stream: Stream) -> Stream:
    """Update the references of a stream to its current known classes."""
    base = trained.references
    if base is None:
        return stream
    if len(stream.labels) == len(trained.labels):
        return stream if stream.references is None else stream._replace(references=None)
    members = _members(trained, stream)
    place = np.concatenate([_places(base.group), _places(members.group)])
    order = np.argsort(place, kind="stable")
    rows = np.concatenate([base.rows, members.rows])[order]
    log_density = tuple(_unseen(chain, number, base, members)[order] for number, chain in enumerate(stream.chains))
    group = np.concatenate([base.group, members.group])[order]
    gain = np.concatenate([base.gains, np.zeros(len(members.group))])[order] if len(base.gain) else base.gain
    part = np.concatenate([base.part, np.full(len(members.group), -1)])[order] if len(base.part) else base.part
    weight = None
    if base.weight is not None:
        weight = np.concatenate([base.weight, np.ones(len(members.group))])[order]
    references = base._replace(rows=rows, group=group, log_density=log_density, weight=weight, gain=gain, part=part)
    return stream._replace(references=references)


def _places(group: np.ndarray) -> np.ndarray:
    """Spread the instances of each class evenly over [0, 1), in their current order."""
    place = np.empty(len(group))
    for j in np.unique(group):
        own = group == j
        place[own] = (np.arange(own.sum()) + 0.5) / own.sum()
    return place


def _members(trained: TrainedModel, stream: Stream) -> ClassMembers:
    known, recent, width = stream.known, stream.recent, width_of(trained.known.prior)
    rows, group = [np.zeros((0, width))], [np.zeros(0, np.int64)]
    subclass = [np.zeros((len(stream.chains), 0), np.int64)]
    for j in range(len(trained.labels), len(stream.labels)):
        ids = known.ids[known.seated[j] > 0]
        found = np.flatnonzero(np.isin(recent.subclass[0], ids))
        reported = [a for a in stream.undo_log if isinstance(a, Labelling) and a.label == stream.labels[j]]
        theirs = [recent.rows[found], *(np.asarray(action.row)[None] for action in reported)]
        seats = [recent.subclass[:, found], *(np.array(action.into, np.int64)[:, None] for action in reported)]
        rows.append(np.concatenate(theirs)[-MOST_OF_CLASS:])
        group.append(np.full(len(rows[-1]), j))
        subclass.append(np.concatenate(seats, axis=1)[:, -MOST_OF_CLASS:])
    return ClassMembers(np.concatenate(rows), np.concatenate(group), np.concatenate(subclass, axis=1))


def _unseen(chain: Chain, number: int, base: References, members: ClassMembers) -> np.ndarray:
    """Leave-one-out log class densities in a chain: of the trained references, then of members of opened classes."""
    known, log_density = chain.known, base.log_density[number % len(base.log_density)]
    old = log_class_densities(known, chain.frozen, homogeneous(base.rows))[0]
    old[:, : log_density.shape[1]] = log_density
    if not len(members.group):
        return old
    instances = homogeneous(members.rows)
    new = log_class_densities(known, chain.frozen, instances)[0]
    slot, subclass = np.argsort(known.ids), members.subclass[number]
    at = np.append(slot, 0)[np.searchsorted(known.ids[slot], subclass)]
    own = np.where(np.append(known.ids, -1)[at] == subclass, at, -1)
    new[np.arange(len(own)), members.group] = unseen(known, chain.frozen, instances, members.group, own)
    return np.concatenate([old, new])
