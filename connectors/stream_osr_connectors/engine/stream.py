"""One stream: a recognizer, and the records without a final decision.

A record that cannot be used is refused with the reason. If a micro-batch cannot be closed, the records that make it
fail are refused, and the others stay.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import repeat
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from stream_osr import Decision, OpenSetRecognizer
from stream_osr.decision import FailedDecision
from stream_osr.discovery.event_base import NEW_VALUE
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidParameter, NotTrained, StreamOSRError
from stream_osr.instances.labels import as_known
from stream_osr.stream.contributions import Contributions
from stream_osr.stream.culprits import place_of
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.recognizer_state import set_aside
from stream_osr.support.hourly_log import log_hourly
from stream_osr.training.schema_check import check_features

from ..base import Record

logger = logging.getLogger("stream_osr")

T = TypeVar("T")

ATTEMPTS = 3
"""Most attempts at a call that closes a micro-batch, and most searches for its culprits."""

Stage: TypeAlias = Literal["DECODE", "VALIDATE", "PROCESS", "ENCODE", "PUBLISH"]


class Refusal(NamedTuple):
    """Reason why a record has no decision.

    Attributes
    ----------
    stage
        ``DECODE`` if the bytes are not an instance, ``VALIDATE`` if the instance is invalid, or ``PROCESS`` if it
        makes its micro-batch fail. ``ENCODE`` if the custom encoder failed for the decision, or ``PUBLISH`` if the
        topic rejects it.
    error
        Exception.
    failed
        What the recognizer knows of the instance or label, with the stage ``PROCESS``.
    """

    stage: Stage
    error: Exception
    failed: FailedDecision | None = None


class DecidedRecord(NamedTuple, Generic[T]):
    """A decision.

    Attributes
    ----------
    item
        Its record, or ``None`` if it is not known.
    decision
        The decision.
    contributions
        Contributions of the features, or ``None`` if the stream computes none.
    """

    item: T
    decision: Decision
    contributions: Contributions | None = None


class RecordStream(Generic[T]):
    """A recognizer, and the records without a final decision.

    A lack of memory or a defect may prevent the closing of a micro-batch. While memory is lacking, the stream tries
    it a few times. Then it refuses the records that make the batch fail, or all of them if they cannot be found
    (:meth:`stream_osr.OpenSetRecognizer.set_batch_aside`).

    Parameters
    ----------
    model
        The recognizer.
    waiting
        Records of the pending instances, in order. ``None`` stands for a record that is not known. Default: none is
        known.
    batch_size
        Number of instances at which a micro-batch is closed, for a recognizer that closes none. ``None``: the
        recognizer closes its micro-batches.
    recalls
        Whether each decision needs its record. Otherwise the records of rows that are decided at once are not known.
    fatal
        Errors at the closing of a micro-batch that are raised at once. With ``batch_size`` the caller then discards
        the stream. Otherwise the stream has not changed.
    contributions
        Number of features whose contributions each decision has
        (:meth:`stream_osr.OpenSetRecognizer.contributions_many`). They are those of the state at the end of the
        micro-batch. ``None``: decisions have no contributions.

    Attributes
    ----------
    model
        The recognizer. With ``batch_size`` a copy may replace it.
    waiting
        Records of the decisions that have not been drained, in order.
    refused
        Refused records with the reason, ``None`` for an unknown record.
    accepted, labelled, skipped
        Numbers of accepted instances, of learnt labelled records, and of records that ``on_missing="skip"`` skipped.
    counted
        Number of refused records that the recognizer has counted as bad rows.
    """

    def __init__(
        self,
        model: OpenSetRecognizer,
        waiting: Iterable[T | None] | None = None,
        *,
        batch_size: int | None = None,
        recalls: bool = True,
        fatal: tuple[type[Exception], ...] = (StreamOSRError,),
        contributions: int | None = None,
    ) -> None:
        self.model = model
        self.waiting: deque[T | None] = deque(repeat(None, model.pending) if waiting is None else waiting)
        self._size, self._fatal, self.recalls = batch_size, fatal, recalls
        self._labels: list[tuple[T, Evidence]] = []
        self.refused: list[tuple[T | None, Refusal]] = []
        self.accepted = self.labelled = self.skipped = self.counted = 0
        self._top, self._explained = contributions, deque[Contributions | None]()
        self._known_failure: Exception | None = None
        """Error of the closing of the micro-batch that is full now, if it has failed already."""
        self._features: deque[Mapping[Any, object]] = deque()
        """Features of the records that wait, if contributions are computed."""
        if contributions is not None:
            check_contributions(contributions, model.decision_delay)
            self._features.extend(len(model.value.decisions) * [{}])
            self._features.extend(_as_read(model))

    def take(self, item: T, record: Record, group: object = None) -> bool:
        """Learn or decide a record, or refuse it. Return whether it was accepted.

        Parameters
        ----------
        item
            The record as the door knows it.
        record
            Its content.
        group
            Group of a training instance.

        Raises
        ------
        Exception
            Any error while the recognizer is being trained, and ``fatal`` errors.
        """
        model = self.model
        trains = model.value.training is not None
        skipped, bad, label = model.counters["skipped"], model.counters["bad_rows"], record.label
        its: dict[str, Any] = {"t": record.time, "key": record.key, "group": group}

        def learn(model: OpenSetRecognizer) -> None:
            model.learn_one(record.features, label, **its)

        try:
            check_record(model, record)
            if label is not None and not trains:
                label = as_known(label, model.value.labels)
            accepted = self._learn(
                item, learn, record.time, closes=self._size is None and label is None and not trains
            )
        except Exception as error:
            usual = isinstance(error, InvalidInstance | InvalidLabel)
            if not usual and (trains or isinstance(error, self._fatal)):
                raise
            self.refused.append((item, Refusal("VALIDATE", error)))
            self.counted += self.model.counters["bad_rows"] - bad
            return False
        if not accepted:
            self._explain()
            return False
        if self.model.counters["skipped"] > skipped:
            self.skipped += 1
        elif label is None:
            self.waiting.append(item)
            self.accepted += 1
            if self._top is not None:
                self._features.append(record.features)
            if self._size is not None and len(self.model.value.buffer) >= self._size:
                self.close()
        else:
            self.labelled += 1
            if trains:
                return True
            if len(self.model.value.evidence) <= 1:  # a micro-batch has used the earlier ones
                self._labels.clear()
            self._labels.append((item, self.model.value.evidence[-1]))
        self._explain()
        return True

    def take_rows(
        self, items: Callable[[], Sequence[T]], rows: np.ndarray, times: Sequence[float | None], keys: Sequence[Any]
    ) -> None:
        """Decide rows of numbers. The result is that of :meth:`take` for each.

        Parameters
        ----------
        items
            Function that returns the records of the rows. It is called if some of them wait, or a micro-batch fails.
        rows
            Finite numbers, shape (n, p), in the order of the model's features.
        times, keys
            Time and key of each row.
        """
        at = 0
        while at < len(rows):  # the batch size may have been larger before
            room = len(rows) if self._size is None else max(1, self._size - len(self.model.value.buffer))
            part = slice(at, at + room)
            own, at = rows[part], at + room
            if self._top is None and self._take_at_once(own, times[part], keys[part]):
                self.accepted += len(own)
                known = self.recalls or self.model.pending
                self.waiting.extend(items()[part] if known else repeat(None, len(own)))
                continue
            for item, row, t, key in zip(items()[part], own.tolist(), times[part], keys[part], strict=True):
                x: dict[Any, object] = dict(zip(self.model.trained.names, row, strict=True))
                self.take(item, Record(x, key, t))
            self._known_failure = None

    def _take_at_once(self, rows: np.ndarray, times: Sequence[float | None], keys: Sequence[Any]) -> bool:
        """Decide rows of one micro-batch, or of several that the recognizer closes. Return false after a failure."""
        model = self.model if self._size is None else copy(self.model)
        closes = False
        try:
            model.learn_rows(rows, t=times, key=keys)
            closes = self._size is not None and len(model.value.buffer) >= self._size
            if closes:
                model.close_batch()
        except Exception as error:
            if isinstance(error, MemoryError) and isinstance(error, self._fatal):
                raise
            self._known_failure = error if closes else None
            return False
        self.model = model
        return True

    def close(self) -> None:
        """Close the micro-batch early."""
        self._close(OpenSetRecognizer.close_batch)

    def flush(self) -> None:
        """Close the micro-batch, and release all delayed decisions."""
        self._close(OpenSetRecognizer.flush)

    def abandon(self, error: Exception) -> None:
        """Refuse the records of the unfinished micro-batch without an attempt to close it."""
        state = self.model.value
        count = len(state.buffer)
        lost = [self.waiting.pop() for _ in range(count)][::-1]
        self._features.clear()
        self.refused += [(item, Refusal("PROCESS", error)) for item in lost]
        state.buffer.clear()
        state.counters["failed"] += count

    def drain(self) -> Iterator[DecidedRecord[T | None]]:
        """Yield each waiting decision once, with its record."""
        for decision in self.model.drain():
            its = self._explained.popleft() if self._explained else None
            yield DecidedRecord(self.waiting.popleft(), decision, its)

    def take_contributions(self) -> list[Contributions | None]:
        """Return the contributions of the waiting decisions, and forget them."""
        found = [*self._explained]
        self._explained.clear()
        return found

    def _explain(self) -> None:
        """Compute the contributions of the new decisions, before another record changes the state.

        Decisions whose contributions cannot be computed have none.
        """
        if self._top is None or (count := len(self.model.value.decisions) - len(self._explained)) <= 0:
            return
        rows = [self._features.popleft() for _ in range(count)]
        try:
            self._explained.extend(self.model.contributions_many(rows, top=self._top))
        except Exception as error:
            if isinstance(error, MemoryError) and isinstance(error, self._fatal):
                raise
            logger.exception("the contributions of %d decisions could not be computed", count)
            self._explained.extend(count * [None])

    def _learn(self, item: T, learn: Callable[[OpenSetRecognizer], None], t: float | None, *, closes: bool) -> bool:
        """Add a record to the recognizer. Return false if it is refused because the micro-batch fails.

        An error of a record that closes no micro-batch is raised.
        """
        state = self.model.value
        full = len(state.buffer) + 1 >= state.parameters.batch_size
        if not closes or not (full or (t is not None and state.waited(t))):
            learn(self.model)
            return True
        error = self._failure(learn)
        if error is not None and (without := self._failure(OpenSetRecognizer.close_batch)) is not None:
            self._give_up(without)
            error = self._failure(learn)
        if error is not None:
            self.refused.append((item, Refusal("PROCESS", error)))
        return error is None

    def _close(self, close: Callable[[OpenSetRecognizer], None]) -> None:
        error, self._known_failure = self._known_failure, None
        error = self._failure(close) if error is None else error
        for _ in range(ATTEMPTS):
            if error is None:
                break
            self._give_up(error)
            error = self._failure(close)
        if error is not None:
            self.abandon(error)
        self._explain()

    def _failure(self, call: Callable[[OpenSetRecognizer], None]) -> Exception | None:
        """Make a call that may close a micro-batch. Return the error if two attempts fail, for memory three."""
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            model = self.model if self._size is None else copy(self.model)
            try:
                call(model)
            except self._fatal:
                raise
            except Exception as error:
                failure = error
                if attempt and not isinstance(error, MemoryError):
                    break
            else:
                self.model = model
                return None
        assert failure is not None
        log_hourly(logger, str(place_of(failure)), "a micro-batch could not be closed", failure)
        return failure

    def _give_up(self, error: Exception) -> None:
        """Refuse the records that make the micro-batch fail, or all if they cannot be found."""
        state = self.model.value
        buffer, labels = [*state.buffer], [*state.evidence]
        state, lost = set_aside(state, str(error), fatal=self._fatal, again=True)
        state.counters["failed"] += len(lost)
        self.model.value, failed = state, deque(lost)
        stay = {*map(id, (*state.buffer, *state.evidence))}
        done = len(self.waiting) - len(buffer)
        items = [*self.waiting]
        self.waiting = deque(items[:done])
        for item, each in zip(items[done:], buffer, strict=True):
            if id(each) in stay:
                self.waiting.append(item)
            else:
                self.refused.append((item, Refusal("PROCESS", error, failed.popleft())))
                self.accepted = max(0, self.accepted - 1)  # it may have been accepted by another object
        if self._top is not None:
            own = [self._features.pop() for _ in buffer][::-1]
            self._features.extend(x for x, each in zip(own, buffer, strict=True) if id(each) in stay)
        known = {id(each): item for item, each in self._labels}
        for label in labels:
            if id(label) not in stay:
                item = known.get(id(label))
                self.labelled -= item is not None
                self.refused.append((item, Refusal("PROCESS", error, failed.popleft())))


def check_record(model: OpenSetRecognizer, record: Record) -> None:
    """Refuse an instance without the features of the model.

    Raises
    ------
    InvalidInstance
        With the expected and the found names.
    """
    try:
        trained = model.trained
    except NotTrained:
        return
    check_features(trained, record.features, record.found)


def check_contributions(contributions: int | None, decision_delay: int) -> None:
    """Refuse contributions of delayed decisions, because the state has changed when they are final.

    Raises
    ------
    InvalidParameter
        If decisions are delayed.
    """
    if contributions is not None and decision_delay:
        raise InvalidParameter("contributions need decision_delay=0. Leave one of the two out")


def _as_read(model: OpenSetRecognizer) -> Iterator[Mapping[Any, object]]:
    """Yield the features of the instances in the unfinished micro-batch of a recognizer."""
    for each in model.value.buffer:
        x: dict[Any, object] = {}
        for name, number in zip(model.trained.names, map(float, each.row), strict=True):
            texts = model.trained.values.get(name)
            if math.isnan(number):
                x[name] = None
            elif texts is None:
                x[name] = number
            else:
                x[name] = texts[int(number)] if number < len(texts) else NEW_VALUE
        yield x
