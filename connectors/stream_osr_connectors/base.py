"""The interfaces between stream-osr and its inputs and outputs.

A source reads an input as `Record` and `BadRecord`. A sink writes mappings. Both have *positions*: small mappings of
JSON values that one checkpoint stores together with the state of the model. After a crash the input continues from
`Source.seek`, and `Sink.truncate` cuts the output back. So every record has its effect exactly once, although
neither side alone can guarantee that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

Position: TypeAlias = Mapping[str, object]
"""A place to continue from. It contains only JSON types, and only its own connector interprets it."""


class Record(NamedTuple):
    """One instance of the stream.

    Parameters
    ----------
    features
        Value by feature name. ``None`` is a missing value. A source checks only what the format of the input
        requires, because the recognizer validates the values.
    key
        Entity of the instance, if the input names one.
    time
        Event time in seconds since 1970-01-01 UTC.
    label
        Known class, or ``None`` for an unlabelled instance.
    position
        Where reading resumes *after* this record. ``None`` occurs only in records made by hand.
    found
        Names of the fields that the source searched for features, for messages about a missing one. ``None`` means
        the names in ``features``.
    raw
        Text of the line without the final line break, or fields of the row, to save if the record is set aside.
        ``None`` means that only the values above are known.
    ignored
        Names of fields that are neither features nor key, time, label or stream key.
    by
        Key of the stream of the instance, for a recognizer per key.

    Examples
    --------
    >>> Record({"width": 2.0, "height": None}, key="a7").features["width"]
    2.0
    """

    features: Mapping[str, object]
    key: str | int | None = None
    time: float | None = None
    label: str | int | bool | None = None
    position: Position | None = None
    found: Sequence[str] | None = None
    raw: str | Mapping[str, object] | None = None
    ignored: Sequence[str] = ()
    by: str | int | None = None


class BadRecord(NamedTuple):
    """A record that could not be decoded. A source yields it in its place, so that no record is lost silently.

    Parameters
    ----------
    position
        Where reading resumes after it.
    row
        Number of the line on which the record starts, as in an editor (from 1, including a header). Number of the
        record if the input has no lines.
    raw
        Original text without the final line break. Bytes that are not UTF-8 are surrogate escapes, so
        ``raw.encode("utf-8", "surrogateescape")`` returns the original bytes.
    reason
        The problem and its remedy, in plain words.

    Examples
    --------
    A dead-letter file is a sink that takes these records:

    >>> from stream_osr_connectors.files import MemorySink
    >>> dead_letters = MemorySink()
    >>> dead_letters.write(BadRecord({"index": 3}, 3, "1.5,warm", "column 'b' ...")._asdict())
    >>> dead_letters.records[0]["row"]
    3
    """

    position: Position | None
    row: int
    raw: str
    reason: str


@runtime_checkable
class Source(Iterator[Record | BadRecord], AbstractContextManager["Source", None], Protocol):
    """Origin of records: an iterator that can continue from a position.

    A second loop over a source continues where the first one stopped.

    Delivery: an open source yields every record of the input once and in order, as a `Record` or a `BadRecord`. If a
    position is stored together with the effects of the records before it, `seek` of a new source continues without a
    gap and without a repetition. A reader that stores positions later than effects sees some records again (at least
    once).
    """

    def seek(self, position: Position | None) -> None:
        """Continue after the record that carried this position.

        Parameters
        ----------
        position
            The position of a record of the same input, or ``None`` for the beginning.

        Raises
        ------
        ConnectorError
            If the input cannot resume or is another one, or the position is not one of this kind of source.
        """

    def close(self) -> None:
        """Close the input. A second call does nothing."""


@runtime_checkable
class PatientSource(Source, Protocol):
    """A source that can run a callback while it waits for its input to grow.

    A run uses it to apply commands and to flush outputs for their readers.
    """

    @property
    def resumes(self) -> bool:
        """Whether another run can read the input again."""

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Set a function to call several times a second while there is no input.

        An exception in it ends the waiting and is raised from the iteration.

        Returns
        -------
        Whether this input can grow: a pipe, or a file that is followed. Otherwise the function is never called.
        """


@runtime_checkable
class Sink(AbstractContextManager["Sink", None], Protocol):
    """Destination of records.

    Delivery: everything written before `flush` returned is durable. Later records may or may not survive a crash (at
    least once for a writer that repeats them). To leave every record in the output exactly once, a writer stores
    `position` in its checkpoint after a flush, and starts again with `truncate` to it. A sink that can check in
    advance what `truncate` would refuse is also a `CheckedSink`.
    """

    def write(self, record: Mapping[str, object]) -> None:
        """Write one record, which may wait in a buffer until `flush`.

        Raises
        ------
        ConnectorError
            If the destination does not take the record.
        """

    def flush(self) -> None:
        """Make everything written so far durable.

        Raises
        ------
        ConnectorError
            If the destination does not accept the data. The sink then needs `truncate` before further writes.
        """

    def position(self) -> Position:
        """Return where the output ended at the last `flush`."""

    def truncate(self, position: Position | None) -> None:
        """Remove everything written after a position.

        Parameters
        ----------
        position
            Result of an earlier `position`, in this process or an earlier one, or ``None`` for the beginning.

        Raises
        ------
        ConnectorError
            If the destination cannot be cut back, or is not the one that was written.
        """

    def close(self) -> None:
        """Make everything written durable and close the destination. A second call does nothing."""


@runtime_checkable
class CheckedSink(Sink, Protocol):
    """A sink that can check a position before it is cut.

    A run that resumes from a checkpoint (`go_on` in `files.file_run`) checks the source and all of these sinks before
    it cuts the first one. It cuts sinks without `check` first, so that if one of them fails, no other sink is cut.
    """

    def check(self, position: Position | None) -> None:
        """Raise what `truncate` would raise for a position, and change nothing.

        Raises
        ------
        ConnectorError
            As in `truncate`.
        """


class BatchCloser:
    """A base class that closes at the end of a ``with`` statement."""

    def close(self) -> None:
        """Close everything that is open."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
