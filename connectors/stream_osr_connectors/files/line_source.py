"""What a source of records has to do besides decoding them: options, resuming, closing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import TypedDict, Unpack, get_args

from stream_osr.errors import ConnectorError

from ..base import BadRecord, Closing, Position, Record
from ..json_fields import JsonFields
from ..values import LabelType
from .lines import MAX_RECORD_BYTES, Line, LineReader


class Fields(TypedDict, total=False):
    """Which fields of a record mean what, whatever the format; see `CsvSource` and `JsonLinesSource`."""

    key: str | None
    time: str | None
    label: str | None
    features: Sequence[str] | None
    label_type: LabelType


class Reading(Fields, total=False):
    """How records are read."""

    max_record_bytes: int
    follow: bool


def checked_fields(**named: Unpack[Fields]) -> JsonFields:
    """Check which fields are to mean what.

    Raises
    ------
    ConnectorError
        If that cannot be.
    """
    fields = JsonFields(**named)
    _, _, label, features, label_type = fields
    if label_type not in get_args(LabelType):
        raise ConnectorError(f"label type {label_type!r} is none of {', '.join(get_args(LabelType))}")
    if isinstance(features, str):  # list("abc") would pass for three names
        raise ConnectorError(f"features is the text {features!r}; give a list of names")
    if label is not None and features is not None and label in features:
        raise ConnectorError(
            f"{label!r} is named both as the label and as a feature, which would give the answer away; "
            "leave it out of the features"
        )
    return fields if features is None else fields._replace(features=list(features))


def what_there_is(name: str, columns: Sequence[str]) -> str:
    """List the columns of a table that lacks one, with the one that was probably meant."""
    listed = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
    spellings = {column.casefold(): column for column in columns}
    near = get_close_matches(name.casefold(), spellings, n=1)
    return f"its columns are {listed}" + (f"; did you mean {spellings[near[0]]!r}?" if near else "")


class LineSource(Closing, Iterator[Record | BadRecord]):
    """Base of the sources that read lines; see `CsvSource` and `JsonLinesSource`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
        follow: bool = False,
        **named: Unpack[Fields],
    ) -> None:
        self._fields = checked_fields(**named)
        if max_record_bytes < 1:
            raise ConnectorError(f"max_record_bytes is {max_record_bytes}; it has to be at least 1")
        self._max_bytes = max_record_bytes
        self._lines = LineReader(path, max_record_bytes, follow=follow)
        self._first: Line | None = None  # the line after which the records begin

    @property
    def resumes(self) -> bool:
        """Whether what was read can be read again: not of standard input or a pipe."""
        return self._lines.resumes

    @property
    def cuts(self) -> int:
        """How often a followed file was cut, or replaced, and reading began anew."""
        return self._lines.cuts

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Have something called several times a second while nothing comes, and say whether that can be.

        It can with a pipe that has a name, and with ``follow``. What is raised ends the waiting, and the source.
        """
        return self._lines.while_waiting(call)

    def seek(self, position: Position | None) -> None:
        """Go on after the record that carried this position; ``None`` is the beginning.

        A plain file jumps there. A gzip file has to be decompressed again up to there, which takes as
        long as reading it did.

        Raises
        ------
        ConnectorError
            If this is standard input or a pipe, which cannot resume; if it is not the file that the
            position belongs to, or a shorter one; or if the position is none of a file.
        """
        self._lines.seek(self._lines.position_after(self._first) if position is None else position)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._lines.close()
