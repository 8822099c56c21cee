"""Recognizers by key, for example one for each device, over one trained model and in bounded memory."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np

from stream_osr.decision import Decision
from stream_osr.discovery.event_base import Event
from stream_osr.errors import InvalidParameter, PersistenceError
from stream_osr.instances.times_and_keys import key_of, time_of
from stream_osr.model.sampler import INSTANCES_PER_SLOT, SPARE
from stream_osr.parameters import Label
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.stream.recognizer_state import all_met
from stream_osr.stream.state import BufferedInstance
from stream_osr.support.state_store import FolderStore, StateStore, StoredState
from stream_osr.training.trained import TrainedModel

MEMORY = 1 << 30
"""Default of the memory for awake recognizers, in bytes."""
OBJECTS = 100_000
"""Memory of a recognizer outside arrays, in bytes: histories, times, keys."""
MEASURED_AGAIN = 1.5
"""Growth of a stream after which its recognizer is measured again."""
LONGEST_NAME = 150
"""Longest name of a state, as a part of a file name. Names of longer keys are digests."""

COUNTS = 7
"""Counts of each key in the state of all keys."""

T = TypeVar("T")


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
    ``begun``. Both are those of a sleeping recognizer. ``changed`` means that the recognizer is not that of
    ``stored``.
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
    changed: bool = True


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
        self._shared = {id(each) for each in arrays_of((trained, trained.densities))}
        self._decisions: deque[tuple[str, Decision]] = deque()
        self._events: deque[tuple[str, Event]] = deque()
        self._kept: set[StoredState] = set()
        self._first_position = 0
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
        if y is not None or not self.wait(x, by=by, t=t, key=key):

            def learn(model: OpenSetRecognizer) -> bool:
                model.learn_one(x, y, t=t, key=key)
                return True

            self.learn(by, learn)

    def wait(self, x: Mapping[Any, Any], *, by: str | int, t: float | None = None, key: Any = None) -> bool:
        """Let a row wait outside its recognizer, if that is stored and does not need the row yet.

        Parameters
        ----------
        x, by, t, key
            As for :meth:`learn_one`.

        Returns
        -------
        Whether the row waits. Otherwise nothing has changed.
        """
        by = _named(by)
        stream = self._streams.get(by) or _KeyedStream()
        row = None if stream.model is not None else self.trained.features.plain(x)
        if row is None or len(x) > len(row):
            return False
        instance = BufferedInstance(np.array(row), time_of(t), key_of(key))
        if self._is_due(stream, instance.t):
            return False
        if not stream.buffered and not stream.waiting:
            stream.begun = instance.t
        stream.waiting.append(instance)
        stream.seen += 1
        self._streams[by] = stream
        return True

    def learn(self, by: str | int, learn: Callable[[OpenSetRecognizer], bool]) -> bool:
        """Call a function that adds an instance to the recognizer of a key, and collect the results.

        Parameters
        ----------
        by
            Key of the stream. It may be new.
        learn
            Function of the recognizer. It returns whether it has added an instance. A new key without an instance is
            dropped.
        """
        by = _named(by)
        stream = self._streams.get(by) or _KeyedStream()
        learnt = False
        try:
            learnt = learn(self._model(by, stream))
        finally:
            if learnt or by in self._streams:
                self._streams[by] = stream
            else:
                self._forget(by, stream)
        stream.seen += learnt
        self._collect(by, stream)
        return learnt

    def act(self, by: str | int, call: Callable[[OpenSetRecognizer], T]) -> T:
        """Call a function with the recognizer of a key, and collect the results of the recognizer.

        Raises
        ------
        KeyError
            If no instance of the key has come.
        """
        by = _named(by)
        stream = self._streams[by]
        result = call(self._model(by, stream))
        self._collect(by, stream)
        return result

    def __contains__(self, by: object) -> bool:
        return by in self._streams

    def begun(self, by: str) -> float | None:
        """Return the time of the first row of the unfinished micro-batch of a key, or ``None``."""
        stream = self._streams[by]
        if stream.model is None:
            return stream.begun
        buffer = stream.model.value.buffer
        return buffer[0].t if buffer else None

    def unfinished(self) -> list[str]:
        """Return the keys that :meth:`flush` may have to finish."""
        delayed = self._parameters.decision_delay > 0
        return [by for by, s in self._streams.items() if s.waiting or s.buffered or s.model is not None or delayed]

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
        for by in list(self._streams):
            begun = self.begun(by)
            if longest is not None and begun is not None and t - begun >= longest:
                self.act(by, OpenSetRecognizer.close_batch)

    def flush(self) -> None:
        """Close all micro-batches, whatever their size, and release all delayed decisions."""
        for by in self.unfinished():
            self.act(by, OpenSetRecognizer.flush)

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
        return sorted(lines, key=lambda line: (-line.unknown, -line.decided))

    def set_min_probability(self, value: float) -> None:
        """Set the least probability of a known label for all keys (:meth:`OpenSetRecognizer.set_min_probability`)."""
        self._arguments = {**self._arguments, "min_probability": value}
        self._parameters = OpenSetRecognizer.from_trained(self.trained, **self._arguments).value.parameters
        for stream in self._awake.values():
            _set_least(stream, value)

    def carry_over(self, earlier: Keyed) -> None:
        """Continue the streams of all keys of an earlier model (:meth:`OpenSetRecognizer.carry_over`).

        Parameters
        ----------
        earlier
            Recognizers by key of the earlier model. They must have no delayed decision: call :meth:`flush` first,
            and drain them. They are empty afterwards.

        Raises
        ------
        InvalidParameter, InvalidLabel
            If the new model cannot continue a stream. The streams of earlier keys are then carried over already.
        """
        for by in [*earlier]:
            ended, stream = earlier._streams[by], _KeyedStream()
            self._model(by, stream).carry_over(earlier._model(by, ended))
            stream.seen, stream.decided, stream.unknown, stream.emerged = (
                ended.seen, ended.decided, ended.unknown, ended.emerged
            )  # fmt: skip
            self._streams[by] = stream
            del earlier._streams[by]
            earlier._forget(by, ended)
            self._collect(by, stream)

    # The state of all keys.

    def as_state(self) -> dict[str, Any]:
        """Store each recognizer that has changed, and return the state of all keys as columns.

        The state names the stored recognizers. Save it, and then call :meth:`saved`. Decisions and events must have
        been drained.

        Returns
        -------
        Plain values and arrays: ``by``, the keys. ``counts`` of shape (n, 7): position of the stored recognizer (-1
        for none), rows of the unfinished micro-batch, and numbers of rows that wait, of instances, of decisions, of
        *unknown* among them, and of subclasses. ``begun``, the times of the micro-batches. ``rows``, ``times`` and
        ``keys`` of the rows that wait.
        """
        if self._decisions or self._events:
            raise PersistenceError("decisions or events wait. Drain them before the state is saved")
        for by, stream in self._awake.items():
            self._put(by, stream)
        streams = list(self._streams.values())
        waiting = [each for s in streams for each in s.waiting]
        counts = [
            (
                *(-1 if s.stored is None else s.stored.position, self._buffered(s), len(s.waiting)),
                *(s.seen, s.decided, s.unknown, s.emerged),
            )
            for s in streams
        ]
        begun = [self.begun(by) for by in self._streams]
        return {
            "by": tuple(self._streams),
            "counts": np.array(counts, dtype=np.int64).reshape(len(streams), COUNTS),
            "begun": np.array([np.nan if t is None else t for t in begun], dtype=float),
            "rows": np.array([row for row, _, _ in waiting], dtype=float).reshape(
                len(waiting), len(self.trained.names)
            ),
            "times": np.array([np.nan if t is None else t for _, t, _ in waiting], dtype=float),
            "keys": tuple(key for _, _, key in waiting),
        }

    def saved(self) -> None:
        """Delete the stored recognizers that the last :meth:`as_state` does not name, because that is saved now."""
        named = {stream.stored for stream in self._streams.values() if stream.stored is not None}
        for state in self._kept - named:
            self._store.drop(state)
        self._kept = named

    def resume(self, state: Mapping[str, Any] | None) -> None:
        """Continue from a state of :meth:`as_state` with the same store, or begin with ``None``.

        Until :meth:`saved`, no recognizer in the store is deleted or replaced, so that an earlier state stays usable.

        Raises
        ------
        PersistenceError
            If the state contradicts itself.
        """
        self._kept = {*self._store.states()}
        self._first_position = 1 + max((each.position for each in self._kept), default=-1)
        if state is None:
            return
        counts, at = state["counts"], 0
        contradicts = int(counts[:, 2].sum()) != len(state["keys"]) or len({*state["by"]}) != len(state["by"])
        if contradicts or (counts[:, 1:] < 0).any() or state["rows"].shape[1] != len(self.trained.names):
            raise PersistenceError("the state of the keys contradicts itself. Give another checkpoint")
        for by, begun, row in zip(state["by"], state["begun"].tolist(), counts.tolist(), strict=True):
            position, buffered, n, seen, decided, unknown, emerged = row
            stored = None if position < 0 else StoredState(stored_name(by), position)
            rows = zip(
                state["rows"][at : at + n], state["times"][at : at + n].tolist(), state["keys"][at : at + n],
                strict=True,
            )  # fmt: skip
            waiting = [BufferedInstance(row, None if t != t else t, key) for row, t, key in rows]
            begun = None if begun != begun else begun
            self._streams[by] = _KeyedStream(
                None, stored, waiting, buffered, begun, seen, decided, unknown, emerged, changed=False
            )
            at += n

    @staticmethod
    def _buffered(stream: _KeyedStream) -> int:
        return stream.buffered if stream.model is None else len(stream.model.value.buffer)

    def _is_due(self, stream: _KeyedStream, t: float | None) -> bool:
        """Return whether a further row at time ``t`` closes a micro-batch."""
        longest = self._parameters.max_wait
        waited = longest is not None and stream.begun is not None and t is not None and t - stream.begun >= longest
        return waited or stream.buffered + len(stream.waiting) + 1 >= self._parameters.batch_size

    def _model(self, by: str, stream: _KeyedStream) -> OpenSetRecognizer:
        """Return the recognizer of a key after all its rows. It is then the last one to be stored."""
        if stream.model is None:
            stream.model = self._read(stream)
            _set_least(stream, self._parameters.min_probability)
            self._awake[by] = stream
            self._measure(stream)
            self._make_room(by)
        self._awake.move_to_end(by)
        stream.changed = True
        waiting, stream.waiting = stream.waiting, []
        if waiting:
            rows, times, keys = zip(*waiting, strict=True)
            stream.model._wait_together(rows, times, keys)  # the rows have been checked, and close no micro-batch
            stream.model.value = all_met(stream.model.value)
        return stream.model

    def _forget(self, by: str, stream: _KeyedStream) -> None:
        """Drop the recognizer of a new key without an instance."""
        if self._awake.pop(by, None) is not None:
            self._size -= stream.size

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
        self._put(by, stream)
        buffer = stream.model.value.buffer
        stream.buffered, stream.begun = len(buffer), buffer[0].t if buffer else None
        stream.model = None
        del self._awake[by]
        self._size -= stream.size
        stream.size = stream.measured_at = 0

    def _put(self, by: str, stream: _KeyedStream) -> None:
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
        size = size_of(stream.model, self._shared, self._parameters.batch_size)
        self._size += size - stream.size
        stream.size, stream.measured_at = size, stream.seen


def _set_least(stream: _KeyedStream, value: float) -> None:
    """Give a recognizer the least probability of a known label that all keys have now."""
    assert stream.model is not None
    if stream.model.value.parameters.min_probability != value:
        stream.model.set_min_probability(value)
        stream.changed = True


_DIGEST = re.compile("[0-9a-f]{64}")


def stored_name(by: str) -> str:
    """Return the name of a key in a store: the key, or a digest if the key is too long for the name of a file.

    >>> stored_name("pump 1"), len(stored_name(1000 * "pump"))
    ('pump 1', 64)
    """
    if len(quote(by, safe="")) <= LONGEST_NAME and not _DIGEST.fullmatch(by):
        return by
    return hashlib.sha256(by.encode()).hexdigest()


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
