"""The recognizers by key of one partition (setting `by`), limited in number and memory.

A micro-batch works on a copy, as with a single recognizer, so that a failed transaction can be reverted. The state of
a key never changes. A new state replaces it. The recognizers that were used last stay in memory. Others are bytes.

A snapshot contains only the states that have changed, and names the earlier snapshots that contain the others.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr.keys.awake import MEASURED_AGAIN, parts_of, size_of
from stream_osr.printable_text import brief
from stream_osr.support.limits import check_key
from stream_osr.support.rules import array, fields, many, text
from stream_osr_connectors.values import DecodeError

from ..places import Place
from ..settings import ServiceSettings
from ..wire.boundaries import Boundary
from ..wire.messages import Decoder, Received
from .waiting_records import RECORDS, WrittenRecord, restored, written

WORD = 8
"""Bytes of a number in which states are stored in an archive."""

KEYS = fields(
    {"waiting": many(RECORDS, "m"), "undecided": array("i", "m", low=0)},
    by=text(),
    keys=many(text(), "n"),
    at=array("i", "n", "2|3", low=0),
    sizes=array("i", "m", low=1),
    states=array("u", "*"),
    digest=text(),
)
"""Rules of the keys in a snapshot. The digest is that of the states, because archives have none for such data.

Snapshots of earlier releases have boundaries of two numbers, and no records that wait.
"""


WINDOW_SECONDS = 10.0
"""Seconds over which the uses of keys are counted."""

USED_SECONDS = 60.0
"""Seconds since its last use for which a key counts for the size that is needed."""

REREAD_SHARE = 0.2
"""Share of the uses that read a stored recognizer again, above which `key_memory` is too small."""

FEW_USES = 100
"""Number of uses in a window below which nothing is concluded."""


class TooManyKeysError(ConnectorError):
    """A record of a new key, when the partition has `max_keys` keys."""


class StreamKey(NamedTuple):
    """The key of the stream of a record.

    Attributes
    ----------
    by
        Setting `by`: ``key`` for the key of the record, or the name of a field.
    decode
        Decoder of the records.
    """

    by: str
    decode: Decoder

    def __call__(self, received: Received) -> str:
        """Return the key of a record.

        Raises
        ------
        DecodeError
            If the record has no usable key. A decoder may raise any other error.
        """
        if self.by != "key":
            found = self.decode(received).by
            if found is None or found == "":
                raise DecodeError(f"field {self.by!r} is missing or empty, and it is the key of the stream")
            if isinstance(found, bool) or not isinstance(found, str | int):
                raise DecodeError(
                    f"field {self.by!r} is {brief(found)}. The key of a stream is text or a whole number"
                )
            check_key(str(found))
            return str(found)
        if not received.key:
            raise DecodeError("the record has no key, and its key is the key of the stream (setting by)")
        try:
            return received.key.decode()
        except UnicodeDecodeError:
            raise DecodeError("the key of the record is not UTF-8, and it is the key of the stream") from None


class Written(NamedTuple):
    """A snapshot that contains the state of a key: lineage and boundary."""

    lineage: str
    at: Boundary


@dataclass(slots=True, eq=False)
class KeyState:
    """The state of a key, as a recognizer in memory, as bytes, or as both.

    Attributes
    ----------
    model
        Recognizer in memory, or ``None``.
    data
        The state as bytes, if known.
    waiting
        Records without a final decision, in order.
    undecided
        Number of instances and labels in the unfinished micro-batch.
    written
        Newest snapshot with this state, if any.
    seen
        Number of instances.
    size
        Estimated size of the recognizer in bytes.
    measured_at
        Number of instances at the last measurement of the size.
    used
        Time of the last use.
    stored
        Whether the recognizer was taken from memory to make room.
    """

    model: OpenSetRecognizer | None
    data: bytes | None = None
    waiting: tuple[Received, ...] = ()
    undecided: int = 0
    written: Written | None = None
    seen: int = 0
    size: int = 0
    measured_at: int = -1
    used: float = -math.inf
    stored: bool = False

    @property
    def first(self) -> int:
        """Offset of the first record without a final decision, -1 if only labels wait."""
        return self.waiting[0].offset if self.waiting else -1

    def as_bytes(self) -> bytes:
        """Return the state as bytes."""
        if self.data is None:
            assert self.model is not None, "a state without bytes is in memory"
            self.data = self.model.state_bytes()
        return self.data


class PartitionKeys:
    """The recognizers by key of one partition.

    A new key starts from the trained model, with the same seed in each partition.

    Parameters
    ----------
    trained
        Trained model, which all keys share.
    arguments
        Arguments of each recognizer, by plain names.
    by
        Setting `by`.
    most
        Largest number of keys.
    memory
        Largest size of the recognizers in memory, in bytes. The last one stays in any case.
    """

    def __init__(self, trained: TrainedModel, arguments: Mapping[str, Any], by: str, most: int, memory: int) -> None:
        self.trained, self.by, self.most = trained, by, most
        self._arguments, self._memory = arguments, memory
        self._shared = parts_of((trained, trained.densities))
        self._states: dict[str, KeyState] = {}  # those that were not used for longest first
        self.undecided = self.delayed = self.bytes = 0
        """Instances and labels in unfinished micro-batches, records without a final decision, and their bytes."""
        self.sources: dict[Written, frozenset[Boundary]] = {}
        """Snapshots that a snapshot needs, as far as this process knows them."""
        self._window, self._uses, self._rereads = -math.inf, 0, 0  # its beginning, and counts in it
        self.needed_memory: int | None = None
        """Size of the recognizers of the keys that are used, ``None`` if `key_memory` suffices."""

    @classmethod
    def of(
        cls, settings: ServiceSettings, trained: TrainedModel, arguments: Mapping[str, Any]
    ) -> PartitionKeys | None:
        """Return an empty collection, or ``None`` without the setting `by`."""
        if settings.by is None:
            return None
        return cls(trained, arguments, settings.by, settings.max_keys, settings.key_memory)

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        vars(new).update(vars(self), _states={**self._states})
        return new

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, by: object) -> bool:
        return by in self._states

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    @property
    def awake(self) -> int:
        """Number of recognizers in memory."""
        return sum(state.model is not None for state in self._states.values())

    @property
    def first(self) -> int | None:
        """Offset of the first record without a final decision, or ``None``."""
        return min((state.waiting[0].offset for state in self._states.values() if state.waiting), default=None)

    def unfinished(self) -> list[str]:
        """Return the keys with records without a final decision or with waiting labels, the first records first."""
        found = [(state.first, by) for by, state in self._states.items() if state.waiting or state.undecided]
        return [by for _, by in sorted(found)]

    def stream(self, by: str) -> tuple[OpenSetRecognizer, tuple[Received, ...]]:
        """Return a copy of the recognizer of a key, and its records without a final decision.

        A new key has a new recognizer.

        Raises
        ------
        PersistenceError
            If the state of the key is damaged.
        """
        state = self._states.get(by)
        if state is None:
            return OpenSetRecognizer.from_trained(self.trained, **grouped(**self._arguments)), ()
        if state.model is None:
            data, about = state.as_bytes(), f"the state of key {brief(by)}"
            model = OpenSetRecognizer.from_state_bytes(self.trained, data, about)
            model.set_min_probability(self._arguments["min_probability"])
            state.model = model
            self._rereads += state.stored
        return copy(state.model), state.waiting

    def check_room(self, by: str) -> None:
        """Refuse a new key if there are too many.

        Raises
        ------
        TooManyKeysError
            If the partition has `most` keys.
        """
        if by not in self._states and len(self._states) >= self.most:
            raise TooManyKeysError(
                f"the partition has {self.most} keys, and max_keys allows no further one. Increase max_keys, or use "
                "an input with more partitions"
            )

    def put(self, by: str, model: OpenSetRecognizer, waiting: tuple[Received, ...], more: int) -> None:
        """Replace the recognizer of a key, which has seen some more instances. It is then the last one in use."""
        before = self._states.pop(by, None) or KeyState(None)
        undecided, seen = in_batch(model), before.seen + more
        state = KeyState(
            model, None, waiting, undecided, None, seen, before.size, before.measured_at, time.monotonic()
        )
        self._uses += 1
        self.undecided += undecided - before.undecided
        self.delayed += len(waiting) - len(before.waiting)
        self.bytes += _bytes_of(waiting) - _bytes_of(before.waiting)
        if state.seen > MEASURED_AGAIN * state.measured_at:
            state.size, state.measured_at = size_of(model, self._shared, 0), state.seen
        self._states[by] = state

    def make_room(self) -> None:
        """Keep the recognizers that were used last in memory, up to the limit, and the others as bytes."""
        self._look()
        awake = [state for state in self._states.values() if state.model is not None]
        size = sum(state.size for state in awake)
        for state in awake[:-1]:
            if size <= self._memory:
                return
            state.as_bytes()
            state.model, state.stored = None, True
            size -= state.size

    def _look(self) -> None:
        """Check once in each window whether `key_memory` suffices for the keys that are used."""
        now, window = time.monotonic(), self._window
        if now - window < WINDOW_SECONDS:
            return
        short = self._uses >= FEW_USES and self._rereads > REREAD_SHARE * self._uses
        used = sum(state.size for state in self._states.values() if now - state.used < USED_SECONDS) if short else 0
        self.needed_memory = used if used > self._memory else None
        self._window, self._uses, self._rereads = now, 0, 0

    # Snapshots.

    def prepare(self, seconds: float) -> bool:
        """Convert states to bytes for some seconds, and return whether a snapshot needs no further conversion."""
        ends = time.monotonic() + seconds
        for state in self._states.values():
            if state.data is None:
                if time.monotonic() > ends:
                    return False
                state.as_bytes()
        return True

    def as_state(self, lineage: str, at: Boundary, usable: Iterable[Boundary]) -> dict[str, Any]:
        """Return the content of a snapshot.

        Parameters
        ----------
        lineage, at
            Lineage and boundary of the snapshot.
        usable
            Boundaries of earlier snapshots that may contain states. The snapshot contains all other states.
        """
        earlier = {Written(lineage, each): each for each in usable}
        states = self._states.values()
        places = [at if state.written is None else earlier.get(state.written, at) for state in states]
        changed = [state for state, place in zip(states, places, strict=True) if place == at]
        own = [state.as_bytes() for state in changed]
        block = b"".join(own)
        return {
            "by": self.by,
            "keys": tuple(self._states),
            "at": np.array([tuple(place) for place in places], dtype=np.int64).reshape(len(places), 3),
            "waiting": tuple(written(state.waiting) for state in changed),
            "undecided": np.array([state.undecided for state in changed], dtype=np.int64),
            "sizes": np.array([*map(len, own)], dtype=np.int64),
            "states": np.frombuffer(block + bytes(-len(block) % WORD), dtype=np.uint64),
            "digest": hashlib.sha256(block).hexdigest(),
        }

    def note_written(self, lineage: str, at: Boundary, content: Mapping[str, Any]) -> None:
        """Note that a snapshot exists."""
        for by, numbers in zip(content["keys"], content["at"].tolist(), strict=True):
            self._states[by].written = Written(lineage, _boundary(numbers))
        self.sources[Written(lineage, at)] = frozenset(sources_of(content, at))

    def needed(
        self, lineage: str, kept: Collection[Boundary], there: Sequence[Boundary], reach: int
    ) -> set[Boundary]:
        """Return the earlier snapshots that some snapshots need, and forget the sources of all others.

        Parameters
        ----------
        lineage, kept
            Lineage and boundaries of the snapshots.
        there
            All snapshots, in order.
        reach
            Number of earlier snapshots that one may need, if the sources are unknown.
        """
        found: dict[Written, frozenset[Boundary]] = {}
        for at in kept:
            before = there[: there.index(at)]
            found[Written(lineage, at)] = self.sources.get(Written(lineage, at), frozenset(before[-reach:]))
        self.sources.clear()
        self.sources.update(found)
        return {each for sources in found.values() for each in sources}

    def resume(
        self,
        place: Place,
        lineage: str,
        at: Boundary,
        content: Mapping[str, Any],
        read: Callable[[Boundary], Mapping[str, Any]],
    ) -> None:
        """Read the states of all keys from snapshots.

        Parameters
        ----------
        place
            The partition.
        lineage, at, content
            Lineage, boundary and content of the snapshot.
        read
            Function that reads the content of an earlier snapshot.

        Raises
        ------
        PersistenceError
            If the snapshots contradict each other.
        """
        found = {at: _states_of(content, at)}
        found |= {each: _states_of(read(each), each) for each in sources_of(content, at)}
        for by, numbers in zip(content["keys"], content["at"].tolist(), strict=True):
            source = _boundary(numbers)
            if by not in found[source] or by in self._states:
                raise PersistenceError(f"the snapshots contradict each other: key {brief(by)} has not one state")
            data, records, undecided = found[source][by]
            waiting = restored(place, records)
            self._states[by] = KeyState(None, data, waiting, undecided, Written(lineage, source))
            self.undecided += undecided
            self.delayed += len(waiting)
            self.bytes += _bytes_of(waiting)
        self.sources[Written(lineage, at)] = frozenset(found.keys() - {at})


def in_batch(model: OpenSetRecognizer) -> int:
    """Return the number of instances and labels in the unfinished micro-batch of a recognizer."""
    return len(model.value.buffer) + len(model.value.evidence)


def _bytes_of(records: Sequence[Received]) -> int:
    return sum(len(each.value or b"") for each in records)


def _boundary(numbers: Sequence[int]) -> Boundary:
    """Return the boundary of a row of ``at``."""
    offset, labels, *closes = numbers
    return Boundary(offset, labels, *closes)


def sources_of(content: Mapping[str, Any], at: Boundary) -> set[Boundary]:
    """Return the earlier snapshots that contain states of a snapshot."""
    return {_boundary(numbers) for numbers in set(map(tuple, content["at"].tolist()))} - {at}


def _states_of(content: Mapping[str, Any], at: Boundary) -> dict[str, tuple[bytes, list[WrittenRecord], int]]:
    """Return the states that a snapshot itself contains, each with its waiting records and undecided instances."""
    own = [by for by, row in zip(content["keys"], content["at"].tolist(), strict=True) if _boundary(row) == at]
    ends, block = np.cumsum(content["sizes"]).tolist(), content["states"].tobytes()
    block = block[: ends[-1] if ends else 0]
    if len(own) != len(ends) or hashlib.sha256(block).hexdigest() != content["digest"]:
        raise PersistenceError(f"the states of {len(own)} keys in the snapshot at {at.offset} are damaged")
    states = [block[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    waiting = content.get("waiting", len(own) * ([],))
    undecided = content["undecided"].tolist() if "undecided" in content else len(own) * [0]
    return dict(zip(own, zip(states, waiting, undecided, strict=True), strict=True))
