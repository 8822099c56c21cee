"""A micro-batch through a recognizer: the plain records at once, all others one by one, in their order.

When it fails as a whole, it is closed without the records by which it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import orjson

from stream_osr import OpenSetRecognizer
from stream_osr.labels import as_known
from stream_osr.showing import shown
from stream_osr.unlike import check_features
from stream_osr_connectors.base import Record
from stream_osr_connectors.values import DecodeError

from ..wire.decoding import JsonDecoder
from ..wire.messages import ENCODING, Decoder, Received, Refusal, Taken, check_envelope

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


def close(begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder) -> Closed:
    """Let a copy of a recognizer learn records, and close the micro-batch.

    Parameters
    ----------
    begun
        Before the records; it does not change.
    records, decode
        As :func:`take` takes them.
    """
    model = copy(begun)
    taken = take(model, records, decode)
    try:
        model.close_batch()
    except MemoryError:
        raise
    except Exception as error:
        return Closed(model, taken, error)
    return Closed(model, taken)


def close_without_culprits(
    begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder, failed: Closed
) -> tuple[Closed, list[tuple[Received, Refusal]]]:
    """Close a micro-batch that has failed without the records by which it fails, which takes an error of ours.

    The shortest beginning that fails is found by halving, and its last record left out; and so on, until what is left
    does not fail. The same records come to the same.

    Parameters
    ----------
    begun, records, decode
        As :func:`close` took them.
    failed
        What it returned.

    Returns
    -------
    The micro-batch, and the records that were left out, in the order in which they were found. When it fails without
    any record, or there is no end to it, what had failed.
    """
    if close(begun, [], decode).error is not None:
        return failed, []
    tries = iter(range(MOST_TRIES))
    left, culprits, closed = list(records), [], failed
    while closed.error is not None:
        good, bad, error = 0, len(left), closed.error
        while bad - good > 1:
            if next(tries, None) is None:
                return failed, []
            middle = (good + bad) // 2
            half = close(begun, left[:middle], decode)
            if half.error is None:
                good = middle
            else:
                bad, error = middle, half.error
        culprits.append((left.pop(bad - 1), Refusal("PROCESS", error)))
        closed = close(begun, left, decode)
    return closed, culprits


def take(model: OpenSetRecognizer, records: Sequence[Received], decode: Decoder) -> Taken:
    """Let a recognizer learn records; those that cannot be used are refused, and the others go on.

    Parameters
    ----------
    model
        It changes.
    records
        In order.
    decode
        Makes instances of them.
    """
    taken = Taken()
    before, names = model.counters["missing"], model.trained.names
    if type(decode) is JsonDecoder and not model.trained.values:
        places, rows, times, keys = decode.plain(records, names)
        begin = done = 0
        for place in (*sorted({*range(len(records))} - {*places}), len(records)):
            if place > begin:
                end = done + place - begin
                model.learn_rows(rows[done:end], t=times[done:end], key=keys[done:end])
                taken.waiting += records[begin:place]
                done = end
            if place < len(records):
                _take_one(model, records[place], decode, taken)
            begin = place + 1
    else:
        for received in records:
            _take_one(model, received, decode, taken)
    taken.missing = model.counters["missing"] - before
    taken.values = len(names) * (len(taken.waiting) + len(taken.labelled))
    return taken


def _take_one(model: OpenSetRecognizer, received: Received, decode: Decoder, taken: Taken) -> None:
    stage, skipped, bad = "DECODE", model.counters["skipped"], model.counters["bad_rows"]
    try:
        check_envelope(received)
        record = decode(received)
        stage = "VALIDATE"
        _check_writable(record)
        check_features(model.trained, record.features, record.found)
        label = as_known(record.label, model.value.labels)
        model.learn_one(record.features, label, t=record.time, key=record.key)
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, the stream goes on without the record
        taken.refused.append((received, Refusal(stage, error)))
        model.count_refused(counted=model.counters["bad_rows"] - bad)
        return
    if model.counters["skipped"] > skipped:
        taken.skipped += 1
    elif record.label is not None:
        taken.labelled.append(received)
    else:
        taken.waiting.append(received)


def _check_writable(record: Record) -> None:
    """Refuse what could be decided and not be told of, which a decoder of the user's own may bring."""
    try:
        orjson.dumps((record.key, record.time, record.label), option=ENCODING)
    except TypeError as error:
        told = shown((record.key, record.time, record.label))
        raise DecodeError(
            f"key, time and label are {told}, which cannot be written as JSON ({error}); the decoder is to return "
            "text or whole numbers of 64 bits"
        ) from None
