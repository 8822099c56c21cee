"""Account of the records of a run: totals, and the records that are set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from stream_osr import OpenSetRecognizer
from stream_osr.printable_text import printable

from ..base import BadRecord, Record, Sink
from ..engine import RecordStream, Refusal
from .rejected_record import RejectedRecord, count_kind, raw_of, reason_of, row_of


class NumberedRecord(NamedTuple):
    """A record and its row, 0 if its line is no longer known."""

    row: int
    record: Record


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

    def numbered(self, record: Record) -> NumberedRecord:
        """Return a record with its row: that of the file, or the number of records read."""
        return NumberedRecord(row_of(record, self.totals["read"]), record)

    def settle(self, stream: RecordStream[NumberedRecord]) -> None:
        """Count the labelled records of a stream, and set aside those that it has refused."""
        if stream.labelled:
            self.totals["labelled"] += stream.labelled
        for item, refusal in stream.refused:
            self._set_aside(_rejected(item, refusal))
        if stream.counted and stream.model is self.model:
            self.model.value.count_refused(0, counted=stream.counted)
        stream.labelled = stream.counted = 0
        stream.refused.clear()

    def refuse(self, record: Record | BadRecord, reason: str) -> None:
        """Set a record aside."""
        raw = record.raw if isinstance(record, BadRecord) else raw_of(record)
        row = record.row if isinstance(record, BadRecord) else row_of(record, self.totals["read"])
        self._set_aside(RejectedRecord(row, reason_of(record, reason), raw))

    def _set_aside(self, refused: RejectedRecord) -> None:
        """Count, report and write a record that is set aside."""
        self.totals["set_aside"] += 1
        self.model.value.count_refused()
        count_kind(self._reasons, refused.reason)
        self._complain(refused.row, refused.reason)
        if self._errors is not None:
            self._errors.write(refused._asdict())


def _rejected(item: NumberedRecord | None, refusal: Refusal) -> RejectedRecord:
    """Return the line of a refused record in the output of errors."""
    error, failed = refusal.error, refusal.failed
    if refusal.stage != "PROCESS" and item is not None:
        return RejectedRecord(item.row, reason_of(item.record, str(error)), raw_of(item.record))
    reason = printable(f"its micro-batch could not be closed: {type(error).__name__}: {error}", 500)
    if item is not None and item.row:
        return RejectedRecord(item.row, reason, raw_of(item.record))
    if failed is not None and failed.x is None:
        return RejectedRecord(0, f"{reason}. It is a label", raw_of(Record({}, failed.key, None, failed.label)))
    known = Record({}) if failed is None else Record(failed.x or {}, failed.key)
    return RejectedRecord(0, f"{reason}. Its line is no longer known", raw_of(known))
