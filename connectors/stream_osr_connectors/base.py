"""The seam between stream-osr and the outside: what a source yields and what a sink promises.

A source turns some input into `Record` and `BadRecord`; a sink takes mappings. Both know *positions*:
small JSON-able mappings that are stored with the model's state in one checkpoint. After a crash the
input goes on from `Source.seek` and the output is cut back by `Sink.truncate`, so that every record has
its effect exactly once although neither side alone can promise that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

Position: TypeAlias = Mapping[str, object]
"""Where to go on; only JSON types inside, and only its own connector looks into it."""


class Record(NamedTuple):
    """One instance of the stream as a source hands it over.

    Parameters
    ----------
    features
        Value by feature name; ``None`` stands for a missing value. Values are not validated here beyond
        what the format of the input demands: the recognizer does that.
    key
        The entity that the instance belongs to, if the input names one.
    time
        Event time in seconds since 1970-01-01 UTC.
    label
        Known class, or ``None`` for an unlabelled instance.
    position
        Where reading resumes *after* this record; ``None`` only in records made by hand.
    found
        Names of the fields among which features were looked for, to be told if they are not there; ``None``: those of
        ``features``.
    raw
        What it was read from, to be kept if it is set aside: the text of its line, without the final line break, or
        the fields of its row; ``None``: nothing but the above is known.
    ignored
        Names of fields that are neither features nor key, time or label.

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


class BadRecord(NamedTuple):
    """A record that could not be decoded, yielded in its place so that nothing is lost silently.

    Parameters
    ----------
    position
        Where reading resumes after it.
    row
        Number of the line it starts on, as an editor counts them (from 1, a header included), or of the
        record where the input has no lines.
    raw
        The original text without the final line break. Bytes that are not UTF-8 stand as surrogate
        escapes: ``raw.encode("utf-8", "surrogateescape")`` gives back what was read.
    reason
        What is wrong and what to do about it, in plain words.

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
    """Origin of records: an iterator that can be told where to go on.

    Leaving a loop over a source and starting another one goes on where the first one stopped.

    Delivery: every record of the input is yielded once and in order, as a `Record` or a `BadRecord`, for
    as long as the source is open. A position stored together with the effects of the records before it,
    and handed to `seek` of a newly opened source, continues without a gap and without a repetition; a
    reader that stores positions later than effects sees some records again (at least once).
    """

    def seek(self, position: Position | None) -> None:
        """Go on after the record that carried this position.

        Parameters
        ----------
        position
            The position of a record of the same input, or ``None`` for the beginning.

        Raises
        ------
        ConnectorError
            If the input cannot resume, is another one, or the position is none of this kind of source.
        """

    def close(self) -> None:
        """Let go of the input; a second call does nothing."""


@runtime_checkable
class PatientSource(Source, Protocol):
    """A source that can do something else while it waits for its input to grow.

    A run has acts that are asked meanwhile done then, and outputs shown to whoever follows them.
    """

    @property
    def resumes(self) -> bool:
        """True if the input can be read again by another run."""

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Have something called several times a second while nothing comes.

        What it raises ends the waiting, and comes out of the iteration.

        Returns
        -------
        Whether this input can grow: a pipe, or a file that is followed. Else it is never called.
        """


@runtime_checkable
class Sink(AbstractContextManager["Sink", None], Protocol):
    """Destination of records: they are written, then made durable, then counted on.

    Delivery: what was written before `flush` returned is durable; what was written after it may or may
    not survive a crash (at least once for a writer that repeats itself). A writer that stores `position`
    after a flush in its checkpoint, and starts again with `truncate` to it, leaves every record in the
    output exactly once. One that can tell beforehand what `truncate` would refuse is a `CheckedSink`, too.
    """

    def write(self, record: Mapping[str, object]) -> None:
        """Take one record; it may wait in a buffer until `flush`.

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
            If the destination does not take it; the sink then needs `truncate` before it goes on.
        """

    def position(self) -> Position:
        """Say where the output ended at the last `flush`."""

    def truncate(self, position: Position | None) -> None:
        """Forget everything written after a position.

        Parameters
        ----------
        position
            What `position` said earlier, in this process or in one before it, or ``None`` for the
            beginning.

        Raises
        ------
        ConnectorError
            If the destination cannot take back what was written, or is not the one that was written.
        """

    def close(self) -> None:
        """Make durable what was written and let go of the destination; a second call does nothing."""


@runtime_checkable
class CheckedSink(Sink, Protocol):
    """A sink that says whether it can go on from a position before anything is cut.

    A run with several sinks that goes on from a checkpoint (`go_on` in `files.file_run`) asks all of these, and the
    source, before it cuts the first. Sinks without `check` are cut before the others, so
    that what they refuse costs no other.
    """

    def check(self, position: Position | None) -> None:
        """Refuse a position that `truncate` would refuse, and change nothing.

        Raises
        ------
        ConnectorError
            As `truncate`.
        """


class BatchCloser:
    """A `with` statement closes it at its end."""

    def close(self) -> None:
        """Let go of what it holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
