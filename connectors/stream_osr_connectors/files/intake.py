"""Intake of records by a recognizer. Unusable records, and those that make a micro-batch fail, are set aside."""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.event_base import NEW_VALUE
from stream_osr.errors import InvalidInstance, InvalidLabel, NotTrained, StreamOSRError
from stream_osr.instances.labels import as_known
from stream_osr.parameters import Label
from stream_osr.printable_text import printable
from stream_osr.stream import BufferedInstance
from stream_osr.training.schema_check import check_features

from ..base import BadRecord, Record, Sink
from .line_source import Rows
from .rejected_record import RejectedRecord, count_kind, raw_of, reason_of, row_of

logger = logging.getLogger("stream_osr")

ATTEMPTS = 3
"""Most attempts at a call that closes a micro-batch."""


class Account:
    """Account of the records of a run: totals, and the records that are set aside.

    Parameters
    ----------
    model
        Recognizer that counts the records that are set aside.
    totals
        Counts of records ``read``, ``labelled`` and ``set_aside``.
    errors
        Sink for records that are set aside.
    complain
        Called with row and reason of each record that is set aside.
    reasons
        Counts of these records by the kind of their reason.
    """

    def __init__(
        self,
        model: OpenSetRecognizer,
        totals: Counter[str],
        errors: Sink | None,
        complain: Callable[[int, str], None],
        reasons: Counter[str],
    ) -> None:
        self.model, self.totals = model, totals
        self._errors, self._complain, self._reasons = errors, complain, reasons

    def refuse(self, record: Record | BadRecord, reason: str, *, counted: int = 0) -> None:
        """Set a record aside. ``counted`` is 1 if the recognizer has counted it as a bad row."""
        raw = record.raw if isinstance(record, BadRecord) else raw_of(record)
        row = record.row if isinstance(record, BadRecord) else row_of(record, self.totals["read"])
        self.set_aside(RejectedRecord(row, reason_of(record, reason), raw), counted=counted)

    def set_aside(self, refused: RejectedRecord, *, counted: int = 0) -> None:
        """Count, report and write a record that is set aside."""
        self.totals["set_aside"] += 1
        self.model.value.count_refused(counted=counted)
        count_kind(self._reasons, refused.reason)
        self._complain(refused.row, refused.reason)
        if self._errors is not None:
            self._errors.write(refused._asdict())


