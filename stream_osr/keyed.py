"""Recognizers by key, for example one for each device, over one trained model and in bounded memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stream_osr.decision import Decision
from stream_osr.discovery.event_base import Event
from stream_osr.errors import InvalidParameter, PersistenceError
from stream_osr.instances.times_and_keys import key_of, time_of
from stream_osr.keys.awake import MEASURED_AGAIN, AwakeRecognizers
from stream_osr.keys.key_streams import KeyStream, as_columns, from_columns
from stream_osr.parameters import Label
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.stream.state import BufferedInstance
from stream_osr.support.state_store import FolderStore, StateStore
from stream_osr.training.trained import TrainedModel

MEMORY = 3 << 28
"""Default of the memory for awake recognizers, in bytes."""

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


class Keyed(AwakeRecognizers):
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
        if store is None:
            folder = tempfile.mkdtemp(prefix="stream-osr-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            store = FolderStore(folder, durable=False)
        super().__init__(trained, memory, store, arguments)
        self._decisions: deque[tuple[str, Decision]] = deque()
        self._events: deque[tuple[str, Event]] = deque()

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def learn_one(
        self, x: Mapping[Any, Any], y: Label | None = None, *, by: str | int, t: float | None = None, key: Any = None
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
        stream = self._streams.get(by)
        if stream is not None and stream.model is not None:
            self._wake(by, stream).learn_one(x, y, t=t, key=key)
            stream.seen += 1
            self._collect(by, stream)
        elif y is not None or not self.wait(x, by=by, t=t, key=key):

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
        stream = self._streams.get(by) or KeyStream()
        row = None if stream.model is not None else self.trained.features.plain(x)
        if row is None or len(x) > len(row):
            return False
        waits = stream.wait(BufferedInstance(np.array(row), time_of(t), key_of(key)), self._parameters)
        if waits:
            self._streams[by] = stream
        return waits

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
        stream = self._streams.setdefault(by, KeyStream())
        try:
            learnt = learn(self._wake(by, stream))
            stream.seen += learnt
        finally:
            if not stream.seen:
                del self._streams[by]
                self._forget(by)
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
        result = call(self[by])
        self._collect(by, self._streams[by])
        return result

    def __contains__(self, by: object) -> bool:
        return by in self._streams

    def begun(self, by: str) -> float | None:
        """Return the time of the first row of the unfinished micro-batch of a key, or ``None``."""
        return self._streams[by].unfinished()[1]

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
        return self._wake(_named(by), self._streams[_named(by)])

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
        self._set_arguments({**self._arguments, "min_probability": value})
        for by in [*self._awake]:
            self[by].set_min_probability(value)

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
        self._positions = earlier._positions = count(max(next(self._positions), next(earlier._positions)))
        for by in [*earlier]:
            ended, stream = earlier._streams[by], KeyStream()
            model = self._wake(by, stream)
            model.carry_over(earlier._wake(by, ended))
            self._measure(stream, model)
            stream.seen, stream.decided, stream.unknown, stream.emerged = (
                ended.seen, ended.decided, ended.unknown, ended.emerged
            )  # fmt: skip
            self._streams[by] = stream
            del earlier._streams[by]
            earlier._forget(by)
            self._collect(by, stream)

    # The state of all keys.

    def as_state(self) -> dict[str, Any]:
        """Store each recognizer that has changed, and return the state of all keys as columns.

        The state names the stored recognizers. Save it, and then call :meth:`saved`. Decisions and events must have
        been drained.

        Returns
        -------
        Plain values and arrays: ``by``, the keys. ``counts`` of shape (n, 9): position of the stored recognizer (-1
        for none), rows of the unfinished micro-batch, and numbers of rows that wait, of instances, of decisions, of
        *unknown* among them, and of subclasses. The last two columns are the place of the recognizer among those that
        were stored together, and their number.
        ``begun``, the times of the micro-batches. ``rows``, ``times`` and ``keys`` of the rows that wait.
        """
        if self._decisions or self._events:
            raise PersistenceError("decisions or events wait. Drain them before the state is saved")
        self._put(self._awake.values())
        self._gather()
        return as_columns(self._streams, len(self.trained.names))

    def saved(self) -> None:
        """Delete the stored recognizers that the last :meth:`as_state` does not name, because that is saved now."""
        self._members = +self._members
        for state in self._kept - self._members.keys():
            self._store.drop(state)
        self._kept = {*self._members}

    def resume(self, state: Mapping[str, Any] | None) -> None:
        """Continue from a state of :meth:`as_state` with the same store, or begin with ``None``.

        Until :meth:`saved`, no recognizer in the store is deleted or replaced, so that an earlier state stays usable.

        Raises
        ------
        PersistenceError
            If the state contradicts itself.
        """
        self._kept = {*self._store.states()}
        self._positions = count(1 + max((each.position for each in self._kept), default=-1))
        if state is not None:
            self._streams.update(from_columns(state, len(self.trained.names)))
            self._members.update(each.stored for each in self._streams.values() if each.stored is not None)

    def _collect(self, by: str, stream: KeyStream) -> None:
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
            self._measure(stream, model)


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
