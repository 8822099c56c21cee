"""The streams of a run over files: one recognizer for all records, or one for each key."""

from __future__ import annotations

import heapq
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from stream_osr import Decision, Keyed, OpenSetRecognizer
from stream_osr.errors import InvalidInstance, InvalidParameter
from stream_osr.keys.key_streams import COLUMNS
from stream_osr.printable_text import brief
from stream_osr.stream.contributions import Contributions
from stream_osr.support import limits
from stream_osr.support.rules import array, fields, many, text
from stream_osr.support.state_store import FolderStore

from ..base import Record
from ..commands.command import Command, CommandResult
from ..engine import RecordStream, check_contributions, check_record
from .account import Account, NumberedRecord
from .line_source import Rows, RowSource

__all__ = ["Content", "KeyedStreams", "OneStream", "keyed_of", "recognizer_of"]

Content: TypeAlias = Mapping[str, Any]
"""A decision or an event as a record of an output."""


T = TypeVar("T")


class OneStream:
    """One stream with all records.

    Parameters
    ----------
    account
        Account of the records.
    contributions
        Number of features whose contributions each decision has. ``None``: decisions have no contributions.
    """

    def __init__(self, account: Account, contributions: int | None = None) -> None:
        self._account, self._contributions = account, contributions
        self._stream: RecordStream[NumberedRecord]
        self._stream = RecordStream(account.model, recalls=False, contributions=contributions)

    def take(self, record: Record, group: object = None) -> None:
        """Learn or decide a record, or set it aside. ``group`` is that of a training instance."""
        self._stream.take(self._account.numbered(record), record, group)
        self._account.settle(self._stream)

    def take_rows(self, source: RowSource, most: int) -> Rows | None:
        """Decide the next records of a source at once, until the micro-batch is full. ``None``: it has decided none.

        Parameters
        ----------
        source
            Source of the records.
        most
            Greatest number of records.
        """
        model = self._stream.model
        state, most = model.value, min(most, model.batch_size - len(model.value.buffer))
        if self._contributions is not None or most < 2 or state.training is not None or state.trained is None:
            return None
        features = state.trained.features
        rows = source.take_rows(features.names, most) if features.takes_rows else None
        if rows is not None:
            none = len(rows.lines) * [None]
            self._stream.take_rows(
                lambda: [self._account.numbered(record) for record in rows.records()],
                *(rows.values, rows.times or none, rows.keys or none),
            )
            self._account.settle(self._stream)
        return rows

    def flush(self, *, every: bool = True) -> None:
        """Close the micro-batch at the end of the input."""
        self._stream.flush()
        self._account.settle(self._stream)

    def decisions(self) -> Iterator[Content]:
        """Yield each waiting decision once."""
        return (_content(decision, its) for _, decision, its in self._stream.drain())

    def events(self) -> Iterator[Content]:
        """Yield each waiting event once."""
        return (event.as_dict() for event in self._stream.model.drain_events())

    def apply(self, command: Command) -> CommandResult:
        """Apply a command to the stream."""
        if command.stream is not None:
            return _refused(f"this run is one stream and has no key {brief(command.stream)}. Leave the key out")
        return command.apply(self._stream.model)


