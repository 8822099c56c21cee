"""Recognizers by key in bounded memory: those that were used last are awake, and a store has the others as bytes."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from stream_osr.errors import PersistenceError
from stream_osr.keys.key_streams import KeyStream, stored_name
from stream_osr.model.sampler import INSTANCES_PER_SLOT, SPARE
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.support.state_store import StateStore, StoredState
from stream_osr.training.trained import TrainedModel

OBJECTS = 100_000
"""Memory of a recognizer outside arrays, in bytes: histories, times, keys."""
MEASURED_AGAIN = 1.5
"""Growth of a stream after which its recognizer is measured again."""


class AwakeRecognizers:
    """Recognizers in memory, over a store of the others: the base of :class:`stream_osr.keyed.Keyed`.

    Parameters
    ----------
    trained
        Trained model, which all recognizers share.
    memory
        Largest size of the recognizers in memory, in bytes. At least one stays in memory.
    store
        Store of the others.
    arguments
        Arguments of a new recognizer.

    Attributes
    ----------
    loaded, stored
        Number of recognizers that were read from the store, and that were written to it.
    """

    def __init__(self, trained: TrainedModel, memory: int, store: StateStore, arguments: dict[str, Any]) -> None:
        self.trained, self.memory = trained, memory
        self._store, self._arguments = store, arguments
        self._parameters = self._new().value.parameters
        self._awake: OrderedDict[str, KeyStream] = OrderedDict()
        self._size = 0
        self._shared = {id(each) for each in arrays_of((trained, trained.densities))}
        self._kept: set[StoredState] = set()
        self._first_position = 0
        self.loaded = self.stored = 0

    def _new(self) -> OpenSetRecognizer:
        return OpenSetRecognizer.from_trained(self.trained, **self._arguments)

    def _wake(self, by: str, stream: KeyStream) -> OpenSetRecognizer:
        """Return the recognizer of a key after all its rows. It is then the last one to be stored."""
        if stream.model is None:
            stream.model = self._read(stream)
            self._awake[by] = stream
            self._measure(stream, stream.model)
        self._awake.move_to_end(by)
        stream.changed = True
        stream.take_waiting(stream.model)
        return stream.model

    def _read(self, stream: KeyStream) -> OpenSetRecognizer:
        if stream.stored is None:
            return self._new()
        data = self._store.get(stream.stored)
        if data is None:
            raise PersistenceError(f"the store has lost the state {stream.stored}. Restore it, or begin again")
        self.loaded += 1
        model = OpenSetRecognizer.from_state_bytes(self.trained, data, f"the state {stream.stored}")
        if model.min_probability != self._parameters.min_probability:
            model.set_min_probability(self._parameters.min_probability)
        return model

    def _measure(self, stream: KeyStream, model: OpenSetRecognizer) -> None:
        """Measure the recognizer that was used last, and store others, those first that were not used for longest."""
        size = size_of(model, self._shared, self._parameters.batch_size)
        self._size += size - stream.size
        stream.size, stream.measured_at = size, stream.seen
        while self._size > self.memory and len(self._awake) > 1:
            by, oldest = next(iter(self._awake.items()))
            self._put(by, oldest)
            self._forget(by)
            oldest.buffered, oldest.begun = oldest.unfinished()
            oldest.model = None

    def _forget(self, by: str) -> None:
        """Count the recognizer of a key no longer, if it is awake."""
        if (stream := self._awake.pop(by, None)) is not None:
            self._size -= stream.size
            stream.size = 0

    def _put(self, by: str, stream: KeyStream) -> None:
        """Store a recognizer, unless that has been done since its last change."""
        if not stream.changed or stream.model is None:
            return
        before = stream.stored
        position = max(stream.seen, self._first_position if before is None else before.position + 1)
        state = StoredState(stored_name(by), position)
        self._store.put(state, stream.model.state_bytes())
        stream.stored, stream.changed = state, False
        self.stored += 1
        if before is not None and before not in self._kept:
            self._store.drop(before)


def size_of(model: OpenSetRecognizer, shared: Container[int], batch_size: int) -> int:
    """Estimate the size of a recognizer in bytes.

    Parameters
    ----------
    model
        The recognizer.
    shared
        Identities (``id``) of arrays that do not count, because other recognizers share them.
    batch_size
        Number of rows of a micro-batch.
    """
    size = OBJECTS + sum(each.nbytes for each in arrays_of(model.value) if id(each) not in shared)
    spare = SPARE + batch_size // INSTANCES_PER_SLOT
    for chain in model.value.running[1].chains:  # a step leaves free slots behind those that are in use
        size += 2 * spare * chain.known.dishes.matrix[0].nbytes
    return size


def arrays_of(value: Any, seen: set[int] | None = None) -> Iterator[np.ndarray]:
    """Yield each array of a value once."""
    seen = set() if seen is None else seen
    if id(value) in seen or value is None or isinstance(value, str | int | float):
        return
    seen.add(id(value))
    parts: Any = ()
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list | deque):
        parts = value
    elif isinstance(value, Mapping):
        parts = value.values()
    elif is_dataclass(value):
        parts = [getattr(value, each.name) for each in fields(value)]
    elif hasattr(value, "__dict__"):
        parts = vars(value).values()
    for part in parts:
        yield from arrays_of(part, seen)
