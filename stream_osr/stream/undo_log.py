"""Log of what people have asked of a stream, so that it can be taken back: small records, no models.

An action is undone by its inverse, not by going back to an earlier state: what the stream has learnt since stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery.histories import SubclassHistory
from stream_osr.model.edit import Seat

MOST = 100
"""Actions that can be taken back; older ones stay."""


class Labelling(NamedTuple):
    """A label that took effect.

    Attributes
    ----------
    number
        Place in the order of asking.
    label
        The label.
    row
        Whitened row, shape (d,).
    into
        Subclass that took the instance in, in each chain.
    opened_table
        Whether it opened a table there, in each chain.
    key, seq
        Key and position in the stream of an instance that was decided before; None and -1 of a new one.
    subclass
        Subclass that held it, -1: none, in each chain; empty of a new one.
    seats
        Where it sat in each chain; empty of a new one.
    classes
        Label of the class at whose table it sat, in each chain, or None.
    seen
        Instances of the stream at that time.
    shift
        How far the class had followed its instances, shape (d,): the labelled one goes with it. None: not at all.
    """

    number: int
    label: Label
    row: np.ndarray
    into: tuple[int, ...]
    opened_table: tuple[bool, ...]
    key: Any = None
    seq: int = -1
    subclass: tuple[int, ...] = ()
    seats: tuple[Seat, ...] = ()
    classes: tuple[Label | None, ...] = ()
    seen: int = 0
    shift: np.ndarray | None = None


class MovedTables(NamedTuple):
    """Tables that came to serve a class, and who sat at them.

    Attributes
    ----------
    table, subclass, mass
        Number, subclass and seats of each table, shape (m,).
    seq, owner_subclass
        Position in the stream and subclass of each guest who could still be re-seated, shape (g,).
    """

    table: np.ndarray
    subclass: np.ndarray
    mass: np.ndarray
    seq: np.ndarray
    owner_subclass: np.ndarray


class Promotion(NamedTuple):
    """Subclasses that were named.

    Attributes
    ----------
    number
        Place in the order of asking.
    label
        Label of the class.
    subclasses
        Identities in each chain.
    ranks
        Density ranks that the class had before, in each chain.
    lives
        Lives of the subclasses in each chain.
    tables
        Tables that served them in each chain.
    shift
        How far the class had followed its instances, shape (d,); None: classes do not follow their instances.
    """

    number: int
    label: Label
    subclasses: tuple[tuple[int, ...], ...]
    ranks: tuple[np.ndarray, ...]
    lives: tuple[Mapping[int, SubclassHistory], ...]
    tables: tuple[MovedTables, ...]
    shift: np.ndarray | None = None


class Muting(NamedTuple):
    """Subclasses that were muted: place in the order of asking, identities in each chain."""

    number: int
    subclasses: tuple[tuple[int, ...], ...]


Action = Labelling | Promotion | Muting


def record(undo_log: tuple[Action, ...], new: Iterable[Action]) -> tuple[Action, ...]:
    """Write actions down in the order in which they were asked: a label may have waited for its instance."""
    return tuple(sorted((*undo_log, *new), key=lambda action: action.number))[-MOST:]