class KeyedStreams:
    """A stream for each key, in bounded memory.

    A key that becomes quiet closes the micro-batch after ``max_wait`` in the time of this key: that of the last
    record, continued with the progress of the largest time in the input. So a wrong clock of one key closes the
    micro-batches of other keys once at most.

    Parameters
    ----------
    keyed
        Recognizers by key.
    account
        Account of the records. Its recognizer counts the records that are set aside.
    saved
        The quiet keys of a checkpoint (:meth:`as_state`).
    contributions
        As for :class:`OneStream`.
    """

    def __init__(
        self, keyed: Keyed, account: Account, saved: Content | None = None, contributions: int | None = None
    ) -> None:
        check_contributions(contributions, account.model.decision_delay)
        self.keyed, self._account, self._contributions = keyed, account, contributions
        self._explained: dict[str, deque[Contributions | None]] = {}
        max_wait = account.model.value.parameters.max_wait
        self._quiet = None if max_wait is None else _QuietKeys(max_wait)
        if self._quiet is not None and saved is not None:
            self._quiet.resume(
                zip(saved["streams"]["by"], saved["due"].tolist(), strict=True), float(saved["clock"][0])
            )
        self._commanded = {} if saved is None else dict.fromkeys(saved["commanded"])

    def take(self, record: Record) -> None:
        """Learn or decide a record, or set it aside."""
        by = record.by
        try:
            if by is None or by == "":
                raise InvalidInstance("the key of the stream is empty. Give text or a whole number")
            limits.check_key(str(by))
            check_record(self._account.model, record)
            if record.label is not None or not self.keyed.wait(record.features, by=by, t=record.time, key=record.key):
                item = self._account.numbered(record)
                self.keyed.learn(by, self._calling(str(by), lambda stream: stream.take(item, record)))
        except InvalidInstance as error:
            self._account.refuse(record, str(error))
            return
        if self._quiet is not None and record.time is not None and str(by) in self.keyed:
            self._quiet.note(str(by), record.time, self.keyed.begun(str(by)))
            for each in self._quiet.expired():
                self.keyed.act(each, self._calling(each, RecordStream.close))

    def flush(self, *, every: bool = False) -> None:
        """Close all micro-batches at the end of the input, with ``every`` also those with late labels alone."""
        for by in [*self.keyed] if every else self.keyed.unfinished():
            self.keyed.act(by, self._calling(by, RecordStream.flush))

    def decisions(self) -> Iterator[Content]:
        """Yield each waiting decision once, with its key."""
        while self._commanded:
            self.keyed.act(self._commanded.popitem()[0], lambda model: None)  # collects the events of commands
        for by, decision in self.keyed.drain():
            own = self._explained.get(by)
            yield {"by": by, **_content(decision, own.popleft() if own else None)}
            if not own:
                self._explained.pop(by, None)

    def events(self) -> Iterator[Content]:
        """Yield each waiting event once, with its key."""
        return ({"by": by, **event.as_dict()} for by, event in self.keyed.drain_events())

    def apply(self, command: Command) -> CommandResult:
        """Apply a command to the stream of the command's key."""
        by = command.stream
        if by is None:
            return _refused("this run has a stream for each key. Name the key: KEY/ID, or --stream KEY")
        if by not in self.keyed:
            return _refused(f"this run has no stream with key {brief(by)}. `stream-osr inspect` lists the keys")
        self._commanded[by] = None
        model = self.keyed[by]
        return self._calling(by, lambda stream: command.apply(model))(model)

    def _calling(
        self, by: str, call: Callable[[RecordStream[NumberedRecord]], T]
    ) -> Callable[[OpenSetRecognizer], T]:
        """Return a function that calls the stream of a recognizer."""

        def act(model: OpenSetRecognizer) -> T:
            stream = RecordStream[NumberedRecord](model, recalls=False, contributions=self._contributions)
            result = call(stream)
            self._account.settle(stream)
            if explained := stream.take_contributions():
                self._explained.setdefault(by, deque()).extend(explained)
            return result

        return act

    def as_state(self) -> dict[str, Any]:
        """Store the recognizers that have changed, and return the rest of the state."""
        streams = self.keyed.as_state()
        due, clock = (_EMPTY, -math.inf) if self._quiet is None else (self._quiet.due, self._quiet.clock)
        times = [due.get(by, math.nan) for by in streams["by"]]
        commanded = tuple(self._commanded)
        return {
            "streams": streams,
            "commanded": commanded,
            "due": np.array(times, dtype=float),
            "clock": np.array([clock], dtype=float),
        }


_EMPTY: Mapping[str, float] = {}


