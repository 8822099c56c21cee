"""Recognizers by key in bounded memory: those that were used last are awake, and a store has the others as bytes."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any

import numpy as np

from stream_osr.archive.checks import definite, recognizer
from stream_osr.archive.files import Surroundings, from_bytes, kind_over, to_bytes
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.errors import PersistenceError, RefusedState
from stream_osr.keys.key_streams import GROUP, KeyStream
from stream_osr.model.sampler import INSTANCES_PER_SLOT, SPARE
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.support.rules import RefusedValue
from stream_osr.support.state_store import StateStore, StoredState
from stream_osr.training.trained import TrainedModel

OBJECTS = 100_000
"""Memory of a recognizer outside arrays, in bytes: histories, times, keys."""
MEASURED_AGAIN = 1.5
"""Growth of a stream after which its recognizer is measured again."""
MEMBERS = 16
"""Largest number of recognizers that are stored together. With more, storing is cheaper and reading is slower."""
NEEDED, GROUPS = 0.25, 8
"""Share of a group's recognizers that are needed. If ``GROUPS`` groups have less, they are stored again as fewer."""
ROOM = 8
"""Inverse of the share of the recognizers in memory that are stored together, to make room."""


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
        self._store, self._kind = store, kind_over(trained, "states of streams")
        self._set_arguments(arguments)
        self._streams: dict[str, KeyStream] = {}
        self._awake: OrderedDict[str, KeyStream] = OrderedDict()
        self._size = 0
        self._kept: set[StoredState] = set()
        self._members: Counter[StoredState] = Counter()
        self._positions = count()
        self.loaded = self.stored = 0

    def _set_arguments(self, arguments: dict[str, Any]) -> None:
        self._arguments, self._first = arguments, OpenSetRecognizer.from_trained(self.trained, **arguments)
        self._parameters = self._first.value.parameters
        self._shared = parts_of((self._first.value, self.trained.densities))

    def _wake(self, by: str, stream: KeyStream) -> OpenSetRecognizer:
        """Return the recognizer of a key after all its rows. It is then the last one to be stored."""
        if stream.model is None:
            stream.model = self._read(stream)
            self._awake[by] = stream
            self._measure(stream, stream.model)
        self._awake.move_to_end(by)
        stream.changed = True
        if stream.waiting:
            stream.take_waiting(stream.model)
        return stream.model

    def _read(self, stream: KeyStream) -> OpenSetRecognizer:
        if stream.stored is None:
            return copy(self._first)
        data = self._store.get(stream.stored)
        if data is None:
            raise PersistenceError(f"the store has lost the state {stream.stored}. Restore it, or begin again")
        self.loaded += 1
        kind, place = (self._kind, stream.place) if stream.place >= 0 else (kind_over(self.trained), None)
        around, name = Surroundings.of(self.trained), f"the state {stream.stored}"
        model = restored(OpenSetRecognizer, from_bytes(data, kind, recognizer, around, name, place))
        if model.min_probability != self._parameters.min_probability:
            model.set_min_probability(self._parameters.min_probability)
        return model

    def _measure(self, stream: KeyStream, model: OpenSetRecognizer) -> None:
        """Measure the recognizer that was used last, and store others, those first that were not used for longest."""
        size = size_of(model, self._shared, self._parameters.batch_size)
        self._size += size - stream.size
        stream.size, stream.measured_at = size, stream.seen
        while self._size > self.memory and len(self._awake) > 1:
            oldest = [*self._awake.items()][: 1 + (len(self._awake) - 2) // ROOM]
            self._put([each for _, each in oldest])
            for by, each in oldest:
                self._forget(by)
                each.buffered, each.begun = each.unfinished()
                each.model = None
            self._gather()

    def _forget(self, by: str) -> None:
        """Count the recognizer of a key no longer, if it is awake."""
        if (stream := self._awake.pop(by, None)) is not None:
            self._size -= stream.size
            stream.size = 0

    def _put(self, streams: Iterable[KeyStream]) -> None:
        """Store those recognizers that have changed since they were stored, several together."""
        changed = [each for each in streams if each.changed and each.model is not None]
        for at in range(0, len(changed), MEMBERS):
            group, state = changed[at : at + MEMBERS], StoredState(GROUP, next(self._positions))
            models = [each.model for each in group if each.model is not None]
            for model in models:
                _check_matrices(model)
            contents = [content_of(model, model.value) for model in models]
            self._store.put(state, to_bytes(self._kind, contents, Surroundings.of(self.trained), checked=False))
            self._members[state] = len(group)
            for place, each in enumerate(group):
                before, each.stored, each.place, each.together = each.stored, state, place, len(group)
                each.changed = False
                if before is not None:
                    self._members[before] -= 1
                    if not self._members[before] and before not in self._kept:
                        self._store.drop(before)
                        del self._members[before]
        self.stored += len(changed)

    def _gather(self) -> None:
        """Store recognizers again if the other ones of their groups have been stored later.

        Otherwise a group would stay for a single recognizer.
        """
        left = [s for s in self._streams.values() if s.stored and self._members[s.stored] <= NEEDED * s.together]
        if len({each.stored for each in left}) < GROUPS:
            return
        for at in range(0, len(left), MEMBERS):
            part = left[at : at + MEMBERS]
            asleep = [each for each in part if each.model is None]
            try:
                for each in asleep:
                    each.model = self._read(each)
                for each in part:
                    each.changed = True
                self._put(part)
            except PersistenceError:  # they stay where they are, and a call that needs them raises it
                pass
            finally:
                for each in asleep:
                    each.model = None


def _check_matrices(model: OpenSetRecognizer) -> None:
    """Refuse to store a recognizer whose covariances could not be read again, the check that finds most defects."""
    try:
        for chain in model.value.running[1].chains:
            definite(chain.state.dishes.matrix, "StreamState.dishes.matrix")
    except RefusedValue as refused:
        raise RefusedState(
            f"the state of a key is not written: {refused}. It could not be read again, so the earlier one stays. "
            "This is a defect of stream-osr, please report it. Continue from the earlier checkpoint"
        ) from None


def size_of(model: OpenSetRecognizer, shared: Collection[int], batch_size: int) -> int:
    """Estimate the size of a recognizer in bytes.

    Parameters
    ----------
    model
        The recognizer.
    shared
        Identities of values that do not count, because other recognizers share them (:func:`parts_of`).
    batch_size
        Number of rows of a micro-batch.
    """
    size = OBJECTS + _bytes_of(model.value, {*shared})
    spare = SPARE + batch_size // INSTANCES_PER_SLOT
    for chain in model.value.running[1].chains:  # a step leaves free slots behind those that are in use
        size += 2 * spare * chain.known.dishes.matrix[0].nbytes
    return size


def parts_of(value: Any) -> frozenset[int]:
    """Return the identities (``id``) of all parts of a value."""
    seen = set[int]()
    _bytes_of(value, seen)
    return frozenset(seen)


def _bytes_of(value: Any, seen: set[int]) -> int:
    """Add the sizes of all arrays of a value, except for those in parts that were seen before."""
    rest, size = [value], 0
    while rest:
        value = rest.pop()
        if type(value) in _PLAIN or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            size += value.nbytes
        elif isinstance(value, tuple | list | deque):
            rest += value
        elif isinstance(value, Mapping):
            rest += value.values()
        elif is_dataclass(value):
            rest += [getattr(value, each.name) for each in fields(value)]
        elif hasattr(value, "__dict__"):
            rest += vars(value).values()
    return size


_PLAIN = {type(None), bool, int, float, str}