class Intake:
    """The path of records into a recognizer.

    A defect or a lack of memory may prevent the end of a micro-batch. The intake tries it a few times. Then it closes
    the batch without its last record. If that fails too, it gives up the records that make it fail, or all if they
    cannot be found. The stream continues.

    Parameters
    ----------
    model
        The recognizer.
    account
        Account of the records of the run.
    recalls
        Whether :meth:`decided` is needed.
    """

    def __init__(self, model: OpenSetRecognizer, account: Account, *, recalls: bool = False) -> None:
        self._model, self._account = model, account
        self._records: deque[tuple[int, Record]] = deque(maxlen=model.batch_size)
        self._restored = [*model.value.buffer] if recalls else []

    def take(self, record: Record, group: object = None) -> bool:
        """Give record number ``totals["read"]`` to the recognizer, or set it aside. Return whether it was learnt.

        ``group`` is that of a training instance.
        """
        totals, counters = self._account.totals, self._model.counters
        number, bad = totals["read"], counters["bad_rows"]
        try:
            check(self._model, record)
            if record.label is not None:
                record = record._replace(label=label_in(self._model, record.label))
            learnt, given_up = self._learn(record, number, group)
        except (InvalidInstance, InvalidLabel) as error:
            own = self._account.model is self._model
            self._account.refuse(record, str(error), counted=counters["bad_rows"] - bad if own else 0)
            return False
        if learnt and record.label is not None:
            totals["labelled"] += 1
        for each in given_up:
            self._account.set_aside(each)
        return learnt

    def take_rows(self, rows: Rows) -> bool:
        """Give records to the recognizer at once. If that fails, return false, and the recognizer is unchanged."""
        try:
            self._model.learn_rows(rows.values, t=rows.times, key=rows.keys)
        except Exception:
            return False
        if self._model.pending:
            self._records.extend((row_of(record, 0), record) for record in rows.records())
        return True

    def decided(self, count: int) -> list[Mapping[str, object]]:
        """Return the features of the latest decided records, in order. No decision may be delayed."""
        waiting = self._model.pending
        known = [record.features for _, record in self._records]
        if len(known) < waiting + count:
            known = [*_as_read(self._model, self._restored), *known]
        return known[len(known) - waiting - count : len(known) - waiting]

    def flush(self) -> None:
        """Close the micro-batch, release all decisions, and set aside the records that are given up."""
        self._close(self._model.flush)

    def close_batch(self) -> None:
        """Close the micro-batch early, and set aside the records that are given up."""
        self._close(self._model.close_batch)

    def _close(self, close: Callable[[], object]) -> None:
        if (error := self._failure(close)) is not None:
            given_up = self._give_up(error)
            close()
            for each in given_up:
                self._account.set_aside(each)

    def _learn(self, record: Record, number: int, group: object) -> tuple[bool, list[RejectedRecord]]:
        """Learn a record. Return whether it was learnt, and the records that were given up, in order."""
        model, row = self._model, row_of(record, number)
        its: dict[str, Any] = {"t": record.time, "key": record.key, "group": group}
        learn = partial(model.learn_one, record.features, record.label, **its)
        skipped, given_up = model.counters["skipped"], list[RejectedRecord]()
        error = self._failure(learn)
        if error is not None:
            without = self._failure(model.close_batch)
            if without is not None:
                given_up, error = self._give_up(without), self._failure(learn)
        if error is not None:
            return False, [*given_up, RejectedRecord(row, _reason(error), raw_of(record))]
        if record.label is None and model.counters["skipped"] == skipped:
            self._records.append((row, record))
        return True, given_up

    def _failure(self, call: Callable[[], object]) -> Exception | None:
        """Make a call that may close a micro-batch. Return the error if every attempt fails."""
        failure: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                call()
            except StreamOSRError:
                raise
            except Exception as error:
                if self._model.value.training is not None:
                    raise
                failure = error
            else:
                return None
        logger.error("a micro-batch could not be closed in %d attempts", ATTEMPTS, exc_info=failure)
        return failure

    def _give_up(self, error: Exception) -> list[RejectedRecord]:
        reason, before = _reason(error), self._model.value.buffer
        failed = self._model.set_batch_aside(reason)
        stay = {id(each) for each in self._model.value.buffer}
        records = [*self._records][-len(before) :] if before else []
        sources = [*[None] * (len(before) - len(records)), *records]
        self._records = deque(
            (source for source, each in zip(sources, before, strict=True) if source and id(each) in stay),
            self._records.maxlen,
        )
        self._restored = [each for each in self._restored if id(each) in stay]
        lost = [source for source, each in zip(sources, before, strict=True) if id(each) not in stay]
        out = []
        for source, each in zip_longest(lost, failed):
            if each.x is None:
                out.append(
                    RejectedRecord(0, f"{reason}. It is a label", raw_of(Record({}, each.key, None, each.label)))
                )
            elif source is None:
                known = f"{reason}. Its line is no longer known"
                out.append(RejectedRecord(0, known, raw_of(Record(each.x, each.key))))
            else:
                out.append(RejectedRecord(source[0], reason, raw_of(source[1])))
        return out


def _as_read(model: OpenSetRecognizer, buffer: Sequence[BufferedInstance]) -> Iterator[Mapping[str, object]]:
    """Yield the features of the records in a buffer of the recognizer."""
    for each in buffer:
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


def _reason(error: Exception) -> str:
    return printable(f"its micro-batch could not be closed: {type(error).__name__}: {error}", 500)


def label_in(model: OpenSetRecognizer, label: Label | None) -> Any:
    """Return the label of a model for a label of a file. Labels are compared by their spelling."""
    return label if label is None or model.value.training is not None else as_known(label, model.value.labels)


def check(model: OpenSetRecognizer, record: Record) -> None:
    """Refuse an instance without the features of the model."""
    try:
        trained = model.trained
    except NotTrained:
        return
    check_features(trained, record.features, record.found)