def _content(decision: Decision, contributions: Contributions | None) -> Content:
    """Return a decision as a record of an output."""
    content = decision.as_dict()
    return content if contributions is None else {**content, "contributions": contributions.as_dict()}


def recognizer_of(
    model: OpenSetRecognizer, saved: Content, path: str | os.PathLike[str], by: str
) -> OpenSetRecognizer:
    """Return the recognizer of a key in a checkpoint, to look at it.

    Raises
    ------
    InvalidParameter
        If the checkpoint has no such key.
    """
    keyed = keyed_of(model, path, saved)
    if by not in keyed:
        near = ", ".join(map(brief, [*keyed][:5])) + (", ..." if len(keyed) > 5 else "")
        raise InvalidParameter(f"{os.fspath(path)} has no stream with key {brief(by)}. Its keys are {near}")
    return keyed[by]


class _QuietKeys:
    """Keys with an unfinished micro-batch, and when each one is due."""

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self.clock = -math.inf
        self.due: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []
        self._queued: dict[str, float] = {}

    def resume(self, due: Iterable[tuple[str, float]], clock: float) -> None:
        """Continue from a saved state."""
        self.clock = clock
        for by, time in due:
            if time == time:
                self._set(by, time)

    def note(self, by: str, time: float, begun: float | None) -> None:
        """Note a record of a key, and when the first row of the unfinished micro-batch came."""
        self.clock = max(self.clock, time)
        self._set(by, math.inf if begun is None else self.clock + self._max_wait - (time - begun))

    def expired(self) -> list[str]:
        """Remove the keys that are due from the queue, and return them in order."""
        found = []
        while self._queue and self._queue[0][0] <= self.clock:
            queued, by = heapq.heappop(self._queue)
            if self._queued.get(by) != queued:  # an earlier entry took its place
                continue
            del self._queued[by]
            due = self.due.get(by, math.inf)
            if due <= self.clock:
                found.append((self.due.pop(by), by))
            elif due < math.inf:
                self._enqueue(by, due)
        return [by for _, by in sorted(found)]

    def _set(self, by: str, due: float) -> None:
        if due == math.inf:
            self.due.pop(by, None)
            return
        self.due[by] = due
        if due < self._queued.get(by, math.inf):
            self._enqueue(by, due)

    def _enqueue(self, by: str, due: float) -> None:
        self._queued[by] = due
        heapq.heappush(self._queue, (due, by))


def keys_folder(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the folder with the stored recognizers of a checkpoint."""
    return Path(f"{os.fspath(checkpoint)}.keys")


def keyed_of(
    model: OpenSetRecognizer, checkpoint: str | os.PathLike[str] | None, saved: Content | None = None
) -> Keyed:
    """Create the recognizers by key of a run.

    Parameters
    ----------
    model
        Recognizer with the trained model and the arguments of each key.
    checkpoint
        Checkpoint of the run. The stored recognizers are in a folder beside it, or in a temporary one.
    saved
        State of the keys in the checkpoint. ``None`` means a new run.

    Raises
    ------
    PersistenceError
        If the folder cannot be used.
    """
    store = None if checkpoint is None else FolderStore(keys_folder(checkpoint))
    keyed = Keyed(model.trained, store=store, **model.arguments)
    keyed.resume(None if saved is None else saved["streams"])
    return keyed


def no_keys(model: OpenSetRecognizer) -> Content:
    """Return the state of a run by key that has not begun."""
    account = Account(model, Counter(), None, lambda row, reason: None, Counter())
    return KeyedStreams(Keyed(model.trained, **model.arguments), account).as_state()


KEYS = fields(
    streams=COLUMNS,
    commanded=many(text()),
    due=array("f", "n", allowed=("nan",)),
    clock=array("f", "1", allowed=("-inf",)),
)
"""Rules of the state of the keys in a checkpoint."""


def _refused(why: str) -> CommandResult:
    return CommandResult("refused", why=why, error="InvalidParameter")
