"""Records into a recognizer: the plain ones of a micro-batch at once, all others one by one, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidInstance
from stream_osr.features import is_missing
from stream_osr_connectors.base import Record
from stream_osr_connectors.values import DecodeError, shown

from .decoding import JsonDecoder
from .messages import ENCODING, MOST_KEY_BYTES, Decoder, Received, Refusal, check_envelope

FEW = 5
"""So many names of fields are shown in a message."""


@dataclass(slots=True)
class Taken:
    """What became of records.

    Attributes
    ----------
    waiting
        Those that wait for the decision of the micro-batch.
    labelled
        Those that were evidence.
    refused
        Those that could not be used, and why.
    skipped
        How many ``on_missing="skip"`` left out.
    missing, values
        Feature values that were missing, and those that were expected, over the instances taken.
    """

    waiting: list[Received] = field(default_factory=list)
    labelled: list[Received] = field(default_factory=list)
    refused: list[tuple[Received, Refusal]] = field(default_factory=list)
    skipped: int = 0
    missing: int = 0
    values: int = 0


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
    stage, skipped = "DECODE", model.counters["skipped"]
    try:
        check_envelope(received)
        if rules < 2 and any(item is None for _, item in received.headers):
            raise DecodeError("a header has no value")
        record = decode(received)
        if isinstance(record.key, str) and len(record.key) > MOST_KEY_BYTES:
            raise DecodeError(f"the key has {len(record.key)} characters; {MOST_KEY_BYTES} are allowed")
        stage = "VALIDATE"
        if rules >= 2:
            _check_writable(record)
            _check_features(model, received, record, decode)
        model.learn_one(record.features, record.label, t=record.time, key=record.key)
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, the stream goes on without the record
        taken.refused.append((received, Refusal(stage, error)))
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


def _check_features(model: OpenSetRecognizer, received: Received, record: Record, decode: Decoder) -> None:
    """Refuse an instance that has nothing of what the model looks at: decided, it would look like novelty."""
    names = model.trained.names
    features: Mapping[Any, object] = record.features
    if not isinstance(features, Mapping) or any(not is_missing(features.get(name)) for name in names):
        return
    found = decode.fields(received) if type(decode) is JsonDecoder else list(map(str, features))
    raise InvalidInstance(
        f"none of the model's {len(names)} features is there (null counts as missing): expected "
        f"{_few(list(map(str, names)))}, found {_few(found)}; name the fields as in training, "
        "or train a model on these"
    )


def _few(names: Sequence[str]) -> str:
    """Show some names."""
    if not names:
        return "no field"
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(map(shown, names[:FEW])) + more
