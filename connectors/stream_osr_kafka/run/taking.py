"""Records into a recognizer: the plain ones of a micro-batch at once, all others one by one, in their order."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from stream_osr import OpenSetRecognizer
from stream_osr.limits import MOST_KEY_BYTES
from stream_osr.showing import shown
from stream_osr.unlike import NONE, check_features
from stream_osr_connectors.base import Record
from stream_osr_connectors.values import DecodeError

from ..wire.decoding import JsonDecoder
from ..wire.messages import ENCODING, Decoder, Received, Refusal, Taken, check_envelope


def take(model: OpenSetRecognizer, records: Sequence[Received], decode: Decoder, rules: int) -> Taken:
    """Let a recognizer learn records; those that cannot be used are refused, and the others go on.

    Parameters
    ----------
    model
        It changes.
    records
        In order.
    decode
        Makes instances of them.
    rules
        Those of the partition.
    """
    taken = Taken()
    before, names = model.counters["missing"], model.trained.names
    if type(decode) is JsonDecoder and rules >= 2:
        places, rows, times, keys = decode.plain(records, names)
        begin = done = 0
        for place in (*sorted({*range(len(records))} - {*places}), len(records)):
            if place > begin:
                end = done + place - begin
                model.learn_rows(rows[done:end], t=times[done:end], key=keys[done:end])
                taken.waiting += records[begin:place]
                done = end
            if place < len(records):
                _take_one(model, records[place], decode, rules, taken)
            begin = place + 1
    else:
        for received in records:
            _take_one(model, received, decode, rules, taken)
    taken.missing = model.counters["missing"] - before
    taken.values = len(names) * (len(taken.waiting) + len(taken.labelled))
    return taken


def _take_one(model: OpenSetRecognizer, received: Received, decode: Decoder, rules: int, taken: Taken) -> None:
    stage, skipped, bad = "DECODE", model.counters["skipped"], model.counters["bad_rows"]
    try:
        check_envelope(received)
        if rules < 2 and any(item is None for _, item in received.headers):
            raise DecodeError("a header has no value")
        record = decode(received)
        if rules < 4 and isinstance(record.key, str) and len(record.key) > MOST_KEY_BYTES:
            raise DecodeError(f"the key has {len(record.key)} characters; {MOST_KEY_BYTES} are allowed")
        stage = "VALIDATE"
        _check_writable(record)
        if rules >= 2:
            check_features(model.trained, record.features, record.found, None if rules >= 3 else NONE)
        model.learn_one(record.features, record.label, t=record.time, key=record.key)
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
