"""Instances of a request: their checks, and their immediate decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidParameter
from stream_osr.instances.labels import as_known, check_label
from stream_osr.parameters import Label
from stream_osr.printable_text import brief, printable
from stream_osr.stream.predictions import PredictiveCache
from stream_osr.support import limits
from stream_osr.training.schema_check import check_features

from ..json_fields import JsonFields
from ..values import DecodeError
from .journal import JournalLine

MOST_BODY = 1 << 18
"""Most bytes of a request."""
MOST_INSTANCES = 1000
"""Most instances of a request."""
FIELDS = ("key", "time", "features", "label")
RESERVED = (*FIELDS, "n", "immediate", "")
"""Names that the field of the key of the stream cannot have."""


class NotJson(InvalidParameter):
    """A body that is not JSON."""


class InstanceReader:
    """The reader of instances for a model.

    Parameters
    ----------
    model
        A trained recognizer. Only its predictions are used.
    by
        Field with the key of the stream, or ``None`` if there is one stream.

    Examples
    --------
    >>> model = OpenSetRecognizer()
    >>> for i in range(20):
    ...     model.learn_one({"x": [i % 7, i % 3]}, "near")
    ...     model.learn_one({"x": [i % 7 + 50, i % 3]}, "far")
    >>> report = model.freeze()
    >>> reader = InstanceReader(model)
    >>> line, = reader.read(b'{"key": "a7", "time": "1970-01-01T00:01Z", "features": {"x": [3, 1]}}')
    >>> line.key, line.time, line.immediate["label"]
    ('a7', 60.0, 'near')
    >>> line, = reader.read(b'{"key": "a8", "features": {"x[0]": 50, "x[1]": 2}}')
    >>> reader.predict([line])
    >>> line.row, line.immediate["label"]
    ((50, 2), 'far')
    """

    def __init__(self, model: OpenSetRecognizer, by: str | None = None) -> None:
        if by in RESERVED:
            raise InvalidParameter(f"--by {by}: this field has another meaning. Choose another name for the field")
        self._model, self.by = model, by
        self._fields = fields_of(model, by)
        self._cache: PredictiveCache | None = None
        self._marks = self._fields._replace(features=())
        self._names = FIELDS if by is None else (*FIELDS, by)

    def read(self, body: bytes, *, lines: bool = False) -> list[JournalLine]:
        """Read one object, or an object on each of several lines.

        Raises
        ------
        NotJson
            If the body is not JSON.
        InvalidInstance
            If an instance cannot be used. The message names the line.
        """
        if not lines:
            return [self._one(body, "")]
        parts = [(number, part) for number, part in enumerate(body.split(b"\n"), start=1) if part.strip()]
        if not 1 <= len(parts) <= MOST_INSTANCES:
            raise InvalidInstance(
                f"the body has {len(parts)} instances. Send 1 to {MOST_INSTANCES}, one on each line"
            )
        return [self._one(part, f"line {number}: ") for number, part in parts]

    def _one(self, text: bytes, where: str) -> JournalLine:
        try:
            fields = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise NotJson(f"{where}not JSON: {printable(str(error), 200)}") from None
        try:
            return self._line(fields)
        except (InvalidInstance, DecodeError) as error:
            raise InvalidInstance(f"{where}{error}") from None

    def _line(self, fields: Any) -> JournalLine:
        if not isinstance(fields, dict):
            raise InvalidInstance(f"{brief(fields)} is not an object with the fields {', '.join(self._names)}")
        for name in fields.keys() - {*self._names}:
            raise InvalidInstance(
                f"field {brief(name)} is not one of {', '.join(self._names)}. Put features in 'features'"
            )
        features = fields.get("features")
        if not isinstance(features, dict):
            raise InvalidInstance(f"features is {brief(features)}. Expected an object of names and values")
        of = self._model.trained.features
        row = of.plain(features) if of.takes_rows and len(features) == len(of.names) else None
        for name, value in () if row is not None else _nested(features):
            raise InvalidInstance(f"feature {brief(name)} is {brief(value)}. Expected a number, text, a list or null")
        record = (self._fields if row is None else self._marks).record(fields)
        if record.key is None:
            raise InvalidInstance("there is no key. Give each instance its own key: text or a whole number")
        limits.check_key(record.key)
        if self._fields.by is not None:
            if record.by is None or record.by == "":
                raise InvalidInstance(
                    f"{self._fields.by} is missing or empty. Give the key of the stream: text or a whole number"
                )
            limits.check_key(str(record.by))
        if len(orjson.dumps(features)) > MOST_BODY:
            raise InvalidInstance(f"features have more than {MOST_BODY} bytes. Leave out those that are not needed")
        line = JournalLine(record.key, record.time, features, None, record.label, record.by, row)
        if row is None:
            check_features(self._model.trained, record.features, record.found)
            found = self._model.predict_proba_one(record.features)
            line.immediate = self._immediate([*found], [*found.values()])
        if record.label is not None:
            self._check_label(fields["label"])
            line.immediate = line.row = None
        return line

    def _check_label(self, label: object) -> None:
        if isinstance(label, float):  # also a number of more than 64 bits
            raise InvalidInstance(f"label is {label}. Expected text, a whole number, true or false")
        state = self._model.value
        try:
            check_label(as_known(label, state.labels), state.labels, state.parameters.unknown)
            limits.check_label_length(label)
        except InvalidLabel as error:
            raise InvalidInstance(str(error)) from None

    def predict(self, lines: Sequence[JournalLine]) -> None:
        """Add the immediate decisions of instances that are rows of numbers. Only one thread may call this method."""
        if not (lines := [line for line in lines if line.row is not None]):
            return
        state = self._model.value
        trained, stream = state.running
        if self._cache is None or self._cache.stream is not stream:
            self._cache = PredictiveCache(trained, stream, state.parameters)
        labels, rows = self._cache.labels, np.array([line.row for line in lines], dtype=float)
        for line, found in zip(lines, self._cache.probabilities(rows).tolist(), strict=True):
            line.immediate = self._immediate(labels, found)

    def _immediate(self, labels: Sequence[Label], found: list[float]) -> dict[str, Any]:
        best = max(found)
        known = best >= self._model.value.parameters.min_probability
        return {
            "label": labels[found.index(best) if known else -1],
            "p_unknown": found[-1],
            "probabilities": dict(zip(map(str, labels), found, strict=True)),
        }


def fields_of(model: OpenSetRecognizer, by: str | None) -> JsonFields:
    """Return the fields of an instance. ``by`` is the one with the key of the stream."""
    names = [str(name) for name in model.trained.names]
    return JsonFields("key", "time", "label", names, by=by)


def _nested(features: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield features whose values are more than a value or a list of values."""
    for name, value in features.items():
        deep = isinstance(value, list) and any(isinstance(each, dict | list) for each in value)
        if deep or isinstance(value, dict):
            yield name, value
