"""Base of the sources for lines of text: lines with exact byte positions, and what CSV and JSON Lines share.

Lines are cut from bytes and not from decoded text. Only then is the position after a line known while reading ahead,
and a line that is not UTF-8 does not affect its neighbours.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, Unpack, runtime_checkable

from stream_osr.errors import ConnectorError

from ..base import BadRecord, BatchCloser, Position, Record
from ..values import DecodeError
from .open_file import UNREADABLE, is_standard, open_input, why
from .read_options import FieldNames, checked_fields

if TYPE_CHECKING:
    import numpy as np

    from stream_osr.instances.kinds import Name

logger = logging.getLogger("stream_osr")

MAX_RECORD_BYTES = 1 << 20
"""Longest record, so that memory is bounded for every input."""

_HEAD = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextLine(NamedTuple):
    """One line of the input.

    Parameters
    ----------
    row
        Line number, from 1.
    end
        Byte offset after the line.
    data
        Bytes of the line with the line break, without a byte order mark. Of a line that is too long, only the first
        part.
    dropped
        Number of bytes of a long line that are not in ``data``.
    cut
        Whether the file was cut before the end of the line.
    """

    row: int
    end: int
    data: bytes
    dropped: int = 0
    cut: bool = False

    def text(self) -> str:
        """Decode the line, including the line break. Raise `DecodeError` if it is not text."""
        if self.cut:
            raise DecodeError("the file was cut, or replaced, before this line had been written to its end")
        if self.dropped:
            raise DecodeError(
                f"the line has {len(self.data) + self.dropped} bytes, more than the {len(self.data)} that "
                "are allowed. Only its beginning is kept"
            )
        if b"\0" in self.data:
            raise DecodeError("the line contains NUL bytes. Was the file damaged, or is it not UTF-8?")
        try:
            return self.data.decode().removeprefix("\ufeff")  # of the second of two files that were put together
        except UnicodeDecodeError as error:
            byte = self.data[error.start]
            raise DecodeError(
                f"byte {error.start + 1} of the line, 0x{byte:02x}, is not UTF-8. Save the file as UTF-8"
            ) from None

    def is_blank(self) -> bool:
        """Return whether there is only white space."""
        return not self.dropped and not self.data.strip()


class Rows(NamedTuple):
    """Unlabelled records of one stream as rows of numbers.

    Attributes
    ----------
    values
        Finite values, shape (n, p).
    keys, times
        Key and time of each record, or ``None``.
    lines
        Lines of the records, one for each.
    position
        Where reading resumes after the last of them.
    ignored
        As for :class:`stream_osr_connectors.base.Record`.
    """

    values: np.ndarray
    keys: Sequence[str | int | None] | None
    times: Sequence[float | None] | None
    lines: list[TextLine]
    position: Position
    ignored: Sequence[str]

    def records(self) -> Iterator[Record]:
        """Yield the row number and the text of each record, without its values."""
        return (Record({}, position={"row": line.row}, raw=raw_text([line])) for line in self.lines)


@runtime_checkable
class RowSource(Protocol):
    """A source that can also read several records at once."""

    def take_rows(self, features: Sequence[Name], most: int) -> Rows | None:
        """Read the next records as rows of numbers.

        Parameters
        ----------
        features
            Names of the columns of the rows.
        most
            Greatest number of records.

        Returns
        -------
        The records. ``None``: the iterator must read the next record, because a value is no plain number, for
        example.
        """


def raw_text(lines: Iterable[TextLine]) -> str:
    r"""Return the content of lines as text, with surrogate escapes for bytes that are not UTF-8.

    >>> raw_text([TextLine(1, 4, b"ab\xff\n")])
    'ab\udcff'
    """
    data = b"".join(line.data for line in lines)
    return without_break(data.decode("utf-8", "surrogateescape"))


def without_break(text: str) -> str:
    """Remove the line break at the end of a text."""
    return text.removesuffix("\n").removesuffix("\r")


class LineReader(Iterator[TextLine]):
    """Iterator over the lines of a file, a gzip file or standard input.

    Parameters
    ----------
    path
        Name of the file. A name that ends in ``.gz`` means compression. ``-`` is standard input.
    max_bytes
        Longest line that is returned whole.
    follow
        Whether to wait at the end of the file for more. Standard input is then read so that a callback can run during
        waits.

    Attributes
    ----------
    resumes
        Whether the input can be read again. A pipe cannot.
    cuts
        Number of times that a followed file was cut or replaced and reading started again. Rows and positions are
        those of the present file.

    Raises
    ------
    ConnectorError
        If the file cannot be opened. While iterating: if the rest of the file cannot be read.
    """

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int = MAX_RECORD_BYTES, *, follow: bool = False
    ) -> None:
        self.name = "standard input" if is_standard(path) else os.fspath(path)
        self._max_bytes = max_bytes
        self._offset = 0
        self._row = 0
        self._returned: deque[TextLine] = deque()
        self._error: ConnectorError | None = None
        self.cuts = 0
        self._growing, self._file, self._stream = open_input(path, follow=follow)
        self.resumes = self._file is not None and self._file.seekable()
        self._identity: Mapping[str, object] = {}
        if self.resumes:
            try:
                hashed, digest = self._digest(_HEAD)
            except ConnectorError:
                self.close()
                raise
            self._identity = {"hashed": hashed, "sha256": digest}

    def __next__(self) -> TextLine:
        if self._returned:
            return self._returned.popleft()
        if self._error is not None:
            raise self._error
        dropped = 0
        try:
            data = self._stream.readline(self._max_bytes)
            if len(data) == self._max_bytes and not data.endswith(b"\n"):
                dropped = self._skip_line()
        except UNREADABLE as error:
            raise ConnectorError(
                f"{self.name}: reading stopped at byte {self._offset}, line {self._row}: {why(error)}. "
                "Earlier records were delivered. Repair the file and resume from the last position"
            ) from None
        cut = self._growing is not None and self._growing.cut
        if cut and not data:
            self._begin_anew()
            return next(self)
        if not data:
            raise StopIteration
        if self.cuts and not self._row and self.resumes and self._growing is not None:
            head = os.pread(self._growing.fileno(), _HEAD, 0)
            self._identity = {"hashed": len(head), "sha256": hashlib.sha256(head).hexdigest()}
        self._row += 1
        self._offset += len(data) + dropped
        if self._row == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        return TextLine(self._row, self._offset, data, dropped, cut and not data.endswith(b"\n"))

    def several(self, most: int, *, again: bool = False) -> list[TextLine]:
        """Read the next lines. If lines are waiting to be read again, return none, unless ``again``.

        The next call of the iterator raises an error of reading.
        """
        lines: list[TextLine] = []
        try:
            lines.extend(islice(() if self._returned and not again else self, most))
        except ConnectorError as error:
            self._error = error
        return lines

    def _begin_anew(self) -> None:
        """Go to the beginning of a followed file that was cut, or of the file that has its name now."""
        assert self._growing is not None
        logger.warning(
            "%s was cut or replaced after line %d (byte %d), and is read from its beginning. Lines that were written "
            "after that and not yet read are lost",
            self.name,
            self._row,
            self._offset,
        )
        self._stream.seek(0)  # what is buffered is of the file before
        self._growing.begin_anew()
        self._offset = self._row = 0
        self.cuts += 1

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Set a function to call while there is no input. Return whether the input can wait."""
        if self._growing is None or not self._growing.grows:
            return False
        self._growing.while_waiting(call)
        return True

    def give_back(self, lines: Sequence[TextLine]) -> None:
        """Return the last lines to the reader, to be read again."""
        self._returned.extendleft(reversed(lines))

    def position_after(self, line: TextLine | None) -> Position:
        """Return the position after a line, or of the beginning."""
        row, offset = (line.row, line.end) if line else (0, 0)
        return {"offset": offset, "row": row, **self._identity}

    def seek(self, position: Position) -> None:
        """Go to a position of the same input.

        In a plain file this is a jump. A gzip file is decompressed again up to the position.

        Raises
        ------
        ConnectorError
            If this is a pipe or another file, or the position is not one of a file.
        """
        offset, row = _whole(position, "offset"), _whole(position, "row")
        if not self.resumes:
            if (offset, row) == (self._offset, self._row) and not self._returned:
                return
            raise ConnectorError(
                f"{self.name} cannot resume, because its earlier content is gone. Save the input to a file"
            )
        try:
            self._go_to(offset, _whole(position, "hashed"), position.get("sha256"))
        except ConnectorError:
            with suppress(*UNREADABLE):  # a position that is refused changes nothing
                self._stream.seek(self._offset)
            raise
        self._offset, self._row = offset, row
        self._returned.clear()
        self._error = None

    def close(self) -> None:
        """Close the file. Standard input stays open."""
        if self._file is not None:
            self._stream.close()
            self._file.close()

    def _go_to(self, offset: int, hashed: int, digest: object) -> None:
        if self._digest(hashed) != (hashed, digest):
            raise ConnectorError(
                f"{self.name}: this is not the file that was being read (its first {hashed} bytes differ). "
                "Give the file of the position, or start without a position"
            )
        try:
            # reading the byte before the place shows that the file reaches that far
            self._stream.seek(max(offset - 1, 0))
            if offset and not self._stream.read(1):
                raise EOFError(f"the file ends before byte {offset}")
        except UNREADABLE as error:
            raise ConnectorError(
                f"{self.name}: cannot go to byte {offset}: {why(error)}. Give the whole file that was being read"
            ) from None

    def _skip_line(self) -> int:
        """Skip to the end of the line. Return the number of bytes."""
        dropped = 0
        while part := self._stream.readline(1 << 16):
            dropped += len(part)
            if part.endswith(b"\n"):
                break
        return dropped

    def _digest(self, size: int) -> tuple[int, str]:
        """Hash the first ``size`` bytes, or all if there are fewer. Return their number as well."""
        head = bytearray()
        try:
            self._stream.seek(0)
            while len(head) < size and (part := self._stream.read1(size - len(head))):
                head += part
            self._stream.seek(0)
        except UNREADABLE as error:
            # where at least something can be read, the lines before the damage are still to be delivered
            if not head:
                raise ConnectorError(f"cannot read {self.name}: {why(error)}. Check the file") from None
            self._stream.seek(0)
        return len(head), hashlib.sha256(head).hexdigest()


