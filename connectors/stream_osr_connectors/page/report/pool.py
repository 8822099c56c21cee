"""The instances that a report can show, from decisions or from what a model remembers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.stream import Stream
from stream_osr_connectors.page.report.texts import Texts
from stream_osr_connectors.page.report.told import Decided

LOOKED_AT = 200
"""Instances of a candidate, at most, among which examples are chosen."""
KNOWN = 2000
"""Instances of known classes, at most, among which those near a candidate are."""
UNSURE = 50
"""So many of a candidate's are its least sure ones."""


class Pool(NamedTuple):
    """Instances in the order of the stream.

    Attributes
    ----------
    seq
        Position of each, shape (n,).
    subclass
        Emerged subclass of the unknown ones, -1: none, shape (n,).
    unknown
        Whether each was called unknown, shape (n,).
    p_unknown
        Probability of being unknown, shape (n,).
    names, label
        Labels, and which of them each has, shape (n,).
    keys, key
        Keys, and which of them is whose, shape (n,).
    order
        Places of the unknown instances, sorted by subclass.
    """

    seq: NDArray[np.int64]
    subclass: NDArray[np.int64]
    unknown: NDArray[np.bool_]
    p_unknown: NDArray[np.float64]
    names: tuple[str, ...]
    label: NDArray[np.int64]
    keys: Texts
    key: NDArray[np.int64]
    order: NDArray[np.int64]

    def members(self, subclasses: Iterable[int]) -> NDArray[np.int64]:
        """Find the unknown instances of some subclasses: their places, in the order of the stream."""
        sorted_ = self.subclass[self.order]
        parts = [
            self.order[np.searchsorted(sorted_, key) : np.searchsorted(sorted_, key, "right")] for key in subclasses
        ]
        return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))

    def name(self, place: int) -> str:
        """Return the key of an instance; empty if it has none."""
        return self.keys[int(self.key[place])]


def pool(told: Decided, stream: Stream | None) -> Pool:
    """Take the instances from decisions; without any, from what the model remembers."""
    if len(told.seq) or stream is None:
        own: list[NDArray[Any]] = [told.seq, told.subclass, told.unknown, told.p_unknown, told.label, told.number]
        names, keys = told.names, told.keys
    else:
        past = stream.recent
        count, seats = len(past.keys), past.subclass[0].copy()
        unknown = past.p_unknown >= 0.5
        own = [
            past.seq + np.arange(count),
            seats,
            unknown,
            past.p_unknown,
            unknown.astype(np.int64),
            np.arange(count),
        ]
        names = ("known", "unknown")
        keys = Texts("" if key is None else str(key) for key in past.keys.tolist())
    at = np.argsort(own[0], kind="stable")
    seq, subclass, unknown, p, label, number = (column[at] for column in own)
    places = np.flatnonzero(unknown)
    order = places[np.argsort(subclass[places], kind="stable")]
    return Pool(seq, subclass, unknown, p, names, label, keys, number, order)


def some(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Take so many at most, evenly spaced."""
    at = np.linspace(0, len(places) - 1, min(most, len(places))).astype(np.int64)
    return places[np.unique(at)]


def to_look_at(p_unknown: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Take those of a candidate among which examples are chosen: the least sure ones, and others evenly spaced."""
    unsure = places[np.argsort(p_unknown[places], kind="stable")[:UNSURE]]
    return np.union1d(unsure, some(places, LOOKED_AT - UNSURE))


def latest(places: NDArray[np.int64], most: int, also: Sequence[int]) -> NDArray[np.int64]:
    """Take the latest of some places, the latest first, and a few others among them."""
    return np.union1d(places[max(0, len(places) - most) :], np.array(also, np.int64))[::-1]
