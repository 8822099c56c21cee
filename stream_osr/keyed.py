"""Recognizers by key, for example one for each device, over one trained model and in bounded memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label
from stream_osr.decision import Decision
from stream_osr.discovery.events import Event
from stream_osr.errors import InvalidParameter, PersistenceError
from stream_osr.model.step import INSTANCES_PER_SLOT, SPARE
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.state_store import FolderStore, StateStore, StoredState
from stream_osr.stream.state import BufferedInstance
from stream_osr.times_and_keys import key_of, time_of
from stream_osr.trained import TrainedModel

MEMORY = 1 << 30
"""Default of the memory for awake recognizers, in bytes."""
OBJECTS = 100_000
"""Memory of a recognizer outside arrays, in bytes: histories, times, keys."""
MEASURED_AGAIN = 1.5
"""Growth of a stream after which its recognizer is measured again."""


class KeySummary(NamedTuple):
    """Line of a table of keys.

    Attributes
    ----------
    by
        The key.
    seen
        Number of instances.
    decided
        Number of final decisions.
    unknown
        Share of decisions that are *unknown*, from 0 to 1.
    emerged
        Number of subclasses that have emerged.
    awake
        Whether the recognizer is in memory.
    """

    by: str
    seen: int
    decided: int
    unknown: float
    emerged: int
    awake: bool


@dataclass(slots=True)
class _KeyedStream:
    """Stream of one key.

    ``waiting`` are rows outside the recognizer. They follow ``buffered`` rows of the micro-batch that began at time
    ``begun``. Both are those of a sleeping recognizer.
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
    size: int = 0
    measured_at: int = 0


