"""Options of reading records, the same for all formats."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypedDict, Unpack, get_args

from stream_osr.errors import ConnectorError

from ..json_fields import JsonFields
from ..values import LabelType


class FieldNames(TypedDict, total=False):
    """Names of the fields of a record, for all formats. See `CsvSource` and `JsonLinesSource`."""

    key: str | None
    time: str | None
    label: str | None
    features: Sequence[str] | None
    label_type: LabelType
    by: str | None


class ReadOptions(FieldNames, total=False):
    """Options of reading records."""

    max_record_bytes: int
    follow: bool


def checked_fields(**named: Unpack[FieldNames]) -> JsonFields:
    """Check the names of the fields.

    Raises
    ------
    ConnectorError
        If the names contradict each other or a value is invalid.
    """
    fields = JsonFields(**named)
    label, features, label_type = fields.label, fields.features, fields.label_type
    if label_type not in get_args(LabelType):
        raise ConnectorError(f"label type {label_type!r} is none of {', '.join(get_args(LabelType))}")
    if isinstance(features, str):  # list("abc") would pass for three names
        raise ConnectorError(f"features is the text {features!r}. Give a list of names")
    if label is not None and features is not None and label in features:
        raise ConnectorError(
            f"{label!r} is both the label and a feature, which would reveal the answer. Remove it from the features"
        )
    return fields if features is None else fields._replace(features=list(features))


def what_there_is(name: str, columns: Sequence[str]) -> str:
    """List the columns of a table that lacks one, and suggest the most similar name."""
    listed = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
    spellings = {column.casefold(): column for column in columns}
    near = get_close_matches(name.casefold(), spellings, n=1)
    return f"Its columns are {listed}" + (f". Did you mean {spellings[near[0]]!r}?" if near else "")