def _whole(position: Position, field: str) -> int:
    value = position.get(field)
    if type(value) is not int or value < 0:
        raise ConnectorError(
            f"{dict(position)!r} is not a position in a file: {field!r} should be a whole number. "
            "Give a position from a record of this file"
        )
    return value


class LineSource(BatchCloser, Iterator[Record | BadRecord]):
    """Base of the sources for lines. See `CsvSource` and `JsonLinesSource`.

    Attributes
    ----------
    resumes
        Whether the input can be read again. Standard input and pipes cannot.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
        follow: bool = False,
        **named: Unpack[FieldNames],
    ) -> None:
        self._fields = checked_fields(**named)
        if max_record_bytes < 1:
            raise ConnectorError(f"max_record_bytes is {max_record_bytes}. It must be at least 1")
        self._max_bytes = max_record_bytes
        self._lines = LineReader(path, max_record_bytes, follow=follow)
        self._first: TextLine | None = None  # the line after which the records begin
        self.resumes = self._lines.resumes

    @property
    def cuts(self) -> int:
        """Number of times that a followed file was cut or replaced and reading started again."""
        return self._lines.cuts

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Set a function to call several times a second while there is no input. Return whether the input can wait.

        The input can wait if it is a named pipe, or with ``follow``. An exception of the function ends the waiting,
        and the source.
        """
        return self._lines.while_waiting(call)

    def seek(self, position: Position | None) -> None:
        """Continue after the record that carried this position, or at the beginning for ``None``.

        In a plain file this is a jump. A gzip file is decompressed again up to the position, which takes as long as
        reading it did.

        Raises
        ------
        ConnectorError
            If this is standard input or a pipe, which cannot resume. Also if the file is not the one of the position
            or is shorter, or if the position is not one of a file.
        """
        self._lines.seek(self._lines.position_after(self._first) if position is None else position)

    def pass_lines(self, count: int) -> tuple[list[TextLine], Position]:
        """Read lines that are there, without their records. Return them, and the position after the last one."""
        lines = self._lines.several(count)
        if len(lines) < count:
            raise ConnectorError(f"{self._lines.name} has lost lines. Restore the file")
        return lines, self._lines.position_after(lines[-1])

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._lines.close()
