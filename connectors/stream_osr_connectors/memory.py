"""A source and a sink without files, for tests, notebooks and examples.

They follow the same contract as all other connectors, including positions. So a test of a resume after a crash needs
no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stream_osr.errors import ConnectorError

from .base import BadRecord, BatchCloser, Position, Record


class MemorySource(BatchCloser, Iterator[Record | BadRecord]):
    """Records from any iterable.

    Delivery: replayable, every record once and in order. Positions are ``{"index": number of records before}``,
    whatever position the given records carry.

    Parameters
    ----------
    records
        `Record`, `BadRecord`, or a mapping of features. The source copies them into a list, so the iterable must be
        finite.

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
        """Continue after the record that carried this position, or at the beginning for ``None``.

        Raises
        ------
        ConnectorError
            If there are fewer records than the position requires.
        """
        self._index = _index_within(position, len(self._records))

    def close(self) -> None:
        """Do nothing, because there is nothing to close."""


class MemorySink(BatchCloser):
    """Records into a list.

    Delivery: exactly once while the object lives. The records end with the process. Positions are ``{"index": number
    of records before}``.

    Attributes
    ----------
    records
        The records written, each as its own dictionary.

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
        """Mark everything written so far as durable."""
        self._flushed = len(self.records)

    def position(self) -> Position:
        """Return the number of records at the last `flush`."""
        return {"index": self._flushed}

    def check(self, position: Position | None) -> None:
        """Raise what `truncate` would raise for a position.

        Raises
        ------
        ConnectorError
            If there are fewer records than the position requires.
        """
        _index_within(position, len(self.records))

    def truncate(self, position: Position | None) -> None:
        """Remove everything written after a position, or everything for ``None``.

        Raises
        ------
        ConnectorError
            If there are fewer records than the position requires.
        """
        self._flushed = _index_within(position, len(self.records))
        del self.records[self._flushed :]

    def close(self) -> None:
        """Flush. The records stay readable."""
        self.flush()


def _index_within(position: Position | None, size: int) -> int:
    """Return the index of a position, checked against the number of records."""
    if position is None:
        return 0
    index = position.get("index")
    if type(index) is not int or not 0 <= index <= size:
        raise ConnectorError(
            f"cannot go to position {dict(position)!r}: there are {size} records in memory. "
            "Give a position from the same records"
        )
    return index
