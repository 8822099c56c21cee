"""The records of the unfinished micro-batch, and what becomes of them when it cannot be closed."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from stream_osr import OpenSetRecognizer
from stream_osr.errors import StreamOSRError
from stream_osr.showing import printable

from ..base import Record
from .aside import raw_of, row_of

logger = logging.getLogger("stream_osr")

ATTEMPTS = 3
"""How often something is tried that closes a micro-batch."""


class SetAside(NamedTuple):
    """A record that is set aside: its row (0: of an earlier run), why, and what it was read from."""

    row: int
    reason: str
    raw: str


class Unfinished:
    """What a run lets a recognizer learn.

    An error of ours, or want of memory, may keep a micro-batch from being closed. It is tried a few times. Then the
    batch is closed without its last record; if that fails too, its instances are given up. The stream goes on.

    Parameters
    ----------
    model
        The recognizer.
    """

    def __init__(self, model: OpenSetRecognizer) -> None:
        self._model = model
        self._records: deque[tuple[int, Record]] = deque(maxlen=model.batch_size)

    def learn(self, record: Record, number: int) -> tuple[bool, list[SetAside]]:
        """Learn a record.

        Parameters
        ----------
        record
            From the source.
        number
            Its number in the run.

        Returns
        -------
        Whether it was learnt, and which records were given up, in order; the record is among them if it was not.

        Raises
        ------
        StreamOSRError
            If the record cannot be used; the recognizer is as it was.
        """
        model, row = self._model, row_of(record, number)
        learn = partial(model.learn_one, record.features, record.label, t=record.time, key=record.key)
        skipped, given_up = model.counters["skipped"], list[SetAside]()
        error = self._failure(learn)
        if error is not None:
            without = self._failure(model.close_batch)
            if without is not None:
                given_up, error = self._give_up(without), self._failure(learn)
        if error is not None:
            return False, [*given_up, SetAside(row, _reason(error), raw_of(record))]
        if record.label is None and model.counters["skipped"] == skipped:
            self._records.append((row, record))
        return True, given_up

    def flush(self) -> list[SetAside]:
        """Close the micro-batch as it is, and return the records that were given up."""
        error = self._failure(self._model.flush)
        if error is None:
            return []
        given_up = self._give_up(error)
        self._model.flush()
        return given_up

    def _failure(self, call: Callable[[], object]) -> Exception | None:
        """Try something that may close a micro-batch, and return the error if it fails every time."""
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

    def _give_up(self, error: Exception) -> list[SetAside]:
        reason = _reason(error)
        failed = self._model.set_batch_aside(reason)
        instances = [each for each in failed if each.x is not None]
        known = [*self._records][-len(instances) :] if instances else []
        self._records.clear()
        earlier = instances[: len(instances) - len(known)]
        out = [
            SetAside(0, f"{reason}; it was read by an earlier run", raw_of(Record(i.x or {}, i.key))) for i in earlier
        ]
        out += [SetAside(row, reason, raw_of(record)) for row, record in known]
        labels = [each for each in failed if each.x is None]
        return out + [
            SetAside(0, f"{reason}; it is a label", raw_of(Record({}, i.key, None, i.label))) for i in labels
        ]


def _reason(error: Exception) -> str:
    return printable(f"its micro-batch could not be closed: {type(error).__name__}: {error}", 500)
