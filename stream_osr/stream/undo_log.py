"""Log of commands to a stream that can be undone: small records, no models.

An action is undone by its inverse, not by a return to an earlier state. The stream keeps later learning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import numpy as np

from stream_osr.discovery.histories import Lifecycle
from stream_osr.model.edit import Seat
from stream_osr.parameters import Label
from stream_osr.support import rules

MOST = 100
"""Most actions that can be undone. Older ones stay in effect."""


class Labelling(NamedTuple):
    """A label that took effect.

    Attributes
    ----------
    number
        Place in the order of commands.
    label
        The label.
    row
        Whitened row, shape (d,).
    into
        Subclass that the instance joined, in each chain.
    opened_table
        Whether it opened a table there, in each chain.
    key, seq
        Key and position in the stream of an instance that was decided before, None and -1 for a new instance.
    subclass
        Its former subclass in each chain, -1 if none. Empty for a new instance.
    seats
        Its former seat in each chain. Empty for a new instance.
    classes
        Label of the class at the former table, in each chain, or None.
    seen
        Instances of the stream at that time.
    shift
        Class shift at that time, shape (d,). The labelled instance moves with it. None: no shift.
    """

    number: rules.Count
    label: Label
    row: Annotated[np.ndarray, rules.array("f", "d", low=-1e12, high=1e12)]
    into: Annotated[tuple[rules.Count, ...], rules.length("R")]
    opened_table: Annotated[tuple[bool, ...], rules.length("R")]
    key: Any = None
    seq: rules.Position = -1
    subclass: tuple[rules.Position, ...] = ()
    seats: tuple[Seat, ...] = ()
    classes: tuple[Label | None, ...] = ()
    seen: rules.Count = 0
    shift: Annotated[np.ndarray, rules.array("f", "d")] | None = None


class MovedTables(NamedTuple):
    """Tables that began to serve a class, and their guests.

    Attributes
    ----------
    table, subclass, mass
        Number, subclass and seats of each table, shape (m,).
    seq, owner_subclass
        Position in the stream and subclass of each guest that could still be re-seated, shape (g,).
    """

    table: Annotated[np.ndarray, rules.array("i", "m", low=0)]
    subclass: Annotated[np.ndarray, rules.array("i", "m", low=0)]
    mass: Annotated[np.ndarray, rules.array("f", "m", low=0.0)]
    seq: Annotated[np.ndarray, rules.array("i", "g", low=0)]
    owner_subclass: Annotated[np.ndarray, rules.array("i", "g", low=0)]


class Promotion(NamedTuple):
    """Subclasses that were named.

    Attributes
    ----------
    number
        Place in the order of commands.
    label
        Label of the class.
    subclasses
        Identities in each chain.
    ranks
        Earlier density ranks of the class, in each chain.
    lives
        Histories of the subclasses in each chain.
    tables
        Tables that served them in each chain.
    shift
        Class shift at that time, shape (d,). None: classes do not move.
    """

    number: rules.Count
    label: Label
    subclasses: Annotated[tuple[tuple[rules.Count, ...], ...], rules.length("R")]
    ranks: Annotated[
        tuple[Annotated[np.ndarray, rules.array("f", "0|101", allowed=("-inf",))], ...], rules.length("R")
    ]
    lives: Annotated[tuple[Lifecycle, ...], rules.length("R")]
    tables: Annotated[tuple[MovedTables, ...], rules.length("R")]
    shift: Annotated[np.ndarray, rules.array("f", "d", low=-1e12, high=1e12)] | None = None


class Muting(NamedTuple):
    """Subclasses that were muted: place in the order of commands, and identities in each chain."""

    number: rules.Count
    subclasses: Annotated[tuple[tuple[rules.Count, ...], ...], rules.length("R")]


class FrameVerdict(NamedTuple):
    """Verdict of a person on a moved frame.

    Attributes
    ----------
    number
        Place in the order of commands.
    place, before, reported, since, verdict
        Fields of :class:`.frame.Frame` before the verdict.
    """

    number: rules.Count
    place: Annotated[np.ndarray, rules.array("f", "2", "p", low=-1e300, high=1e300)]
    before: Annotated[np.ndarray, rules.array("f", "2", "p", low=-1e300, high=1e300)]
    reported: Annotated[np.ndarray, rules.array("f", "2", "p", low=-1e300, high=1e300)]
    since: rules.Position
    verdict: Annotated[int, rules.whole(-1, 1)]


Action = Labelling | Promotion | Muting | FrameVerdict


def record(undo_log: tuple[Action, ...], new: Iterable[Action]) -> tuple[Action, ...]:
    """Append actions in the order of the commands. A label may have waited for its instance."""
    return tuple(sorted((*undo_log, *new), key=lambda action: action.number))[-MOST:]
