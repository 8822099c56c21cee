"""Decoding of records to instances, one by one or in bulk for plain records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import orjson

from stream_osr.instances.entries import LARGEST
from stream_osr.instances.kinds import Name
from stream_osr.instances.tables import plain_rows
from stream_osr.printable_text import brief
from stream_osr.support.limits import MOST_KEY_BYTES, fits_as_key
from stream_osr_connectors.base import Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.values import DecodeError

from ..settings import ServiceSettings, function_of
from .messages import Decoder, Received, check_envelope


class Plain(NamedTuple):
    """Plain instances among some records: unlabelled, with a finite number for every feature.

    Attributes
    ----------
    places
        Indices of the records, in order.
    rows
        Features in the order of the model, shape (n, p).
    times, keys
        Time and key of each record.
    """

    places: Sequence[int]
    rows: np.ndarray
    times: Sequence[float | None]
    keys: Sequence[str | int]


class JsonDecoder:
    """The decoder of UTF-8 JSON objects.

    Parameters
    ----------
    fields
        Meaning of the fields of an object.
    max_bytes
        Size limit of a value in bytes.

    Examples
    --------
    >>> from stream_osr_connectors.kafka.wire.messages import Message
    >>> decode = JsonDecoder(JsonFields(features=["a"]), max_bytes=100)
    >>> good = Message("t", 0, 7, 1500, b"k1", b'{"a": 2.5, "b": 1}', [])
    >>> decode(good)[:6]
    ({'a': 2.5}, 'k1', 1.5, None, None, ('a', 'b'))
    >>> bad = Message("t", 0, 8, 1500, b"k1", b'{"a": NaN}', [])
    >>> decode(bad)
    Traceback (most recent call last):
        ...
    stream_osr_connectors.values.DecodeError: not JSON: unexpected character, expected a JSON value at character 7
    >>> decode.plain([bad, good], ["a"])
    Plain(places=[1], rows=array([[2.5]]), times=[1.5], keys=['k1'])
    """

    def __init__(self, fields: JsonFields, max_bytes: int) -> None:
        self._fields = fields
        self._max_bytes = max_bytes

    def __call__(self, received: Received) -> Record:
        """Decode one record.

        Raises
        ------
        DecodeError
            With the reason.
        """
        record = self._fields.record(self._parsed(received))
        key, time = record.key, record.time
        if key is None:
            key = _key_text(received)
        if time is None and received.timestamp >= 0:
            time = received.timestamp / 1000
        return record._replace(key=key, time=time, ignored=())

    def plain(self, records: Sequence[Received], features: Sequence[Name]) -> Plain:
        """Decode plain records in bulk.

        All other records must be decoded one by one. For plain records the result would be the same.

        Parameters
        ----------
        records
            Some records.
        features
            Features of the model, in order.
        """
        key_field, time_field, label_field, named, *_ = self._fields
        places: list[int] = []
        found: list[tuple[Any, ...]] = []
        times: list[float | None] = []
        keys: list[str | int] = []
        if named is None or set(named) != set(features):
            return Plain([], np.empty((0, len(features))), [], [])
        one = features[0] if len(features) == 1 else None
        get: Callable[[Any], Any] = itemgetter(*features)
        loads, most = orjson.loads, self._max_bytes
        for place, received in enumerate(records):
            value, own = received.value, received.key
            if value is None or len(value) > most or (own is not None and len(own) > MOST_KEY_BYTES):
                continue
            try:
                if received.headers:
                    check_envelope(received)
                parsed = loads(value)
                if type(parsed) is not dict or "features" in parsed:
                    continue
                values = get(parsed) if one is None else (parsed[one],)
                if label_field is not None and parsed.get(label_field) is not None:
                    continue
                key = None if key_field is None else parsed.get(key_field)
                if key is None:
                    key = _key_text(received)
                elif type(key) not in (int, str) or not fits_as_key(key):
                    continue
                time = None if time_field is None else parsed.get(time_field)
                if time is not None:
                    if type(time) not in (int, float) or not -LARGEST <= time <= LARGEST:
                        continue
                    time = float(time)
                elif received.timestamp >= 0:
                    time = received.timestamp / 1000
            except (DecodeError, KeyError, orjson.JSONDecodeError):
                continue
            places.append(place)
            found.append(values)
            times.append(time)
            keys.append(key)
        rows, usable = plain_rows(found, len(features))
        if len(usable) < len(found):
            places, times, keys = ([of[at] for at in usable] for of in (places, times, keys))  # type: ignore[assignment]
        return Plain(places, rows, times, keys)

    def _parsed(self, received: Received) -> dict[str, object]:
        value = received.value
        if value is None:
            raise DecodeError("the record has no value (a tombstone), expected a JSON object")
        if len(value) > self._max_bytes:
            raise DecodeError(f"the value has {len(value)} bytes, and max_instance_bytes allows {self._max_bytes}")
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            if value[:1] == b"\0" and len(value) > 5:
                raise DecodeError(
                    "the value begins with the five bytes by which a schema registry frames its records: "
                    "write plain JSON, or set a custom decoder (setting decoder)"
                ) from None
            reason = error.msg[:1].lower() + error.msg[1:].split(": line")[0]
            raise DecodeError(f"not JSON: {reason} at character {error.pos + 1}") from None
        if not isinstance(parsed, dict):
            raise DecodeError(f"the value is {brief(parsed)}, not a JSON object of named fields")
        return parsed


def make_decoder(settings: ServiceSettings, features: Sequence[str] | None) -> Decoder:
    """Create the decoder of the settings. ``features`` are the features of the model.

    Raises
    ------
    ConnectorError
        If there is no such decoder.
    """
    if settings.decoder == "json":
        named = settings.features if settings.features is not None else features
        by = None if settings.by == "key" else settings.by
        fields = JsonFields(settings.key, settings.time, settings.label, named, settings.label_type, by)
        return JsonDecoder(fields, settings.max_instance_bytes)
    make: Callable[[ServiceSettings], Decoder] = function_of(settings, "decoder")
    return make(settings)


def _key_text(received: Received) -> str:
    """Return the key of an instance: the record's key if it is text, otherwise its place."""
    if received.key is not None:
        try:
            return received.key.decode()
        except UnicodeDecodeError:
            pass
    return f"{received.topic}-{received.partition}-{received.offset}"
