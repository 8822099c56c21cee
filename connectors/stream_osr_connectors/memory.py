"""A source and a sink without files: for tests, notebooks and examples.

They keep the same contract as every other connector, positions included, so that a test of a resume
after a crash needs no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stream_osr.errors import ConnectorError

from .base import BadRecord, BatchCloser, Position, Record


class MemorySource(BatchCloser, Iterator[Record | BadRecord]):
    """Records from any iterable.

    Delivery: replayable; every record once and in order. Its positions are ``{"index": number of records
    before}``, whatever position the given records carry.

    Parameters
    ----------
    records
        `Record`, `BadRecord`, or a mapping that is taken as the features of a record. They are copied
        into a list, so the iterable has to end.

    Examples
    --------
    >>> source = MemorySource([{"x": 1.0}, Record({"x": 2.0}, label="a")])
    >>> first = next(source)
    >>> first.features, first.position
    ({'x': 1.0}, {'index': 1})
    >>> again = MemorySource([{"x": 1.0}, Record({"x": 2.0}, label="a")])
    >>> again.seek(first.position)
    >>> [record.label for record in again]
    ['a']
    """

    def __init__(self, records: Iterable[Record | BadRecord | Mapping[str, object]]) -> None:
        self._records = [
            record if isinstance(record, Record | BadRecord) else Record(dict(record)) for record in records
        ]
        self._index = 0

    def __next__(self) -> Record | BadRecord:
        if self._index >= len(self._records):
            raise StopIteration
        record = self._records[self._index]
        self._index += 1
        return record._replace(position={"index": self._index})

    def seek(self, position: Position | None) -> None:
        """Go on after the record that carried this position; ``None`` is the beginning.

        Raises
        ------
        ConnectorError
            If there are fewer records than the position says.
        """
        self._index = _index_within(position, len(self._records))

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""


class MemorySink(BatchCloser):
    """Records into a list.

    Delivery: exactly once for as long as the object lives; nothing outlives the process. Its positions
    are ``{"index": number of records before}``.

    Attributes
    ----------
    records
        What was written, each record as a dictionary of its own.

    Examples
    --------
    >>> with MemorySink() as sink:
    ...     sink.write({"label": "a"})
    ...     sink.flush()
    ...     checkpoint = sink.position()
    ...     sink.write({"label": "b"})
    ...     sink.truncate(checkpoint)
    >>> sink.records
    [{'label': 'a'}]
    """

    def __init__(self) -> None:
        self.records: list[dict[str, object]] = []
        self._flushed = 0

    def write(self, record: Mapping[str, object]) -> None:
        """Append a copy of the record."""
        self.records.append(dict(record))

    def flush(self) -> None:
        """Count what was written as durable."""
        self._flushed = len(self.records)

    def position(self) -> Position:
        """Say how many records the last `flush` covered."""
        return {"index": self._flushed}

    def check(self, position: Position | None) -> None:
        """Refuse a position that `truncate` would refuse.

        Raises
        ------
        ConnectorError
            If fewer records were written than the position says.
        """
        _index_within(position, len(self.records))

    def truncate(self, position: Position | None) -> None:
        """Forget everything written after a position; ``None`` is the beginning.

        Raises
        ------
        ConnectorError
            If fewer records were written than the position says.
        """
        self._flushed = _index_within(position, len(self.records))
        del self.records[self._flushed :]

    def close(self) -> None:
        """Flush; the records stay readable."""
        self.flush()


def _index_within(position: Position | None, size: int) -> int:
    """Read the index out of a position and check it against the number of records there are."""
    if position is None:
        return 0
    index = position.get("index")
    if type(index) is not int or not 0 <= index <= size:
        raise ConnectorError(
            f"cannot go to position {dict(position)!r}: there are {size} records in memory; "
            "give a position that came from the same records"
        )
    return index