class Keyed:
    """Recognizers by key over one trained model.

    Each key has a separate stream with micro-batches, subclasses, ids and drift. The results of a key are bit for
    bit those of an :class:`OpenSetRecognizer` that gets only its instances. A new key starts from the trained model.

    The recognizers that were used last stay in memory. Others are stored as bytes and read again when a micro-batch
    of their key closes, or when a call needs them. Until then the rows of such a key wait outside its recognizer.
    So a key with a few rows costs only these rows.

    Parameters
    ----------
    trained
        Trained model, which all keys share.
    memory
        Largest size of the recognizers in memory, in bytes. At least one stays in memory.
    store
        Store of the others. Default: a temporary folder, which ends with this object.
    arguments
        Arguments of :class:`OpenSetRecognizer`, for all keys.

    Raises
    ------
    InvalidParameter
        If an argument cannot be used.

    Examples
    --------
    >>> model = OpenSetRecognizer()
    >>> for n in range(40):
    ...     model.learn_one({"a": n % 7, "b": n % 5}, "left")
    ...     model.learn_one({"a": 20 + n % 7, "b": n % 5}, "right")
    >>> report = model.freeze()
    >>> keyed = Keyed(model.trained, batch_size=2)
    >>> keyed.learn_one({"a": 3, "b": 2}, by="pump 1", key="r1")
    >>> keyed.learn_one({"a": 22, "b": 1}, by="pump 2", key="r2")
    >>> keyed.learn_one({"a": 24, "b": 3}, by="pump 1", key="r3")
    >>> [(by, decision.key, decision.label) for by, decision in keyed.drain()]
    [('pump 1', 'r1', 'left'), ('pump 1', 'r3', 'right')]
    """

    def __init__(
        self, trained: TrainedModel, *, memory: int = MEMORY, store: StateStore | None = None, **arguments: Any
    ) -> None:
        if memory <= 0:
            raise InvalidParameter(f"memory is {memory}: expected a number of bytes, above 0")
        self.trained, self.memory = trained, memory
        self._arguments = arguments
        self._parameters = OpenSetRecognizer.from_trained(trained, **arguments).value.parameters
        if store is None:
            folder = tempfile.mkdtemp(prefix="stream-osr-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            store = FolderStore(folder, durable=False)
        self._store = store
        self._streams: dict[str, _KeyedStream] = {}
        self._awake: OrderedDict[str, _KeyedStream] = OrderedDict()
        self._size = 0
        self._shared = {id(each) for each in _arrays((trained, trained.densities))}
        self._decisions: deque[tuple[str, Decision]] = deque()
        self._events: deque[tuple[str, Event]] = deque()
        self.loaded = self.stored = 0

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def learn_one(
        self,
        x: Mapping[Any, Any],
        y: Label | None = None,
        *,
        by: str | int,
        t: float | None = None,
        key: Any = None,
    ) -> None:
        """Add one instance to the stream of a key.

        Parameters
        ----------
        x, y, t, key
            As for :meth:`OpenSetRecognizer.learn_one`.
        by
            Key of the stream. A whole number is the same key as its text.

        Raises
        ------
        InvalidFeature, InvalidLabel, InvalidInstance
            If a value cannot be used. The stream then learns nothing from the instance.
        PersistenceError
            If the store fails.
        """
        by = _named(by)
        stream = self._streams.get(by) or _KeyedStream()
        row = self.trained.features.plain(x) if y is None and stream.model is None else None
        if row is None or len(x) > len(row):
            self._model(by, stream).learn_one(x, y, t=t, key=key)
        else:
            stream.waiting.append(BufferedInstance(np.array(row), time_of(t), key_of(key)))
            if self._is_due(stream, t):
                self._model(by, stream)
        self._streams[by] = stream
        stream.seen += 1
        self._collect(by, stream)

    def __getitem__(self, by: str | int) -> OpenSetRecognizer:
        """Return the recognizer of a key, with all its rows, to ask it or to name its subclasses.

        It belongs to this object until the next call, which may store it.

        Raises
        ------
        KeyError
            If no instance of the key has come.
        """
        return self._model(_named(by), self._streams[_named(by)])

    def close_due(self, t: float) -> None:
        """Close the micro-batches that have waited for ``max_wait`` at time ``t``, in the time of the instances.

        Without this call a key that becomes quiet closes its micro-batch with its next instance.
        """
        longest = self._parameters.max_wait
        for by, stream in list(self._streams.items()):
            begun = stream.begun
            if stream.model is not None:
                buffer = stream.model.value.buffer
                begun = buffer[0].t if buffer else None
            if longest is not None and begun is not None and t - begun >= longest:
                self._model(by, stream).close_batch()
                self._collect(by, stream)

    def flush(self) -> None:
        """Close all micro-batches, whatever their size, and release all delayed decisions."""
        for by, stream in list(self._streams.items()):
            if stream.waiting or stream.buffered or stream.model is not None or self._parameters.decision_delay:
                self._model(by, stream).flush()
                self._collect(by, stream)

    def drain(self) -> Iterator[tuple[str, Decision]]:
        """Yield each waiting decision once, with its key."""
        while self._decisions:
            yield self._decisions.popleft()

    def drain_events(self) -> Iterator[tuple[str, Event]]:
        """Yield each waiting event once, with its key.

        Ids of subclasses are unique within a key. :func:`full_id` makes ids that are unique among all keys.
        """
        while self._events:
            yield self._events.popleft()

    def summary(self) -> list[KeySummary]:
        """Return a line for each key, the largest share of *unknown* first."""
        lines = [
            KeySummary(by, s.seen, s.decided, s.unknown / max(s.decided, 1), s.emerged, s.model is not None)
            for by, s in self._streams.items()
        ]
        return sorted(lines, key=lambda line: -line.unknown)

    def _is_due(self, stream: _KeyedStream, t: float | None) -> bool:
        if stream.begun is None and t is not None and stream.buffered + len(stream.waiting) == 1:
            stream.begun = float(t)
        longest = self._parameters.max_wait
        waited = longest is not None and stream.begun is not None and t is not None and t - stream.begun >= longest
        return waited or stream.buffered + len(stream.waiting) >= self._parameters.batch_size

    def _model(self, by: str, stream: _KeyedStream) -> OpenSetRecognizer:
        """Return the recognizer of a key after all its rows. It is then the last one to be stored."""
        if stream.model is None:
            stream.model = self._read(stream)
            self._awake[by] = stream
            self._measure(stream)
            self._make_room(by)
        self._awake.move_to_end(by)
        waiting, stream.waiting = stream.waiting, []
        if waiting:
            rows, times, keys = zip(*waiting, strict=True)
            stream.model._wait_together(rows, times, keys)  # the rows have been checked
        return stream.model

    def _read(self, stream: _KeyedStream) -> OpenSetRecognizer:
        if stream.stored is None:
            return OpenSetRecognizer.from_trained(self.trained, **self._arguments)
        data = self._store.get(stream.stored)
        if data is None:
            raise PersistenceError(f"the store has lost the state {stream.stored}. Restore it, or begin again")
        self.loaded += 1
        return OpenSetRecognizer.from_state_bytes(self.trained, data, f"the state {stream.stored}")

    def _make_room(self, but: str) -> None:
        """Store recognizers, those first that were not used for longest."""
        while self._size > self.memory and len(self._awake) > 1:
            by = next(each for each in self._awake if each != but)
            self._sleep(by)

    def _sleep(self, by: str) -> None:
        stream = self._awake[by]
        assert stream.model is not None
        state, buffer = StoredState(str(by), stream.seen), stream.model.value.buffer
        self._store.put(state, stream.model.state_bytes())
        stream.buffered, stream.begun = len(buffer), buffer[0].t if buffer else None
        before, stream.stored, stream.model = stream.stored, state, None
        del self._awake[by]
        self._size -= stream.size
        stream.size = stream.measured_at = 0
        self.stored += 1
        if before is not None and before != state:
            self._store.drop(before)

    def _collect(self, by: str, stream: _KeyedStream) -> None:
        """Take what a recognizer has decided, and note what is needed while it sleeps."""
        if (model := stream.model) is None or not (model.value.decisions or model.value.events):
            return
        for decision in model.drain():
            stream.decided += 1
            stream.unknown += decision.label not in model.value.labels
            self._decisions.append((by, decision))
        for event in model.drain_events():
            stream.emerged += type(event).__name__ == "SubclassEmerged"
            self._events.append((by, event))
        if stream.seen > MEASURED_AGAIN * stream.measured_at and not model.value.buffer:
            self._measure(stream)
            self._make_room(by)

    def _measure(self, stream: _KeyedStream) -> None:
        assert stream.model is not None
        size = OBJECTS + sum(each.nbytes for each in _arrays(stream.model.value) if id(each) not in self._shared)
        spare = SPARE + self._parameters.batch_size // INSTANCES_PER_SLOT
        for chain in stream.model.value.running[1].chains:  # a step leaves free slots behind those that are in use
            size += 2 * spare * chain.known.dishes.matrix[0].nbytes
        self._size += size - stream.size
        stream.size, stream.measured_at = size, stream.seen


def _named(by: object) -> str:
    if isinstance(by, bool) or not isinstance(by, str | int):
        raise InvalidParameter(f"by is {by!r}: expected text or a whole number")
    return str(by)


def full_id(by: str, subclass_id: int) -> str:
    """Return the id of a subclass among those of all keys.

    >>> full_id("pump 1", 11)
    'pump 1/11'
    """
    return f"{by}/{subclass_id}"


def _arrays(value: Any, seen: set[int] | None = None) -> Iterator[np.ndarray]:
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
        yield from _arrays(part, seen)
