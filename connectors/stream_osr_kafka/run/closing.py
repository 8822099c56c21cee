"""A micro-batch through a recognizer; when it fails as a whole, without the records by which it fails."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from stream_osr import OpenSetRecognizer

from ..wire.messages import Decoder, Received, Refusal, Taken
from .taking import take

MOST_TRIES = 64
"""So often a micro-batch, or a beginning of it, is closed in search of the records by which it fails."""


class Closed(NamedTuple):
    """A micro-batch that was closed, or was to be.

    Attributes
    ----------
    model
        The recognizer after it.
    taken
        What became of its records.
    error
        Why it failed; None: it did not.
    """

    model: OpenSetRecognizer
    taken: Taken
    error: Exception | None = None


def close(begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder, rules: int) -> Closed:
    """Let a copy of a recognizer learn records, and close the micro-batch.

    Parameters
    ----------
    begun
        Before the records; it does not change.
    records, decode, rules
        As :func:`.taking.take` takes them.
    """
    model = copy(begun)
    taken = take(model, records, decode, rules)
    try:
        model.close_batch()
    except MemoryError:
        raise
    except Exception as error:
        return Closed(model, taken, error)
    return Closed(model, taken)


def close_without_culprits(
    begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder, rules: int, failed: Closed
) -> tuple[Closed, list[tuple[Received, Refusal]]]:
    """Close a micro-batch that has failed without the records by which it fails, which takes an error of ours.

    The shortest beginning that fails is found by halving, and its last record left out; and so on, until what is left
    does not fail. The same records come to the same.

    Parameters
    ----------
    begun, records, decode, rules
        As :func:`close` took them.
    failed
        What it returned.

    Returns
    -------
    The micro-batch, and the records that were left out, in the order in which they were found. When it fails without
    any record, or there is no end to it, what had failed.
    """
    if close(begun, [], decode, rules).error is not None:
        return failed, []
    tries = iter(range(MOST_TRIES))
    left, culprits, closed = list(records), [], failed
    while closed.error is not None:
        good, bad, error = 0, len(left), closed.error
        while bad - good > 1:
            if next(tries, None) is None:
                return failed, []
            middle = (good + bad) // 2
            half = close(begun, left[:middle], decode, rules)
            if half.error is None:
                good = middle
            else:
                bad, error = middle, half.error
        culprits.append((left.pop(bad - 1), Refusal("PROCESS", error)))
        closed = close(begun, left, decode, rules)
    return closed, culprits
