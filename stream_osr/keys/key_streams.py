"""The stream of one key: its recognizer, awake or stored, and the rows that wait outside a stored one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

import numpy as np

from stream_osr.errors import PersistenceError
from stream_osr.parameters import Parameters
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.stream.recognizer_state import all_met
from stream_osr.stream.state import BufferedInstance
from stream_osr.support.rules import array, fields, many, maybe, plain, text
from stream_osr.support.state_store import StoredState

GROUP = "keys"
"""Name of the states in a store. Each contains recognizers of several keys."""

LONGEST_NAME = 150
"""Longest name of a state, as a part of a file name. Names of longer keys are digests."""

COLUMNS = fields(
    by=many(text(), "n"),
    counts=array("i", "n", "7|9", low=-1),
    begun=array("f", "n", allowed=("nan",)),
    rows=array("f", "m", "*"),
    times=array("f", "m", allowed=("nan",)),
    keys=many(maybe(plain), "m"),
)
"""Rules of the state of all keys (:func:`as_columns`).

Earlier versions stored each recognizer alone, and their counts have no place and size of a group.
"""

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(slots=True)
class KeyStream:
    """Stream of one key.

    Attributes
    ----------
    model
        The recognizer in memory, or ``None``.
    stored, place, together
        The state of the store that contains the recognizer, or ``None``, the place in it, and the number of
        recognizers in it. Place -1: an earlier version stored it alone.
    waiting
        Rows outside the recognizer. They follow the rows of the unfinished micro-batch.
    buffered, begun
        Number of rows of the unfinished micro-batch of a stored recognizer, and the time of the first row.
    seen, decided, unknown, emerged
        Numbers of instances, of final decisions, of *unknown* among them, and of subclasses that have emerged.
    size, measured_at
        Size of the recognizer in memory, in bytes, and the number of instances when it was measured.
    changed
        Whether the recognizer differs from the stored one.
    """

    model: OpenSetRecognizer | None = None
    stored: StoredState | None = None
    waiting: list[BufferedInstance] = field(default_factory=list)
    buffered: int = 0
    begun: float | None = None
    seen: int = 0
    decided: int = 0
    unknown: int = 0
    emerged: int = 0
    place: int = -1
    together: int = 1
    size: int = 0
    measured_at: int = 0
    changed: bool = True

    def unfinished(self) -> tuple[int, float | None]:
        """Return the number of rows in the recognizer's unfinished micro-batch, and the time of the first row."""
        if self.model is None:
            return self.buffered, self.begun
        buffer = self.model.value.buffer
        return len(buffer), buffer[0].t if buffer else None

    def counts(self) -> tuple[int, ...]:
        """Return the counts in the state of all keys."""
        position = -1 if self.stored is None else self.stored.position
        own = self.seen, self.decided, self.unknown, self.emerged
        return position, self.unfinished()[0], len(self.waiting), *own, self.place, self.together

    def wait(self, instance: BufferedInstance, parameters: Parameters) -> bool:
        """Let a row wait outside the stored recognizer, unless it closes a micro-batch. Return whether it waits."""
        t, longest = instance.t, parameters.max_wait
        waited = longest is not None and self.begun is not None and t is not None and t - self.begun >= longest
        if waited or self.buffered + len(self.waiting) + 1 >= parameters.batch_size:
            return False
        if not self.buffered and not self.waiting:
            self.begun = t
        self.waiting.append(instance)
        self.seen += 1
        return True

    def take_waiting(self, model: OpenSetRecognizer) -> None:
        """Move the rows that wait into the recognizer. They have been checked, and close no micro-batch."""
        waiting, self.waiting = self.waiting, []
        model._wait_together(*zip(*waiting, strict=True))
        model.value = all_met(model.value)


def as_columns(streams: Mapping[str, KeyStream], features: int) -> dict[str, Any]:
    """Return the state of all streams as columns (:meth:`stream_osr.keyed.Keyed.as_state`).

    Parameters
    ----------
    streams
        Streams by key. Their recognizers have been stored.
    features
        Number of columns of a row.
    """
    waiting = [each for s in streams.values() for each in s.waiting]
    return {
        "by": tuple(streams),
        "counts": np.array([s.counts() for s in streams.values()], dtype=np.int64).reshape(-1, 9),
        "begun": np.array([s.unfinished()[1] for s in streams.values()], dtype=float),  # NaN for None
        "rows": np.array([row for row, _, _ in waiting], dtype=float).reshape(-1, features),
        "times": np.array([t for _, t, _ in waiting], dtype=float),
        "keys": tuple(key for _, _, key in waiting),
    }


def from_columns(state: Mapping[str, Any], features: int) -> dict[str, KeyStream]:
    """Return the streams of a state of :func:`as_columns`, all of them stored.

    Raises
    ------
    PersistenceError
        If the state contradicts itself.
    """
    counts = state["counts"]
    lengths = {int(counts[:, 2].sum()), *(len(state[each]) for each in ("rows", "times", "keys"))}
    contradicts = len(lengths) > 1 or len({*state["by"]}) != len(state["by"])
    if contradicts or (counts[:, 1:7] < 0).any() or state["rows"].shape[1] != features:
        raise PersistenceError("the state of the keys contradicts itself. Give another checkpoint")
    times, begun = ([None if t != t else t for t in state[each].tolist()] for each in ("times", "begun"))
    waiting = map(BufferedInstance, state["rows"], times, state["keys"])
    streams = {}
    for by, since, row in zip(state["by"], begun, counts.tolist(), strict=True):
        position, buffered, n, *own = row
        name = GROUP if len(row) > 7 and row[7] >= 0 else stored_name(by)
        stored = None if position < 0 else StoredState(name, position)
        rows = [*islice(waiting, n)]
        streams[by] = KeyStream(None, stored, rows, buffered, since, *own)
        streams[by].changed = False
    return streams


def stored_name(by: str) -> str:
    """Return the name of a recognizer that an earlier version stored: the key, or the digest of a long key.

    >>> stored_name("pump 1"), len(stored_name(1000 * "pump"))
    ('pump 1', 64)
    """
    if len(quote(by, safe="")) <= LONGEST_NAME and not _DIGEST.fullmatch(by):
        return by
    return hashlib.sha256(by.encode()).hexdigest()
