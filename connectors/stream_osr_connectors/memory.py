"""Sources and a sink without files, for tests, notebooks and examples.

They follow the same contract as all other connectors, including positions. So a test of a resume after a crash needs
no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from stream_osr.errors import ConnectorError, InvalidInstance

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


class FrameSource(BatchCloser, Iterator[Record | BadRecord]):
    """Rows of an iterator of data frames (pandas, polars, pyarrow), arrays, or lists of dicts.

    Delivery: every row once and in order. Only one frame at a time is in memory. Positions are ``{"index": number of
    rows before, "file": "frame 2", "row": 5}``, both numbers from 0. An error message names them. To continue from a
    position, a new source needs an iterator that begins with the first frame again.

    Parameters
    ----------
    frames
        The frames. A frame that cannot be read, or has no column with one of the names below, is one `BadRecord`.
    key, time, label
        Names of the columns with keys, times and labels. ``None``: there is none.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1.0, 2.0], "id": ["a", "b"]})
    >>> source = FrameSource([frame, frame + frame], key="id")
    >>> [(record.key, dict(record.features)) for record in source]
    [('a', {'x': 1.0}), ('b', {'x': 2.0}), ('aa', {'x': 2.0}), ('bb', {'x': 4.0})]
    """

    def __init__(
        self,
        frames: Iterable[Any],
        *,
        key: str | int | None = None,
        time: str | int | None = None,
        label: str | int | None = None,
    ) -> None:
        self._columns = key, time, label
        self._rows = self._read(frames)
        self._index = 0

    def __next__(self) -> Record | BadRecord:
        record = next(self._rows)
        self._index += 1
        return record._replace(position={"index": self._index, **(record.position or {})})

    def _read(self, frames: Iterable[Any]) -> Iterator[Record | BadRecord]:
        from stream_osr.instances.tables import column_values, frame_rows, split_columns  # slow to import

        for number, frame in enumerate(frames):
            place = f"frame {number}"
            try:
                rest, columns = split_columns(frame, self._columns)
                _, rows = frame_rows(rest)
                read = [column_values(column, len(rows), "a column") for column in columns]
            except InvalidInstance as error:
                yield BadRecord({"file": place, "row": 0}, 0, "", str(error))
                continue
            for row, (features, key, time, label) in enumerate(zip(rows, *read, strict=True)):
                yield Record(cast("dict[str, object]", features), key, time, label, {"file": place, "row": row})

    def seek(self, position: Position | None) -> None:
        """Continue after the record that carried this position, or stay at the beginning for ``None``.

        Raises
        ------
        ConnectorError
            If there are fewer rows than the position requires, or rows have been read.
        """
        index = 0 if position is None else position.get("index")
        if type(index) is not int or index < self._index:
            raise ConnectorError(
                f"cannot go to position {position!r} after {self._index} rows of an iterator of frames. "
                "Make a source of a new iterator"
            )
        for _ in range(index - self._index):
            if next(self, None) is None:
                raise ConnectorError(
                    f"cannot go to position {position!r}: there are {self._index} rows. "
                    "Give an iterator that begins with the first frame"
                )

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
