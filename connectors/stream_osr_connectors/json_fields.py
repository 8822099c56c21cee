"""Conversion of a JSON object to a record: features, key, time and label."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from .base import Position, Record
from .values import DecodeError, LabelType, key_of, label_of_json, seconds

_T = TypeVar("_T")


class JsonFields(NamedTuple):
    """Names of the fields with a meaning.

    Features are the fields of the nested object ``"features"`` where there is one. Otherwise they are all
    fields without another meaning that hold a number, text, true, false or a list.

    Parameters
    ----------
    key, time, label
        Names of three fields. The key is text or a whole number. The event time is seconds since 1970 or an ISO 8601
        timestamp (UTC if it has no offset). The label is text, a whole number, true or false.
    features
        Names of the features (default: all other fields). The field ``emb`` of a list replaces ``emb[0]``,
        ``emb[1]``, ... where these are no fields.
    label_type
        Type of the labels.
    by
        Name of the field with the key of the stream, which is text or a whole number.

    Examples
    --------
    >>> JsonFields(key="id").record({"id": "a7", "width": 2.5, "parts": {"a": 1}})  # doctest: +ELLIPSIS
    Record(features={'width': 2.5}, key='a7', ..., found=('id', 'width', 'parts'), raw=None, ignored=(), by=None)
    """

    key: str | None = None
    time: str | None = None
    label: str | None = None
    features: Sequence[str] | None = None
    label_type: LabelType = "auto"
    by: str | None = None

    @property
    def special(self) -> tuple[str, ...]:
        """Names of the fields that are no features.

        >>> JsonFields(key="id", by="device").special
        ('id', 'device')
        """
        return tuple(name for name in (self.key, self.time, self.label, self.by) if name is not None)

    def record(
        self,
        fields: Mapping[str, object],
        position: Position | None = None,
        raw: str | Mapping[str, object] | None = None,
    ) -> Record:
        """Convert one object, whose original text is ``raw``.

        Raises
        ------
        DecodeError
            The message names the field that cannot be used.
        """
        nested = fields.get("features")
        inside = nested if isinstance(nested, dict) else None
        features = self._features_of(fields, inside)
        # 1e999 is a number to JSON and becomes an infinite one
        if math.inf in features.values() or -math.inf in features.values():
            name = next(name for name, value in features.items() if value in (math.inf, -math.inf))
            raise DecodeError(f"field {name!r} is infinite. Leave it out, or write null if the value is missing")
        return Record(
            features=features,
            key=_read(fields, self.key, key_of),
            time=_read(fields, self.time, seconds),
            label=_read(fields, self.label, lambda value: label_of_json(value, self.label_type)),
            position=position,
            found=tuple(fields if inside is None else inside),
            raw=raw,
            ignored=() if self.features is None else self._ignored(fields if inside is None else inside, features),
            by=_read(fields, self.by, key_of),
        )

    def _ignored(self, fields: Mapping[str, object], features: Mapping[str, object]) -> tuple[str, ...]:
        left = fields.keys() - features.keys()
        return tuple(sorted(left - {*self.special})) if left else ()

    def _features_of(
        self, fields: Mapping[str, object], nested_fields: dict[str, object] | None
    ) -> dict[str, object]:
        if self.features is not None:
            values = fields if nested_fields is None else nested_fields
            found = {name: values.get(name) for name in self.features}
            if None in found.values():
                from stream_osr.instances.embedding import folded  # slow to import

                found = {name: values.get(name) for name in folded(self.features, values)}
            return found
        if nested_fields is not None:
            return nested_fields
        named = self.special
        # a null stays out: what the field ever holds is not known, and absent means missing, too
        return {
            name: value
            for name, value in fields.items()
            if isinstance(value, int | float | str | list) and name not in named
        }


def _read(fields: Mapping[str, object], name: str | None, convert: Callable[[object], _T]) -> _T | None:
    """Convert one field. The reason of a failure names the field."""
    if name is None:
        return None
    try:
        return convert(fields.get(name))
    except DecodeError as error:
        raise DecodeError(f"field {name!r} {error}") from None
